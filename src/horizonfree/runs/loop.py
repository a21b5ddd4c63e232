"""The loop of an exploration: blocks of episodes, checkpoints, certificates, and when to stop.

An engine makes the next episodes: compiled blocks of a problem that simulates itself, or steps of a real environment.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from horizonfree._arrays import Array
from horizonfree._jit import jit
from horizonfree._x64 import to_device, to_numpy
from horizonfree.errors import ModelError, RunError, TargetWarning
from horizonfree.explorers.base import Explorer
from horizonfree.explorers.loop import (
    Progress,
    Records,
    choose_policy,
    episode_keys,
    simulate_block,
    update_progress,
)
from horizonfree.explorers.python import (
    PythonExplorer,
    choose_python,
    simulate_python,
    simulate_several,
    update_python,
)
from horizonfree.guarantees.certificate import round_up
from horizonfree.mdp.space import UNSEEN, Kernel, Trajectory
from horizonfree.models.base import Evidence, Model
from horizonfree.planning.traced import Sampler
from horizonfree.problems.gymnasium.live import (
    Attempt,
    attempt,
    check_endings,
    check_env_matches,
    check_is_env,
    encode_for,
    endings_in,
)
from horizonfree.runs.meter import progress_meter
from horizonfree.runs.observed import ObservedReward, over_states
from horizonfree.runs.run import Run
from horizonfree.runs.state import ENDED_IN
from horizonfree.runs.storage import checkpoint_writer
from horizonfree.runs.until import MAX_EPISODES, StopRule

MAX_BLOCK = 256  # episodes of one compiled call
BLOCK_SECONDS = 0.25  # target duration of a block
SAVE_SECONDS = 10.0  # default time between checkpoints
SHARPEN_BELOW = 1.4  # times until_eps: below it the sharpest certificate is computed
NO_END = -1

# (progress, number of episodes) -> progress after them, their records, and the error that stopped the block early
Engine = Callable[[Progress, int], tuple[Progress, Records, BaseException | None]]
Callback = Callable[[int, Mapping[str, float]], object]


@dataclass(frozen=True)
class CheckpointSchedule:
    """A checkpoint is written after this many episodes or seconds, whichever comes first."""

    episodes: int = MAX_EPISODES
    seconds: float = SAVE_SECONDS


def run_loop(
    run: Run,
    until: StopRule,
    engine: Engine,
    schedule: CheckpointSchedule,
    progress: bool | None,
    callback: Callback | None = None,
    recorder: "RewardRecorder | None" = None,
) -> Run:
    """Explore until the stop rule says so. After an interruption all finished episodes are saved.

    callback: called after each block with the number of episodes and the records of the last one.
    """
    growing, sizer = _GrowingRun(run, recorder), BlockSizer()
    with checkpoint_writer(run) as write, progress_meter(run.episodes, until, progress) as show:
        saver = _Saver(write, schedule, run.episodes)
        try:
            while True:
                k = growing.episodes
                eps = _certified(growing.run(), until) if until.is_look(k) else None
                show(k, growing.last_records, eps)
                if callback is not None and k > run.episodes:
                    callback(k, _last_numbers(growing.last_records, eps))
                if until.is_reached(k, eps):
                    _warn_if_missed(until, eps)
                    break
                saver.save_if_due(growing)
                count = min(sizer.count, until.next_look(k + 1) - k, saver.next_due - k)
                start = time.perf_counter()
                error = growing.grow(engine, count)
                if error is not None:
                    raise error
                sizer.update(count, time.perf_counter() - start)
        finally:
            saver.save(growing)
    return growing.run()


def _warn_if_missed(until: StopRule, eps: float | None) -> None:
    """A warning where the last episode came before the certificate."""
    if until.until_eps is None or eps is None or eps <= until.until_eps:
        return
    warnings.warn(
        TargetWarning(
            f"until_eps={until.until_eps:g} is not reached: {until.last:,} episodes certify {round_up(eps):.3g}; go on "
            f"with run.resume(until_eps={until.until_eps:g}), or at the shell with --resume"
        ),
        stacklevel=5,
    )


def _last_numbers(records: Mapping[str, np.ndarray], eps: float | None) -> dict[str, float]:
    """The records of the last episode, and the certified bound where one was computed."""
    numbers = {name: float(x[-1]) for name, x in records.items()}
    return numbers if eps is None else numbers | {"eps": eps}


class BlockSizer:
    """The number of episodes in a block: 1 at first, then about BLOCK_SECONDS' worth."""

    def __init__(self) -> None:
        self.count = 1

    def update(self, count: int, seconds: float) -> None:
        """Take account of a block's duration."""
        self.count = int(np.clip(BLOCK_SECONDS * count / max(seconds, 1e-6 * count), 1, MAX_BLOCK))


