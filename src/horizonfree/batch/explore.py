"""Explore many times at once, and look at every member as at an ordinary run."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from horizonfree._validation import check_bool, check_count, check_int, short_repr
from horizonfree._x64 import x64
from horizonfree.batch import cast as casting
from horizonfree.batch import chunks
from horizonfree.batch.cast import Cast
from horizonfree.batch.job import Job, Measure, judge, member, room
from horizonfree.batch.many import CURVES
from horizonfree.errors import OptionError
from horizonfree.explorers.interface import Explorer
from horizonfree.explorers.loop import Progress
from horizonfree.guarantees.bets import ladder
from horizonfree.models.serialization import under
from horizonfree.problems.problem import Problem
from horizonfree.runs import until as stopping
from horizonfree.runs.explore import build_explorer, check_reward_matters
from horizonfree.runs.meter import meter
from horizonfree.runs.run import Run
from horizonfree.runs.until import Until


@dataclass(frozen=True, eq=False)
class Batch:
    """Explorations of a cast of members. batch[i] is an ordinary run; member i has row i of every array.

    `records` [N, K] holds what the explorer reports after every episode, `curves` [N, C] what `explore_many` computed
    at the checkpoints. Both can be reshaped to (*batch.shape, -1): problems, explorers, seeds.
    """

    cast: Cast
    progress: Progress
    records: Mapping[str, np.ndarray]
    checkpoints: Int[np.ndarray, " C"]
    curves: Mapping[str, Float[np.ndarray, "N C"]]
    delta: float

    def __len__(self) -> int:
        return len(self.cast)

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many problems, explorers and seeds."""
        return self.cast.shape

    def __getitem__(self, i: int) -> Run:
        """Member i as a run: plan, certify, report, resume, save."""
        if not -len(self) <= i < len(self):
            raise IndexError(f"member {i} does not exist; members are 0 to {len(self) - 1}")
        i %= len(self)
        return member(self.cast, i, self.progress, self.records, i, self.delta)

    def __iter__(self) -> Iterator[Run]:
        return (self[i] for i in range(len(self)))


@x64
def explore_many(
    problem: Problem | Sequence[Problem],
    explorer: str | Explorer | None = None,
    *,
    episodes: int,
    seeds: int | Sequence[int],
    truths: Any = None,
    over: Mapping[str, Sequence[float]] | None = None,
    checkpoints: Sequence[int] = (),
    curves: Sequence[str] = CURVES,
    rewards: Any = None,
    measure: Measure | None = None,
    budget: int | None = None,
    delta: float = 0.05,
    reward: Any = None,
    memory: int | None = None,
    progress: bool | None = None,
    out: str | PathLike[str] | None = None,
    **options: Any,
) -> Batch:
    """Explore every problem with every explorer and every seed; each member has the numbers that `explore` gives it.

    problem: one problem with its truth, or several of one shape.
    explorer, budget, delta, reward, options: as for `explore`.
    seeds: how many (0, 1, 2, ...), or which.
    truths: parameters to be the truth of the problem, one after the other.
    over: one number of the explorer and its values, e.g. {"scale": [0.1, 1.0]}.
    checkpoints: numbers of episodes after which `curves` are computed: "gap" and "own_gap", the most that plans lose
        over `rewards` (by default, for every state, to be there at the end and to stay there), in the
        maximum-likelihood model and in the explorer's own; "eps", the uniform certificate, nan for kernels from
        samples, whose error batches cannot certify; "efficiency", K T / q; "excess", above 0 if the truth is outside
        the likelihood set.
    measure: a function of a run that gives numbers by name, asked of every member at every checkpoint; they join the
        curves. It is called on the host, for one member after the other.
    memory: bytes that a chunk of members may take on the device; by default half of what it has.
    out: a folder for the batch. Members are explored in chunks and each is stored when it is finished; the same call
        with the same folder goes on after an interruption, or reads what is there.
    """
    check_bool(progress, "progress")
    _, _, delta, budget, _ = stopping.check(episodes, None, delta, budget)
    episodes, problems = check_count(episodes, "episodes"), casting.problems_of(problem, truths)
    stopping.check_countable(episodes, problems[0].horizon)
    given = {"budget": budget or episodes, "delta": delta, "reward": reward}
    named = problems[0].model.explorer if explorer is None else explorer
    kind = build_explorer(named, problems[0], options, given)
    check_reward_matters(kind, reward)
    cast = casting.gather(problems, casting.explorers_of(kind, over), seeds)
    looks = _checkpoints(checkpoints, episodes)
    _check_measure(measure, out)
    what = judge(cast, looks, curves, rewards, delta)
    job = Job(
        cast,
        episodes,
        ladder(budget, problems[0].model.burn_in),
        looks,
        what,
        is_wide(),
        room(memory),
        measure,
    )
    N, parts = len(cast), []
    with _one_programme(over):
        size = job.fitting()
    with (
        chunks.opened(out, job.settings(), size, N) as store,
        meter(0, Until(0, N * episodes), progress) as show,
    ):

        def tell(done: int) -> None:
            show(done, {}, None)

        for first in range(0, N, store.size):
            arrays = store.load(first, job)
            if arrays is None:
                with _one_programme(over):
                    arrays = job.run(first, store.size, tell)
                store.save(first, arrays)
            parts.append(arrays)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    records, found = under(joined, "records."), under(joined, "curves.")
    if "eps" in found and any(x.sampling is not None for x in problems):
        found["eps"] = np.full_like(found["eps"], np.nan)
    return Batch(cast, job.progress(joined), records, looks, found, delta)


def is_wide() -> bool:
    """Which arrangement suits the device (batch/many.py)."""
    return jax.default_backend() != "cpu"


@contextmanager
def _one_programme(over: Mapping[str, Any] | None) -> Iterator[None]:
    """Refuse to vary a number that decides which programme is compiled."""
    try:
        yield
    except jax.errors.ConcretizationTypeError as error:
        if over is None:
            raise
        raise OptionError(
            f"{next(iter(over))!r} decides which programme is compiled, so it cannot vary within a batch; "
            "explore one batch for each value"
        ) from error


def _check_measure(measure: Any, out: Any) -> None:
    if measure is not None and not callable(measure):
        raise OptionError(
            f"measure is {short_repr(measure)}; it must be a function of a run that gives numbers by name"
        )
    if measure is not None and out is not None:
        raise OptionError(
            "what measure says cannot be checked when it is read from a folder; leave out= or measure= out"
        )


def _checkpoints(checkpoints: Any, episodes: int) -> Int[np.ndarray, " C"]:
    if not np.iterable(checkpoints) or isinstance(checkpoints, str):
        raise OptionError(
            f"checkpoints is {short_repr(checkpoints)}; it must be a list of numbers of episodes"
        )
    listed = list(checkpoints)
    for k in listed:
        check_int(k, "checkpoint", 1, episodes, f"a number of episodes from 1 to {episodes}")
    return np.unique(np.asarray(listed, np.int64))
