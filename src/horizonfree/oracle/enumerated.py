"""The oracle by enumeration inside compiled code: as `exhaustive`, for explorers. For tiny problems.

A pair of policy and reward is a whole number. Its digits, in a mixed base, are the actions at the states that can be
occupied at a step (of actions with equal rows the first stands for all), and at the end the reward: its place in the
list of antichains. The numbers are tried block by block, each pair evaluated side by side with the others of its block.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Number
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.oracle.exhaustive import MAX_PAIRS, MAX_REWARDS, Antichains, antichains
from horizonfree.oracle.objective import Prepared, evaluate
from horizonfree.oracle.result import AntichainPoint
from horizonfree.planning.traced import TIE

BLOCK_SIZE = 256  # pairs of policy and reward that are evaluated side by side
TOO_MANY_PAIRS = (
    f"oracle='exhaustive' would try more than {MAX_PAIRS:,} pairs of policy and reward, or {MAX_REWARDS:,} rewards; "
    "use oracle='ascent', or a smaller problem"
)


class Pairs(NamedTuple):
    """The choices: different actions of each state, their number at each step, and the rewards."""

    actions: Int[Array, "S A"]
    bases: Int[Array, "H S"]
    rewards: Antichains
    total: Int[Array, ""]


class Best(NamedTuple):
    """The first pair of largest value; among values that are capped, of largest value before the cap."""

    number: Int[Array, ""]
    value: Float[Array, ""]
    raw: Float[Array, ""]


def enumerated(model: MixtureModel, prepared: Prepared, beta: Number) -> tuple[AntichainPoint, Best]:
    """The exact maximum of Vhat_1(s_1) over deterministic policies and antichains of states; traced.

    More than MAX_PAIRS pairs, or MAX_REWARDS antichains, are an error when it runs: compiled code cannot know the
    numbers beforehand.
    """
    pairs = _pairs(model)
    at_start = prepared.space.at_start

    def values(index: Array) -> tuple[Array, Array]:
        point = point_of(pairs, index)
        raw = evaluate(prepared, point.policy, point.reward, beta).raw[0]
        return at_start(jnp.minimum(raw, 1)), at_start(raw)

    def block(carry: tuple[Array, Best]) -> tuple[Array, Best]:
        first, best = carry
        index = jnp.minimum(first + jnp.arange(BLOCK_SIZE), pairs.total - 1)
        value, raw = jax.vmap(values)(index)
        candidates = [jnp.concatenate([old[None], new]) for old, new in zip(best, (index, value, raw))]
        return first + BLOCK_SIZE, _first_best(*candidates)

    start = jnp.int64(0), Best(jnp.int64(0), *values(jnp.int64(0)))
    _, best = jax.lax.while_loop(lambda carry: carry[0] < pairs.total, block, start)
    return point_of(pairs, best.number), best


def point_of(pairs: Pairs, index: Int[Array, ""]) -> AntichainPoint:
    """The pair of a number."""
    H = len(pairs.bases)
    choice, reward = index // pairs.rewards.count, index % pairs.rewards.count
    bases = pairs.bases.ravel()
    digits = choice // (jnp.cumprod(bases) // bases) % bases
    policy = pairs.actions[jnp.tile(jnp.arange(len(pairs.actions)), H), digits].reshape(pairs.bases.shape)
    return AntichainPoint(policy.astype(jnp.int32), pairs.rewards.indicator(pairs.rewards.sets[reward]))


def _first_best(index: Int[Array, " N"], value: Float[Array, " N"], raw: Float[Array, " N"]) -> Best:
    """The first of those that are equal up to rounding."""
    is_best = value >= value.max() * (1 - TIE)
    most = jnp.where(is_best, raw, -jnp.inf).max()
    i = (is_best & (raw >= most * (1 - TIE))).argmax()
    return Best(index[i], value[i], raw[i])


def _pairs(model: MixtureModel) -> Pairs:
    """All pairs that matter: the last action does not, nor does a reward at step 1."""
    _, S, A = model.space.sizes
    occupied = _occupied(model)
    rows = jnp.concatenate([model.phi.reshape(S, A, -1), model.space.succ.astype(float)], axis=-1)
    same = (rows[:, :, None] == rows[:, None]).all(-1)  # [S, A, A]
    is_new = ~(same & jnp.tri(A, k=-1, dtype=bool)).any(-1)
    actions = jnp.argsort(~is_new, axis=1, stable=True)
    bases = jnp.where(occupied, is_new.sum(1), 1).at[-1].set(1)
    rewards = antichains(model.space, occupied)
    total = jnp.prod(bases.astype(float)) * rewards.count
    total = eqx.error_if(total, (total > MAX_PAIRS) | (rewards.count > MAX_REWARDS), TOO_MANY_PAIRS)
    return Pairs(actions, bases.astype(int), rewards, total.astype(int))


def _occupied(model: MixtureModel) -> Bool[Array, "H S"]:
    """Which states can be occupied at each step, under some policy and parameter."""
    space = model.space
    S = space.num_states
    first = jnp.asarray(jnp.arange(S) == space.start if space.initial is None else space.initial > 0)

    def step(now: Array, _: None) -> tuple[Array, Array]:
        after = jnp.zeros(S, bool).at[space.succ].max(now[:, None, None] & space.support)
        return after, now

    return jax.lax.scan(step, first, None, length=space.horizon)[1]
