"""One e-process for all pairs that have led to one state only: mazes, games and other (nearly) deterministic systems.

For a pair x that was visited n_x times, y_x its first successor,

    E_x(p) = OMEGA + (1 - OMEGA) [no other successor was seen] / p(y_x)^(n_x - 1)        (1 before the second visit)

is a test martingale, and so is the product over all unknown pairs, because only the pair that is visited changes. It
stays below 1/(JOINT delta) at all times with probability 1 - JOINT delta. Each pair with several successors has
E_x = OMEGA, and log E_x >= (1 - OMEGA) (n_x - 1) l_x for the others, l_x = -log p(y_x). So for all of them together

    sum (n_x - 1) l_x <= budget = (log(1/(JOINT delta)) + (pairs with several successors) log(1/OMEGA)) / (1 - OMEGA).

A trajectory of the centre that visits them m_x times has probability exp(-sum m_x l_x) of meeting no other successor,
at least exp(-budget max m_x/(n_x - 1)); m_x is at most what shortest paths allow. docs/tabular.md, section 4, has the
proofs.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy  # its submodules load slowly, at first use
from jaxtyping import Bool, Float

from horizonfree.mdp.space import Kernel, Space
from horizonfree.models.tabular.radius import JOINT

OMEGA = 0.1  # the weight, in the e-process of a pair, of not betting on it
BLOCK_SIZE = 2**20  # distances that are computed side by side


def level(delta: float) -> float:
    """log(1/(JOINT delta)), which the joint e-process does not reach."""
    return -math.log(JOINT) - math.log(delta)


def log_e(N: Float[np.ndarray, "X n"], p: Float[np.ndarray, "X n"]) -> Float[np.ndarray, " X"]:
    """log E_x(p) of every pair."""
    n, first = N.sum(-1), N.argmax(-1)
    p_first = np.take_along_axis(p, first[:, None], -1)[:, 0]
    with np.errstate(divide="ignore"):
        bet = (np.maximum(n, 1) - 1) * -np.log(np.where(n > 1, p_first, 1.0))
    log_e: np.ndarray = np.where(
        (N > 0).sum(-1) > 1, math.log(OMEGA), np.logaddexp(math.log(OMEGA), math.log(1 - OMEGA) + bet)
    )
    return log_e


def violation(N: Float[np.ndarray, "X n"], p: Float[np.ndarray, "X n"], delta: float) -> float:
    """log prod_x E_x(p) - log(1/(JOINT delta)): above 0, p is outside the joint confidence set."""
    return float(log_e(N, p).sum()) - level(delta)


@dataclass(frozen=True, eq=False)
class Joint:
    """sum weight l <= budget, l = -log p(y); the weight is 0 where the pair is not one of them.

    `exponent`: budget times the most of m_x/weight_x that any trajectory of the centre has, the mean over the start; it
    is infinite where nothing follows.
    """

    weight: Float[np.ndarray, "S A"]
    budget: float
    exponent: float

    def after(self, times: float) -> "Joint":
        """With so many times the data."""
        return replace(self, weight=self.weight * times, exponent=self.exponent / times)

    def exponent_of(self, occupancy: Float[np.ndarray, "S A"]) -> float:
        """budget max m_x/weight_x for mean numbers m of visits: at least the mean of sum m_x l_x."""
        is_used = self.weight > 0
        ratios = occupancy[is_used] / self.weight[is_used]
        largest = float(ratios.max(initial=0.0))
        return self.budget * largest if largest else 0.0


def no_joint(shape: tuple[int, int]) -> Joint:
    """Without any pair."""
    return Joint(np.zeros(shape), math.inf, math.inf)


def joint(
    space: Space,
    kernel: Kernel,
    is_stop: Bool[np.ndarray, "S A"],
    weight: Float[np.ndarray, "S A"],
    several: int,
    delta: float,
) -> Joint:
    """kernel: the centre; is_stop: pairs at which trajectories are no longer compared; weight: n - 1, or 0.

    several: how many pairs showed more than one successor.
    """
    budget = (level(delta) + several * math.log(1 / OMEGA)) / (1 - OMEGA)
    return Joint(weight, budget, budget * most_visits(space, kernel, is_stop, weight))


def most_visits(
    space: Space, kernel: Kernel, is_stop: Bool[np.ndarray, "S A"], weight: Float[np.ndarray, "S A"]
) -> float:
    """The most of m_x/weight_x over pairs of positive weight, m_x the most visits in H - 1 steps, a mean over starts.

    From s a pair x = (s_x, a) can be visited first after dist(s, s_x) steps, and again 1 + dist(y, s_x) steps later, y
    the nearest of its successors: distances in the graph of the transitions of the centre.
    """
    steps, (S, A, _) = space.horizon - 1, kernel.succ.shape
    weight = np.where(weight > 0, weight, np.inf)
    lowest = weight.min(1)
    targets = np.argsort(lowest, kind="stable")[: int(np.isfinite(lowest).sum())]
    is_edge = (kernel.prob > 0) & ~is_stop[..., None]
    s, a, j = np.nonzero(is_edge)
    edges = kernel.succ[s, a, j], s  # backwards
    graph = scipy.sparse.coo_array((np.ones(len(s)), edges), (S, S)).tocsr()
    graph.data[:] = 1.0
    most, size = 0.0, max(1, BLOCK_SIZE // (S * A))
    for i in range(0, len(targets), size):
        part = targets[i : i + size]
        if steps <= most * lowest[part[0]]:  # the others have larger weights
            break
        dist = np.atleast_2d(
            scipy.sparse.csgraph.dijkstra(graph, indices=part, unweighted=True, limit=steps)
        )  # [part, S], to the part
        is_slot, rows = is_edge[part], np.arange(len(part))[:, None, None]
        back = 1 + np.where(is_slot, dist[rows, kernel.succ[part]], np.inf).min(-1)
        left = (steps - 1 - dist)[:, None]  # steps after the first visit
        visits = np.where(left >= 0, 1 + np.floor(np.maximum(left, 0) / back[..., None]), 0.0)
        most = max(most, float((space.at_start(visits) / weight[part]).max()))
    return most


def along_paths(
    space: Space, kernel: Kernel, is_stop: Bool[np.ndarray, "S A"], cost: Float[np.ndarray, "S A"]
) -> float:
    """The largest sum of costs on any trajectory of the centre in H - 1 steps, the mean over the start."""
    can = (kernel.prob > 0) & ~is_stop[..., None]
    total = np.zeros(space.num_states)
    for _ in range(space.horizon - 1):
        total = (cost + np.where(can, total[kernel.succ], 0.0).max(-1)).max(-1)
    return float(space.at_start(total))


def own_leak(
    joint: Joint,
    occupancy: Float[np.ndarray, "S A"],
    is_point: Bool[np.ndarray, "S A"],
    eps: Float[np.ndarray, "S A"],
) -> float:
    """1 - exp(-mean of sum m_x l_x) for a policy, from its mean numbers of visits in the centre; 1 elsewhere."""
    if occupancy[(eps > 0) & ~is_point].any():
        return 1.0
    one_by_one = float(occupancy[is_point] @ eps[is_point])
    others = is_point & (joint.weight == 0)
    together = joint.exponent_of(occupancy) + float(occupancy[others] @ eps[others])
    return -math.expm1(-min(one_by_one, together))
