"""Several explorers on one problem: what their plans really lose, and what is certified, against episodes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

from horizonfree._validation import check_count, short_repr
from horizonfree.batch.explore import explore_many
from horizonfree.errors import OptionError
from horizonfree.explorers.registry import check_options, find, marks, typed_name
from horizonfree.mdp.rewards import occupancy
from horizonfree.problems import make
from horizonfree.problems.problem import Problem
from horizonfree.runs import until as stopping

CURVES = ("gap", "own_gap", "eps")
MOST_LOOKS = 8  # checkpoints, where none are named
Result = dict[str, Any]  # of one explorer, seed and checkpoint
Entries = (
    Sequence[str] | Mapping[str, Mapping[str, Any]]
)  # explorers, perhaps with options and names of one's own
Task = tuple[str, dict[str, Any], Entries, dict[str, Any]]  # problem, its parameters, explorers, how


def compare(
    problem: Problem,
    explorers: Entries,
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
    confidence 1 - delta, nan for kernels from samples; "seconds" the time of the whole batch of seeds, compilation
    included.

    explorers: names, or a mapping from names of your choice to options; the explorer is the one of that name, or what
        "name" says: {"optimal-design": {}, "quick": {"name": "hf-ucrl-rfe++", "sweeps": 8}}.
    checkpoints: by default eight, evenly spaced. reward: for the explorers that need one.
    """
    chosen = entries_of(explorers)
    if checkpoints is None:
        stopping.check(episodes, None, delta)
        looks: Sequence[int] = spaced(int(episodes))
    else:
        looks = checkpoints
    rows: list[Result] = []
    for name, (algorithm, options) in chosen.items():
        began = time.perf_counter()
        batch = explore_many(
            problem,
            algorithm,
            episodes=episodes,
            seeds=seeds,
            checkpoints=looks,
            curves=CURVES,
            delta=delta,
            reward=reward if "reward" in find(algorithm).options else None,
            progress=False,
            **options,
        )
        seconds = time.perf_counter() - began
        who = {"explorer": name, "algorithm": algorithm, "marks": marks(algorithm, options)}
        for i, seed in enumerate(batch.cast.seeds):
            for c, k in enumerate(batch.checkpoints):
                found = {curve: float(batch.curves[curve][i, c]) for curve in CURVES}
                rows.append({**who, "seed": seed, "episodes": int(k), **found, "seconds": seconds})
    return rows


def spaced(episodes: int) -> list[int]:
    """The checkpoints where none are named: eight, evenly spaced."""
    return sorted({max(1, episodes * i // MOST_LOOKS) for i in range(1, MOST_LOOKS + 1)})


def contest(
    name: str,
    parameters: Mapping[str, Any],
    explorers: Entries,
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
    chosen = entries_of(explorers)
    for algorithm, options in chosen.values():
        check_options(algorithm, options)
    check_count(workers, "workers")
    stopping.check(episodes, None, delta)
    if isinstance(seeds, int):
        check_count(seeds, "seeds")
    how |= {"episodes": episodes, "seeds": seeds, "delta": delta}
    named = [{label: {"name": algorithm, **options}} for label, (algorithm, options) in chosen.items()]
    return _in_processes([(name, dict(parameters), entry, how) for entry in named], workers)


def _in_processes(tasks: list[Task], workers: int) -> Iterator[list[Result]]:
    with ProcessPoolExecutor(min(workers, len(tasks)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(_one, tasks)


def _one(task: Task) -> list[Result]:
    name, parameters, explorers, how = task
    problem = make(name, **parameters)
    return compare(problem, explorers, reward=occupancy(problem, problem.num_states - 1), **how)


def entries_of(explorers: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The explorers of a comparison: name -> (algorithm, options)."""
    if isinstance(explorers, str) or not isinstance(explorers, (Mapping, Sequence)):
        raise OptionError(
            f"explorers is {short_repr(explorers)}; it must be a list of names, or names with options"
        )
    wrong = [name for name in explorers if not isinstance(name, str)]
    if wrong:
        raise OptionError(f"explorers holds {short_repr(wrong[0])}; it must hold names")
    listed = explorers if isinstance(explorers, Mapping) else {name: {} for name in explorers}
    if not listed:
        raise OptionError("there is nothing to compare; name at least one explorer")
    found = {}
    for name, table in listed.items():
        if not isinstance(table, Mapping):
            raise OptionError(
                f"explorer {short_repr(name)} has {short_repr(table)}; it must have options by name"
            )
        algorithm = typed_name(table.get("name", name))
        find(algorithm)
        found[str(name)] = algorithm, {str(key): x for key, x in table.items() if key != "name"}
    return found


def shown_as(row: Result) -> str:
    """The name of a row's explorer as tables show it; a reconstruction says so, and what was exchanged inside."""
    return str(row["explorer"]) + str(row.get("marks", marks(algorithm_of(row))))


def algorithm_of(row: Result) -> str:
    """The explorer behind the name."""
    return str(row["algorithm"] if "algorithm" in row else row["explorer"])


def medians(rows: Sequence[Result], curve: str) -> dict[str, dict[int, float]]:
    """The median over seeds of one curve: name of the explorer -> episodes -> number."""
    values: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        values.setdefault(shown_as(row), {}).setdefault(row["episodes"], []).append(row[curve])
    return {name: {k: float(np.median(x)) for k, x in by_k.items()} for name, by_k in values.items()}
