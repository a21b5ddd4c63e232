"""Suboptimality of a plan for one reward in any system whose laws are within their radii: Theorems R6 and R5.

V, J, B, R and adv are those of the tangent pass (tangent.py), err = ||J|| + ||B|| + R. With the span of f over the
successors of a pair, and vs a bound on the span of V_theta',

    vs     = min(1, max(V' + err')) - max(0, min(V' - err'))
    Qup(f) = min(max f, p f + ||sum z f|| + zeta span f)                       >= Q f for every law Q that is allowed
    E(s)   = min(1, [zeta vs + Qup(E')](s, pi))                                |V^pi_Q - V^pi_theta|
    D(s)   = max_a [adv + zeta vs + min(1, Qup(D'))], in [0, 1]                V*_Q - V^pi_theta
    G(s)   = min(D + E, max(Qup(G')(s, pi), max over other a of [adv + zeta vs + Qup(E') + E(s) + min(1, Qup(G'))]))
    up(s)  = max_a min(1, r + Qup(up'))
    lo(s)  = max(0, r + [max(min lo', p lo' - ||sum z lo'|| - zeta span lo')](s, pi))

V* is the best value over all policies, with memory, in that system, and its laws may depend on the whole past: all
right sides are functions of the state. Where a law may lead anywhere, spans are over all states.

Theorem R5 bounds the divergence of a transition of theta_hat from any law within the radius of any theta in the
ellipsoid. A law is Q = p (1 + x + e/p), x the relative change to theta, sum e = 0, sum |e| <= 2 zeta. With a' = a +
zeta/p,

    KL(p || Q) = sum p psi(x + e/p) <= (sqrt c + sqrt d)^2,      c >= sum k(-a') p x^2 over the ellipsoid and the rows,
    d = zeta^2 (sum of the two largest k(-a')/p)      (convex in e: largest where zeta moves from one slot to another)

by the triangle inequality in the norm with weights k p. Successors with a' >= 1 are left out where p is below a
threshold: the KL then gains the mass that Q may have there, at most sum p b (or ||sum z||) + zeta. Elsewhere such a
pair is one at which the comparison stops.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.errors import OptionError
from horizonfree.guarantees.divergence import Divergence, RowDivergence, curvature, divergence
from horizonfree.mdp.space import Space
from horizonfree.models.base import Bounds, Policy, length, opnorm
from horizonfree.models.mixture import tangent
from horizonfree.models.mixture.ellipsoid import MAX_MASS_LEFT_OUT, THRESHOLDS, Ellipsoid, at_slots
from horizonfree.models.mixture.tangent import OPTIMALITY_TOLERANCE, EllipsoidAround, Values
from horizonfree.models.mixture.valid import ValidSet

WHOLE_SHARE = 1 - 1e-6  # a share by which a probability may fall that counts as all of it


def successors(valid: ValidSet) -> Bool[np.ndarray, "S A n"]:
    """Slots whose row is possible under some parameter."""
    return np.append(valid.positive, False)[valid.row_of]


def compare_within(
    space: Space, valid: ValidSet, ball: Ellipsoid, zeta: Float[np.ndarray, "S A"]
) -> tuple[RowDivergence, Divergence]:
    """The steps with the smallest uniform gap over the thresholds."""

    result = []
    for below in (0.0, *THRESHOLDS):
        step = steps_within(space, valid, ball, zeta, below)
        result.append((step, divergence(space, step)))
    return min(result, key=lambda pair: pair[1].eps)


def steps_within(
    space: Space,
    valid: ValidSet,
    ball: Ellipsoid,
    zeta: Float[np.ndarray, "S A"],
    below: float,
) -> RowDivergence:
    """theta_hat's kernel and the KL of each (s,a), without successors that are less likely than `below`."""
    is_slot = successors(valid)
    prob = at_slots(ball.p, valid.row_of)
    p = np.where(is_slot, prob, 1.0)
    a, b = at_slots(ball.below, valid.row_of), at_slots(ball.above, valid.row_of)
    z = at_slots(np.where(valid.free[:, None], ball.z, 0.0), valid.row_of)
    radius = zeta[..., None]
    reach = a + radius / p
    is_out = is_slot & (reach >= WHOLE_SHARE) & (p < below)
    is_kept = is_slot & ~is_out
    is_bad = (is_kept & (reach >= WHOLE_SHARE)).any(-1)
    k = np.where(is_kept, curvature(-np.minimum(reach, WHOLE_SHARE)), 0.0)
    by_zeta = (zeta**2) * _two_largest(k / p) * (is_slot.sum(-1) > 1)
    inside = (np.sqrt(_by_theta(z, k, p, a, b)) + np.sqrt(by_zeta)) ** 2
    alone = np.where(is_out, p * b, 0.0).sum(-1)
    together = length(np.where(is_out[..., None], z, 0.0).sum(-2))
    gained = np.minimum(alone, together) + zeta * is_out.any(-1)
    mass = np.where(is_out, p, 0.0).sum(-1)
    is_compared = ~is_bad & (mass < MAX_MASS_LEFT_OUT)
    leak = np.where(is_compared, mass, 0.0)
    cost = np.where(is_compared, (inside + gained) / (1 - leak) - np.log1p(-leak), np.inf)
    reachable = space.reachable[:, None]
    return RowDivergence(
        space.kernel(np.where(is_slot, prob, 0.0) * reachable[..., None]),
        np.where(reachable, cost, 0.0),
        np.where(reachable, np.where(is_compared, leak, 1.0), 0.0),
    )


