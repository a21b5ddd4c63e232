"""The specification of a sweep: its TOML file, read and checked before anything starts.

    title = "Which explorer learns fastest?"
    seeds = 20                                  # 0 to 19, or a list
    episodes = 300
    checkpoints = [30, 100, 300]                # by default eight, evenly spaced
    measure = ["eps", "gap"]                    # see sweeps/spec.py

    [problems.grid]                             # any label
    name = "zoned-grid"                         # by default the label
    size = 8
    vary = { horizon = [20, 40] }               # one problem for each

    [explorers.scaled]
    name = "hf-ucrl-rfe++"
    scale = 0.5

An explorer of one's own is named "module:Class"; in a mapping it may be an object.
Tables may hold parameters and options, and the keys of `PROBLEM_KEYS` and `EXPLORER_KEYS`.
"""

import itertools
import time
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from horizonfree._validation import (
    check_count,
    check_int,
    check_known,
    check_probability,
    check_seed,
    reading,
    require,
    short_repr,
)
from horizonfree.batch.evaluate import CURVES
from horizonfree.batch.explore import default_checkpoints
from horizonfree.batch.members import MAX_SEEDS
from horizonfree.errors import HorizonfreeError, OptionError
from horizonfree.explorers.base import Explorer
from horizonfree.explorers.registry import describe, stored_options
from horizonfree.mdp.rewards import family
from horizonfree.problems.problem import Problem
from horizonfree.runs.certificates import explorer_claim
from horizonfree.runs.run import Run

MEASURES = {
    "eps": "certified for every reward at once",
    "gap": "worst true gap of plans in the maximum-likelihood model",
    "own_gap": "worst true gap of the explorer's own plans",
    "reward_max": "largest certified gap of the rewards",
    "reward_median": "median certified gap of the rewards",
    "claim": "the explorer's own guarantee",
    "efficiency": "K T / q, 1 for the best design in hindsight",
    "excess": "above 0 where the truth is outside the confidence set",
    "time": "seconds for one seed up to here",
}
REWARDS = ("suite", "goals", "occupancies")  # suite: the other two together
RUN_MEASURES = ("reward_max", "reward_median", "claim", "time")  # of one run at a time; the others are curves


def curve_names(measures: Sequence[str]) -> list[str]:
    """The measures that are curves of `explore_many`."""
    return [name for name in measures if name in CURVES]


def measure_rewards(problem: Problem, rewards: str) -> list[Any] | None:
    """The rewards over which true gaps are maximised; None stands for the suite of every state."""
    return None if rewards == "suite" else [x.table for x in family(problem, rewards)[1]]


class RunMeasures:
    """The measures of one run, a function for `explore_many(measure=...)`. `seeds`: how many share the time of a
    task."""

    def __init__(
        self, problem: Problem, measures: Sequence[str], rewards: str, delta: float, seeds: int
    ) -> None:
        self.names = [name for name in measures if name in RUN_MEASURES]
        self.delta, self.seeds, self.began = delta, seeds, time.perf_counter()
        kinds = ("goals", "occupancies") if rewards == "suite" else (rewards,)
        needs_rewards = {"reward_max", "reward_median"} & set(self.names)
        self.rewards = [x for kind in kinds for x in family(problem, kind)[1]] if needs_rewards else []

    def __call__(self, run: Run) -> Mapping[str, float]:
        """The measures of a run; nan if there is none."""
        result: dict[str, float] = {}
        if self.rewards:
            certificate = run.certificate(self.delta, rewards=self.rewards)
            result["reward_max"] = certificate.eps
            result["reward_median"] = certificate.parts.get("median", certificate.eps)
        if "claim" in self.names:
            result["claim"] = _claim(run, self.delta)
        result["time"] = (time.perf_counter() - self.began) / self.seeds
        return {name: result[name] for name in self.names}


def _claim(run: Run, delta: float) -> float:
    """The bound that the explorer itself claims; nan if it claims none, or at lower confidence."""
    claim = explorer_claim(run, delta)
    return np.nan if claim is None or claim.delta > delta else claim.eps


