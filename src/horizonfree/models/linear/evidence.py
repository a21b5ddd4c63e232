"""What exploration leaves behind of a linear MDP: sums over the transitions, and what they were when each bet started.

    gram = sum_t x_t x_t',      cross = sum_t x_t e_{s'_t}',      x_t = phi(s_t, a_t)

over all steps of all episodes: one mu serves every step. No ridge is in them. A bet that starts after m episodes keeps
the sums of those m apart (`gram_at`, `cross_at`); until then it tracks the running sums.

`Evidence` has fixed shapes: it can be carried by a scan and mapped over seeds.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Leaf, leaf
from horizonfree.guarantees.bets import Bets, check_bets
from horizonfree.mdp.rollout import UNSEEN, Trajectory


class Evidence(eqx.Module):
    """Sums after some episodes, and `counts` of every transition; `impossible`: steps to no state at all."""

    gram: Float[Leaf, "*batch d d"]
    cross: Float[Leaf, "*batch d S"]
    gram_at: Float[Leaf, "*batch J d d"]
    cross_at: Float[Leaf, "*batch J d S"]
    counts: Int[Leaf, "*batch S A S"]
    starts: Int[Leaf, "*batch J"]
    weights: Float[Leaf, "*batch J"]
    episodes: Int[Leaf, "*batch"]
    impossible: Int[Leaf, "*batch"]

    @property
    def visits(self) -> Int[Leaf, "*batch S A"]:
        """How often each action was taken in each state."""
        return self.counts.sum(-1)


def nothing(phi: Float[Leaf, "S A d"], bets: Bets) -> Evidence:
    """No episodes yet."""
    check_bets(bets)
    S, A, d = phi.shape
    J = len(bets.starts)
    return Evidence(
        gram=jnp.zeros((d, d)),
        cross=jnp.zeros((d, S)),
        gram_at=jnp.zeros((J, d, d)),
        cross_at=jnp.zeros((J, d, S)),
        counts=jnp.zeros((S, A, S), jnp.int32),
        starts=jnp.asarray(bets.starts, jnp.int32),
        weights=jnp.asarray(bets.weights, jnp.float64),
        episodes=jnp.int32(0),
        impossible=jnp.int32(0),
    )


def learn(phi: Float[Array, "S A d"], evidence: Evidence, trajectory: Trajectory) -> Evidence:
    """Evidence after one more episode; traceable. Steps that were not seen count for nothing."""
    S = phi.shape[0]
    s, a, j = trajectory.s[:-1], trajectory.a, trajectory.j
    is_counted = (j >= 0) & (j < S)
    x = jnp.where(is_counted[:, None], phi[s, a], 0.0)
    after = jnp.where(is_counted, j, S)
    gram = evidence.gram + x.T @ x
    cross = evidence.cross.at[:, after].add(x.T, mode="drop")
    is_on = (evidence.episodes >= evidence.starts)[:, None, None]
    return Evidence(
        gram=gram,
        cross=cross,
        gram_at=jnp.where(is_on, evidence.gram_at, gram),
        cross_at=jnp.where(is_on, evidence.cross_at, cross),
        counts=evidence.counts.at[s, a, after].add(1, mode="drop"),
        starts=evidence.starts,
        weights=evidence.weights,
        episodes=evidence.episodes + 1,
        impossible=evidence.impossible + (~is_counted & (j != UNSEEN)).sum(dtype=jnp.int32),
    )


def earlier(evidence: Evidence) -> list[Evidence]:
    """The evidence at the starts of the bets that lie in the past; counts of that moment are not kept, and zero."""
    starts, now = np.asarray(evidence.starts), int(evidence.episodes)
    return [_at(evidence, int(j)) for j in np.flatnonzero((starts > 0) & (starts < now))]


def _at(evidence: Evidence, j: int) -> Evidence:
    """At the start of bet j: earlier bets had started, the others tracked the sums of that moment."""
    starts = np.asarray(evidence.starts)
    is_on = (starts < starts[j])[:, None, None]
    gram, cross = np.asarray(evidence.gram_at), np.asarray(evidence.cross_at)
    return Evidence(
        gram=leaf(gram[j]),
        cross=leaf(cross[j]),
        gram_at=leaf(np.where(is_on, gram, gram[j])),
        cross_at=leaf(np.where(is_on, cross, cross[j])),
        counts=leaf(np.zeros_like(evidence.counts)),
        starts=evidence.starts,
        weights=evidence.weights,
        episodes=leaf(np.asarray(starts[j])),
        impossible=evidence.impossible,
    )
