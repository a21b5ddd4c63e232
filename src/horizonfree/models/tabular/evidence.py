"""What exploration leaves behind of a table: how often each transition was seen, in any order.

The bets of this class (radius.py) are functions of the counts alone, at every number of episodes: they need no ladder
of starts. Those that were declared are kept, as every class does, and not used.

`Evidence` has fixed shapes: it can be carried by a scan and mapped over seeds. `Seen` is what confidence needs of it,
counts on lists of successors: all that are possible, or only those that were seen, few where any state may follow.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array, taken
from horizonfree._x64 import Leaf, leaf
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
    """Evidence after one more episode; traceable. Steps that were not seen count for nothing.

    Actions that are one and the same (mdp/allowed.py) all have the counts.
    """
    s, a, j = trajectory.s[:-1], trajectory.a, trajectory.j
    is_counted = is_possible(space, trajectory)
    wrong: Array = (~is_counted & (j != UNSEEN)).sum(dtype=jnp.int32)
    slot = jnp.where(is_counted, j, space.succ.shape[2])
    if space.acts is None:
        counts = evidence.counts.at[s, a, slot].add(1, mode="drop")
    else:
        acts, every = jnp.asarray(space.acts)[s], jnp.arange(space.num_actions)
        is_same = acts == jnp.take_along_axis(acts, a[:, None], axis=1)
        counts = evidence.counts.at[s[:, None], every, slot[:, None]].add(
            is_same.astype(jnp.int32), mode="drop"
        )
    return Evidence(
        counts=counts,
        starts=evidence.starts,
        weights=evidence.weights,
        episodes=evidence.episodes + 1,
        impossible=evidence.impossible + wrong,
    )


def is_possible(space: Space, trajectory: Trajectory) -> Bool[Array, " H"]:
    """Which steps were seen, and are possible; traceable."""
    s, a, j = trajectory.s[:-1], trajectory.a, trajectory.j
    is_slot = (j >= 0) & (j < space.succ.shape[2])
    return is_slot & taken(space.support, (s, a, jnp.where(is_slot, j, 0)))


class Seen(eqx.Module):
    """Counts on lists of successors. Every row has slots that `is_listed`; the others are padding, without counts."""

    succ: Int[Leaf, "S A C"]
    counts: Int[Leaf, "S A C"]
    is_listed: Bool[Leaf, "S A C"]
    episodes: Int[Leaf, ""]
    impossible: Int[Leaf, ""]


def in_full(space: Space, evidence: Evidence) -> Seen:
    """On the lists of all that is possible; traceable."""
    return Seen(space.succ, evidence.counts, space.support, evidence.episodes, evidence.impossible)


def shortest(space: Space, evidence: Evidence) -> Seen:
    """On lists of what was seen, or of one possible successor where nothing was; on the host.

    Lengths are 1, 2, 3, 4, 6, 8, 12, .., so that few of them are compiled; in full where less than half is saved.
    """
    counts, support = np.asarray(evidence.counts), np.asarray(space.support)
    is_seen = counts > 0
    first = support & (np.cumsum(support, axis=-1) == 1)
    is_listed = np.where(is_seen.any(-1, keepdims=True), is_seen, first)
    length = is_listed.sum(-1, keepdims=True)
    width = _rounded(int(length.max()))
    if 2 * width > counts.shape[2]:
        return in_full(space, evidence)
    s, a, j = np.nonzero(is_listed)
    slot = (np.cumsum(is_listed, axis=-1) - 1)[s, a, j]
    succ, short = np.zeros((2, *counts.shape[:2], width), np.int32)
    succ[s, a, slot], short[s, a, slot] = np.asarray(space.succ)[s, a, j], counts[s, a, j]
    lists = leaf(succ), leaf(short), leaf(np.arange(width) < length)
    return Seen(*lists, evidence.episodes, evidence.impossible)


def _rounded(width: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, .. ."""
    power = 1 << (width - 1).bit_length()
    return 3 * power // 4 if power >= 4 and width <= 3 * power // 4 else power
