"""Explore many times at once; every member of the result is an ordinary run."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from horizonfree._validation import check_bool, check_count, check_int, require
from horizonfree._x64 import x64
from horizonfree.batch.chunks import open_store
from horizonfree.batch.evaluate import CURVES, build_evaluation, worker_pool
from horizonfree.batch.job import Job, Measure, chunk_memory, member_run
from horizonfree.batch.members import Members, build_members, resolve_explorers, resolve_problems
from horizonfree.errors import OptionError
from horizonfree.explorers.base import Explorer
from horizonfree.explorers.loop import Progress
from horizonfree.explorers.python import PythonExplorer
from horizonfree.guarantees.e_processes import ladder
from horizonfree.models.serialization import under
from horizonfree.problems.problem import Problem
from horizonfree.runs import until as stopping
from horizonfree.runs.explore import build_explorer, check_reward_matters
from horizonfree.runs.meter import progress_meter
from horizonfree.runs.run import Run
from horizonfree.runs.until import StopRule


@dataclass(frozen=True, eq=False)
class Batch:
    """Explorations of several members. batch[i] is an ordinary run; member i has row i of every array.

    `records` [N, K] has what the explorer reports after every episode, `curves` [N, C] what `explore_many` computes at
    the checkpoints. Both can be reshaped to (*batch.shape, -1): problems, explorers, seeds.

    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> batch = hf.explore_many(problem, "uniform", episodes=10, seeds=2, curves=())
    >>> len(batch), batch[1].episodes
    (2, 10)
    """

    members: Members
    progress: Progress
    records: Mapping[str, np.ndarray]
    checkpoints: Int[np.ndarray, " C"]
    curves: Mapping[str, Float[np.ndarray, "N C"]]
    delta: float

    def __len__(self) -> int:
        return len(self.members)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of problems, explorers and seeds."""
        return self.members.shape

    def __getitem__(self, i: int) -> Run:
        """Member i as a run: plan, certify, report, resume, save."""
        if not -len(self) <= i < len(self):
            raise IndexError(f"member {i} does not exist; members are 0 to {len(self) - 1}")
        return member_run(self.members, i % len(self), self.progress, self.records, i % len(self), self.delta)

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
    workers: int = 1,
    **options: Any,
) -> Batch:
    """Explore every problem with every explorer and every seed; each member has the numbers that `explore` gives it.

    problem: one problem with its truth, or several of one shape.
    explorer, budget, delta, reward, options: as for `explore`.
    seeds: how many (0, 1, 2, ...), or a list.
    truths: parameters, each of them the truth of one copy of the problem.
    over: one numeric option of the explorer and its values, e.g. {"scale": [0.1, 1.0]}.
    checkpoints: numbers of episodes after which `curves` are computed: "gap" and "own_gap", the largest suboptimality
        of plans over `rewards` (by default, for every state, to be there at the end and to stay there), in the
        maximum-likelihood model and in the explorer's own; "eps", the uniform certificate, nan for kernels from
        samples, whose error batches cannot certify; "efficiency", K T / q; "excess", above 0 if the truth is outside
        the likelihood set.
    measure: a function of a run that returns numbers by name. It is called on the host for every member at every
        checkpoint; its numbers join the curves.
    memory: bytes that a chunk of members may take on the device; by default half of the device's memory.
    out: a folder for the batch. Members are explored in chunks, and each chunk is stored when it is finished; the same
        call with the same folder resumes after an interruption, or reads the stored result.
    workers: processes that compute the certificates of the curves. With more than 1, a script must call this function
        under `if __name__ == "__main__":`, since every worker imports the script.

    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> batch = hf.explore_many(problem, "uniform", episodes=20, seeds=3, checkpoints=[10, 20], curves=["eps"])
    >>> batch.curves["eps"].shape
    (3, 2)
    """
    check_bool(progress, "progress")
    _, _, delta, budget, _ = stopping.check_stop_request(episodes, None, delta, budget)
    episodes, problems = check_count(episodes, "episodes"), resolve_problems(problem, truths)
    stopping.check_countable(episodes, problems[0].horizon)
    arguments = {"budget": budget or episodes, "delta": delta, "reward": reward}
    choice = problems[0].model.explorer if explorer is None else explorer
    built = build_explorer(choice, problems[0], options, arguments)
    check_reward_matters(built, reward)
    members = build_members(problems, resolve_explorers(built, over), seeds)
    points = _check_checkpoints(checkpoints, episodes)
    _check_measure(measure, out)
    evaluation = build_evaluation(members, points, curves, rewards, delta)
    bets = ladder(budget, problems[0].model.burn_in)
    job = Job(members, episodes, bets, points, evaluation, is_wide(built), chunk_memory(memory), measure)
    N, parts = len(members), []
    with _single_program(over):
        size = job.chunk_size()
    with (
        open_store(out, job.settings(), size, N) as store,
        progress_meter(0, StopRule(0, N * episodes), progress) as show,
        worker_pool(check_count(workers, "workers")) as pool,
    ):
        for first in range(0, N, store.size):
            arrays = store.load(first, job)
            if arrays is None:
                with _single_program(over):
                    arrays = job.run(first, store.size, lambda done: show(done, {}, None), pool)
                store.save(first, arrays)
            parts.append(arrays)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    records, values = under(joined, "records."), under(joined, "curves.")
    if "eps" in values and any(x.sampling is not None for x in problems):
        values["eps"] = np.full_like(values["eps"], np.nan)
    return Batch(members, job.progress(joined), records, points, values, delta)


def is_wide(explorer: Explorer) -> bool:
    """The arrangement for the default device (batch/simulate.py); explorers in plain Python have none."""
    return jax.default_backend() != "cpu" and not isinstance(explorer, PythonExplorer)


@contextmanager
def _single_program(over: Mapping[str, Any] | None) -> Iterator[None]:
    """Raise an explanatory error if the option in `over` decides which program is compiled."""
    try:
        yield
    except jax.errors.ConcretizationTypeError as error:
        if over is None:
            raise
        raise OptionError(
            f"{next(iter(over))!r} decides which program is compiled, so it cannot vary within a batch; explore one "
            "batch for each value"
        ) from error


def _check_measure(measure: Any, out: Any) -> None:
    require(
        measure is None or callable(measure),
        "measure",
        measure,
        "a function of a run that returns numbers by name",
    )
    if measure is not None and out is not None:
        raise OptionError(
            "numbers of measure= cannot be checked when they are read from a folder; leave out= or measure= out"
        )


def _check_checkpoints(checkpoints: Any, episodes: int) -> Int[np.ndarray, " C"]:
    require(
        np.iterable(checkpoints) and not isinstance(checkpoints, str),
        "checkpoints",
        checkpoints,
        "a list of numbers of episodes",
    )
    for k in (entries := list(checkpoints)):
        check_int(k, "checkpoint", 1, episodes, f"a number of episodes from 1 to {episodes}")
    return np.unique(np.asarray(entries, np.int64))
