"""What plans lose for every reward at once, when the rows of all pairs lie in balls.

Trajectories of the centre diverge from those of the truth by KL <= E sum_{h<H} eps (guarantees/trajectories.py), and
one may leave the comparison anywhere at the price of the probability to get there. For every eta > 0

    c_h(s) = max_a min(1, eps(s,a)/(4 eta) + sum p_hat c_{h+1}),        gap <= eta + 2 c_1,

where the minimum leaves exactly where that is cheaper; and gap <= sqrt(1 - exp(-2 kappa)) without leaving. The last
transition touches no reward.
"""

import numpy as np

from horizonfree._arrays import Array, Leaf, each, library, node, repeat
from horizonfree._shapes import Float
from horizonfree.mdp.space import Kernel, Space

ETAS = tuple(np.geomspace(2e-3, 0.6, 30).tolist())
ENORMOUS = 1e200  # in place of infinity, which zero probabilities would turn into no number


@node
class Uniform:
    """Two bounds on the loss of a plan that is optimal in the centre, and kappa; enormous where too little is known."""

    pinsker: Float[Leaf, ""]
    hellinger: Float[Leaf, ""]
    kappa: Float[Leaf, ""]

    def gap(self, regret: Float[Array, ""] | float = 0.0) -> Float[Array, ""]:
        """The smaller, for a plan with this regret in the centre; not capped at 1."""
        return library(self.pinsker, regret).minimum(self.pinsker + regret, self.hellinger + 2 * regret)


def uniform(space: Space, kernel: Kernel, eps: Float[Array, "S A"]) -> Uniform:
    """The gap for every reward; NumPy in, NumPy out, or traced."""
    xp = library(kernel.prob, eps)
    scales = xp.asarray([1 / (4 * eta) for eta in ETAS] + [1.0])
    caps = xp.asarray([1.0] * len(ETAS) + [ENORMOUS])
    cost = xp.minimum(eps, ENORMOUS / space.horizon) * scales[:, None, None]

    def back(after: Array) -> Array:
        following: Array = xp.minimum(cost + each(kernel.expect, after), caps[:, None, None]).max(-1)
        return following

    first = repeat(space.horizon - 1, back, xp.zeros((len(scales), space.num_states)), cost)
    at = space.at_start(first)
    kappa = at[-1]
    return Uniform((xp.asarray(ETAS) + 2 * at[:-1]).min(), xp.sqrt(-xp.expm1(-2 * kappa)), kappa)
