"""The valid parameter nearest to a regression: least squares over Theta, strictly inside it.

Theta stands for the valid parameters (models/mixture/valid.py), so the answer is a kernel; the papers let theta range
over the balls of their regressions alone.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from horizonfree._arrays import Array
from horizonfree.estimators.ridge import Ridge
from horizonfree.models.mixture.valid import ValidSet

_Point = tuple[Array, Array, Array]  # y, slacks, multipliers
DUALITY_GAP = 1e-12  # per constraint, for an objective divided by trace(A); `least_squares` stops there
ITERATIONS = 30  # primal-dual steps; each shrinks the gap about fivefold, 12 to 18 reach rounding


def least_squares(
    valid: ValidSet, A: Float[Array, "d d"], b: Float[Array, " d"], iterations: int = ITERATIONS
) -> Float[Array, " d"]:
    """argmin over Theta of theta' A theta / 2 - b' theta, strictly inside Theta; traced.

    A primal-dual interior-point method (Mehrotra's step lengths, fixed centring) in the coordinates
    theta = center + E y, E = valid.affine. The slacks s = X theta stay exact because the start is feasible.
    """
    E = valid.affine
    if E.shape[1] == 0:
        return valid.center
    rows = jnp.where(valid.positive[:, None], valid.rows / valid.sizes[:, None], 0.0)
    X, p = rows @ E, jnp.where(valid.positive, rows @ valid.center, 1.0)
    scale = jnp.trace(A)
    H = E.T @ (A @ E) / scale
    g = E.T @ (A @ valid.center - b) / scale

    def step(carry: tuple[_Point, Array, Array]) -> tuple[_Point, Array, Array]:
        (y, s, z), i, _ = carry
        mu = 0.1 * jnp.mean(s * z)
        dual = H @ y + g - X.T @ z  # stationarity
        M = H + (X.T * (z / s)) @ X
        rhs = -dual + X.T @ ((mu - s * z) / s)
        dy = jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(M), rhs)
        ds = X @ dy
        dz = (mu - s * z - z * ds) / s
        reach_s = 1 / jnp.maximum(jnp.max(-ds / s), 1e-300)
        reach_z = 1 / jnp.maximum(jnp.max(-dz / z), 1e-300)
        y_new = y + jnp.minimum(1.0, 0.995 * reach_s) * dy
        z_new = z + jnp.minimum(1.0, 0.995 * reach_z) * dz
        # below DUALITY_GAP, rounding dominates the slacks; a step that is not finite is rejected
        is_accepted = (jnp.mean(s * z) > DUALITY_GAP) & jnp.isfinite(y_new).all() & jnp.isfinite(z_new).all()
        point: _Point = jax.tree.map(
            lambda new, old: jnp.where(is_accepted, new, old), (y_new, p + X @ y_new, z_new), (y, s, z)
        )
        return point, i + 1, is_accepted

    def is_running(carry: tuple[_Point, Array, Array]) -> Array:
        return carry[2] & (carry[1] < iterations)

    start = (jnp.zeros(E.shape[1]), p, jnp.full_like(p, 1 / len(p)))
    (y, _, _), _, _ = jax.lax.while_loop(is_running, step, (start, jnp.int32(0), jnp.asarray(True)))
    theta: Array = valid.center + E @ y
    return theta


def pooled_least_squares(valid: ValidSet, ridge: Ridge) -> Float[Array, " d"]:
    """argmin over valid theta of the sum of ||theta - theta_i||^2_{Sigma_i}, over one regression or a batch of them."""
    d = ridge.b.shape[-1]
    if ridge.b.ndim == 1:
        return least_squares(valid, ridge.Sigma, ridge.b)
    return least_squares(valid, ridge.Sigma.reshape(-1, d, d).sum(0), ridge.b.reshape(-1, d).sum(0))
