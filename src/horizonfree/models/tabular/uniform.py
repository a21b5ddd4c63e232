"""What plans lose for every reward at once, when the rows of all pairs lie in balls.

Trajectories of the centre diverge from those of the truth by KL <= E sum_{h<H} eps (guarantees/divergence.py), and
one may leave the comparison anywhere at the price of the probability to get there. A row whose centre is a point mass
(`is_point`) can instead be compared by what it misses: mass 1 - exp(-eps), without a square root. For every eta > 0

    c_h(s) = max_a min(1, cost(s,a) + sum p_hat c_{h+1}),           suboptimality <= eta + 2 c_1,
    cost = eps/(4 eta), or min(eps/(4 eta), 1 - exp(-eps)) at point masses,

where the minimum leaves exactly where that is cheaper; and suboptimality <= sqrt(1 - exp(-2 kappa)) without leaving.
With cost = 0 at point masses, c of the other rows, and `leak`, the largest probability of any trajectory of the centre
to meet another successor at one of them,

    suboptimality <= leak + eta + 2 c_1.

The last transition touches no reward. docs/tabular.md, section 4, has the proofs.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from horizonfree.mdp.space import Kernel, Space
from horizonfree.models.tabular.joint import Joint, along_paths

ETAS = np.geomspace(2e-3, 0.6, 30)
LARGE_NUMBER = 1e200  # in place of infinity, which zero probabilities would turn into no number
HALF_KNOWN = (
    1.0  # a point mass with a larger eps, of which the joint e-process says nothing, is one of the other rows
)
BLOCK_SIZE = 2**17  # numbers that are computed side by side: about as many as fit into the cache of a core


@dataclass(frozen=True)
class Uniform:
    """Three bounds on the loss of a plan that is optimal in the centre, and kappa; enormous where too little is known.

    The third is leak + rest: what the point masses cost, and the other rows.
    """

    pinsker: float
    hellinger: float
    kappa: float
    leak: float
    rest: float

    def gap(self, regret: float = 0.0) -> float:
        """The smallest, for a plan with this regret in the centre; not capped at 1."""
        return min(self.pinsker + regret, self.hellinger + 2 * regret, self.leak + self.rest + regret)


def point_masses(kernel: Kernel, eps: Float[np.ndarray, "S A"]) -> Bool[np.ndarray, "S A"]:
    """Unknown rows of which something is known and whose centre has one successor."""
    return ((kernel.prob > 0).sum(-1) == 1) & (eps > 0) & np.isfinite(eps)


def uniform(space: Space, kernel: Kernel, eps: Float[np.ndarray, "S A"], joint: Joint) -> Uniform:
    """The gap for every reward."""
    is_point, is_stop = point_masses(kernel, eps), ~np.isfinite(eps)
    eps = np.minimum(eps, LARGE_NUMBER / space.horizon)
    scaled = eps / (4 * ETAS[:, None, None])
    c = _largest_sums(space, kernel, np.where(is_point, np.minimum(scaled, -np.expm1(-eps)), scaled), 1.0)
    pinsker = float((ETAS + 2 * c).min())
    kappa = float(_largest_sums(space, kernel, eps[None], LARGE_NUMBER)[0])
    hellinger = math.sqrt(-math.expm1(-2 * kappa))
    if not is_point.any():
        return Uniform(pinsker, hellinger, kappa, 0.0, pinsker)
    is_point &= (joint.weight > 0) | (eps <= HALF_KNOWN)
    rest = 0.0
    if (~is_point & (eps > 0)).any():
        c = _largest_sums(space, kernel, np.where(is_point, 0.0, scaled), 1.0)
        rest = float((ETAS + 2 * c).min()) if c.any() else 0.0
    one_by_one = along_paths(space, kernel, is_stop, np.where(is_point, eps, 0.0))
    if math.isfinite(joint.exponent):
        others = np.where(is_point & (joint.weight == 0), eps, 0.0)
        together = joint.exponent + along_paths(space, kernel, is_stop, others)
    else:
        together = math.inf
    return Uniform(pinsker, hellinger, kappa, -math.expm1(-min(one_by_one, together)), rest)


def _largest_sums(
    space: Space, kernel: Kernel, paid: Float[np.ndarray, "k S A"], cap: float
) -> Float[np.ndarray, " k"]:
    """c_1 at the start, for several payments and one cap."""
    size = max(1, BLOCK_SIZE // kernel.prob.size)
    parts = [_side_by_side(space, kernel, paid[i : i + size], cap) for i in range(0, len(paid), size)]
    return np.concatenate(parts)


def _side_by_side(
    space: Space, kernel: Kernel, paid: Float[np.ndarray, "k S A"], cap: float
) -> Float[np.ndarray, " k"]:
    k, S, A = paid.shape
    # States last, where NumPy's sums and maxima over short axes are fast.
    prob, succ = (np.ascontiguousarray(x.transpose(1, 2, 0)) for x in (kernel.prob, kernel.succ))
    paid = np.ascontiguousarray(paid.swapaxes(1, 2))
    c = np.zeros((k, S))
    for _ in range(space.horizon - 1):
        if kernel.is_dense:
            following = (c @ kernel.prob.reshape(S * A, S).T).reshape(k, S, A).swapaxes(1, 2)
        else:
            following = (prob * c[:, succ]).sum(-2)
        c = np.minimum(paid + following, cap).max(1)
    return space.at_start(c)
