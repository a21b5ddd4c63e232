"""The rewards of states among which a best one is searched by enumeration: indicators of antichains.

A node is a state at a step. One node comes before another if some policy and parameter can lead from it to the other.
Rewards r >= 0 of states have total at most 1 on every possible trajectory if and only if no chain of nodes collects
more, since every chain lies on a trajectory. The order is a partial order, whose comparability graph is perfect, so the
vertices of this polytope are the indicators of antichains: sets of nodes of which no trajectory visits two (Chvatal
1975, "On certain polytopes associated with graphs"). Sets of states at one step are some of them.

A set of nodes is a whole number: bit i stands for the i-th node, step by step. A reward at step 1 never matters.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree.mdp.space import Space

MAX_REWARDS = 2**16  # antichains; more are not listed
MAX_NODES = 63  # bits of a number


class Antichains(NamedTuple):
    """The first `count` sets are all there are; more than MAX_REWARDS if there are too many. `rank`: bit of a node."""

    sets: Int[Array, " N"]
    count: Int[Array, ""]
    rank: Int[Array, "H S"]
    nodes: Bool[Array, "H S"]

    def indicator(self, one: Int[Array, "*n"]) -> Bool[Array, "*n H S"]:
        """The nodes of sets."""
        return self.nodes & ((one[..., None, None] >> self.rank) & 1 == 1)


def antichains(space: Space, occupied: Bool[Array, "H S"]) -> Antichains:
    """All antichains of the nodes that can be occupied from step 2 on; traced. The empty set is the first.

    One node after the other is added to every set that it can be added to, so each set occurs once.
    """
    H, S = occupied.shape
    nodes = occupied.at[0].set(False)
    rank = jnp.where(nodes, jnp.cumsum(nodes).reshape(H, S) - 1, 0)
    total = nodes.sum()
    bits = jnp.where(nodes, jnp.int64(1) << jnp.minimum(rank, MAX_NODES - 1), 0)
    comparable = _comparable(space)
    place = jnp.argsort(~nodes.ravel(), stable=True)  # the i-th node

    def add(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        i, sets, count = carry
        h, s = place[i] // S, place[i] % S
        later = jnp.abs(jnp.arange(H) - h)  # [H]: steps between
        conflict = (bits * (comparable[later, s] & (jnp.arange(H) < h)[:, None])).sum()
        can = (jnp.arange(MAX_REWARDS) < count) & (sets & conflict == 0)
        to = jnp.where(can, count + jnp.cumsum(can) - 1, MAX_REWARDS)
        return i + 1, sets.at[to].set(sets | bits[h, s], mode="drop"), count + can.sum()

    def goes_on(carry: tuple[Array, Array, Array]) -> Array:
        i, _, count = carry
        return (i < total) & (count <= MAX_REWARDS)

    too_many = jnp.where(total > MAX_NODES, MAX_REWARDS + 1, 1)
    start = jnp.int64(0), jnp.zeros(MAX_REWARDS, jnp.int64), too_many.astype(jnp.int64)
    _, sets, count = jax.lax.while_loop(goes_on, add, start)
    return Antichains(sets, count, rank, nodes)


def _comparable(space: Space) -> Bool[Array, "H S S"]:
    """[k, s, t]: whether state s can be reached from t in k steps."""
    S = space.num_states
    step = jnp.zeros((S, S)).at[space.succ, jnp.arange(S)[:, None, None]].max(space.support.astype(float)) > 0

    def further(now: Array, _: None) -> tuple[Array, Array]:
        return _product(step, now), now

    return jax.lax.scan(further, jnp.eye(S, dtype=bool), None, length=space.horizon)[1]


def _product(x: Bool[Array, "S S"], y: Bool[Array, "S S"]) -> Bool[Array, "S S"]:
    product: Float[Array, "S S"] = x.astype(float) @ y.astype(float)
    return product > 0