def _by_theta(
    z: Float[np.ndarray, "S A n q"],
    k: Float[np.ndarray, "S A n"],
    p: Float[np.ndarray, "S A n"],
    a: Float[np.ndarray, "S A n"],
    b: Float[np.ndarray, "S A n"],
) -> Float[np.ndarray, "S A"]:
    """sum k p x^2 at most: all rows together in the ellipsoid, each by itself, or each as is better for it."""
    squares = k / p * (z**2).sum(-1)
    alone = k * p * np.maximum(a, b) ** 2
    is_alone = alone < squares

    def together(kept: np.ndarray) -> np.ndarray:
        B = np.sqrt(np.where(kept, k / p, 0.0))[..., None] * z
        n, q = B.shape[2:]
        return opnorm(B.swapaxes(-1, -2) @ B if q <= n else B @ B.swapaxes(-1, -2))

    both = together(~is_alone) + np.where(is_alone, alone, 0.0).sum(-1)
    return np.asarray(np.minimum(np.minimum(together(k > 0), alone.sum(-1)), both))


def _two_largest(x: Float[np.ndarray, "S A n"]) -> Float[np.ndarray, "S A"]:
    result: np.ndarray = np.sort(x)[..., -2:].sum(-1)
    return result


@runtime_checkable
class Laws(EllipsoidAround, Protocol):
    """The laws that are allowed around the estimate."""

    @property
    def is_slot(self) -> Bool[np.ndarray, "S A n"]:
        """Which slots of the lists are successors."""

    @property
    def zeta(self) -> Float[np.ndarray, "S A"]:
        """The radius of each pair."""

    @property
    def anywhere(self) -> bool:
        """Whether a law may lead to any state."""


class Losses(NamedTuple):
    """E, D, G, up, lo of each state."""

    E: Float[np.ndarray, " S"]
    D: Float[np.ndarray, " S"]
    G: Float[np.ndarray, " S"]
    up: Float[np.ndarray, " S"]
    lo: Float[np.ndarray, " S"]


