"""What exploration leaves behind of a table: how often each transition was seen, in any order.

The bets of this class (radius.py) are functions of the counts alone, at every number of episodes: they need no ladder
of starts. Those that were declared are kept, as every class does, and not used.

`Evidence` has fixed shapes: it can be carried by a scan and mapped over seeds.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from horizonfree._x64 import Leaf
from horizonfree.guarantees.bets import Bets, check_bets
from horizonfree.mdp.rollout import UNSEEN, Trajectory
from horizonfree.mdp.space import Space


class Evidence(eqx.Module):
    """`counts` of every slot of the successor lists; `impossible`: transitions outside the support."""

    counts: Int[Leaf, "*batch S A n"]
    starts: Int[Leaf, "*batch J"]
    weights: Float[Leaf, "*batch J"]
    episodes: Int[Leaf, "*batch"]
    impossible: Int[Leaf, "*batch"]

    @property
    def visits(self) -> Int[Leaf, "*batch S A"]:
        """How often each action was taken in each state."""
        return self.counts.sum(-1)


def nothing(space: Space, bets: Bets) -> Evidence:
    """No episodes yet."""
    check_bets(bets)
    return Evidence(
        counts=jnp.zeros(space.succ.shape, jnp.int32),
        starts=jnp.asarray(bets.starts, jnp.int32),
        weights=jnp.asarray(bets.weights, jnp.float64),
        episodes=jnp.int32(0),
        impossible=jnp.int32(0),
    )


def learn(space: Space, evidence: Evidence, trajectory: Trajectory) -> Evidence:
    """Evidence after one more episode; traceable. Steps that were not seen count for nothing."""
    s, a, j = trajectory.s[:-1], trajectory.a, trajectory.j
    n = space.succ.shape[2]
    is_slot = (j >= 0) & (j < n)
    is_possible = is_slot & space.support[s, a, jnp.where(is_slot, j, 0)]
    wrong: Array = (~is_possible & (j != UNSEEN)).sum(dtype=jnp.int32)
    return Evidence(
        counts=evidence.counts.at[s, a, jnp.where(is_possible, j, n)].add(1, mode="drop"),
        starts=evidence.starts,
        weights=evidence.weights,
        episodes=evidence.episodes + 1,
        impossible=evidence.impossible + wrong,
    )
