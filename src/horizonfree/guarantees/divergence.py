"""How far apart the trajectories of two kernels can be, whatever the policy, and what a plan can lose by that.

    KL(trajectories) = E_{P_hat, pi} sum_{h<H} KL(P_hat || P)(s_h, a_h)

(the last transition touches no reward), so a bound c(s,a) on each KL and one dynamic programme bound it for all
policies at once. A class of models supplies `RowDivergence`: its estimate P_hat, the bound c, and the mass that was
left out of P_hat to keep c small (`leak`), which costs as much in the value of a policy. Pairs (s,a) whose c is too
large are a bad set at which the comparison stops: that costs the probability of getting there (`hit`).

psi(x) = x - log(1 + x), the price of a relative change x of a probability, its curvature and its inverse.

    KL(p || p') = sum p psi(x) + p'(where p is 0),      x = p'/p - 1;        psi(x) = k(x) x^2

k decreases, from infinity at -1 through 1/2 at 0, so psi(x) >= k(b) x^2 for x <= b.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from horizonfree._arrays import Array
from horizonfree.mdp.space import Kernel, Space
from horizonfree.planning.induction import largest_totals

STOP_THRESHOLDS = (
    math.inf,
    3.0,
    0.3,
    0.03,
)  # pairs with a larger c are stopped at; the best of these is kept
NEWTON_STEPS = 4  # steps to the inverse: exact to 12 digits by then


def psi(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """x - log(1 + x)."""
    return x**2 * curvature(x)


def curvature(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """k(x) = (x - log(1 + x)) / x^2 for x > -1."""
    is_small = abs(x) < 1e-3
    safe = np.where(is_small, 1.0, x)
    series = 1 / 2 - x * (1 / 3 - x * (1 / 4 - x * (1 / 5 - x * (1 / 6 - x / 7))))
    return np.where(is_small, series, (safe - np.log1p(safe)) / safe**2)


def psi_inverse(c: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The x >= 0 with psi(x) = c, from above: Newton on a convex function from above its root."""
    x = c + np.sqrt(c * (c + 2))  # as psi(x) >= x^2 / (2 (1 + x))
    for _ in range(NEWTON_STEPS):
        x = x - (psi(x) - c) * (1 + x) / np.maximum(x, 1e-300)
    return x


@dataclass(frozen=True, eq=False)
class RowDivergence:
    """One transition: the kernel of the estimate, the KL it can cost at most, the mass left out.

    Without the outcomes left out, the estimate's transitions are at most kernel / (1 - leak).
    """

    kernel: Kernel
    cost: Float[np.ndarray, "S A"]
    leak: Float[np.ndarray, "S A"]


@dataclass(frozen=True, eq=False)
class Divergence:
    """The largest KL over all policies and the largest probability of leaving the comparison; eps follows from both."""

    kappa: float
    hit: float
    stop: Bool[np.ndarray, "S A"]
    eps: float


def gap(
    regret: Float[Array, "*n"], kappa: Float[Array, "*n"], kappa_plan: Float[Array, "*n"]
) -> Float[Array, "*n"]:
    """How much the best policy can gain on a plan whose regret under (nearly) the estimate is at most `regret`.

    Two values v_best <= v_plan + regret under the estimate, w_best and w_plan under theta, kl(v_best, w_best) <= kappa,
    kl(v_plan, w_plan) <= kappa_plan. Pinsker:  w_best - w_plan <= regret + sqrt(kappa/2) + sqrt(kappa_plan/2).
    Hellinger, after moving one of v to the other:  <= 2 regret + sqrt(1 - exp(-kappa - kappa_plan)).  Not capped at 1.
    """
    pinsker = regret + np.sqrt(kappa / 2) + np.sqrt(kappa_plan / 2)
    return np.minimum(pinsker, 2 * regret + np.sqrt(-np.expm1(-kappa - kappa_plan)))


def largest_sum(
    space: Space, step: RowDivergence, cost: Float[np.ndarray, "S A"], stop: Bool[np.ndarray, "S A"]
) -> float:
    """max over pi of E sum_{h<H} cost before the bad set, without what was left out, from above."""
    return float(space.at_start(largest_sums(space, step, cost, stop).max(-1)))


def largest_sums(
    space: Space, step: RowDivergence, cost: Float[np.ndarray, "S A"], stop: Bool[np.ndarray, "S A"]
) -> Float[np.ndarray, "S A"]:
    """`largest_sum` from each (s,a) on: totals of H - 1 steps."""
    if space.horizon < 2:
        return np.zeros_like(cost)
    kernel, weight = step.kernel, np.where(stop, 0.0, 1 / (1 - step.leak))
    weighted = Kernel(kernel.succ, kernel.prob * weight[..., None], kernel.is_dense)
    return largest_totals(weighted, np.where(stop, 0.0, cost), space.horizon - 1)


def largest_hit(space: Space, step: RowDivergence, stop: Bool[np.ndarray, "S A"]) -> float:
    """max over pi of the estimate's probability of the bad set or of what was left out, from above."""
    if space.horizon < 2 or not (stop | (step.leak > 0)).any():
        return 0.0
    kernel, weight = step.kernel, np.where(stop, 0.0, 1.0)
    weighted = Kernel(kernel.succ, kernel.prob * weight[..., None], kernel.is_dense)
    hit = largest_totals(weighted, np.where(stop, 1.0, step.leak), space.horizon - 1)
    return float(space.at_start(np.minimum(hit.max(-1), 1.0)))


def bad_sets(step: RowDivergence) -> Bool[np.ndarray, "4 S A"]:
    """Nested sets of pairs of which too little is known."""
    sets: np.ndarray = (step.cost > np.array(STOP_THRESHOLDS)[:, None, None]) | ~np.isfinite(step.cost)
    return sets


def divergence(space: Space, step: RowDivergence) -> Divergence:
    """The uniform gap: kappa and hit over all policies, for the best of a few bad sets, each tried once."""
    best: Divergence | None = None
    last: Bool[np.ndarray, "S A"] | None = None
    for stop in bad_sets(step):
        if last is not None and np.array_equal(stop, last):
            continue
        last = stop
        kappa = largest_sum(space, step, np.where(stop, 0.0, step.cost), stop)
        hit = largest_hit(space, step, stop)
        eps = float(gap(*(np.asarray(x) for x in (2 * hit, kappa, kappa))))
        new = Divergence(kappa, hit, stop, math.inf if math.isnan(eps) else eps)
        if best is None or new.eps < best.eps:
            best = new
    assert best is not None
    return best
