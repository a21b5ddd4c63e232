"""Named problems, each defined by a decorated function.

The first line of its docstring is the description, the line that starts with "Source:" the source. Its signature gives
the parameters with their types, defaults, ranges and meanings.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import numpy as np

from horizonfree._validation import MAX_INT, check_known, closest, require, short_repr, suggestion
from horizonfree.errors import OptionError, ShapeError, UnknownNameError
from horizonfree.mdp.space import MAX_HORIZON
from horizonfree.problems.problem import Problem

_Build = TypeVar("_Build", bound=Callable[..., Problem])
LIMIT_TOLERANCE = 1e-12  # for limits that are computed from other parameters


class Between(NamedTuple):
    """The range of a parameter, ends included, and its meaning."""

    low: float
    high: float
    meaning: str


Horizon = Annotated[int, Between(1, MAX_HORIZON, "steps in an episode")]
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
        """The value as an int or float."""
        number = (int, np.integer) if self.type is int else (int, float, np.integer, np.floating)
        is_number = isinstance(value, number) and not isinstance(value, bool)
        kind = "an integer" if self.type is int else "a number"
        meaning = f"{kind} from {self.low} to {self.high} ({self.meaning})"
        require(is_number and self.low <= value <= self.high, self.name, value, meaning)
        return self.type(value)


@dataclass(frozen=True)
class ProblemSpec:
    """A named problem: its description, source, parameters, and the function that builds it.

    version: raised when the transition probabilities, the names or the defaults change, so that results of different
    versions are not compared by mistake.
    """

    name: str
    description: str
    source: str
    parameters: tuple[Parameter, ...]
    build: Callable[..., Problem]
    version: int = 1

    @property
    def versioned_name(self) -> str:
        """The name to cite, such as "river-swim-v1"."""
        return f"{self.name}-v{self.version}"


_VERSIONED = re.compile(r"(.+)-v(\d+)")
_PROBLEMS: dict[str, ProblemSpec] = {}


def problem(name: str, version: int = 1) -> Callable[[_Build], _Build]:
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
        _PROBLEMS[name] = ProblemSpec(name, lines[0], source, parameters, build, version)
        return build

    return register


def problems() -> dict[str, ProblemSpec]:
    """Every named problem: description, source, and parameters with defaults and ranges.

    >>> import horizonfree as hf
    >>> "zoned-grid" in hf.problems()
    True
    """
    return dict(sorted(_PROBLEMS.items()))


def make(name: str, /, **parameters: Any) -> Problem:
    """Build a named problem. `problems()` lists the names; "gymnasium:ID" stands for an environment of Gymnasium.

    A name may end in the version of the problem, as in "river-swim-v1"; only the present one is accepted.

    >>> import horizonfree as hf
    >>> hf.make("river-swim", states=6, horizon=20).num_states
    6
    """
    if isinstance(name, str) and name.startswith("gymnasium:"):
        from horizonfree.problems.gymnasium.from_env import from_gymnasium

        if "env" in parameters:
            raise UnknownNameError(f"problem {name!r} has no parameter 'env'; its name says which it is")
        if "horizon" not in parameters:
            raise OptionError(
                f"problem {name!r} needs a horizon, the number of steps in an episode: horizon=100 (at the shell "
                "--param horizon=100)"
            )
        return from_gymnasium(name.removeprefix("gymnasium:"), **parameters)
    name = _without_version(name)
    check_known(name, _PROBLEMS, "problem")
    spec = _PROBLEMS[name]
    parameter_specs = {p.name: p for p in spec.parameters}
    for parameter in parameters:
        if parameter not in parameter_specs:
            advice = suggestion(parameter, parameter_specs)
            raise UnknownNameError(f"problem {name!r} has no parameter {parameter!r}; {advice}")
    values = {p.name: p.check(parameters.get(p.name, p.default)) for p in spec.parameters}
    recipe: Mapping[str, Any] = {"name": name, "parameters": values}
    return spec.build(**values)._replace(name=name, recipe=recipe)


def refuse_text(name: str, function: str) -> None:
    """An error for a text in place of the problem of `hf.explore`, `hf.compare` or `hf.explore_many`."""
    env_id = name.removeprefix("gymnasium:")
    nearest = closest(env_id, problems())
    if nearest is not None:
        build = f"hf.make({nearest!r})"
    elif function == "explore":
        build = f"gymnasium.make({env_id!r})"
    else:
        build = f"hf.make({f'gymnasium:{env_id}'!r}, horizon=100)"
    what = "a gymnasium.Env or a Problem" if function == "explore" else "a Problem"
    raise ShapeError(
        f"the problem is the text {short_repr(name)}; it must be {what}: hf.{function}({build}, ...)"
    )


def _without_version(name: Any) -> Any:
    """The name of a problem without its version, which must be the present one."""
    match = _VERSIONED.fullmatch(name) if isinstance(name, str) else None
    if match is None or match[1] not in _PROBLEMS:
        return name
    spec = _PROBLEMS[match[1]]
    if int(match[2]) != spec.version:
        raise UnknownNameError(
            f"there is no problem {name!r}; this version of the library has {spec.versioned_name!r}"
        )
    return match[1]


def check_at_least(name: str, value: float, low: float, reason: str) -> None:
    """A parameter that must not be smaller than others allow."""
    if not value >= low - LIMIT_TOLERANCE:
        text, limit = _distinct_texts(value, low)
        raise OptionError(f"{name} is {text}; it must be at least {limit}: {reason}")


def check_at_most(name: str, value: float, high: float, reason: str) -> None:
    """A parameter that must not be larger than others allow."""
    if not value <= high + LIMIT_TOLERANCE:
        text, limit = _distinct_texts(value, high)
        raise OptionError(f"{name} is {text}; it must be at most {limit}: {reason}")


def _distinct_texts(value: float, limit: float) -> tuple[str, str]:
    """Both with enough digits to differ; the limit as printed is within the range."""
    for digits in range(6, 18):
        text, limit_text = f"{value:.{digits}g}", f"{limit:.{digits}g}"
        if text != limit_text and (float(limit_text) - limit) * (limit - value) >= 0:
            break
    return text, limit_text
