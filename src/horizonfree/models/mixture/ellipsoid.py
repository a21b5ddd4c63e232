"""From the likelihood-ratio set U to an ellipsoid that contains it, row by row, and the transitions in it.

For theta in U put Delta = theta - theta_hat and x_r = <x_r, Delta> / p_r, the relative change of row r. With the slack
W = Lq + log(1/(delta w)) - L(theta_hat) + gap and psi(x) = x - log(1 + x), optimality of theta_hat over Theta gives

    sum_r N_r psi(x_r) + sum_r lam_r p_theta,r <= W                                                          (1)

(lam: likelihood.Fit). psi(x)/x^2 decreases, so from -a_r <= x_r <= b_r follow N_r psi(x_r) >= N_r k(b_r) x_r^2, k(x) =
psi(x)/x^2. The second sum is at least the norm of (lam_r z_r'Delta)_r, up to the gap of the fit: rows on the boundary
are known at the rate 1/N. Together, with W increased by that gap,

    Delta' [ sum_r N_r k(b_r) z_r z_r' / (p_r^2 W) + sum_r lam_r^2 z_r z_r' / W^2 ] Delta <= 1                (2)

The ellipsoid (2) tightens a and b in turn; every round is valid by itself. Probabilities lie in [0,1], which also
bounds the directions that no data have shown. docs/certificates.md has the proofs.

How far one transition of theta_hat can be from that of any theta in the ellipsoid (`compare`) is what the gap lemma
needs. With x the relative change of each probability, two distances of the transitions at (s,a) are sums over rows:

    KL(P_theta_hat || P_theta) = sum_s' p psi(x)                psi(x) = x - log(1 + x)
    1 - sum_s' sqrt(P_theta_hat P_theta) = sum_s' p eta(x)      eta(x) = (sqrt(1 + x) - 1)^2 / 2      (Hellinger)

(both because sum p x = 0). psi(x)/x^2 and eta(x)/x^2 decrease, so with f one of the two, row by row,

    f(x) <= k(-a_r) x^2,  k(x) = f(x)/x^2      (`by_square`: squares of several rows share directions of the ellipsoid)
    f(x) <= max(f(b_r), f(-a_r))               (`by_itself`)

psi is infinite where theta may give zero (a_r = 1). Such rows are `left_out` of theta_hat's transitions where p_r is
below a threshold: that costs their mass in the value of a policy (`leak`), and the KL gains the mass that theta may
have there. eta is finite, and no row is left out.

The confidence set is projected on every entry, for intervals of single transition probabilities (`entry_intervals`): a
parameter in it has row r between p_r (1 - below_r) and p_r (1 + above_r). Rows that no unknown direction changes have a
known probability; rows of unreachable states may have any.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.guarantees.divergence import (
    Divergence,
    RowDivergence,
    curvature,
    divergence,
    psi,
    psi_inverse,
)
from horizonfree.mdp.space import Space
from horizonfree.models.base import length, opnorm
from horizonfree.models.mixture.likelihood import Fit, coordinates, whiten
from horizonfree.models.mixture.valid import RANK_TOLERANCE, ValidSet

TIGHTENING_ROUNDS = 6  # of tightening; the last ones change little
NEWTON_STEPS = 6  # steps for the inverse of psi below 0
BOX_SHARE = 1e-6  # share of the ellipsoid for "probabilities lie in [0,1]", so that it is bounded


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """A set that contains U, whitened: every theta in U has p_theta = p + z u for some u with ||u|| <= 1.

    -below_r <= x_r <= above_r bounds the relative change of each row.
    """

    theta: Float[np.ndarray, " d"]
    p: Float[np.ndarray, " R"]
    z: Float[np.ndarray, "R q"]
    below: Float[np.ndarray, " R"]
    above: Float[np.ndarray, " R"]
    slack: float

    @property
    def width(self) -> Float[np.ndarray, " R"]:
        """How far each probability may be from p, in the ellipsoid and within [0,1]."""
        return np.asarray(np.minimum(np.linalg.norm(self.z, axis=1), 1.0))


def psi_inverse_below(c: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """The a in [0, 1) with psi(-a) = c, from above in the same way; 1 where that is the nearest number."""
    # psi(-a) >= a^2 / 2, and -log(1 - a) = c + a <= c + 1
    a = np.minimum(np.sqrt(2 * c), -np.expm1(-1 - c))
    for _ in range(NEWTON_STEPS):
        is_inside = (a > 0) & (a < 1)
        b = np.where(is_inside, a, 0.5)
        a = np.where(is_inside, b - (psi(-b) - c) * (1 - b) / b, a)
    return np.asarray(a)


def ellipsoid(valid: ValidSet, counts: Int[np.ndarray, " R"], fit: Fit, slack: float) -> Ellipsoid:
    """The ellipsoid of one e-process, from its counts N, its maximum likelihood and its slack W >= 0."""
    z = coordinates(valid).z
    if valid.num_free == 0:
        zero = np.zeros_like(fit.p)
        return Ellipsoid(fit.theta, fit.p, z.T, zero, zero, slack)
    free = np.asarray(valid.free)
    p = np.where(free, fit.p, 1.0)
    N = np.where(free, counts, 0)
    is_seen = N > 0
    W = max(slack, 1e-9) + fit.gap

    # counts repeat: the inverses of psi at W / N are computed once for each
    distinct, index = np.unique(N, return_inverse=True)
    own = W / np.maximum(distinct, 1)
    # p_theta is at most:
    most = np.where(fit.lam > 0, np.minimum(1.0, W / np.where(fit.lam > 0, fit.lam, 1.0)), 1.0)
    above = np.maximum(most / p - 1, 0.0)
    above = np.where(is_seen, np.minimum(above, psi_inverse(own)[index]), above)
    below = np.where(is_seen, psi_inverse_below(own)[index], 1.0)

    # |p_theta,r - p_r| <= max(p_r, 1 - p_r): the mean of the squares over the free rows is an ellipsoid around Theta
    reach = np.where(free, np.maximum(p, 1 - p), 1.0)
    box = (z / reach**2) @ z.T / max(int(free.sum()), 1)

    # one bound for all rows seen: D^2 = Delta'(F + SHARE box)Delta and |x_r| <= g D give psi(g D) <= g^2 (W + SHARE)
    F = (z * (N / p**2)) @ z.T + BOX_SHARE * box
    g = np.where(is_seen, np.linalg.norm(whiten(F, z), axis=0) / p, 0.0).max()
    rho = psi_inverse(np.asarray(g**2 * (W + BOX_SHARE)))
    above = np.where(is_seen, np.minimum(above, rho), above)
    below = np.where(is_seen, np.minimum(below, rho), below)

    for _ in range(TIGHTENING_ROUNDS):
        weight = N * curvature(above) / (p**2 * W) + (fit.lam / W) ** 2
        F = (z * weight) @ z.T  # (2)
        white = whiten((1 - BOX_SHARE) * F + BOX_SHARE * box, z)
        size = np.linalg.norm(white, axis=0) / p
        below, above = np.minimum(below, size), np.minimum(above, size)
    return Ellipsoid(fit.theta, fit.p, white.T, np.where(free, below, 0.0), np.where(free, above, 0.0), slack)


ROUNDING = 1e-12  # by which ends of intervals are moved outwards


def entry_intervals(
    space: Space, valid: ValidSet, ball: Ellipsoid
) -> tuple[Float[np.ndarray, "S A n"], Float[np.ndarray, "S A n"]]:
    """The ends of each entry on the successor lists; 0 in slots of padding."""
    p = np.maximum(np.asarray(valid.rows) @ ball.theta, 0.0)
    free = np.asarray(valid.free)
    low = np.where(free, ball.p * (1 - ball.below) - ROUNDING, p)
    high = np.where(free, ball.p * (1 + ball.above) + ROUNDING, p)
    moves = np.linalg.norm(np.asarray(valid.rows) @ np.asarray(valid.affine), axis=1)
    is_open = ~free & (moves > RANK_TOLERANCE * np.asarray(valid.sizes))
    low, high = np.where(is_open, 0.0, low), np.where(is_open, 1.0, high)
    row_of, support = np.asarray(valid.row_of), np.asarray(space.support)
    ends = (np.append(np.clip(x, 0.0, 1.0), 0.0)[row_of] for x in (low, high))
    found_low, found_high = (np.where(support, x, 0.0) for x in ends)
    return found_low, found_high


# A row is bounded by itself only where that is clearly better: squares of several rows share directions.
CLEAR_SHARE = 0.95
# Probabilities below which rows that theta may set to zero are left out; the best of these is used.
THRESHOLDS = 1e-3, 1e-2, 1e-1
MAX_MASS_LEFT_OUT = 1 - 1e-9  # a pair of whose mass this much is left out has nothing to be compared


class DivergenceBound(NamedTuple):
    """One choice of rows left out: the steps without them, and how far trajectories can be apart."""

    step: RowDivergence
    divergence: Divergence
    is_out: Bool[np.ndarray, " R"]


def compare(space: Space, valid: ValidSet, ball: Ellipsoid) -> DivergenceBound:
    """The steps with the smallest uniform gap over the thresholds. The same rows are not tried twice."""
    best: DivergenceBound | None = None
    last: Bool[np.ndarray, " R"] | None = None
    for below in THRESHOLDS:
        is_out = left_out(valid, ball, below)
        if last is not None and np.array_equal(is_out, last):
            continue
        last = is_out
        step = steps(space, valid, ball, is_out)
        result = divergence(space, step)
        if result.eps < (np.inf if best is None else best.divergence.eps):
            best = DivergenceBound(step, result, is_out)
    if best is not None:
        return best
    # nothing is compared anywhere
    reachable = np.broadcast_to(space.reachable[:, None], space.sizes[1:])
    step = RowDivergence(step.kernel, np.where(reachable, np.inf, 0.0), np.where(reachable, 1.0, 0.0))
    nowhere = Divergence(np.inf, 1.0, np.ones(space.sizes[1:], bool), np.inf)
    return DivergenceBound(step, nowhere, np.zeros_like(valid.free))


def at_slots(x: Float[np.ndarray, "R *q"], row_of: Int[np.ndarray, "S A n"]) -> Float[np.ndarray, "S A n *q"]:
    """Each slot's entry of an array over rows; zero for padding."""
    result: np.ndarray = np.concatenate([x, np.zeros_like(x[:1])])[row_of]
    return result


