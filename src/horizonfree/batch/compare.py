"""Several explorers on one problem: what their plans really lose, and what is certified, against episodes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

from horizonfree._inputs import count
from horizonfree.batch.explore import explore_many
from horizonfree.errors import OptionError
from horizonfree.explorers.registry import find, label
from horizonfree.mdp.rewards import occupancy
from horizonfree.problems import make
from horizonfree.problems.problem import Problem
from horizonfree.runs import until as stopping

CURVES = ("gap", "own_gap", "eps")
Result = dict[str, Any]  # of one explorer, seed and checkpoint
Task = tuple[str, dict[str, Any], str, dict[str, Any]]  # problem, its parameters, explorer, how


def compare(
    problem: Problem,
    explorers: Sequence[str] | Mapping[str, Mapping[str, Any]],
    *,
    episodes: int,
    seeds: int | Sequence[int] = 10,
    checkpoints: Sequence[int] | None = None,
    delta: float = 0.05,
    reward: Any = None,
) -> list[Result]:
    """One row per explorer, seed and checkpoint.

    "gap" is the most that plans in the maximum-likelihood model lose, over the rewards "be in g at the end" and "stay
    in g" of every state g; "own_gap" the same in the explorer's own estimate; "eps" the uniform certificate at
    confidence 1 - delta; "seconds" the time of the whole batch of seeds, compilation included.

    explorers: names, or names with their options. checkpoints: by default eight, evenly spaced. reward: for the
    explorers that need one.
    """
    chosen = explorers if isinstance(explorers, Mapping) else {name: {} for name in explorers}
    if not chosen:
        raise OptionError("there is nothing to compare; name at least one explorer")
    for name in chosen:
        find(name)
    looks = checkpoints or sorted({max(1, episodes * i // 8) for i in range(1, 9)})
    rows: list[Result] = []
    for name, options in chosen.items():
        began = time.perf_counter()
        batch = explore_many(
            problem,
            name,
            episodes=episodes,
            seeds=seeds,
            checkpoints=looks,
            curves=CURVES,
            delta=delta,
            reward=reward if "reward" in find(name).options else None,
            progress=False,
            **options,
        )
        seconds = time.perf_counter() - began
        for i, seed in enumerate(batch.cast.seeds):
            for c, k in enumerate(batch.checkpoints):
                found = {curve: float(batch.curves[curve][i, c]) for curve in CURVES}
                rows.append({"explorer": name, "seed": seed, "episodes": int(k), **found, "seconds": seconds})
    return rows


def contest(
    name: str,
    parameters: Mapping[str, Any],
    explorers: Sequence[str],
    *,
    episodes: int,
    seeds: int | Sequence[int] = 10,
    delta: float = 0.05,
    workers: int = 2,
    **how: Any,
) -> Iterator[list[Result]]:
    """The rows of `compare` on a named problem, explorer by explorer, several at once in processes of their own.

    Explorers that need a reward are given "stay in the last state". What cannot be is refused by the call itself,
    before anything is explored.
    """
    for explorer in explorers:
        find(explorer)
    count(workers, "workers")
    stopping.check(episodes, None, delta)
    if isinstance(seeds, int):
        count(seeds, "seeds")
    how |= {"episodes": episodes, "seeds": seeds, "delta": delta}
    return _in_processes([(name, dict(parameters), explorer, how) for explorer in explorers], workers)


def _in_processes(tasks: list[Task], workers: int) -> Iterator[list[Result]]:
    with ProcessPoolExecutor(min(workers, len(tasks)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(_one, tasks)


def _one(task: Task) -> list[Result]:
    name, parameters, explorer, how = task
    problem = make(name, **parameters)
    return compare(problem, [explorer], reward=occupancy(problem, problem.num_states - 1), **how)


def medians(rows: Sequence[Result], curve: str) -> dict[str, dict[int, float]]:
    """The median over seeds of one curve: label of the explorer -> episodes -> number."""
    values: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        values.setdefault(label(row["explorer"]), {}).setdefault(row["episodes"], []).append(row[curve])
    return {name: {k: float(np.median(x)) for k, x in by_k.items()} for name, by_k in values.items()}
