"""The only episode loop: choose a policy, play an episode, learn from it. Everything is traced, and seeds map over
it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Leaf
from horizonfree.explorers.base import ConfidenceBall, Explorer
from horizonfree.mdp.space import Trajectory
from horizonfree.models.base import Evidence, Model
from horizonfree.planning.traced import Sampler

Records = dict[str, Array]  # numbers of one episode, or of several
MAX_PARALLEL_EPISODES = 64  # episodes of one policy that are simulated side by side


class Progress(eqx.Module):
    """The state of an exploration between two episodes."""

    episode: Int[Leaf, "*batch"]
    state: Any
    evidence: Evidence


def init_progress(explorer: Explorer, model: Model, empty_evidence: Evidence) -> Progress:
    """The progress before the first episode. Types are not weak, so that later calls are not traced again."""
    state = jax.tree.map(lambda x: jnp.asarray(x, x.dtype), explorer.init(model))
    return Progress(jnp.int32(0), state, empty_evidence)


def episode_keys(key: Array, progress: Progress) -> tuple[Array, Array]:
    """Keys for the choice and the play of the next episode.

    Episode k draws from fold_in(key, k) alone, so results do not depend on how a run is divided into blocks.
    """
    key_choose, key_episode = jax.random.split(jax.random.fold_in(key, progress.episode))
    return key_choose, key_episode


def is_due(state: Any) -> Bool[Array, "*batch"] | None:
    """Whether a policy must be chosen before the next episode; None stands for always."""
    return getattr(state, "is_due", None)


def episodes_until_due(state: Any) -> Int[Array, "*batch"] | None:
    """The number of episodes, including the next one, with the present policy; None if the state has none."""
    return getattr(state, "left", None)


def choose_policy(explorer: Explorer, model: Model, key: Array, progress: Progress) -> Progress:
    """Choose the policy of the next episode, which is then `progress.state.policy`."""

    def choose(state: Any) -> Any:
        return explorer.choose(key, model, state, progress.evidence)

    due = is_due(progress.state)
    if due is None:
        state = choose(progress.state)
    else:
        state = jax.lax.cond(due, choose, lambda state: state, progress.state)
    return Progress(progress.episode, state, progress.evidence)


def update_progress(
    explorer: Explorer, model: Model, truth: Any, progress: Progress, trajectory: Trajectory
) -> tuple[Progress, Records]:
    """Learn from an episode, simulated or not; truth: the true parameter, None if it is unknown."""
    evidence = model.update(progress.evidence, trajectory)
    state, info = explorer.update(model, progress.state, evidence, trajectory)
    numbers = info.numbers | ({} if truth is None else ball_records(info.balls, truth))
    return Progress(progress.episode + 1, state, evidence), numbers


def ball_records(balls: tuple[ConfidenceBall, ...], truth: Array) -> Records:
    """The largest distance of the truth from the centres of the balls, in radii, and how many balls miss it."""
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
    """`count` <= size episodes of a simulated problem, and their records [size], which are zero from `count` on.

    If the explorer's state has `left`, the episodes until the next choice are simulated side by side, at most
    MAX_PARALLEL_EPISODES of them, and learned from one after the other: all numbers are the same.
    """
    first = progress.episode

    @jax.jit  # traced once, for the shapes of its records and in the loop
    def update(progress: Progress, trajectory: Trajectory) -> tuple[Progress, Records]:
        return update_progress(explorer, model, truth, progress, trajectory)

    def play(progress: Progress, key_episode: Array) -> Trajectory:
        return sampler.episode(key_episode, progress.state.policy, model.space)

    def play_later(progress: Progress, offset: Array) -> Trajectory:
        shifted = Progress(progress.episode + offset, progress.state, progress.evidence)
        return play(shifted, episode_keys(key, shifted)[1])

    def learn(progress: Progress, records: Records, trajectory: Trajectory) -> tuple[Progress, Records]:
        i = progress.episode - first
        progress, numbers = update(progress, trajectory)
        return progress, jax.tree.map(lambda column, x: column.at[i].set(x), records, numbers)

    def body(carry: tuple[Progress, Records]) -> tuple[Progress, Records]:
        progress, records = carry
        key_choose, key_episode = episode_keys(key, progress)
        progress = choose_policy(explorer, model, key_choose, progress)
        num_left = episodes_until_due(progress.state)
        if num_left is None:
            return learn(progress, records, play(progress, key_episode))
        parallel = min(MAX_PARALLEL_EPISODES, size)
        trajectories = jax.vmap(lambda i: play_later(progress, i))(jnp.arange(parallel, dtype=jnp.int32))
        number = jnp.clip(jnp.minimum(num_left, first + count - progress.episode), 1, parallel)

        def learn_next(i: Array, carry: tuple[Progress, Records]) -> tuple[Progress, Records]:
            return learn(*carry, jax.tree.map(lambda x: x[i], trajectories))

        following: tuple[Progress, Records] = jax.lax.fori_loop(0, number, learn_next, (progress, records))
        return following

    def is_unfinished(carry: tuple[Progress, Records]) -> Bool[Array, ""]:
        return carry[0].episode < first + count

    _, numbers = jax.eval_shape(lambda: update(progress, play(progress, key)))
    records = jax.tree.map(lambda x: jnp.zeros((size, *x.shape), x.dtype), numbers)
    result: tuple[Progress, Records] = jax.lax.while_loop(is_unfinished, body, (progress, records))
    return result