PROBLEM_KEYS = {"name": str, "vary": dict, "seen_as": str, "reward": dict}
EXPLORER_KEYS = {"name": str, "vary": dict, "budget": int, "declared": bool, "seen_as": str}
TYPE_NAMES = {dict: "a table", str: "text", int: "a whole number", bool: "true or false"}
MISPLACED_OPTIONS = {
    "delta": "delta is that of the whole sweep: write it at the top of the file",
    "reward": "a reward belongs to a problem: write it there, as in reward = { stay = [3] }",
}
DEFAULT_SEEDS_PER_TASK = 10
Table = dict[str, Any]


@dataclass(frozen=True)
class Spec:
    """A sweep as plain data; `problems` and `explorers` have one table for each label."""

    problems: dict[str, Table]
    explorers: dict[str, Table]
    seeds: list[int]
    episodes: int
    checkpoints: list[int]
    title: str = ""
    delta: float = 0.05
    measure: list[str] = field(default_factory=lambda: ["eps", "gap"])
    records: list[str] = field(default_factory=list)
    rewards: str = "suite"
    slopes: list[str] = field(default_factory=list)
    seeds_per_task: int = DEFAULT_SEEDS_PER_TASK

    def to_dict(self) -> Table:
        """JSON data; `parse` is the inverse."""
        number = len(self.seeds)
        return asdict(self) | ({"seeds": number} if self.seeds == list(range(number)) else {})


def read(source: Any) -> Spec:
    """The sweep in a TOML file, or in a mapping with the same keys."""
    if isinstance(source, Mapping):
        return parse(source)
    try:
        text = Path(source).expanduser().read_text()
    except (TypeError, ValueError, RuntimeError):
        raise OptionError(f"{short_repr(source)} is no sweep; give a TOML file, or a mapping") from None
    except OSError as error:
        raise OptionError(f"sweep {source}: {error.strerror}") from None
    with error_context(f"sweep {source}"):
        with reading("it", "TOML", ValueError, RecursionError):
            entries = tomllib.loads(text)
        return parse(entries)


def parse(source: Mapping[str, Any]) -> Spec:
    """The sweep in a mapping; every key and value is checked."""
    entries = dict(source)
    for name in entries:
        check_known(name, get_type_hints(Spec), "key")
    for name in ("problems", "explorers"):
        if not isinstance(entries.get(name), Mapping) or not entries[name]:
            raise OptionError(f"there are no {name}; add a table [{name}.NAME] for each")
    entries["problems"] = _expand_tables(entries["problems"], "problems", PROBLEM_KEYS)
    entries["explorers"] = _expand_tables(entries["explorers"], "explorers", EXPLORER_KEYS)
    entries["seeds"] = _check_seeds(entries.get("seeds", 1))
    entries |= _episodes_and_checkpoints(entries)
    entries["delta"] = check_probability(entries.get("delta", 0.05), "delta")
    entries["measure"] = _check_names(entries.get("measure", ["eps", "gap"]), "measure", MEASURES)
    entries["records"] = _check_names(entries.get("records", []), "records", None)
    columns = [*entries["measure"], *entries["records"]]
    if not columns:
        raise OptionError(f"there is nothing to measure; choose from {', '.join(MEASURES)}")
    entries["slopes"] = _check_names(entries.get("slopes", []), "slopes", columns)
    _check_names([entries.get("rewards", "suite")], "rewards", REWARDS)
    seeds_per_task = entries.get("seeds_per_task", DEFAULT_SEEDS_PER_TASK)
    entries["seeds_per_task"] = check_count(seeds_per_task, "seeds_per_task")
    title = entries.get("title", "")
    require(isinstance(title, str), "title", title, "text")
    return Spec(**entries)


