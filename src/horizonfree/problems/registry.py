"""Named problems: a decorated function is all there is to one.

The first line of its docstring is the description, the line that starts with "Source:" the source; its signature
gives the parameters with their types, defaults, ranges and meaning. Nothing is listed a second time.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import numpy as np

from horizonfree._validation import MAX_INT, short_repr, suggestion
from horizonfree.errors import OptionError, UnknownNameError
from horizonfree.mdp.space import LONGEST
from horizonfree.problems.problem import Problem

_Build = TypeVar("_Build", bound=Callable[..., Problem])
ON_THE_LIMIT = 1e-12  # a value this far beyond a limit that is itself computed counts as on it


class Between(NamedTuple):
    """The range of a parameter, ends included, and what the parameter means."""

    low: float
    high: float
    meaning: str


Horizon = Annotated[int, Between(1, LONGEST, "steps in an episode")]
Seed = Annotated[int, Between(0, MAX_INT, "draws the hidden truth")]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a named problem."""

    name: str
    type: type[int] | type[float]
    default: int | float
    low: float
    high: float
    meaning: str

    def check(self, value: Any) -> int | float:
        """The value as a plain number of the right type, or an error that names the range."""
        number = (int, np.integer) if self.type is int else (int, float, np.integer, np.floating)
        is_number = isinstance(value, number) and not isinstance(value, bool)
        if not is_number or not self.low <= value <= self.high:
            kind = "an integer" if self.type is int else "a number"
            raise OptionError(
                f"{self.name} is {short_repr(value)}; {self.meaning}: {kind} from {self.low} to {self.high}"
            )
        return self.type(value)


@dataclass(frozen=True)
class ProblemSpec:
    """What is known of a named problem before it is built."""

    name: str
    description: str
    source: str
    parameters: tuple[Parameter, ...]
    build: Callable[..., Problem]


_PROBLEMS: dict[str, ProblemSpec] = {}


def problem(name: str) -> Callable[[_Build], _Build]:
    """Register a function from parameters to a Problem under a name."""

    def register(build: _Build) -> _Build:
        lines = inspect.getdoc(build).splitlines()  # type: ignore[union-attr]  # every problem has a docstring
        first = next(i for i, line in enumerate(lines) if line.startswith("Source:"))
        hints = get_type_hints(build, include_extras=True)
        parameters = tuple(
            Parameter(p.name, hints[p.name].__origin__, p.default, *hints[p.name].__metadata__[0])
            for p in inspect.signature(build).parameters.values()
        )
        source = " ".join(line.strip() for line in lines[first:]).removeprefix("Source: ")
        _PROBLEMS[name] = ProblemSpec(name, lines[0], source, parameters, build)
        return build

    return register


def problems() -> dict[str, ProblemSpec]:
    """Every named problem: description, source, and parameters with defaults and ranges."""
    return dict(sorted(_PROBLEMS.items()))


def make(name: str, /, **parameters: Any) -> Problem:
    """Build a named problem; `problems()` lists the names, "gymnasium:ID" stands for an environment of Gymnasium."""
    if isinstance(name, str) and name.startswith("gymnasium:"):
        from horizonfree.problems.gymnasium.from_env import from_gymnasium

        if "env" in parameters:
            raise UnknownNameError(f"problem {name!r} has no parameter 'env'; its name says which it is")
        if "horizon" not in parameters:
            raise OptionError(f"problem {name!r} needs a horizon, the number of steps in an episode")
        return from_gymnasium(name.removeprefix("gymnasium:"), **parameters)
    if not isinstance(name, str) or name not in _PROBLEMS:
        raise UnknownNameError(
            f"there is no problem {short_repr(name)}; {suggestion(short_repr(name), _PROBLEMS)}"
        )
    spec = _PROBLEMS[name]
    known = {p.name: p for p in spec.parameters}
    for given in parameters:
        if given not in known:
            raise UnknownNameError(f"problem {name!r} has no parameter {given!r}; {suggestion(given, known)}")
    values = {p.name: p.check(parameters.get(p.name, p.default)) for p in spec.parameters}
    recipe: Mapping[str, Any] = {"name": name, "parameters": values}
    return replace(spec.build(**values), name=name, recipe=recipe)


def is_at_least(name: str, value: float, least: float, why: str) -> None:
    """Refuse a parameter that is too small beside the others."""
    if not value >= least - ON_THE_LIMIT:
        given, limit = _told_apart(value, least)
        raise OptionError(f"{name} is {given}; it must be at least {limit}: {why}")


def is_at_most(name: str, value: float, most: float, why: str) -> None:
    """Refuse a parameter that is too large beside the others."""
    if not value <= most + ON_THE_LIMIT:
        given, limit = _told_apart(value, most)
        raise OptionError(f"{name} is {given}; it must be at most {limit}: {why}")


def _told_apart(value: float, limit: float) -> tuple[str, str]:
    """Both in digits that tell them apart; the limit as printed is accepted."""
    for digits in range(6, 18):
        given, printed = f"{value:.{digits}g}", f"{limit:.{digits}g}"
        if given != printed and (float(printed) - limit) * (limit - value) >= 0:
            break
    return given, printed
