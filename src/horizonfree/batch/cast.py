"""Who explores in a batch: every problem with every explorer and every seed."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from horizonfree._validation import check_floats, check_int, check_seed, short_repr
from horizonfree.errors import OptionError, ShapeError
from horizonfree.explorers.interface import Explorer
from horizonfree.models.interface import Model
from horizonfree.models.serialization import statics_of
from horizonfree.problems.problem import Problem
from horizonfree.runs.state import name_of

MOST_SEEDS = 10**7
ALMOST = 1e-9  # relative difference of numbers that is rounding


class Member(NamedTuple):
    """The places of a member's problem and explorer in the cast, and its seed."""

    problem: int
    explorer: int
    seed: int


@dataclass(frozen=True, eq=False)
class Cast:
    """Every problem with every explorer and every seed, in this order; seeds run fastest."""

    problems: tuple[Problem, ...]
    explorers: tuple[Explorer, ...]
    seeds: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many problems, explorers and seeds."""
        return len(self.problems), len(self.explorers), len(self.seeds)

    def __len__(self) -> int:
        return int(np.prod(self.shape))

    def __getitem__(self, i: int) -> Member:
        problem, explorer, seed = np.unravel_index(i, self.shape)
        return Member(int(problem), int(explorer), self.seeds[seed])


def gather(problems: tuple[Problem, ...], explorers: tuple[Explorer, ...], seeds: Any) -> Cast:
    """The cast, once all its problems are known to have one shape and a truth. seeds: how many, or which."""
    meaning = f"how many, from 1 to {MOST_SEEDS}, or a list of seeds"
    chosen = tuple(seeds if np.iterable(seeds) else range(check_int(seeds, "seeds", 1, MOST_SEEDS, meaning)))
    for seed in chosen:
        check_seed(seed)
    if not chosen:
        raise OptionError(f"seeds is {short_repr(seeds)}; it must be {meaning}")
    cast = Cast(problems, explorers, tuple(int(seed) for seed in chosen))
    for i, problem in enumerate(problems):
        problem.kernel()  # refuses a problem without truth
        _check_alike(problem.model, problems[0].model, i)
    return cast


def problems_of(problem: Problem | Sequence[Problem], truths: Any) -> tuple[Problem, ...]:
    """The problems given, or one problem with each of several truths (in the units in which truths are given)."""
    if not isinstance(problem, Problem):
        if truths is not None:
            raise OptionError("truths= belongs to one problem; these problems carry their own")
        listed = tuple(problem) if np.iterable(problem) else (problem,)
        if not listed or not all(isinstance(x, Problem) for x in listed):
            raise OptionError(
                f"problem is {short_repr(problem)}; it must be a Problem or a list of at least one"
            )
        return listed
    if truths is None:
        return (problem,)
    if not np.iterable(truths):
        raise OptionError(f"truths is {short_repr(truths)}; it must be a list of parameters")
    made = [
        Problem(
            problem.model, problem.model.parameter(given, f"truths[{i}]"), problem.name, None, problem.layout
        )
        for i, given in enumerate(truths)
    ]
    if not made:
        raise OptionError("truths is empty; give at least one")
    return tuple(made)


def explorers_of(explorer: Explorer, over: Any) -> tuple[Explorer, ...]:
    """The explorer, or one for each value of one of its numbers."""
    if over is None:
        return (explorer,)
    if not isinstance(over, Mapping) or len(over) != 1:
        raise OptionError(
            f"over is {short_repr(over)}; it must name one number of the explorer, as in {{'scale': [0.1, 1.0]}}"
        )
    ((name, values),) = over.items()
    known = [x.name for x in dataclasses.fields(explorer) if isinstance(getattr(explorer, x.name), float)]
    if name not in known:
        raise OptionError(
            f"over names {name!r}; the numbers of this explorer are {', '.join(known) or 'none'}"
        )
    chosen = check_floats(values, f"over[{name!r}]")
    if chosen.ndim != 1 or not chosen.size:
        raise OptionError(f"over[{name!r}] is {short_repr(values)}; it must be a list of at least one value")
    return tuple(dataclasses.replace(explorer, **{name: float(value)}) for value in chosen)


def _check_alike(model: Model, first: Model, i: int) -> None:
    """Refuse problem i if it is of another class or shape than problem 0."""
    advice = "the problems of a batch must be of one shape: explore them in separate batches"
    if type(model) is not type(first):
        raise ShapeError(
            f"problem {i} is a {type(model).__name__}, problem 0 a {type(first).__name__}; {advice}"
        )
    ours, theirs = _flat(statics_of(model)), _flat(statics_of(first))
    for name, x in ours.items():
        y = theirs[name]
        is_close = isinstance(x, float) and isinstance(y, float) and abs(x - y) <= ALMOST * abs(y)
        if x != y and not is_close:
            raise ShapeError(f"problem {i} has {name} {x}, problem 0 has {y}; {advice}")
    for (where, x), y in zip(jax.tree_util.tree_leaves_with_path(model), jax.tree.leaves(first)):
        if np.shape(x) != np.shape(y):
            raise ShapeError(
                f"{name_of(where)} of problem {i} has shape {np.shape(x)}, of problem 0 {np.shape(y)}; {advice}"
            )


def _flat(statics: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers inside modules inside, by their last name."""
    found: dict[str, Any] = {}
    for name, value in statics.items():
        found |= _flat(value) if isinstance(value, Mapping) else {name: value}
    return found
