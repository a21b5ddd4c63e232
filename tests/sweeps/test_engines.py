"""Dask and Ray, real ones on this machine: the same rows to the last bit, nothing beyond loopback, deaths survived."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import horizonfree as hf
from horizonfree.sweeps import engines, file, grid
from horizonfree.sweeps.engines import Engine
from horizonfree.sweeps.start import start
from tests.sweeps.conftest import TINY

LISTENS = "0A"  # in /proc/net/tcp
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")


@pytest.fixture(scope="module", params=["dask", "ray"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[request.param])
    made = start(request.param, 2, tmp_path_factory.mktemp("log") / "log")
    yield made
    made.close()


def outcome(engine: Engine, key: str) -> engines.Outcome:
    for _ in range(600):
        found = dict(engine.finished(1.0))
        if key in found:
            return found[key]
    raise TimeoutError(key)


def family(pid: int) -> set[int]:
    """A process and all below it."""
    parents: dict[int, set[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        parents.setdefault(int(words[1]), set()).add(int(path.parent.name))
    found, new = {pid}, {pid}
    while new:
        new = set().union(*(parents.get(x, set()) for x in new)) - found
        found |= new
    return found


def listening(pids: set[int]) -> list[str]:
    """The addresses that processes listen on."""
    mine = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                mine.add(os.readlink(link))
            except OSError:
                continue
    lines = [
        x.split() for name in ("tcp", "tcp6") for x in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return [x[1].partition(":")[0] for x in lines if x[3] == LISTENS and f"socket:[{x[9]}]" in mine]


def test_a_task_gives_the_same_rows_and_nothing_listens_beyond_loopback(engine: Engine, tiny: Path) -> None:
    key, task = next(iter(grid.tasks_of(file.read(TINY)).items()))
    engine.submit(key, task)
    found = outcome(engine, key)
    here = hf.load_sweep(tiny).where(task=key)
    assert found["rows"]["seed"] == here["seed"].tolist()
    assert found["rows"]["eps"] == here["eps"].tolist()
    if Path("/proc/net/tcp").exists():
        addresses = listening(family(os.getpid()))
        assert addresses
        assert set(addresses) <= set(LOOPBACK)


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_its_task_only(engine: Engine) -> None:
    (task,) = grid.tasks_of(file.read(TINY | {"seeds": 2})).values()
    before = family(os.getpid())
    engine.submit("long", task | {"episodes": 3_000_000, "checkpoints": [3_000_000]})
    victim = busiest(before)
    engine.submit("short", task)
    assert "rows" in outcome(engine, "short")
    os.kill(victim, signal.SIGKILL)
    assert outcome(engine, "long") == {"error": engines.DIED}
    engine.submit("again", task)
    assert "rows" in outcome(engine, "again")


def busiest(among: set[int]) -> int:
    """The process that works most over a few seconds: the worker with the long task."""

    def ticks(pid: int) -> int:
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0
        return int(words[11]) + int(words[12])

    start = {pid: ticks(pid) for pid in among}
    time.sleep(8)
    return max(among - {os.getpid()}, key=lambda pid: ticks(pid) - start[pid])
