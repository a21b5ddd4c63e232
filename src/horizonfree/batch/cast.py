"""Who explores in a batch: every problem with every explorer and every seed."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from horizonfree import features
from horizonfree.checks import check_seed, numbers, whole
from horizonfree.errors import OptionError, ShapeError
from horizonfree.explorers._api import Explorer
from horizonfree.mixture import Known, Mixture, true_parameter
from horizonfree.valid import ValidSet, valid_set

STATIC = ("horizon", "start", "is_dense")  # what the known classes of a batch must share exactly
MOST_SEEDS = 10**7
ALMOST = 1e-9  # relative difference of bounds B that is rounding


class Member(NamedTuple):
    """The places of a member's problem and explorer in the cast, and its seed."""

    problem: int
    explorer: int
    seed: int


@dataclass(frozen=True, eq=False)
class Cast:
    """Every problem with every explorer and every seed, in this order; seeds run fastest."""

    problems: tuple[Mixture, ...]
    valids: tuple[ValidSet, ...]
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


def gather(problems: tuple[Mixture, ...], explorers: tuple[Explorer, ...], seeds: Any) -> Cast:
    """The cast, once all its problems are known to have one shape and a truth. seeds: how many, or which."""
    meaning = f"how many, from 1 to {MOST_SEEDS}, or a list of seeds"
    chosen = tuple(seeds if np.iterable(seeds) else range(whole(seeds, "seeds", 1, MOST_SEEDS, meaning)))
    for seed in chosen:
        check_seed(seed)
    if not chosen:
        raise OptionError(f"seeds is {seeds!r}; it must be {meaning}")
    distinct = {id(problem.known): valid_set(problem.known) for problem in problems}
    cast = Cast(
        problems,
        tuple(distinct[id(problem.known)] for problem in problems),
        explorers,
        tuple(int(seed) for seed in chosen),
    )
    for i, (problem, valid) in enumerate(zip(cast.problems, cast.valids)):
        problem.kernel()  # refuses a problem without truth
        _check_alike((problem.known, valid), (problems[0].known, cast.valids[0]), i)
    return cast


def problems_of(problem: Mixture | Sequence[Mixture], truths: Any) -> tuple[Mixture, ...]:
    """The problems given, or one problem with each of several truths (in the units in which truths are given)."""
    if not isinstance(problem, Mixture):
        if truths is not None:
            raise OptionError("truths= belongs to one problem; these problems carry their own")
        if not len(problem):
            raise OptionError("the list of problems is empty; give at least one")
        return tuple(problem)
    if truths is None:
        return (problem,)
    known, made = problem.known, []
    for i, given in enumerate(truths):
        truth = true_parameter(known, features.vector(given, known.dim, f"truths[{i}]"), f"truths[{i}]")
        made.append(Mixture(known, truth, problem.name, None, problem.layout))
    if not made:
        raise OptionError("truths is empty; give at least one")
    return tuple(made)


def explorers_of(explorer: Explorer, over: Mapping[str, Sequence[float]] | None) -> tuple[Explorer, ...]:
    """The explorer, or one for each value of one of its numbers."""
    if over is None:
        return (explorer,)
    if len(over) != 1:
        raise OptionError(f"over names {sorted(over)}; it must name one number of the explorer")
    ((name, values),) = over.items()
    known = [x.name for x in dataclasses.fields(explorer) if isinstance(getattr(explorer, x.name), float)]
    if name not in known:
        raise OptionError(
            f"over names {name!r}; the numbers of this explorer are {', '.join(known) or 'none'}"
        )
    chosen = numbers(values, f"over[{name!r}]")
    if chosen.ndim != 1 or not chosen.size:
        raise OptionError(f"over[{name!r}] is {values!r}; it must be a list of at least one value")
    return tuple(dataclasses.replace(explorer, **{name: float(value)}) for value in chosen)


def _check_alike(pair: tuple[Known, ValidSet], first: tuple[Known, ValidSet], i: int) -> None:
    """Refuse problem i if its arrays do not have the shapes of problem 0."""
    known, zero = pair[0], first[0]
    for name in STATIC:
        if getattr(known, name) != getattr(zero, name):
            raise ShapeError(
                f"problem {i} has {name} {getattr(known, name)}, problem 0 has {getattr(zero, name)}; "
                "the problems of a batch must be of one shape: explore them in separate batches"
            )
    if abs(known.bound - zero.bound) > ALMOST * zero.bound:
        raise ShapeError(
            f"problem {i} has B = {known.bound:.6g} after normalisation, problem 0 has {zero.bound:.6g}; "
            "the problems of a batch must share it: explore them in separate batches"
        )
    for (where, x), y in zip(jax.tree_util.tree_leaves_with_path(pair), jax.tree.leaves(first)):
        if np.shape(x) != np.shape(y):
            name = jax.tree_util.keystr(where[1:], simple=True)
            raise ShapeError(
                f"{name} of problem {i} has shape {np.shape(x)}, of problem 0 {np.shape(y)}; "
                "the problems of a batch must be of one shape: explore them in separate batches"
            )
