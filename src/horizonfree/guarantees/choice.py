"""What a plan can lose, charged only from the first state in which it makes a choice.

The plan of backward induction is optimal under the estimate from every state and step. Where it differs from the best
policy in an action that does the same as the best one, it loses nothing there; where the actions differ, Lemma 5 is
applied from there on. For h = H-1..1, with G_H = 0,

    G_h(s) = min( eps(all policies from (h,s) on),  max( pair_h(s), agree_h(s) ) )
    pair_h(s)  = the largest eps over two actions that do not do the same, each followed by any policy
    agree_h(s) = max_a of an upper bound on [P_theta G_{h+1}](s,a)

and the plan loses at most G_1(s_1), for every reward (docs/certificates.md, Theorem 8). eps is Lemma 5 by KL, or the
angle of Theorem 6H by Hellinger's affinity, whichever is smaller: with D = 1 - affinity and alpha = arccos(1 - D),

    D_h(s,a) = h2(s,a) + bound on sum_s' sqrt(p p_theta) D_{h+1},      eps = sin(alpha + alpha').

Two actions do the same if they have the same probabilities whatever the parameter; `choices` marks one of each kind.

G_1(s_1) >= min(eps, pair_1(s_1)), which grows with D and needs no G: a pass that leaves out what D has for the bound,
and all else that is wanted of the states in between, is a bound from below (`least_loss`). Of several ellipsoids the
one with the least loss is found without computing those that cannot be it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from horizonfree.guarantees.divergence import (
    Divergence,
    RowDivergence,
    gap,
    largest_sums,
)
from horizonfree.mdp.space import Space
from horizonfree.planning.induction import largest_totals

Spread = Callable[[Float[np.ndarray, " S"]], Float[np.ndarray, "S A"]]
Two = tuple[Float[np.ndarray, " S"], Float[np.ndarray, " S"]]


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
    spread: Spread,
    choices: Bool[np.ndarray, "S A"],
) -> float:
    """G_1 at the start. `spread(V)` bounds |P_theta V - P_hat V| for every parameter that the data allow."""
    o = np.zeros(space.num_states)
    after = Doubt(o, o, o, o)
    for _ in range(space.horizon - 1):
        mean = Doubt(*(step.kernel.expect(x) for x in after))
        now = Doubt(
            kappa=np.where(worst.stop, 0.0, step.cost + mean.kappa / (1 - step.leak)),
            hit=np.minimum(np.where(worst.stop, 1.0, step.leak + mean.hit), 1.0),
            D=np.minimum(h2 + mean.D + spread(after.D) / 2, 1.0),
            G=np.minimum(mean.G + spread(after.G), 1.0),
        )
        most = Doubt(*(x.max(-1) for x in now))
        of_all, of_two = _eps_of_policies(now, choices)
        after = most._replace(G=np.minimum(of_all, np.maximum(of_two, most.G)))
    return float(space.at_start(after.G))


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
    of_all = _eps(*((x.max(-1), x.max(-1)) for x in distances))
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
