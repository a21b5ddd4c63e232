"""Bounds on the divergence of trajectories under two kernels, for all policies, and on the suboptimality it allows.

    KL(trajectories) = E_{P_hat, pi} sum_{h<H} KL(P_hat || P)(s_h, a_h)

(the last transition touches no reward), so a bound c(s,a) on each KL and one dynamic programme bound it for all
policies at once. A class of models supplies `RowDivergence`: its estimate P_hat, the bound c, and the mass that was
left out of P_hat to keep c small (`leak`), which costs as much in the value of a policy. Pairs (s,a) whose c is too
large are a bad set at which the comparison stops: that costs the probability of getting there (`hit`).

In terms of the relative change x of each probability, with psi(x) = x - log(1 + x) and its curvature k,

    KL(p || p') = sum p psi(x) + p'(where p is 0),      x = p'/p - 1;        psi(x) = k(x) x^2

k decreases, from infinity at -1 through 1/2 at 0, so psi(x) >= k(b) x^2 for x <= b.

`largest_loss` charges a plan only from the first state in which it makes a choice. The plan of backward induction is
optimal under the estimate from every state and step. Where its action does the same as the best policy's, it loses
nothing; where the actions differ, Lemma 5 is applied from there on. For h = H-1..1, with G_H = 0,

    G_h(s) = min( eps(all policies from (h,s) on),  max( pair_h(s), agree_h(s) ) )
    pair_h(s)  = the largest eps over two actions that do not do the same, each followed by any policy
    agree_h(s) = max_a of an upper bound on [P_theta G_{h+1}](s,a)

and the plan loses at most G_1(s_1), for every reward (docs/certificates.md, Theorem 8). eps is Lemma 5 by KL, or
the angle of Theorem 6H by Hellinger's affinity, whichever is smaller: with D = 1 - affinity and
alpha = arccos(1 - D),

    D_h(s,a) = h2(s,a) + bound on sum_s' sqrt(p p_theta) D_{h+1},      eps = sin(alpha + alpha').

Two actions do the same if they have the same probabilities whatever the parameter; `choices` marks one of each kind.

G_1(s_1) >= min(eps, pair_1(s_1)), which grows with D and needs no G: a pass that leaves out what D has for the
bound, and all values in between, is a lower bound (`least_loss`). With it, the best of several ellipsoids is found
without computing those that cannot be it.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from horizonfree._arrays import Array
from horizonfree.mdp.space import Kernel, Space, occupied_states
from horizonfree.planning.induction import largest_totals, occupied_blocks, row_maxima

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


Two = tuple[Float[np.ndarray, " B"], Float[np.ndarray, " B"]]


class Doubt(NamedTuple):
    """From a state or (s,a) on: the divergence, the probability to leave the comparison, D, and the loss G."""

    kappa: Float[np.ndarray, "S *A"]
    hit: Float[np.ndarray, "S *A"]
    D: Float[np.ndarray, "S *A"]
    G: Float[np.ndarray, "S *A"]


def largest_loss(
    space: Space,
    step: RowDivergence,
    worst: Divergence,
    h2: Float[np.ndarray, "S A"],
    tilts: Float[np.ndarray, "S A n q"],
    choices: Bool[np.ndarray, "S A"],
) -> float:
    """G_1 at the start. P_theta = p + z'u with ||u|| <= 1, so |P_theta V - P_hat V| <= ||sum z V||."""
    rows, succ = np.concatenate([step.kernel.prob[..., None], tilts], -1), np.asarray(space.succ)
    after = np.zeros((space.num_states, len(Doubt._fields)))
    for occupied in occupied_states(space)[-2::-1]:  # the last transition touches no reward
        now = np.zeros_like(after)
        for s in occupied_blocks(space, occupied):
            at_slot = after if space.is_dense else after.take(succ[s], axis=0)
            products = at_slot.swapaxes(-1, -2) @ rows[s]
            mean, slope = Doubt(*np.moveaxis(products[..., 0], -1, 0)), products[..., 2:, 1:]
            of_D, of_G = np.sqrt(np.einsum("sakq,sakq->ksa", slope, slope))
            doubt = Doubt(
                kappa=np.where(worst.stop[s], 0.0, step.cost[s] + mean.kappa / (1 - step.leak[s])),
                hit=np.minimum(np.where(worst.stop[s], 1.0, step.leak[s] + mean.hit), 1.0),
                D=np.minimum(h2[s] + mean.D + of_D / 2, 1.0),
                G=np.minimum(mean.G + of_G, 1.0),
            )
            of_all, of_two = _eps_of_policies(doubt, choices[s])
            most = Doubt(*(row_maxima(x) for x in doubt))
            now[s] = np.stack(most._replace(G=np.minimum(of_all, np.maximum(of_two, most.G))), -1)
        after = now
    return float(space.at_start(after[:, -1]))


def least_loss(
    space: Space,
    step: RowDivergence,
    worst: Divergence,
    h2: Float[np.ndarray, "S A"],
    choices: Bool[np.ndarray, "S A"],
) -> float:
    """At most `largest_loss`, at a small part of its cost: no hit, and D without the bound."""
    if space.horizon < 2:
        return 0.0
    kappa = largest_sums(space, step, step.cost, worst.stop)
    D, o = largest_totals(step.kernel, h2, space.horizon - 1, cap=1.0), np.zeros_like(kappa)
    of_all, of_two = _eps_of_policies(Doubt(kappa, o, D, o), choices)
    return float(space.at_start(np.minimum(of_all, of_two)))


def _eps_of_policies(
    now: Doubt, choices: Bool[np.ndarray, "S A"]
) -> tuple[Float[np.ndarray, " S"], Float[np.ndarray, " S"]]:
    """eps of all policies, and the largest eps over two actions that do not do the same (0 where all do)."""
    distances = now[:3]  # kappa, hit, D
    of_all = _eps(*((x, x) for x in map(row_maxima, distances)))
    of_two = _eps(*(_two_largest(x, choices) for x in distances))
    return of_all, np.where(choices.sum(-1) > 1, of_two, 0.0)


def _eps(kappa: Two, hit: Two, D: Two) -> Float[np.ndarray, " S"]:
    """The smaller of the two bounds for two policies, at most 1; what could not be computed bounds nothing.

    sin(alpha + alpha') by the cosines 1 - D and the sines (D (2 - D))^(1/2); 1 where the sum is pi/2 or more.
    """
    by_kl = gap(hit[0] + hit[1], *kappa)
    cos, sin = [1 - x for x in D], [np.sqrt(x * (2 - x)) for x in D]
    is_acute = cos[0] * cos[1] > sin[0] * sin[1]
    by_angle = np.where(is_acute, sin[0] * cos[1] + cos[0] * sin[1], 1.0)
    return np.fmin(np.fmin(by_kl, by_angle), 1.0)


def _two_largest(x: Float[np.ndarray, "S A"], choices: Bool[np.ndarray, "S A"]) -> Two:
    """The two largest over actions that do not do the same; 0 where there is no second one."""
    among = np.where(choices, x, 0.0)
    if x.shape[1] == 1:
        return among[:, 0], np.zeros(len(x))
    ordered = np.sort(among)
    return ordered[:, -1], ordered[:, -2]