class _GrowingRun:
    """A run and its new episodes. Progress and records are replaced in one assignment, safe against interruptions."""

    def __init__(self, run: Run, recorder: "RewardRecorder | None") -> None:
        self._run, self._recorder = run, recorder
        self._now: tuple[Progress, list[Mapping[str, np.ndarray]]]
        self._now = to_device(run.progress), [run.records] if run.records else []

    @property
    def episodes(self) -> int:
        return int(self._now[0].episode)

    @property
    def last_records(self) -> Mapping[str, np.ndarray]:
        """The records of the last block."""
        return self._now[1][-1] if self._now[1] else {}

    def grow(self, engine: Engine, count: int) -> BaseException | None:
        """Add episodes; returns the error that stopped the engine early, if any."""
        progress, numbers, error = engine(self._now[0], count)
        records = {name: np.asarray(x)[:count] for name, x in numbers.items()}
        self._now = progress, [*self._now[1], records]
        return error

    def run(self) -> Run:
        """The run as it is now."""
        progress, records = self._now
        if any(x.keys() != records[0].keys() for x in records):
            raise RunError(
                f"the explorer now reports {sorted(records[-1])}, but the run so far has {sorted(records[0])}; "
                "go on with the version of the library that began it"
            )
        names = records[0] if records else ()
        joined = {name: np.concatenate([x[name] for x in records]) for name in names}
        arrays = to_numpy(progress)
        rewards = self._run.rewards if self._recorder is None else self._recorder.rewards
        return replace(
            self._run, evidence=arrays.evidence, state=arrays.state, records=joined, rewards=rewards
        )


class _Saver:
    """Writes a checkpoint when one is due."""

    def __init__(self, write: Callable[[Run], None], schedule: CheckpointSchedule, episodes: int) -> None:
        self._write, self._schedule = write, schedule
        self._saved, self._clock = episodes, time.perf_counter()

    @property
    def next_due(self) -> int:
        """The episode at which the next checkpoint is due at the latest."""
        return self._saved + self._schedule.episodes

    def save_if_due(self, growing: _GrowingRun) -> None:
        if growing.episodes >= self.next_due or time.perf_counter() - self._clock >= self._schedule.seconds:
            self._write(growing.run())
            self._saved, self._clock = growing.episodes, time.perf_counter()

    def save(self, growing: _GrowingRun) -> None:
        """Write what is not yet written."""
        if growing.episodes > self._saved:
            self._write(growing.run())


def _certified(run: Run, until: StopRule) -> float:
    """The certified bound that decides on stopping: for every reward, or the largest for the given ones."""
    misspecification = until.misspecification
    if until.targets is not None:
        options: dict[str, Any] = {"delta": until.delta, "misspecification": misspecification}
        return max(run.plan(table, **options).certificate.eps for table in until.targets)
    uniform = run.certificate(until.delta, method="uniform", misspecification=misspecification)
    eps, target = uniform.eps, until.until_eps or 0.0
    is_near = target < eps < SHARPEN_BELOW * target
    return run.certificate(until.delta, misspecification=misspecification).eps if is_near else eps


# ---- engines ---------------------------------------------------------------------------------------------------------

_Setup = tuple[Explorer, Model, Sampler, Any, Array, Array, Any]  # with truth, key, episode and state


@jit
def _learn(
    explorer: Explorer, model: Model, progress: Progress, trajectory: Trajectory
) -> tuple[Progress, Records]:
    """`update_progress` without a truth."""
    return update_progress(explorer, model, None, progress, trajectory)


@jit
def _choose(explorer: Explorer, model: Model, key: Array, progress: Progress) -> Progress:
    """`choose` with the key of the run; the key of the episode is computed in the same call."""
    return choose_policy(explorer, model, episode_keys(key, progress)[0], progress)


@partial(jit, donate=True, fast_compile=True)
def _block(setup: _Setup, evidence: Evidence, count: Int[Array, ""], size: int) -> tuple[Progress, Records]:
    """`simulate_block` with donated evidence."""
    explorer, model, sampler, truth, key, episode, state = setup
    progress = Progress(episode, state, evidence)
    return simulate_block(explorer, model, sampler, truth, key, progress, count, size)


def copy_evidence(progress: Progress) -> Progress:
    """A copy of the evidence, to be donated: the caller may still use the original."""
    return Progress(progress.episode, progress.state, jax.device_put(progress.evidence, may_alias=False))


@jit
def _sampler(kernel: Kernel) -> Sampler:
    """One compiled call: otherwise each operation would be compiled, or loaded, by itself."""
    return Sampler.of(kernel)


