"""From the likelihood-ratio set U to an ellipsoid that contains it, row by row.

For theta in U put Delta = theta - theta_hat and x_r = <x_r, Delta> / p_r, the relative change of row r. With the slack
W = Lq + log(1/(delta w)) - L(theta_hat) + gap and psi(x) = x - log(1 + x), optimality of theta_hat over Theta gives

    sum_r N_r psi(x_r) + sum_r lam_r p_theta,r <= W                                                          (1)

(lam: likelihood.Fit). psi(x)/x^2 decreases, so from -a_r <= x_r <= b_r follow N_r psi(x_r) >= N_r k(b_r) x_r^2, k(x) =
psi(x)/x^2. The second sum is at least the norm of (lam_r z_r'Delta)_r, up to the gap of the fit: rows on the boundary
are known at the rate 1/N. Together, with W increased by that gap,

    Delta' [ sum_r N_r k(b_r) z_r z_r' / (p_r^2 W) + sum_r lam_r^2 z_r z_r' / W^2 ] Delta <= 1                (2)

The ellipsoid (2) tightens a and b in turn; every round is valid by itself. Probabilities lie in [0,1], which also
bounds the directions that no data have shown. docs/certificates.md has the proofs.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from horizonfree.guarantees.divergence import curvature, psi, psi_inverse
from horizonfree.mdp.space import Space
from horizonfree.models.mixture.likelihood import Fit, coordinates, whiten
from horizonfree.models.mixture.valid import RANK_TOLERANCE, ValidSet

TIGHTENING_ROUNDS = 6  # of tightening; the last ones change little
NEWTON_STEPS = 6  # steps for the inverse of psi below 0
BOX_SHARE = (
    1e-6  # of the ellipsoid that is spent on "probabilities lie in [0,1]", so that it is always bounded
)


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


# How large each transition probability of a mixture can be: the confidence set projected on every entry.
#
# A parameter of the confidence set has row r between p_r (1 - below_r) and p_r (1 + above_r) (ellipsoid.py). Rows
# that no direction of the data changes have a known probability; rows of states that no episode comes to, of which
# nothing is known, may have any.


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
