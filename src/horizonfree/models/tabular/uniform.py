"""What plans lose for every reward at once, when the rows of all pairs lie in balls.

Trajectories of the centre diverge from those of the truth by KL <= E sum_{h<H} eps (guarantees/divergence.py), and
one may leave the comparison anywhere at the price of the probability to get there. For every eta > 0

    c_h(s) = max_a min(1, eps(s,a)/(4 eta) + sum p_hat c_{h+1}),        gap <= eta + 2 c_1,

where the minimum leaves exactly where that is cheaper; and gap <= sqrt(1 - exp(-2 kappa)) without leaving. The last
transition touches no reward.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from horizonfree.mdp.space import Kernel, Space

ETAS = np.geomspace(2e-3, 0.6, 30)
LARGE_NUMBER = 1e200  # in place of infinity, which zero probabilities would turn into no number
BLOCK_SIZE = 2**17  # numbers that are computed side by side: about as many as fit into the cache of a core


@dataclass(frozen=True)
class Uniform:
    """Two bounds on the loss of a plan that is optimal in the centre, and kappa; enormous where too little is known."""

    pinsker: float
    hellinger: float
    kappa: float

    def gap(self, regret: float = 0.0) -> float:
        """The smaller, for a plan with this regret in the centre; not capped at 1."""
        return min(self.pinsker + regret, self.hellinger + 2 * regret)


def uniform(space: Space, kernel: Kernel, eps: Float[np.ndarray, "S A"]) -> Uniform:
    """The gap for every reward."""
    eps = np.minimum(eps, LARGE_NUMBER / space.horizon)
    scales = np.append(1 / (4 * ETAS), 1.0)
    caps = np.append(np.ones(len(ETAS)), LARGE_NUMBER)
    size = max(1, BLOCK_SIZE // kernel.prob.size)
    parts = [
        _largest_sums(space, kernel, eps * scales[i : i + size, None, None], caps[i : i + size])
        for i in range(0, len(scales), size)
    ]
    *c, kappa = np.concatenate(parts)
    return Uniform(float((ETAS + 2 * np.array(c)).min()), math.sqrt(-math.expm1(-2 * kappa)), float(kappa))


def _largest_sums(
    space: Space, kernel: Kernel, paid: Float[np.ndarray, "k S A"], caps: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    """c_1 at the start, for several payments and their caps."""
    (k, S, A), caps = paid.shape, caps[:, None, None]
    # States last, where NumPy's sums and maxima over short axes are fast.
    prob, succ = (np.ascontiguousarray(x.transpose(1, 2, 0)) for x in (kernel.prob, kernel.succ))
    paid = np.ascontiguousarray(paid.swapaxes(1, 2))
    c = np.zeros((k, S))
    for _ in range(space.horizon - 1):
        if kernel.is_dense:
            following = (c @ kernel.prob.reshape(S * A, S).T).reshape(k, S, A).swapaxes(1, 2)
        else:
            following = (prob * c[:, succ]).sum(-2)
        c = np.minimum(paid + following, caps).max(1)
    return space.at_start(c)
