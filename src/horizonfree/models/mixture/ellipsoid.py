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

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree.guarantees.psi import curvature, psi, psi_inverse
from horizonfree.models.mixture.likelihood import Fit
from horizonfree.models.mixture.rows import MANY, coordinates, gram, whiten
from horizonfree.models.mixture.valid import ValidSet
from horizonfree.models.norms import length

ROUNDS = 6  # of tightening; the last ones change little
NEWTON = 6  # steps for the inverse of psi below 0
SMALL = 4096  # counts that a table has
SHARE = 1e-6  # of the ellipsoid that is spent on "probabilities lie in [0,1]", so that it is always bounded


class Ellipsoid(eqx.Module):
    """A set that contains U, whitened: every theta in U has p_theta = p + z u for some u with ||u|| <= 1.

    -below_r <= x_r <= above_r bounds the relative change of each row.
    """

    theta: Float[Array, " d"]
    p: Float[Array, " R"]
    z: Float[Array, "R q"]
    below: Float[Array, " R"]
    above: Float[Array, " R"]
    slack: Float[Array, ""]

    @property
    def width(self) -> Float[Array, " R"]:
        """How far each probability may be from p, in the ellipsoid and within [0,1]."""
        return jnp.minimum(jnp.linalg.norm(self.z, axis=1), 1.0)


def psi_inverse_below(c: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The a in [0, 1) with psi(-a) = c, from above in the same way; 1 where that is the nearest number."""
    # psi(-a) >= a^2 / 2, and -log(1 - a) = c + a <= c + 1
    a = jnp.minimum(jnp.sqrt(2 * c), -jnp.expm1(-1 - c))

    def newton(_: Array, a: Array) -> Array:
        is_inside = (a > 0) & (a < 1)
        b = jnp.where(is_inside, a, 0.5)
        return jnp.where(is_inside, b - (psi(-b) - c) * (1 - b) / b, a)

    root: Array = jax.lax.fori_loop(0, NEWTON, newton, a)
    return root


def _inverses(
    N: Int[Array, " R"], own: Float[Array, " R"], W: Float[Array, ""]
) -> tuple[Float[Array, " R"], Float[Array, " R"]]:
    """The inverses of psi at own = W / max(N, 1), on both sides; of many rows from a table of all small N."""

    def directly() -> tuple[Array, Array]:
        return psi_inverse(own), psi_inverse_below(own)

    def listed() -> tuple[Array, Array]:
        table = W / jnp.maximum(jnp.arange(SMALL), 1)
        return psi_inverse(table)[N], psi_inverse_below(table)[N]

    if N.shape[0] <= MANY:
        return directly()
    found: tuple[Array, Array] = jax.lax.cond(N.max() < SMALL, listed, directly)
    return found


def ellipsoid(valid: ValidSet, counts: Int[Array, " R"], fit: Fit, slack: Float[Array, ""]) -> Ellipsoid:
    """The ellipsoid of one bet, from its counts N, its maximum likelihood and its slack W >= 0; traceable."""
    z = coordinates(valid).z
    if valid.num_free == 0:
        zero = jnp.zeros_like(fit.p)
        return Ellipsoid(fit.theta, fit.p, z.T, zero, zero, slack)
    free = valid.free
    p = jnp.where(free, fit.p, 1.0)
    N = jnp.where(free, counts, 0)
    is_seen = N > 0
    W = jnp.maximum(slack, 1e-9) + fit.gap

    own = W / jnp.maximum(N, 1)
    # p_theta is at most:
    most = jnp.where(fit.lam > 0, jnp.minimum(1.0, W / jnp.where(fit.lam > 0, fit.lam, 1.0)), 1.0)
    above = jnp.maximum(most / p - 1, 0.0)
    own_above, own_below = _inverses(N, own, W)
    above = jnp.where(is_seen, jnp.minimum(above, own_above), above)
    below = jnp.where(is_seen, own_below, 1.0)

    # |p_theta,r - p_r| <= max(p_r, 1 - p_r): the mean of the squares over the free rows is an ellipsoid around Theta
    reach = jnp.where(free, jnp.maximum(p, 1 - p), 1.0)
    box = gram(z, 1 / reach**2) / jnp.maximum(free.sum(), 1)

    # one bound for all rows seen: D^2 = Delta'(F + SHARE box)Delta and |x_r| <= g D give psi(g D) <= g^2 (W + SHARE)
    F = gram(z, N / p**2) + SHARE * box
    g = jnp.where(is_seen, length(whiten(F, z), 0) / p, 0.0).max()
    rho = psi_inverse(g**2 * (W + SHARE))
    above = jnp.where(is_seen, jnp.minimum(above, rho), above)
    below = jnp.where(is_seen, jnp.minimum(below, rho), below)

    def tighten(_: Array, bounds: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        below, above, _white = bounds
        F = gram(z, N * curvature(above) / (p**2 * W) + (fit.lam / W) ** 2)  # (2)
        F = (1 - SHARE) * F + SHARE * box
        white = whiten(F, z)
        size = length(white, 0) / p
        return jnp.minimum(below, size), jnp.minimum(above, size), white

    below, above, white = jax.lax.fori_loop(0, ROUNDS, tighten, (below, above, z))
    return Ellipsoid(
        fit.theta,
        fit.p,
        white.T,
        jnp.where(free, below, 0.0),
        jnp.where(free, above, 0.0),
        slack,
    )
