"""The file of a sweep, read and checked: every mistake in it is refused before anything starts.

    title = "Which explorer learns fastest?"
    seeds = 20                                  # 0 to 19, or a list
    episodes = 300
    checkpoints = [30, 100, 300]                # by default eight, evenly spaced
    measure = ["eps", "gap"]                    # sweeps/measures.py has all

    [problems.grid]                             # a name of yours
    name = "zoned-grid"                         # by default the name of the table
    size = 8
    vary = { horizon = [20, 40] }               # one problem for each

    [explorers.scaled]
    name = "hf-ucrl-rfe++"
    scale = 0.5

What a table may hold beside parameters and options is in `OF_PROBLEM` and `OF_EXPLORER`.
"""

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from horizonfree._validation import (
    check_count,
    check_int,
    check_probability,
    check_seed,
    short_repr,
    suggestion,
)
from horizonfree.batch.cast import MOST_SEEDS
from horizonfree.batch.compare import spaced
from horizonfree.errors import HorizonfreeError, OptionError, UnknownNameError
from horizonfree.sweeps.measures import MEASURES, REWARDS

OF_PROBLEM = {"name": str, "vary": dict, "seen_as": str, "reward": dict}
OF_EXPLORER = {"name": str, "vary": dict, "budget": int, "declared": bool}
ELSEWHERE = {
    "delta": "delta is that of the whole sweep: write it at the top of the file",
    "reward": "a reward belongs to a problem: write it there, as in reward = { stay = [3] }",
}
PER_TASK = 10  # seeds of a task, where it is not said
Table = dict[str, Any]


@dataclass(frozen=True)
class Spec:
    """A sweep as plain data: its problems and explorers by their names, one by one."""

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
    seeds_per_task: int = PER_TASK

    def plain(self) -> Table:
        """As JSON holds it; `read` takes it back."""
        number = len(self.seeds)
        return asdict(self) | ({"seeds": number} if self.seeds == list(range(number)) else {})


def read(source: Any) -> Spec:
    """The sweep in a TOML file, or in a mapping with the same keys."""
    if isinstance(source, Mapping):
        return spec(source)
    try:
        text = Path(source).expanduser().read_text()
    except (TypeError, ValueError, RuntimeError):
        raise OptionError(f"{short_repr(source)} is no sweep; give a TOML file, or a mapping") from None
    except OSError as error:
        raise OptionError(f"sweep {source}: {error.strerror}") from None
    with within(f"sweep {source}"):
        try:
            return spec(tomllib.loads(text))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise OptionError(f"it is not TOML: {error}") from None


def spec(given: Mapping[str, Any]) -> Spec:
    """The sweep in a mapping; a key that does not exist is refused with the nearest that does."""
    found = dict(given)
    _known(found, get_type_hints(Spec), "key")
    for name in ("problems", "explorers"):
        if not isinstance(found.get(name), Mapping) or not found[name]:
            raise OptionError(f"there are no {name}; add a table [{name}.NAME] for each")
    found["problems"] = _expanded(found["problems"], "problems", OF_PROBLEM)
    found["explorers"] = _expanded(found["explorers"], "explorers", OF_EXPLORER)
    found["seeds"] = _seeds(found.get("seeds", 1))
    found |= _looks(found)
    found["delta"] = check_probability(found.get("delta", 0.05), "delta")
    for name, known in {"measure": MEASURES, "slopes": None, "records": None}.items():
        found[name] = _names(found.get(name, ["eps", "gap"] if name == "measure" else []), name, known)
    columns = [*found["measure"], *found["records"]]
    if not columns:
        raise OptionError(f"there is nothing to measure; choose from {', '.join(MEASURES)}")
    _names(found["slopes"], "slopes", columns)
    _names([found.get("rewards", "suite")], "rewards", REWARDS)
    found["seeds_per_task"] = check_count(found.get("seeds_per_task", PER_TASK), "seeds_per_task")
    if not isinstance(found.get("title", ""), str):
        raise OptionError(f"title is {short_repr(found['title'])}; it must be text")
    return Spec(**found)


