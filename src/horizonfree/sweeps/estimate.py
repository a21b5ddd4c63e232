"""What a sweep will take, before it starts: a setting is tried with one seed and a few episodes.

A task with n seeds of K episodes and C checkpoints takes about n (K e + C l) seconds: e for an episode, l for what is
measured at a checkpoint, both from trials with compiled programs; compiling comes once for every setting.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from horizonfree.errors import RunError
from horizonfree.runs import files
from horizonfree.sweeps import grid
from horizonfree.sweeps.engines import Outcome
from horizonfree.sweeps.file import read
from horizonfree.sweeps.grid import Task, rows_of, tasks_of
from horizonfree.sweeps.local import Pool
from horizonfree.sweeps.table import SETTINGS, load_sweep, spec_in
from horizonfree.sweeps.tally import Setting

FEW = 32  # episodes of a trial
ENOUGH = 40.0  # seconds of trials, after which further settings are taken to be like those tried
PATIENCE = 600.0  # seconds for one trial


class Cost(NamedTuple):
    """Seconds of an episode, of a checkpoint and of compiling, and bytes of a worker."""

    episode: float
    checkpoint: float
    compiling: float
    memory: float


class Estimate(NamedTuple):
    """What is to be done, and about what it takes. `tried`: settings that the guess was made from."""

    settings: int
    tasks: int
    done: int
    rows: int
    seconds: float
    memory: float
    tried: int


def estimate(what: Any, out: Any, workers: int) -> Estimate:
    """Of a sweep, as `sweep` would run it into this folder with so many workers of this machine."""
    path = files.resolve_path(out)
    has_begun = (path / SETTINGS).exists()
    spec = spec_in(path) if what is None else read(what)
    grid.check(spec)
    tasks = tasks_of(spec)
    done = set(load_sweep(path)["task"]) & set(tasks) if has_begun else set()
    left = {key: task for key, task in tasks.items() if key not in done}
    first: dict[Setting, Task] = {}
    for task in left.values():
        first.setdefault((task["problem"], task["explorer"]), task)
    costs = _tried(first)
    usual = Cost(*np.mean(list(costs.values()), axis=0)) if costs else Cost(0, 0, 0, 0)
    seconds = sum(costs.get(setting, usual).compiling for setting in first)
    for task in left.values():
        cost = costs.get((task["problem"], task["explorer"]), usual)
        looks = len(task["checkpoints"]) * cost.checkpoint
        seconds += len(task["seeds"]) * (task["episodes"] * cost.episode + looks)
    memory = workers * max((x.memory for x in costs.values()), default=0.0)
    rows = sum(rows_of(task) for task in tasks.values())
    return Estimate(len(first), len(tasks), len(done), rows, seconds / workers, memory, len(costs))


def _tried(settings: dict[Setting, Task]) -> dict[Setting, Cost]:
    """Costs of one setting after the other, until that has taken long enough."""
    found: dict[Setting, Cost] = {}
    began = time.perf_counter()
    with TemporaryDirectory() as aside:
        pool = Pool(1, 1, Path(aside, "log"))
        try:
            for setting, task in settings.items():
                if found and time.perf_counter() - began > ENOUGH:
                    break
                found[setting] = _cost(pool, task)
        finally:
            pool.close()
    return found


def _cost(pool: Pool, task: Task) -> Cost:
    """Twice without looking and twice with: the first time compiles."""
    k = min(FEW, task["episodes"])
    small = task | {"seeds": task["seeds"][:1], "episodes": k, "checkpoints": [k]}
    blind = small | {"measure": [], "records": []}
    cold, warm, cold_look, warm_look = (_run(pool, x) for x in (blind, blind, small, small))
    look = max(0.0, warm_look["seconds"] - warm["seconds"])
    compiling = cold["seconds"] - warm["seconds"] + cold_look["seconds"] - warm_look["seconds"]
    return Cost(warm["seconds"] / k, look, max(0.0, compiling), cold_look["memory"])


def _run(pool: Pool, task: Task) -> Outcome:
    pool.submit("trial", task)
    for _, outcome in pool.finished(PATIENCE):
        if "error" not in outcome:
            return outcome
        raise RunError(f"{task['explorer']} on {task['problem']} fails: {outcome['error']}")
    raise RunError(f"{task['explorer']} on {task['problem']}: a trial took more than {PATIENCE:.0f} s")
