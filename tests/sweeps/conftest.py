"""A small sweep, run once on the local pool; others are compared with it."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import horizonfree as hf
from horizonfree.sweeps import executors, sweep
from horizonfree.sweeps.tasks import task_id

TINY: dict[str, Any] = {
    "title": "tiny",
    "seeds": 4,
    "seeds_per_task": 2,
    "checkpoints": [2, 8],
    "measure": ["eps", "claim"],
    "problems": {"river": {"name": "river-swim", "states": 3, "horizon": 3}},
    "explorers": {"random": {"name": "uniform"}},
}


class FakeExecutor(executors.Executor):
    """An executor whose answers are a function of the task."""

    slots = 2

    def __init__(self, answer) -> None:
        self.answer, self.told = answer, []

    def submit(self, task) -> Future:
        key = task_id(task)
        self.told.append(key)
        future: Future = Future()
        future.set_result(self.answer(key, task, self.told.count(key)))
        return future

    def close(self) -> None:
        pass


def rows_for(task) -> dict:
    rows = [(seed, k) for seed in task["seeds"] for k in task["checkpoints"]]
    columns = {"seed": [x for x, _ in rows], "episodes": [x for _, x in rows]}
    numbers = {name: [1 / 3] * len(rows) for name in [*task["measure"], *task["records"]]}
    return {"rows": columns | numbers, "seconds": 0.1, "device": "none", "versions": {}}


@pytest.fixture
def fake_executor(monkeypatch):
    def install(answer) -> FakeExecutor:
        executor = FakeExecutor(answer)
        monkeypatch.setattr(sweep, "start_executor", lambda install, workers, log: executor)
        return executor

    return install


@pytest.fixture(scope="package")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished sweep."""
    folder = tmp_path_factory.mktemp("sweep") / "tiny"
    hf.sweep(TINY, folder, workers=1, progress=False)
    return folder
