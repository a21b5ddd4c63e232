"""One task: all its seeds in one compiled call, and its rows as columns.

The numbers of a task depend on nothing but the task, the versions and the device: not on the engine that runs it.
"""

import time
from typing import Any

import jax
import numpy as np

from horizonfree.batch.explore import Batch, explore_many
from horizonfree.explorers.registry import current_name, find
from horizonfree.runs.recipes import versions
from horizonfree.sweeps.grid import Task, options_of, problem_of, reward_of
from horizonfree.sweeps.measures import OnRuns, curves_of, rewards_of


def run_task(task: Task) -> dict[str, Any]:
    """The rows, one per seed and checkpoint, and what they were made by."""
    began = time.perf_counter()
    batch = _explored(task)
    S, C = len(task["seeds"]), len(task["checkpoints"])
    rows = {"seed": np.repeat(task["seeds"], C), "episodes": np.tile(task["checkpoints"], S)}
    rows |= {name: batch.curves[name].ravel() for name in task["measure"]}
    looks = np.asarray(task["checkpoints"]) - 1
    for name in task["records"]:
        found = batch.records.get(name)
        rows[name] = np.full(S * C, np.nan) if found is None else found[:, looks].astype(float).ravel()
    return {
        "rows": {name: x.tolist() for name, x in rows.items()},
        "seconds": round(time.perf_counter() - began, 4),
        "device": jax.devices()[0].device_kind,
        "versions": versions(),
    }


def _explored(task: Task) -> Batch:
    """The batch of the task, measured at its checkpoints."""
    problem, who = problem_of(task["world"]), task["who"]
    on_runs = OnRuns(problem, task["measure"], task["rewards"], task["delta"], len(task["seeds"]))
    name = current_name(who["name"])
    needs_reward = "reward" in find(name).options
    return explore_many(
        problem,
        name,
        episodes=task["episodes"],
        seeds=task["seeds"],
        checkpoints=task["checkpoints"],
        curves=curves_of(task["measure"]),
        rewards=rewards_of(problem, task["rewards"]),
        measure=on_runs if on_runs.wanted else None,
        budget=task["budget"],
        delta=task["delta"],
        reward=reward_of(problem, task["world"]) if needs_reward else None,
        progress=False,
        **options_of(who),
    )