@jit
def _key(seed: Int[Array, ""]) -> Array:
    return jax.random.key(seed)


def run_block(
    explorer: Explorer,
    model: Model,
    sampler: Sampler,
    truth: Any,
    key: Array,
    progress: Progress,
    count: int,
) -> tuple[Progress, Records]:
    """At most MAX_BLOCK episodes as one compiled call (explorers/loop.py), which donates the evidence."""
    setup = explorer, model, sampler, truth, key, progress.episode, progress.state
    return _block(setup, progress.evidence, np.array(count, np.int32), MAX_BLOCK)


def simulation_engine(run: Run, explorer: Explorer) -> Engine:
    """Compiled blocks of a problem that simulates itself; single episodes for an explorer in plain Python."""
    model, truth = to_device((run.problem.model, run.problem.truth))
    sampler = _sampler(run.problem.kernel())
    key = _key(np.array(run.seed))
    if isinstance(explorer, PythonExplorer):
        one_more = partial(simulate_python, explorer, run.problem.model, sampler, key)
        return partial(simulate_several, one_more)

    def engine(progress: Progress, count: int) -> tuple[Progress, Records, None]:
        return *run_block(explorer, model, sampler, truth, key, copy_evidence(progress), count), None

    return engine


class RewardRecorder:
    """The rewards of an environment so far; an interrupted episode adds none."""

    def __init__(self, run: Run) -> None:
        sizes = run.problem.num_states, run.problem.num_actions
        empty = ObservedReward.empty(*sizes, over_states(run.problem))
        self.rewards = empty if run.rewards is None else run.rewards

    def add(self, attempts: list[Attempt]) -> None:
        """Add the rewards of these episodes."""
        for attempted in attempts:
            self.rewards = self.rewards.added(attempted.trajectory, attempted.rewards)


def env_engine(
    run: Run,
    explorer: Explorer,
    env: Any,
    encode: Callable[[Any], int] | None,
    recorder: RewardRecorder,
) -> Engine:
    """Episodes of a real environment, one after the other.

    An episode that fails counts up to the error, which ends the exploration; only Ctrl-C discards its episode.
    """
    from horizonfree.problems.gymnasium.flatten import flatten

    space = run.problem.space
    check_is_env(env)
    env = flatten(env, encode is not None)
    encode = encode_for(env, run.problem, encode)
    endings = endings_in(env, run.problem, encode)
    check_env_matches(env, space, encode, endings.num_copies)
    if run.evidence.impossible:
        raise ModelError(
            f"{run.evidence.impossible} observations of this run are impossible under every parameter: the model class "
            "does not describe this environment; begin a new run with one that does"
        )
    is_python = isinstance(explorer, PythonExplorer)
    choose: Callable[..., Progress] = choose_python if is_python else _choose
    learn: Callable[..., tuple[Progress, Records]] = update_python if is_python else _learn
    model = run.problem.model if is_python else to_device(run.problem.model)
    key = _key(np.array(run.seed))
    is_recorded = run.episodes == 0 or ENDED_IN in run.records  # runs of older versions have no such record
    ended = set(np.asarray(run.records.get(ENDED_IN, ())).astype(int).tolist()) - {NO_END}

    def episode(progress: Progress) -> tuple[Progress, Records, Attempt]:
        rng = np.random.default_rng([run.seed, int(progress.episode)])
        progress = choose(explorer, model, key, progress)
        attempted = attempt(env, space, np.asarray(progress.state.policy), rng, encode, endings)
        counts = np.asarray(progress.evidence.counts)
        attempted = check_endings(attempted, counts, space, ended)
        trajectory, error, end, _ = attempted
        if error is not None and (trajectory.j == UNSEEN).all():
            raise error
        following, numbers = learn(explorer, model, progress, to_device(trajectory))
        if end is not None:
            ended.add(end[0])
        if is_recorded:
            numbers = {**numbers, ENDED_IN: np.array(NO_END if end is None else end[0], np.int32)}
        return following, numbers, attempted

    def engine(progress: Progress, count: int) -> tuple[Progress, Records, BaseException | None]:
        completed: tuple[Progress, list[Records], list[Attempt]] = (progress, [], [])
        error: BaseException | None = None
        while len(completed[1]) < count and error is None:
            try:
                following, numbers, attempted = episode(completed[0])
                completed, error = (
                    (following, [*completed[1], numbers], [*completed[2], attempted]),
                    attempted.error,
                )
            except BaseException as stop:
                if not completed[1]:
                    raise
                error = stop
        recorder.add(completed[2])
        # stacked in NumPy: in JAX every number of episodes would be compiled
        return completed[0], jax.tree.map(lambda *x: np.stack(x), *completed[1]), error

    return engine