def _expanded(tables: Mapping[str, Any], kind: str, own: Mapping[str, type]) -> dict[str, Table]:
    """Every table under its name, and one for each combination of what varies in it."""
    found: dict[str, Table] = {}
    for label, table in tables.items():
        with within(f"{kind}.{label}"):
            if not isinstance(table, Mapping):
                raise OptionError(f"it is {short_repr(table)}; it must be a table, perhaps an empty one")
            for name, wanted in own.items():
                if name in table and type(table[name]) is not wanted:
                    words = {dict: "a table", str: "text", int: "a whole number", bool: "true or false"}[
                        wanted
                    ]
                    raise OptionError(f"{name} is {short_repr(table[name])}; it must be {words}")
            varied = dict(table.get("vary", {}))
            for name, values in varied.items():
                if not isinstance(values, list) or not values or name in table or name in own:
                    raise OptionError(
                        f"vary.{name} is {short_repr(values)}; it must be a list of values of something that is named "
                        "nowhere else in this table"
                    )
        fixed = {"name": label, **{name: x for name, x in table.items() if name != "vary"}}
        for values in itertools.product(*varied.values()):
            chosen = dict(zip(varied, values))
            name = " ".join([label, *(f"{key}={x}" for key, x in chosen.items())])
            found[name] = fixed | chosen
    return found


def _looks(found: Mapping[str, Any]) -> Table:
    """Episodes and checkpoints; either may be left out."""
    looks = found.get("checkpoints")
    if looks is None and "episodes" not in found:
        raise OptionError("say how long to explore: episodes = 300, or checkpoints = [100, 300]")
    if looks is None:
        episodes = check_count(found["episodes"], "episodes")
        return {"episodes": episodes, "checkpoints": spaced(episodes)}
    if not isinstance(looks, (list, tuple)) or not looks:
        raise OptionError(f"checkpoints is {short_repr(looks)}; it must be a list of numbers of episodes")
    chosen = sorted({check_count(k, "a checkpoint") for k in looks})
    episodes = check_count(found.get("episodes", chosen[-1]), "episodes")
    if chosen[-1] > episodes:
        raise OptionError(f"checkpoint {chosen[-1]} lies beyond the {episodes} episodes")
    return {"episodes": episodes, "checkpoints": chosen}


def _seeds(given: Any) -> list[int]:
    """How many, or which."""
    if not isinstance(given, (list, tuple, range)):
        return list(
            range(check_int(given, "seeds", 1, MOST_SEEDS, f"how many, from 1 to {MOST_SEEDS}, or a list"))
        )
    for seed in given:
        check_seed(seed)
    if not given or len(set(given)) < len(given):
        raise OptionError(f"seeds is {short_repr(given)}; it must name at least one, and each once")
    return [int(seed) for seed in given]


def _names(given: Any, what: str, known: Any) -> list[str]:
    """A list of names, each known (where that can be said) and named once."""
    is_listed = isinstance(given, (list, tuple)) and all(isinstance(x, str) for x in given)
    if not is_listed or len(set(given)) < len(given):
        raise OptionError(f"{what} is {short_repr(given)}; it must be a list of names, each once")
    if known is not None:
        _known(dict.fromkeys(given), dict.fromkeys(known), f"name for {what}")
    return list(given)


def _known(given: Mapping[str, Any], known: Mapping[str, Any], what: str) -> None:
    for name in given:
        if name not in known:
            raise UnknownNameError(f"there is no {what} {name!r}; {suggestion(str(name), known)}")


@contextmanager
def within(where: str) -> Iterator[None]:
    """Say where in the file something is wrong."""
    try:
        yield
    except HorizonfreeError as error:
        raise type(error)(f"{where}: {error}") from None