def _expand_tables(tables: Mapping[str, Any], section: str, keys: Mapping[str, type]) -> dict[str, Table]:
    """Every table by its label, and one for each combination of the values in `vary`."""
    result: dict[str, Table] = {}
    for label, table in tables.items():
        with error_context(f"{section}.{label}"):
            if section == "explorers" and isinstance(table, Explorer):
                table = _table_of(table)
            require(isinstance(table, Mapping), "it", table, "a table, perhaps an empty one")
            for name, kind in keys.items():
                if name in table:
                    require(type(table[name]) is kind, name, table[name], TYPE_NAMES[kind])
            vary = dict(table.get("vary", {}))
            for name, values in vary.items():
                is_list = isinstance(values, list) and len(values) > 0
                meaning = "a list of values of something that is named nowhere else in this table"
                require(is_list and name not in table and name not in keys, f"vary.{name}", values, meaning)
        fixed = {"name": label, **{name: x for name, x in table.items() if name != "vary"}}
        for values in itertools.product(*vary.values()):
            combination = dict(zip(vary, values))
            name = " ".join([label, *(f"{key}={x}" for key, x in combination.items())])
            result[name] = fixed | combination
    return result


def _table_of(explorer: Explorer) -> Table:
    """The table of an explorer that is given as an object: its name and options."""
    name, options = describe(explorer)
    scalars, arrays = stored_options(name, options)
    if arrays:
        raise OptionError(
            f"option {next(iter(arrays))} of explorer {name} is an array, which the file of a sweep cannot hold; leave "
            "it out, or compute it in the class"
        )
    if name.startswith("__main__:"):
        raise OptionError(
            f"explorer {name} is defined in a script or notebook, which the workers of a sweep do not import; put the "
            "class into a module"
        )
    return {"name": name, **{key: x for key, x in scalars.items() if x is not None}}


def _episodes_and_checkpoints(entries: Mapping[str, Any]) -> Table:
    """Both keys; either may be missing in the file."""
    checkpoints = entries.get("checkpoints")
    if checkpoints is None and "episodes" not in entries:
        raise OptionError("say how long to explore: episodes = 300, or checkpoints = [100, 300]")
    if checkpoints is None:
        episodes = check_count(entries["episodes"], "episodes")
        return {"episodes": episodes, "checkpoints": default_checkpoints(episodes)}
    is_list = isinstance(checkpoints, (list, tuple)) and len(checkpoints) > 0
    require(is_list, "checkpoints", checkpoints, "a list of numbers of episodes")
    sorted_checkpoints = sorted({check_count(k, "a checkpoint") for k in checkpoints})
    episodes = check_count(entries.get("episodes", sorted_checkpoints[-1]), "episodes")
    if sorted_checkpoints[-1] > episodes:
        raise OptionError(f"checkpoint {sorted_checkpoints[-1]} lies beyond the {episodes} episodes")
    return {"episodes": episodes, "checkpoints": sorted_checkpoints}


def _check_seeds(seeds: Any) -> list[int]:
    """A number of seeds, or a list."""
    if not isinstance(seeds, (list, tuple, range)):
        meaning = f"how many, from 1 to {MAX_SEEDS}, or a list"
        return list(range(check_int(seeds, "seeds", 1, MAX_SEEDS, meaning)))
    for seed in seeds:
        check_seed(seed)
    require(seeds and len(set(seeds)) == len(seeds), "seeds", seeds, "a list of at least one, and each once")
    return [int(seed) for seed in seeds]


def _check_names(names: Any, key: str, known: Collection[str] | None) -> list[str]:
    """A list of different names; each must be in `known`, if that is given."""
    is_list = isinstance(names, (list, tuple)) and all(isinstance(x, str) for x in names)
    require(is_list and len(set(names)) == len(names), key, names, "a list of names, each once")
    for name in names if known is not None else ():
        check_known(name, dict.fromkeys(known or ()), f"name for {key}")
    return list(names)


@contextmanager
def error_context(where: str) -> Iterator[None]:
    """Prefix the text of an error with its place in the file."""
    try:
        yield
    except HorizonfreeError as error:
        raise type(error)(f"{where}: {error}") from None
