"""What exploration leaves behind of a linear MDP: sums over the transitions, and those at the start of each e-process.

    gram = sum_t x_t x_t',      cross = sum_t x_t e_{s'_t}',      x_t = phi(s_t, a_t)

over all steps of all episodes: one mu serves every step. No ridge is in them. An e-process that starts after m
episodes keeps the sums of those m apart (`gram_at`, `cross_at`); until then it tracks the running sums.

`Evidence` has fixed shapes: it can be carried by a scan and mapped over seeds (learner.py).
"""

from jaxtyping import Float

from horizonfree._arrays import Leaf, node
from horizonfree.models.base import Evidence


@node
class LinearEvidence(Evidence):
    """The counts of the base class and the sums above; steps to no state at all are `impossible`."""

    gram: Float[Leaf, "*batch d d"]
    cross: Float[Leaf, "*batch d S"]
    gram_at: Float[Leaf, "*batch J d d"]
    cross_at: Float[Leaf, "*batch J d S"]
