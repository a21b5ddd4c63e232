"""The interface of an explorer, and the only episode loop.

An explorer is an initial state and two rules: from the episodes seen it chooses the next policy, and it learns from the
episode that follows. It receives the known class and the evidence gathered so far, never the truth and (unless it says
so) never a reward. Everything here is traced: a block of episodes is one compiled call, and seeds map over it.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from horizonfree import evidence as ev
from horizonfree.certificates import Certificate
from horizonfree.mixture import Known
from horizonfree.simulate import Sampler, Trajectory
from horizonfree.valid import ValidSet

Info = dict[str, Array]  # scalars that a reader wants to see, one row per episode


class Explorer(eqx.Module):
    """A reward-free exploration algorithm; its fields are its options.

    `State` is a pytree of fixed shapes with a field `policy`, [H, S] actions or [H, S, A] probabilities, which `choose`
    sets. It holds what the next episode needs and nothing else.
    """

    @abc.abstractmethod
    def init(self, known: Known, valid: ValidSet) -> Any:
        """The state before the first episode; cheap, its policy is not run."""

    @abc.abstractmethod
    def is_due(self, known: Known, state: Any) -> bool | Bool[Array, ""]:
        """Whether a new policy must be chosen before the next episode; a plain bool where it never changes."""

    @abc.abstractmethod
    def choose(self, key: Array, known: Known, valid: ValidSet, state: Any, evidence: ev.Evidence) -> Any:
        """The state with the policy of the next episode; called only when it is due."""

    @abc.abstractmethod
    def update(
        self, known: Known, valid: ValidSet, state: Any, evidence: ev.Evidence, trajectory: Trajectory
    ) -> tuple[Any, Info]:
        """The state after one more episode; evidence already holds that episode."""

    @abc.abstractmethod
    def estimate(
        self, known: Known, valid: ValidSet, state: Any, evidence: ev.Evidence
    ) -> Float[Array, " d"]:
        """The parameter that the algorithm itself would plan with."""

    @abc.abstractmethod
    def audit(self, known: Known, state: Any, truth: Float[Array, " d"]) -> Info:
        """What only someone who knows the truth can say of a state, e.g. whether its confidence sets hold it."""

    @abc.abstractmethod
    def claim(self, known: Known, state: Any) -> Certificate | None:
        """The algorithm's own guarantee for plans made with `estimate`, None if it has none."""


class Progress(eqx.Module):
    """An exploration so far: what a block of episodes starts from and returns."""

    episode: Int[Array, ""]
    state: Any
    evidence: ev.Evidence


def begin(explorer: Explorer, known: Known, valid: ValidSet, evidence: ev.Evidence) -> Progress:
    """Before the first episode."""
    return Progress(jnp.int32(0), explorer.init(known, valid), evidence)


def episode_keys(key: Array, progress: Progress) -> tuple[Array, Array]:
    """Episode k draws from fold_in(key, k) alone, so a run does not depend on how it was cut into blocks."""
    key_choose, key_episode = jax.random.split(jax.random.fold_in(key, progress.episode))
    return key_choose, key_episode


def choose(explorer: Explorer, known: Known, valid: ValidSet, key: Array, progress: Progress) -> Progress:
    """Decide on the policy of the next episode, which is then `progress.state.policy`."""

    def decide(state: Any) -> Any:
        return explorer.choose(key, known, valid, state, progress.evidence)

    due = explorer.is_due(known, progress.state)
    if isinstance(due, bool):
        state = decide(progress.state) if due else progress.state
    else:
        state = jax.lax.cond(due, decide, lambda state: state, progress.state)
    return Progress(progress.episode, state, progress.evidence)


def absorb(
    explorer: Explorer,
    known: Known,
    valid: ValidSet,
    truth: Float[Array, " d"] | None,
    progress: Progress,
    trajectory: Trajectory,
) -> tuple[Progress, Info]:
    """Learn from one episode, however it was gathered."""
    evidence = ev.update(valid, progress.evidence, trajectory)
    state, info = explorer.update(known, valid, progress.state, evidence, trajectory)
    if truth is not None:
        info = info | explorer.audit(known, state, truth)
    return Progress(progress.episode + 1, state, evidence), info


def simulate_block(
    explorer: Explorer,
    known: Known,
    valid: ValidSet,
    sampler: Sampler,
    truth: Float[Array, " d"],
    key: Array,
    progress: Progress,
    count: Int[Array, ""],
    size: int,
) -> tuple[Progress, Info]:
    """`count` <= size episodes of a simulated problem, and their rows [size]; rows beyond count are zero."""

    def episode(progress: Progress) -> tuple[Progress, Info]:
        key_choose, key_episode = episode_keys(key, progress)
        progress = choose(explorer, known, valid, key_choose, progress)
        trajectory = sampler.episode(key_episode, progress.state.policy, known.start)
        return absorb(explorer, known, valid, truth, progress, trajectory)

    def body(i: Array, carry: tuple[Progress, Info]) -> tuple[Progress, Info]:
        progress, rows = carry
        progress, info = episode(progress)
        return progress, jax.tree.map(lambda row, x: row.at[i].set(x), rows, info)

    _, info = jax.eval_shape(episode, progress)
    rows = jax.tree.map(lambda x: jnp.zeros((size, *x.shape), x.dtype), info)
    done: tuple[Progress, dict[str, Array]] = jax.lax.fori_loop(0, count, body, (progress, rows))
    return done
