"""The members of a batch: every problem with every explorer and every seed."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from horizonfree._validation import check_floats, check_int, check_seed, require
from horizonfree.errors import OptionError, ShapeError
from horizonfree.explorers.base import Explorer
from horizonfree.models.base import Model
from horizonfree.models.serialization import statics_of
from horizonfree.problems.problem import Problem
from horizonfree.problems.registry import refuse_text
from horizonfree.runs.state import path_name

MAX_SEEDS = 10**7
RELATIVE_TOLERANCE = 1e-9  # smaller relative differences of static numbers are rounding


class Member(NamedTuple):
    """The indices of a member's problem and explorer, and its seed."""

    problem: int
    explorer: int
    seed: int


@dataclass(frozen=True, eq=False)
class Members:
    """Every problem with every explorer and every seed, in this order; seeds vary fastest."""

    problems: tuple[Problem, ...]
    explorers: tuple[Explorer, ...]
    seeds: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of problems, explorers and seeds."""
        return len(self.problems), len(self.explorers), len(self.seeds)

    def __len__(self) -> int:
        return int(np.prod(self.shape))

    def __getitem__(self, i: int) -> Member:
        problem, explorer, seed = np.unravel_index(i, self.shape)
        return Member(int(problem), int(explorer), self.seeds[seed])


def build_members(problems: tuple[Problem, ...], explorers: tuple[Explorer, ...], seeds: Any) -> Members:
    """The members; every problem must have a truth and the shape of the first. seeds: a number or a list."""
    meaning = f"how many, from 1 to {MAX_SEEDS}, or a list of seeds"
    seed_tuple = tuple(
        seeds if np.iterable(seeds) else range(check_int(seeds, "seeds", 1, MAX_SEEDS, meaning))
    )
    for seed in seed_tuple:
        check_seed(seed)
    require(seed_tuple, "seeds", seeds, meaning)
    for i, problem in enumerate(problems):
        problem.kernel()  # raises for a problem without truth
        _check_same_shape(problem.model, problems[0].model, i)
    return Members(problems, explorers, tuple(int(seed) for seed in seed_tuple))


def resolve_problems(problem: Problem | Sequence[Problem], truths: Any) -> tuple[Problem, ...]:
    """The problems of the arguments `problem` and `truths` of `explore_many`."""
    if isinstance(problem, str):
        refuse_text(problem, "explore_many")
    if not isinstance(problem, Problem):
        if truths is not None:
            raise OptionError("truths= needs a single problem; problems of a list have their own truths")
        problems = tuple(problem) if np.iterable(problem) else (problem,)
        require(
            problems and all(isinstance(x, Problem) for x in problems),
            "problem",
            problem,
            "a Problem or a list of at least one",
        )
        return problems
    if truths is None:
        return (problem,)
    require(np.iterable(truths), "truths", truths, "a list of parameters")
    model = problem.model
    parameters = [model.parameter(truth, f"truths[{i}]") for i, truth in enumerate(truths)]
    require(parameters, "truths", truths, "a list of at least one parameter")
    return tuple(Problem(model, x, problem.name, None, problem.layout) for x in parameters)


def resolve_explorers(explorer: Explorer, over: Any) -> tuple[Explorer, ...]:
    """The explorer, or one for each value of one of its numeric options."""
    if over is None:
        return (explorer,)
    is_one = isinstance(over, Mapping) and len(over) == 1
    require(is_one, "over", over, "a dictionary of one number of the explorer, as in {'scale': [0.1, 1.0]}")
    ((name, values),) = over.items()
    float_names = [
        x.name for x in dataclasses.fields(explorer) if isinstance(getattr(explorer, x.name), float)
    ]
    if name not in float_names:
        raise OptionError(
            f"over names {name!r}; the numbers of this explorer are {', '.join(float_names) or 'none'}"
        )
    numbers = check_floats(values, f"over[{name!r}]")
    require(numbers.ndim == 1 and numbers.size, f"over[{name!r}]", values, "a list of at least one value")
    return tuple(dataclasses.replace(explorer, **{name: float(value)}) for value in numbers)


def _check_same_shape(model: Model, first: Model, i: int) -> None:
    """Raise if problem i has another class or shape than problem 0."""
    advice = "the problems of a batch must have one shape: explore them in separate batches"
    if type(model) is not type(first):
        raise ShapeError(
            f"problem {i} is a {type(model).__name__}, problem 0 a {type(first).__name__}; {advice}"
        )
    expected = _flatten(statics_of(first))
    for name, x in _flatten(statics_of(model)).items():
        y = expected[name]
        is_close = isinstance(x, float) and isinstance(y, float) and abs(x - y) <= RELATIVE_TOLERANCE * abs(y)
        if x != y and not is_close:
            raise ShapeError(f"problem {i} has {name} {x}, problem 0 has {y}; {advice}")
    for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(model), jax.tree.leaves(first)):
        if np.shape(x) != np.shape(y):
            raise ShapeError(
                f"{path_name(path)} of problem {i} has shape {np.shape(x)}, of problem 0 {np.shape(y)}; {advice}"
            )


def _flatten(statics: Mapping[str, Any]) -> dict[str, Any]:
    """Values of nested mappings by their innermost names."""
    flat: dict[str, Any] = {}
    for name, value in statics.items():
        flat |= _flatten(value) if isinstance(value, Mapping) else {name: value}
    return flat