def robust_bounds(around: Laws, reward: Float[np.ndarray, "H S A"], policy: Policy) -> Bounds:
    """The bounds of one plan for one reward; `around.eps` is that of every plan that is optimal in the estimate.

    Plans are tables of actions.
    """
    if policy.ndim == 3:
        raise OptionError(
            "with a misspecification of a mixture, or with kernels from samples, policies are certified whose actions "
            "are certain, [H, S], and plans within constraints draw theirs; leave constraints= or misspecification= "
            "out, or take problem.as_tabular()"
        )
    values, space, shortfall = tangent.at_end(around), around.space, np.zeros(())
    losses = Losses(*[np.zeros(space.num_states)] * 5)
    for h in reversed(range(len(reward))):
        earlier = _losses(around, values, losses, reward[h], policy[h])
        values, short = tangent.back(around, values, reward[h], policy[h], is_last=h == len(reward) - 1)
        losses, shortfall = earlier, np.maximum(shortfall, short)
    at = Losses(*(space.at_start(x) for x in losses))
    radius = space.at_start(_error(values) + losses.E)
    V = space.at_start(values.V)
    low = np.maximum(at.lo, V - radius)
    uniform = float(around.eps) if shortfall <= OPTIMALITY_TOLERANCE else np.nan
    gaps = {"uniform": uniform, "interval": at.up - low, "tangent": at.G}
    return Bounds(V, low, np.minimum(at.up, V + radius), gaps)


def _ends(
    around: Laws, f: Float[np.ndarray, "S *k"]
) -> tuple[Float[np.ndarray, "S A *k"], Float[np.ndarray, "S A *k"]]:
    """The smallest and the largest of functions over what can follow each pair."""
    S, A, _ = around.is_slot.shape
    if around.anywhere:
        shape = (S, A, *f.shape[1:])
        return np.broadcast_to(f.min(0), shape), np.broadcast_to(f.max(0), shape)
    at_slot, is_slot = f[around.space.succ], around.is_slot
    if f.ndim > 1:
        is_slot = is_slot[..., None]
    return np.where(is_slot, at_slot, np.inf).min(2), np.where(is_slot, at_slot, -np.inf).max(2)


def _reach(
    around: Laws, f: Float[np.ndarray, "S k"]
) -> tuple[Float[np.ndarray, "S A k"], Float[np.ndarray, "S A k"]]:
    """Below and above every Q f."""
    least, most = _ends(around, f)
    at_slot = f[around.space.succ]
    mean = np.einsum("san,sank->sak", around.step.kernel.prob, at_slot)
    spread = length(np.einsum("sanq,sank->sakq", around.tilts, at_slot))
    spread = spread + around.zeta[..., None] * (most - least)
    return np.maximum(least, mean - spread), np.minimum(most, mean + spread)


def _error(values: Values) -> Float[np.ndarray, " S"]:
    """By how much the value of the policy under theta can be off that under theta_hat."""
    return np.asarray(length(values.J) + opnorm(values.B) + values.R)


def _losses(
    around: Laws, values: Values, losses: Losses, r: Float[np.ndarray, "S A"], pi: Int[np.ndarray, " S"]
) -> Losses:
    """One step back."""
    states = np.arange(len(pi))
    _, adv = tangent.advantages(around, values, tangent.sums(around, values), r, pi)
    error = _error(values)
    least, _ = _ends(around, values.V - error)
    _, most = _ends(around, values.V + error)
    shift = around.zeta * (np.minimum(most, 1.0) - np.maximum(least, 0.0))
    below, above = _reach(around, np.stack(losses, axis=1))
    E_up, D_up, G_up, up_up = (above[..., i] for i in range(4))
    E = np.minimum(1.0, (shift + E_up)[states, pi])
    D = np.clip((adv + shift + np.minimum(1.0, D_up)).max(-1), 0.0, 1.0)
    other = adv + shift + E_up + E[:, None] + np.minimum(1.0, G_up)
    is_own = np.arange(r.shape[1]) == pi[:, None]
    apart = np.where(is_own, -np.inf, other).max(-1)
    G = np.clip(np.maximum(G_up[states, pi], apart), 0.0, 1.0)
    return Losses(
        E=E,
        D=D,
        G=np.minimum(D + E, G),
        up=np.minimum(1.0, r + up_up).max(-1),
        lo=np.maximum(0.0, (r + below[..., 4])[states, pi]),
    )
