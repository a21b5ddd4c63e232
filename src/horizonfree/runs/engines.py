"""What makes the next episodes: a problem that simulates itself, or a real environment that is stepped."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Int

from horizonfree._jit import jit
from horizonfree._x64 import leaf, to_device
from horizonfree.errors import ModelError
from horizonfree.explorers.interface import Explorer
from horizonfree.explorers.loop import Progress, Records, absorb, choose, episode_keys, simulate_block
from horizonfree.mdp.space import Kernel
from horizonfree.mdp.trajectory import UNSEEN
from horizonfree.models.interface import Evidence, Model
from horizonfree.planning.rollout import Sampler
from horizonfree.problems.gymnasium.live import (
    Attempt,
    attempt,
    check_env_matches,
    check_is_env,
    contradicted,
    encode_for,
    endings_in,
)
from horizonfree.runs.observed import ObservedReward, over_states
from horizonfree.runs.run import Run

BLOCK = 256  # the most episodes of one compiled call
ENDED_IN = "ended_in"  # record of stepped episodes: the state in which the environment ended it, or NOWHERE
NOWHERE = -1

# (so far, how many) -> after them, their numbers [count or more], and what ended the block early
Engine = Callable[[Progress, int], tuple[Progress, Records, BaseException | None]]

_absorb = jit(absorb)


@jit
def _choose(explorer: Explorer, model: Model, key: Array, progress: Progress) -> Progress:
    """`choose`, by the key of the run: that of the episode is made in the same call."""
    return choose(explorer, model, episode_keys(key, progress)[0], progress)


_World = tuple[Explorer, Model, Sampler, Any, Array, Array, Any]  # with truth, key, episode and state


@partial(jit, donate=True, fast_compile=True)
def _block(world: _World, evidence: Evidence, count: Int[Array, ""], size: int) -> tuple[Progress, Records]:
    """`simulate_block`, which may write over the evidence."""
    explorer, model, sampler, truth, key, episode, state = world
    progress = Progress(episode, state, evidence)
    return simulate_block(explorer, model, sampler, truth, key, progress, count, size)


def with_own_evidence(progress: Progress) -> Progress:
    """The evidence copied: what a block may write over, while whoever asked for it still has his."""
    return Progress(progress.episode, progress.state, jax.device_put(progress.evidence, may_alias=False))


@jit
def _sampler(kernel: Kernel) -> Sampler:
    """At once: operation by operation, each would be compiled, or loaded, by itself."""
    return Sampler.of(kernel)


@jit
def _key(seed: Int[Array, ""]) -> Array:
    return jax.random.key(seed)


def play(
    explorer: Explorer,
    model: Model,
    sampler: Sampler,
    truth: Any,
    key: Array,
    progress: Progress,
    count: int,
) -> tuple[Progress, Records]:
    """At most BLOCK episodes as one compiled call (explorers/loop.py), after which the evidence given is gone."""
    world = explorer, model, sampler, truth, key, progress.episode, progress.state
    return _block(world, progress.evidence, leaf(np.array(count, np.int32)), BLOCK)


def simulated(run: Run, explorer: Explorer) -> Engine:
    """Compiled blocks of a problem that simulates itself."""
    model, truth = to_device((run.problem.model, run.problem.truth))
    sampler = _sampler(run.problem.kernel())
    key = _key(leaf(np.array(run.seed)))

    def engine(state: Progress, count: int) -> tuple[Progress, Records, None]:
        return *play(explorer, model, sampler, truth, key, with_own_evidence(state), count), None

    return engine


class Recorder:
    """The rewards of an environment so far; an interrupted episode adds none."""

    def __init__(self, run: Run) -> None:
        sizes = run.problem.num_states, run.problem.num_actions
        empty = ObservedReward.empty(*sizes, over_states(run.problem))
        self.rewards = empty if run.rewards is None else run.rewards

    def add(self, attempts: list[Attempt]) -> None:
        """The rewards of these episodes."""
        for attempted in attempts:
            self.rewards = self.rewards.added(attempted.trajectory, attempted.rewards)


def stepped(
    run: Run, explorer: Explorer, env: Any, encode: Callable[[Any], int] | None, recorder: Recorder
) -> Engine:
    """One real episode after the other.

    An episode that breaks off counts as far as it was seen, and ends the exploration: Ctrl-C alone makes it forgotten.
    """
    space = run.problem.space
    check_is_env(env)
    encode = encode_for(env, run.problem, encode)
    endings = endings_in(env, run.problem, encode)
    check_env_matches(env, space, encode, endings.num_copies)
    if run.evidence.impossible:
        raise ModelError(
            f"{run.evidence.impossible} observations of this run are impossible under every parameter: the known class "
            "does not describe this environment; begin a new run with one that does"
        )
    model, key = to_device(run.problem.model), _key(leaf(np.array(run.seed)))
    is_recorded = run.episodes == 0 or ENDED_IN in run.records  # runs of older versions have no such record
    ended = set(np.asarray(run.records.get(ENDED_IN, ())).astype(int).tolist()) - {NOWHERE}

    def episode(state: Progress) -> tuple[Progress, Records, Attempt]:
        rng = np.random.default_rng([run.seed, int(state.episode)])
        state = _choose(explorer, model, key, state)
        attempted = attempt(env, space, np.asarray(state.state.policy), rng, encode, endings)
        attempted = contradicted(attempted, np.asarray(state.evidence.counts), space, ended)
        trajectory, error, end, _ = attempted
        if error is not None and (trajectory.j == UNSEEN).all():
            raise error
        after, numbers = _absorb(explorer, model, None, state, to_device(trajectory))
        if end is not None:
            ended.add(end[0])
        if is_recorded:
            numbers = {**numbers, ENDED_IN: leaf(np.array(NOWHERE if end is None else end[0], np.int32))}
        return after, numbers, attempted

    def engine(state: Progress, count: int) -> tuple[Progress, Records, BaseException | None]:
        done: tuple[Progress, list[Records], list[Attempt]] = (state, [], [])
        error: BaseException | None = None
        while len(done[1]) < count and error is None:
            try:
                state, numbers, attempted = episode(done[0])
                done, error = (state, [*done[1], numbers], [*done[2], attempted]), attempted.error
            except BaseException as stop:
                if not done[1]:
                    raise
                error = stop
        recorder.add(done[2])
        # on the host: on the device every number of episodes would be a program of its own
        return done[0], jax.tree.map(lambda *x: leaf(np.stack(x)), *done[1]), error

    return engine