def tilts(space: Space, valid: ValidSet, ball: Ellipsoid) -> Float[np.ndarray, "S A n q"]:
    """z on the successor lists, P_theta = p + z'u; nothing at unreachable states."""
    return np.asarray(at_slots(ball.z, valid.row_of) * space.reachable[:, None, None, None])


def left_out(valid: ValidSet, ball: Ellipsoid, below: float) -> Bool[np.ndarray, " R"]:
    """Rows to which theta_hat gives less than `below` and theta may give nothing."""
    is_out: np.ndarray = valid.free & (ball.below >= 1) & (ball.p < below)
    return is_out


def steps(space: Space, valid: ValidSet, ball: Ellipsoid, is_out: Bool[np.ndarray, " R"]) -> RowDivergence:
    """theta_hat's kernel and the KL of each (s,a) without the rows left out.

    Unreachable states cost nothing. Where next to nothing is kept the cost is infinite.
    """
    p = np.where(valid.free, ball.p, 1.0)
    k = curvature(-ball.below)
    box = p * np.maximum(psi(ball.above), ball.below**2 * k)
    inside = _inside(valid, ball, p, k, box, valid.free & ~is_out)
    # mass that theta may have on the rows left out: row by row, and together in the ellipsoid
    alone = at_slots(np.where(is_out, p * ball.above, 0.0), valid.row_of).sum(-1)
    together = length(at_slots(np.where(is_out[:, None], ball.z, 0.0), valid.row_of).sum(-2))

    kernel = space.kernel(at_slots(ball.p, valid.row_of) * space.reachable[:, None, None])
    mass = at_slots(np.where(is_out, p, 0.0), valid.row_of).sum(-1)
    reachable = np.broadcast_to(space.reachable[:, None], mass.shape)
    is_compared = reachable & (mass < MAX_MASS_LEFT_OUT)
    leak = np.where(is_compared, mass, 0.0)
    cost = (inside + np.minimum(alone, together)) / (1 - leak) - np.log1p(-leak)
    cost = np.where(is_compared, cost, np.where(reachable, np.inf, 0.0))
    return RowDivergence(kernel, cost, np.where(is_compared, leak, np.where(reachable, 1.0, 0.0)))


