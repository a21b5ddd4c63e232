"""An estimate of the time and memory of a sweep, from trials of its settings with one seed and a few episodes.

A task with n seeds of K episodes and C checkpoints takes about n (K e + C l) seconds: e for an episode, l for the
measures at a checkpoint, both from trials with compiled programs. Each setting is compiled once.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from horizonfree.errors import RunError
from horizonfree.runs import files
from horizonfree.sweeps.executors import LocalExecutor, Outcome
from horizonfree.sweeps.progress import Setting
from horizonfree.sweeps.results import SETTINGS_FILE, load_sweep, read_spec
from horizonfree.sweeps.spec import read
from horizonfree.sweeps.tasks import Task, build_tasks, check_spec, num_rows

TRIAL_EPISODES = 32
MAX_TRIAL_SECONDS = 40.0  # then the other settings get the mean of the costs so far
TRIAL_TIMEOUT_SECONDS = 600.0


class Cost(NamedTuple):
    """Seconds of an episode, of a checkpoint and of compilation, and bytes of a worker."""

    episode: float
    checkpoint: float
    compilation: float
    memory: float


class Estimate(NamedTuple):
    """The size of a sweep, its remaining seconds and its memory. `tried`: settings with a trial."""

    settings: int
    tasks: int
    done: int
    rows: int
    seconds: float
    memory: float
    tried: int


def estimate(source: Any, out: Any, workers: int) -> Estimate:
    """The estimate of `sweep(source, out, workers=workers)` on this machine."""
    path = files.resolve_path(out)
    spec = read_spec(path) if source is None else read(source)
    check_spec(spec)
    tasks = build_tasks(spec)
    done = set(load_sweep(path)["task"]) & set(tasks) if (path / SETTINGS_FILE).exists() else set()
    remaining = [task for key, task in tasks.items() if key not in done]
    examples: dict[Setting, Task] = {}
    for task in remaining:
        examples.setdefault((task["problem"], task["explorer"]), task)
    costs = _trial_costs(examples)
    default = Cost(*np.mean(list(costs.values()), axis=0)) if costs else Cost(0, 0, 0, 0)
    seconds = sum(costs.get(setting, default).compilation for setting in examples)
    for task in remaining:
        cost = costs.get((task["problem"], task["explorer"]), default)
        measures = len(task["checkpoints"]) * cost.checkpoint
        seconds += len(task["seeds"]) * (task["episodes"] * cost.episode + measures)
    memory = workers * max((x.memory for x in costs.values()), default=0.0)
    rows = sum(num_rows(task) for task in tasks.values())
    return Estimate(len(examples), len(tasks), len(done), rows, seconds / workers, memory, len(costs))


def _trial_costs(examples: dict[Setting, Task]) -> dict[Setting, Cost]:
    """Costs of the settings one after the other, until the trials have taken long enough."""
    costs: dict[Setting, Cost] = {}
    began = time.perf_counter()
    with TemporaryDirectory() as folder:
        executor = LocalExecutor(1, 1, Path(folder, "log"))
        try:
            for setting, task in examples.items():
                if costs and time.perf_counter() - began > MAX_TRIAL_SECONDS:
                    break
                costs[setting] = _trial_cost(executor, task)
        finally:
            executor.close()
    return costs


def _trial_cost(executor: LocalExecutor, task: Task) -> Cost:
    """Two trials without measures and two with them; the first of each compiles."""
    k = min(TRIAL_EPISODES, task["episodes"])
    measured = task | {"seeds": task["seeds"][:1], "episodes": k, "checkpoints": [k]}
    plain = measured | {"measure": [], "records": []}
    first, second, first_measured, second_measured = (
        _run(executor, x) for x in (plain, plain, measured, measured)
    )
    checkpoint = max(0.0, second_measured["seconds"] - second["seconds"])
    compilation = (
        first["seconds"] - second["seconds"] + first_measured["seconds"] - second_measured["seconds"]
    )
    return Cost(second["seconds"] / k, checkpoint, max(0.0, compilation), first_measured["memory"])


def _run(executor: LocalExecutor, task: Task) -> Outcome:
    executor.submit("trial", task)
    for _, outcome in executor.finished(TRIAL_TIMEOUT_SECONDS):
        if "error" not in outcome:
            return outcome
        raise RunError(f"{task['explorer']} on {task['problem']} fails: {outcome['error']}")
    raise RunError(
        f"{task['explorer']} on {task['problem']}: a trial took more than {TRIAL_TIMEOUT_SECONDS:.0f} s"
    )
