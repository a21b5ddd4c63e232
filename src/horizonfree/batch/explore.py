"""Explore many times at once; every member of the result is an ordinary run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from horizonfree._extras import import_optional
from horizonfree._plots import CURVE_TITLES, LOSS_TOLERANCE, draw_bands, new_axes
from horizonfree._validation import check_bool, check_count, check_int, check_known, require
from horizonfree._x64 import x64
from horizonfree.batch.chunks import open_store
from horizonfree.batch.evaluate import CURVES, build_evaluation, worker_pool
from horizonfree.batch.job import Job, Measure, chunk_memory, member_run
from horizonfree.batch.members import Members, build_members, resolve_explorers, resolve_problems
from horizonfree.errors import OptionError
from horizonfree.explorers.base import Explorer
from horizonfree.explorers.loop import Progress
from horizonfree.explorers.python import PythonExplorer
from horizonfree.explorers.registry import describe
from horizonfree.guarantees.e_processes import ladder
from horizonfree.models.serialization import under
from horizonfree.problems.problem import Problem
from horizonfree.runs import until as stopping
from horizonfree.runs.explore import build_explorer, check_reward_matters
from horizonfree.runs.meter import progress_meter
from horizonfree.runs.run import Run
from horizonfree.runs.until import StopRule

DEFAULT_CHECKPOINTS = 8


@dataclass(frozen=True, eq=False, repr=False)
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

    def __repr__(self) -> str:
        problems, explorers, seeds = self.shape
        sizes = [f"{problems} problems"] * (problems > 1) + [f"{explorers} explorers"] * (explorers > 1)
        lines = [f"Batch of {len(self):,} runs: {', '.join([*sizes, f'{seeds:,} seeds'])}"]
        lines += [f"  explorer   {self.explorer_name(0)}"] if explorers == 1 else []
        lines.append(f"  records    {', '.join(self.records) or 'none'}")
        if len(self.checkpoints):
            last = {name: float(np.median(x[:, -1])) for name, x in self.curves.items()}
            names = ", ".join(f"{x} {y if abs(y) > LOSS_TOLERANCE else 0:.4g}" for x, y in last.items())
            lines.append(f"  medians    {names}, after {self.checkpoints[-1]:,} episodes")
        lines.append("  next       batch[0], batch.plot('eps'), batch.to_xarray()")
        return "\n".join(lines)

    def explorer_name(self, index: int) -> str:
        """The name of an explorer, with the option that varies."""
        name, options = describe(self.members.explorers[index])
        if len(self.members.explorers) == 1:
            return name
        first = describe(self.members.explorers[0])[1]
        last = describe(self.members.explorers[-1])[1]
        varied = [x for x in options if not np.array_equal(first[x], last[x])]
        return f"{name} {', '.join(f'{x}={options[x]:g}' for x in varied)}"

    def plot(self, curve: str = "eps", ax: Any = None) -> Any:
        """A curve against episodes, on Matplotlib axes: medians and quartiles over the seeds."""
        check_known(curve, self.curves, "curve of this batch")
        ax = new_axes() if ax is None else ax
        problems, explorers, _ = self.shape
        values = np.asarray(self.curves[curve]).reshape(problems, explorers, -1, len(self.checkpoints))
        lines = {}
        for p, e in np.ndindex(problems, explorers):
            label = " ".join(
                filter(None, [*([f"problem {p}"] if problems > 1 else []), self.explorer_name(e)])
            )
            lines[label] = {int(k): values[p, e, :, c] for c, k in enumerate(self.checkpoints)}
        draw_bands(ax, lines, {})
        ax.set(title=CURVE_TITLES.get(curve, curve), xlabel="episodes", ylabel=curve)
        if len(lines) > 1:
            ax.legend(fontsize=8, frameon=False)
        return ax

    def to_xarray(self) -> Any:
        """Curves and records as an xarray.Dataset with the axes problem, explorer, seed, checkpoint and episode."""
        xarray = import_optional("xarray")
        explorers = [self.explorer_name(i) for i in range(self.shape[1])]
        axes = ("problem", "explorer", "seed")
        coordinates: dict[str, Any] = {
            "problem": np.arange(self.shape[0]),
            "explorer": explorers,
            "seed": list(self.members.seeds),
            "checkpoint": self.checkpoints,
            "episode": np.arange(1, int(np.max(np.asarray(self.progress.episode))) + 1),
        }
        variables: dict[str, Any] = {
            name: ((*axes, "checkpoint"), np.asarray(x).reshape(*self.shape, -1))
            for name, x in self.curves.items()
        }
        for name, x in self.records.items():
            key = f"record_{name}" if name in variables else name
            variables[key] = ((*axes, "episode"), np.asarray(x).reshape(*self.shape, -1))
        return xarray.Dataset(variables, coords=coordinates)


@x64
def explore_many(
    problem: Problem | Sequence[Problem],
    explorer: str | Explorer | None = None,
    *,
    episodes: int,
    seeds: int | Sequence[int],
    truths: Any = None,
    over: Mapping[str, Sequence[float]] | None = None,
    checkpoints: Sequence[int] | None = None,
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
    checkpoints: numbers of episodes after which `curves` are computed, by default eight, evenly spaced; [] for none:
        "gap" and "own_gap", the largest suboptimality
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
    _check_measure(measure, out)
    settings: dict[str, Any] = {"truths": truths, "over": over, "checkpoints": checkpoints, "curves": curves}
    settings |= {"rewards": rewards, "measure": measure, "budget": budget, "delta": delta, "reward": reward}
    job = prepare(problem, explorer, episodes=episodes, seeds=seeds, memory=memory, **settings, **options)
    with progress_meter(0, StopRule(0, len(job.members) * job.episodes), progress) as show:
        return run_job(job, lambda done: show(done, {}, None), out=out, workers=workers, over=over)


def prepare(
    problem: Problem | Sequence[Problem],
    explorer: str | Explorer | None,
    *,
    episodes: int,
    seeds: int | Sequence[int],
    truths: Any = None,
    over: Mapping[str, Sequence[float]] | None = None,
    checkpoints: Sequence[int] | None = None,
    curves: Sequence[str] = CURVES,
    rewards: Any = None,
    measure: Measure | None = None,
    budget: int | None = None,
    delta: float = 0.05,
    reward: Any = None,
    memory: int | None = None,
    **options: Any,
) -> Job:
    """Everything that `explore_many` needs, after all checks and before the first episode."""
    _, _, delta, budget, _ = stopping.check_stop_request(episodes, None, delta, budget)
    episodes, problems = check_count(episodes, "episodes"), resolve_problems(problem, truths)
    stopping.check_countable(episodes, problems[0].horizon)
    arguments = {"budget": budget or episodes, "delta": delta, "reward": reward}
    choice = problems[0].model.explorer if explorer is None else explorer
    instance = build_explorer(choice, problems[0], options, arguments)
    check_reward_matters(instance, reward)
    members = build_members(problems, resolve_explorers(instance, over), seeds)
    points = _check_checkpoints(
        default_checkpoints(episodes) if checkpoints is None else checkpoints, episodes
    )
    evaluation = build_evaluation(members, points, curves, rewards, delta)
    bets = ladder(budget, problems[0].model.burn_in)
    return Job(members, episodes, bets, points, evaluation, is_wide(instance), chunk_memory(memory), measure)


def run_job(
    job: Job,
    show: Callable[[int], None],
    *,
    out: str | PathLike[str] | None = None,
    workers: int = 1,
    over: Mapping[str, Sequence[float]] | None = None,
) -> Batch:
    """Explore all members; `show` receives the number of episodes that are done, of all members together."""
    N, parts = len(job.members), []
    with _single_program(over):
        size = job.chunk_size()
    with (
        open_store(out, job.settings(), size, N) as store,
        worker_pool(check_count(workers, "workers")) as pool,
    ):
        for first in range(0, N, store.size):
            arrays = store.load(first, job)
            if arrays is None:
                with _single_program(over):
                    arrays = job.run(first, store.size, show, pool)
                store.save(first, arrays)
            parts.append(arrays)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    records, values = under(joined, "records."), under(joined, "curves.")
    if "eps" in values and any(x.sampling is not None for x in job.members.problems):
        values["eps"] = np.full_like(values["eps"], np.nan)
    delta = job.evaluation.delta
    return Batch(job.members, job.progress(joined), records, job.checkpoints, values, delta)


def default_checkpoints(episodes: int) -> list[int]:
    """Eight checkpoints, evenly spaced."""
    return sorted({max(1, episodes * i // DEFAULT_CHECKPOINTS) for i in range(1, DEFAULT_CHECKPOINTS + 1)})


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