def hellinger(space: Space, valid: ValidSet, ball: Ellipsoid) -> Float[np.ndarray, "S A"]:
    """At least 1 - sum_s' sqrt(P_theta_hat P_theta) for every theta of the ellipsoid."""
    p = np.where(valid.free, ball.p, 1.0)
    k = 1 / (2 * (1 + np.sqrt(np.maximum(1 - ball.below, 0.0))) ** 2)
    above = ball.above**2 / (2 * (1 + np.sqrt(1 + ball.above)) ** 2)
    box = p * np.maximum(above, ball.below**2 * k)
    inside = _inside(valid, ball, p, k, box, valid.free)
    return np.where(space.reachable[:, None], np.minimum(inside, 1.0), 0.0)


def _inside(
    valid: ValidSet,
    ball: Ellipsoid,
    p: Float[np.ndarray, " R"],
    k: Float[np.ndarray, " R"],
    box: Float[np.ndarray, " R"],
    is_kept: Bool[np.ndarray, " R"],
) -> Float[np.ndarray, "S A"]:
    """sum of p f(x) over the rows kept of each (s,a), at most, from the curvature k(-a) and each row's own bound."""
    is_by_itself = is_kept & ((box < CLEAR_SHARE * k / p * (ball.z**2).sum(-1)) | ~np.isfinite(k))
    is_by_square = is_kept & ~is_by_itself
    vector = np.where(is_by_square[:, None], np.sqrt(k / p)[:, None] * ball.z, 0.0)
    alone = at_slots(np.where(is_by_itself, box, 0.0), valid.row_of).sum(-1)
    B = at_slots(vector, valid.row_of)
    n, q = B.shape[2:]
    # B'B or BB' of every pair, whichever is smaller: their largest eigenvalue is the same
    gram = np.einsum("sani,sanj->saij", B, B) if q <= n else np.einsum("sanq,samq->sanm", B, B)
    return np.asarray(opnorm(gram) + alone)
