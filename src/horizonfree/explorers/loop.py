"""The only episode loop: choose, play, learn. Everything here is traced, and seeds map over it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Leaf
from horizonfree.explorers.interface import Ball, Explorer
from horizonfree.mdp.trajectory import Trajectory
from horizonfree.models.interface import Evidence, Model
from horizonfree.planning.rollout import Sampler

Records = dict[str, Array]  # numbers of one episode, or of several
LANES = 64  # episodes of one policy that are simulated side by side


class Progress(eqx.Module):
    """An exploration so far: what a block of episodes starts from and returns."""

    episode: Int[Leaf, "*batch"]
    state: Any
    evidence: Evidence


def begin(explorer: Explorer, model: Model, nothing: Evidence) -> Progress:
    """Before the first episode. No type is weak: what takes the states of later ones would be traced twice."""
    state = jax.tree.map(lambda x: jnp.asarray(x, x.dtype), explorer.init(model))
    return Progress(jnp.int32(0), state, nothing)


def episode_keys(key: Array, progress: Progress) -> tuple[Array, Array]:
    """Episode k draws from fold_in(key, k) alone, so a run does not depend on how it was cut into blocks."""
    key_choose, key_episode = jax.random.split(jax.random.fold_in(key, progress.episode))
    return key_choose, key_episode


def is_due(state: Any) -> Bool[Array, "*batch"] | None:
    """Whether a policy must be chosen before the next episode; None stands for always."""
    return getattr(state, "is_due", None)


def stands_for(state: Any) -> Int[Array, "*batch"] | None:
    """For how many episodes, the next one included, no policy will be chosen; None where the state does not tell."""
    return getattr(state, "left", None)


def choose(explorer: Explorer, model: Model, key: Array, progress: Progress) -> Progress:
    """Decide on the policy of the next episode, which is then `progress.state.policy`."""

    def decide(state: Any) -> Any:
        return explorer.choose(key, model, state, progress.evidence)

    due = is_due(progress.state)
    if due is None:
        state = decide(progress.state)
    else:
        state = jax.lax.cond(due, decide, lambda state: state, progress.state)
    return Progress(progress.episode, state, progress.evidence)


def absorb(
    explorer: Explorer, model: Model, truth: Any, progress: Progress, trajectory: Trajectory
) -> tuple[Progress, Records]:
    """Learn from one episode, however it was gathered; truth: the true parameter, None where nobody knows it."""
    evidence = model.update(progress.evidence, trajectory)
    state, info = explorer.update(model, progress.state, evidence, trajectory)
    numbers = info.numbers | ({} if truth is None else audit(info.balls, truth))
    return Progress(progress.episode + 1, state, evidence), numbers


def audit(balls: tuple[Ball, ...], truth: Array) -> Records:
    """What only someone who knows the truth can say: how far it is from the centres of the balls, in radii.

    Above 1 it is outside, and `balls_violated` counts those.
    """
    if not balls:
        return {}
    ratios = jnp.concatenate([jnp.ravel(ball.ridge.distance(truth) / ball.radius) for ball in balls])
    return {"truth_ratio": ratios.max(), "balls_violated": (ratios > 1).sum(dtype=jnp.int32)}


def simulate_block(
    explorer: Explorer,
    model: Model,
    sampler: Sampler,
    truth: Any,
    key: Array,
    progress: Progress,
    count: Int[Array, ""],
    size: int,
) -> tuple[Progress, Records]:
    """`count` <= size episodes of a simulated problem, and their records [size]; beyond count they are zero.

    While a policy stands its episodes are simulated side by side, at most LANES of them. They are learnt from one by
    one: every number is the same as if they had been simulated so.
    """
    first = progress.episode

    @jax.jit  # traced once, for the shapes of its numbers and in the loop
    def learnt(progress: Progress, trajectory: Trajectory) -> tuple[Progress, Records]:
        return absorb(explorer, model, truth, progress, trajectory)

    def simulated(progress: Progress, key_episode: Array) -> Trajectory:
        return sampler.episode(key_episode, progress.state.policy, model.space)

    def ahead(progress: Progress, lane: Array) -> Trajectory:
        later = Progress(progress.episode + lane, progress.state, progress.evidence)
        return simulated(progress, episode_keys(key, later)[1])

    def learn(progress: Progress, records: Records, trajectory: Trajectory) -> tuple[Progress, Records]:
        i = progress.episode - first
        progress, numbers = learnt(progress, trajectory)
        return progress, jax.tree.map(lambda column, x: column.at[i].set(x), records, numbers)

    def body(carry: tuple[Progress, Records]) -> tuple[Progress, Records]:
        progress, records = carry
        key_choose, key_episode = episode_keys(key, progress)
        progress = choose(explorer, model, key_choose, progress)
        left = stands_for(progress.state)
        if left is None:
            return learn(progress, records, simulated(progress, key_episode))
        lanes = min(LANES, size)
        played = jax.vmap(lambda lane: ahead(progress, lane))(jnp.arange(lanes, dtype=jnp.int32))
        number = jnp.clip(jnp.minimum(left, first + count - progress.episode), 1, lanes)

        def learn_lane(lane: Array, carry: tuple[Progress, Records]) -> tuple[Progress, Records]:
            return learn(*carry, jax.tree.map(lambda x: x[lane], played))

        after: tuple[Progress, Records] = jax.lax.fori_loop(0, number, learn_lane, (progress, records))
        return after

    def episode() -> tuple[Progress, Records]:
        after: tuple[Progress, Records] = learnt(progress, simulated(progress, key))
        return after

    def goes_on(carry: tuple[Progress, Records]) -> Bool[Array, ""]:
        return carry[0].episode < first + count

    _, numbers = jax.eval_shape(episode)
    records = jax.tree.map(lambda x: jnp.zeros((size, *x.shape), x.dtype), numbers)
    done: tuple[Progress, Records] = jax.lax.while_loop(goes_on, body, (progress, records))
    return done
