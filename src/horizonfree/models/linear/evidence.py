"""What exploration leaves behind of a linear MDP: sums over the transitions, and those at the start of each e-process.

    gram = sum_t x_t x_t',      cross = sum_t x_t e_{s'_t}',      x_t = phi(s_t, a_t)

over all steps of all episodes: one mu serves every step. No ridge is in them. An e-process that starts after m
episodes keeps the sums of those m apart (`gram_at`, `cross_at`); until then it tracks the running sums.

`Evidence` has fixed shapes: it can be carried by a scan and mapped over seeds (learner.py).
"""

import numpy as np
from jaxtyping import Float, Int

from horizonfree._arrays import Leaf, node


@node
class Evidence:
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


def evidence_history(evidence: Evidence) -> list[Evidence]:
    """The evidence at the starts of e-processes in the past; counts of that moment are not kept, and zero."""
    starts, now = np.asarray(evidence.starts), int(evidence.episodes)
    return [_at(evidence, int(j)) for j in np.flatnonzero((starts > 0) & (starts < now))]


def _at(evidence: Evidence, j: int) -> Evidence:
    """At the start of e-process j: earlier ones had started, the others tracked the sums of that moment."""
    starts = np.asarray(evidence.starts)
    is_on = (starts < starts[j])[:, None, None]
    gram, cross = np.asarray(evidence.gram_at), np.asarray(evidence.cross_at)
    return Evidence(
        gram=gram[j],
        cross=cross[j],
        gram_at=np.where(is_on, gram, gram[j]),
        cross_at=np.where(is_on, cross, cross[j]),
        counts=np.zeros_like(evidence.counts),
        starts=evidence.starts,
        weights=evidence.weights,
        episodes=np.asarray(starts[j]),
        impossible=evidence.impossible,
    )
