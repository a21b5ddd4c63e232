"""Several explorers on one problem: true and certified suboptimality against episodes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

from horizonfree._validation import check_count, require, short_repr
from horizonfree.batch.explore import explore_many
from horizonfree.errors import OptionError
from horizonfree.explorers.registry import check_options, display_marks, find_entry, resolve_typed_name
from horizonfree.mdp.rewards import occupancy
from horizonfree.problems import make
from horizonfree.problems.problem import Problem
from horizonfree.runs import until as stopping

CURVES = ("gap", "own_gap", "eps")
DEFAULT_CHECKPOINTS = 8
Row = dict[str, Any]  # of one explorer, seed and checkpoint
Entries = Sequence[str] | Mapping[str, Mapping[str, Any]]  # names, or labels with options
Task = tuple[str, dict[str, Any], Entries, dict[str, Any]]  # problem, its parameters, explorers, settings


def compare(
    problem: Problem,
    explorers: Entries,
    *,
    episodes: int,
    seeds: int | Sequence[int] = 10,
    checkpoints: Sequence[int] | None = None,
    delta: float = 0.05,
    reward: Any = None,
) -> list[Row]:
    """One row per explorer, seed and checkpoint.

    "gap" is the largest suboptimality of plans in the maximum-likelihood model, over the rewards "be in g at the end"
    and "stay in g" of every state g; "own_gap" that of plans in the explorer's own estimate; "eps" the uniform
    certificate at confidence 1 - delta, nan for kernels from samples; "seconds" the time of the whole batch of seeds,
    with compilation.

    explorers: names, or a mapping from labels to options. A label is the name of an explorer, or the options have a
        "name": {"optimal-design": {}, "quick": {"name": "hf-ucrl-rfe++", "sweeps": 8}}.
    checkpoints: by default eight, evenly spaced. reward: for the explorers that need one.

    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> rows = hf.compare(problem, ["uniform"], episodes=20, seeds=2, checkpoints=[20])
    >>> {row["algorithm"] for row in rows}, len(rows)
    ({'uniform'}, 2)
    """
    chosen = parse_entries(explorers)
    if checkpoints is None:
        stopping.check_stop_request(episodes, None, delta)
        checkpoints = default_checkpoints(int(episodes))
    rows: list[Row] = []
    for name, (algorithm, options) in chosen.items():
        began = time.perf_counter()
        batch = explore_many(
            problem,
            algorithm,
            episodes=episodes,
            seeds=seeds,
            checkpoints=checkpoints,
            curves=CURVES,
            delta=delta,
            reward=reward if "reward" in find_entry(algorithm).options else None,
            progress=False,
            **options,
        )
        seconds = time.perf_counter() - began
        label = {"explorer": name, "algorithm": algorithm, "marks": display_marks(algorithm, options)}
        for i, seed in enumerate(batch.members.seeds):
            for c, k in enumerate(batch.checkpoints):
                values = {curve: float(batch.curves[curve][i, c]) for curve in CURVES}
                rows.append({**label, "seed": seed, "episodes": int(k), **values, "seconds": seconds})
    return rows


def default_checkpoints(episodes: int) -> list[int]:
    """Eight checkpoints, evenly spaced."""
    return sorted({max(1, episodes * i // DEFAULT_CHECKPOINTS) for i in range(1, DEFAULT_CHECKPOINTS + 1)})


def compare_in_processes(
    name: str,
    parameters: Mapping[str, Any],
    explorers: Entries,
    *,
    episodes: int,
    seeds: int | Sequence[int] = 10,
    delta: float = 0.05,
    workers: int = 2,
    **settings: Any,
) -> Iterator[list[Row]]:
    """The rows of `compare` on a named problem, explorer by explorer, in several processes.

    Explorers that need a reward get "stay in the last state". Wrong arguments raise before anything is explored.
    """
    chosen = parse_entries(explorers)
    for algorithm, options in chosen.values():
        check_options(algorithm, options)
    check_count(workers, "workers")
    stopping.check_stop_request(episodes, None, delta)
    if isinstance(seeds, int):
        check_count(seeds, "seeds")
    settings |= {"episodes": episodes, "seeds": seeds, "delta": delta}
    entries = [{label: {"name": algorithm, **options}} for label, (algorithm, options) in chosen.items()]
    return _run_tasks([(name, dict(parameters), entry, settings) for entry in entries], workers)


def _run_tasks(tasks: list[Task], workers: int) -> Iterator[list[Row]]:
    with ProcessPoolExecutor(min(workers, len(tasks)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(_run_task, tasks)


def _run_task(task: Task) -> list[Row]:
    name, parameters, explorers, settings = task
    problem = make(name, **parameters)
    return compare(problem, explorers, reward=occupancy(problem, problem.num_states - 1), **settings)


def parse_entries(explorers: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The explorers of a comparison: label -> (algorithm, options)."""
    require(
        not isinstance(explorers, str) and isinstance(explorers, (Mapping, Sequence)),
        "explorers",
        explorers,
        "a list of names, or names with options",
    )
    wrong = [name for name in explorers if not isinstance(name, str)]
    if wrong:
        raise OptionError(f"explorers holds {short_repr(wrong[0])}; it must hold names")
    tables = explorers if isinstance(explorers, Mapping) else {name: {} for name in explorers}
    if not tables:
        raise OptionError("there is nothing to compare; name at least one explorer")
    result = {}
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise OptionError(
                f"explorer {short_repr(name)} has {short_repr(table)}; it must have options by name"
            )
        algorithm = resolve_typed_name(table.get("name", name))
        find_entry(algorithm)
        result[str(name)] = algorithm, {str(key): x for key, x in table.items() if key != "name"}
    return result


def explorer_label(row: Row) -> str:
    """The label of a row's explorer in tables, with its marks (registry.marks)."""
    return str(row["explorer"]) + str(row.get("marks", display_marks(algorithm_name(row))))


def algorithm_name(row: Row) -> str:
    """The name of a row's explorer in the registry."""
    return str(row["algorithm"] if "algorithm" in row else row["explorer"])


def medians(rows: Sequence[Row], curve: str) -> dict[str, dict[int, float]]:
    """The median over seeds of one curve: label of the explorer -> episodes -> value."""
    values: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        values.setdefault(explorer_label(row), {}).setdefault(row["episodes"], []).append(row[curve])
    return {name: {k: float(np.median(x)) for k, x in by_k.items()} for name, by_k in values.items()}
