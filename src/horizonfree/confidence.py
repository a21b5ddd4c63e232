"""Confidence sets for theta_star: regression balls intersected with the valid parameters.

    U = {theta in Theta : ||theta - c_i||_{S_i} <= r_i for every i}                       (paper, Algorithm 1, line 18)

Theta stands for the valid parameters (valid.py), so every member is a kernel; the paper lets theta range over the balls
alone. `least_squares` is the traced choice of theta_k inside an episode; `ConfidenceSet` answers questions afterwards:
membership, support function, projection. Both use interior-point methods whose iterates stay strictly inside Theta.
"""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from horizonfree.mixture import AnyArray
from horizonfree.valid import ValidSet

GAP = 1e-12  # duality gap per constraint, of an objective divided by trace(A), at which `least_squares` stops
ITERATIONS = 30  # primal-dual steps; each shrinks the gap about fivefold, 12 to 18 reach rounding


def least_squares(
    valid: ValidSet, A: Float[Array, "d d"], b: Float[Array, " d"], iterations: int = ITERATIONS
) -> Float[Array, " d"]:
    """argmin over Theta of theta' A theta / 2 - b' theta, strictly inside Theta; traced.

    A primal-dual interior-point method (Mehrotra's step lengths, fixed centring) in the coordinates
    theta = center + E y, E = valid.affine. The slacks s = X theta stay exact because the start is feasible.
    """
    E = jnp.asarray(valid.affine)
    if E.shape[1] == 0:
        return jnp.asarray(valid.center)
    rows = jnp.where(jnp.asarray(valid.positive)[:, None], valid.rows / valid.sizes[:, None], 0.0)
    X, p = rows @ E, jnp.where(valid.positive, rows @ valid.center, 1.0)
    scale = jnp.trace(A)
    H = E.T @ (A @ E) / scale
    g = E.T @ (A @ valid.center - b) / scale

    def step(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        y, s, z = carry
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
        # beyond GAP, slacks drown in rounding; where M is singular to rounding, what is there is kept
        go = (jnp.mean(s * z) > GAP) & jnp.isfinite(y_new).all() & jnp.isfinite(z_new).all()
        kept: tuple[Array, Array, Array] = jax.tree.map(
            lambda new, old: jnp.where(go, new, old), (y_new, p + X @ y_new, z_new), carry
        )
        return kept

    start = (jnp.zeros(E.shape[1]), p, jnp.full_like(p, 1 / len(p)))
    y, _, _ = jax.lax.fori_loop(0, iterations, step, start)
    theta: Array = valid.center + E @ y
    return theta


class ConfidenceSet(eqx.Module):
    """The balls ||theta - centers[i]||_{matrices[i]} <= radii[i] within the valid parameters; NumPy."""

    valid: ValidSet
    centers: Float[AnyArray, "C d"]
    matrices: Float[AnyArray, "C d d"]
    radii: Float[AnyArray, " C"]

    def ratios(self, theta: Float[np.ndarray, " d"]) -> Float[np.ndarray, " C"]:
        """||theta - c_i||_{S_i} / r_i: at most 1 inside ball i."""
        diff = np.asarray(theta) - self.centers
        ratios: np.ndarray = np.sqrt(np.einsum("ci,cij,cj->c", diff, self.matrices, diff)) / self.radii
        return ratios

    def contains(self, theta: Float[np.ndarray, " d"], tolerance: float = 1e-9) -> bool:
        """Whether theta is a valid kernel inside every ball."""
        return self.valid.contains(theta, tolerance) and bool((self.ratios(theta) <= 1 + tolerance).all())

    def interior(self) -> Float[np.ndarray, " d"] | None:
        """A point strictly inside, None when the balls and Theta do not meet (the model or the radii are wrong)."""
        E, e, center = (
            np.asarray(self.valid.affine),
            self.valid.affine.shape[1],
            np.asarray(self.valid.center),
        )

        def barrier(v: np.ndarray, weight: float) -> tuple[float, np.ndarray, np.ndarray]:
            """weight * t - sum log(t - ratio^2) - sum log p, v = (y, t)."""
            theta, t = center + E @ v[:e], v[e]
            value, grad, hess = _positive(self.valid, theta)
            quad, dquad, ddquad = self._squares(theta)
            slack = t - quad
            if not (slack > 0).all():
                return np.inf, v, np.empty((0, 0))
            value += weight * t - np.log(slack).sum()
            full_grad, full = np.zeros(e + 1), np.zeros((e + 1, e + 1))
            full_grad[:e] = E.T @ (grad + (dquad / slack[:, None]).sum(0))
            full_grad[e] = weight - (1 / slack).sum()
            inner = hess + np.einsum("cij,c->ij", ddquad, 1 / slack)
            inner += np.einsum("ci,cj,c->ij", dquad, dquad, 1 / slack**2)
            full[:e, :e] = E.T @ inner @ E
            full[e, e] = (1 / slack**2).sum()
            full[:e, e] = full[e, :e] = -E.T @ (dquad / slack[:, None] ** 2).sum(0)
            return value, full_grad, full

        v = np.r_[np.zeros(e), self.ratios(center).max() ** 2 + 1]
        for weight in 10.0 ** np.arange(-2, 9):
            v = newton(partial(barrier, weight=weight), v)
            if v[e] < 0.99:
                break
        theta = center + E @ v[:e]
        return theta if (self.ratios(theta) < 1).all() else None

    def support(
        self, direction: Float[np.ndarray, " d"], gap: float = 1e-9
    ) -> tuple[float, Float[np.ndarray, " d"]]:
        """max of <direction, theta> over U, from above: the value returned is at most `gap` larger; and its theta."""
        d = len(direction)
        theta = self._minimise(np.zeros((d, d)), np.asarray(direction, float), gap)
        return float(direction @ theta) + gap, theta

    def project(
        self, theta: Float[np.ndarray, " d"], metric: Float[np.ndarray, "d d"] | None = None
    ) -> Float[np.ndarray, " d"]:
        """The member of U nearest to theta, in the Euclidean norm or that of a positive definite metric."""
        A = np.eye(len(theta)) if metric is None else np.asarray(metric)
        return self._minimise(A, A @ np.asarray(theta, float), 1e-13 * float(np.trace(A)))

    def _minimise(self, A: np.ndarray, b: np.ndarray, gap: float) -> Float[np.ndarray, " d"]:
        """argmin over U of theta' A theta / 2 - b' theta, within `gap` of the optimum.

        At an exact minimiser of weight * objective + barrier the objective is within (constraints / weight) of its
        infimum: the standard bound for logarithmic barriers.
        """
        theta = self.interior()
        if theta is None:
            raise ValueError("the confidence set is empty: no valid parameter lies in all of its balls")
        E = self.valid.affine
        if E.shape[1] == 0:
            return theta
        origin = theta
        size = max(float(np.abs(E.T @ (A @ origin - b)).max()), 1e-12)
        constraints = len(self.radii) + len(self.valid.rows)

        def barrier(y: np.ndarray, weight: float) -> tuple[float, np.ndarray, np.ndarray]:
            theta = origin + E @ y
            value, grad, hess = _positive(self.valid, theta)
            quad, dquad, ddquad = self._squares(theta)
            slack = 1 - quad
            if not (slack > 0).all():
                return np.inf, y, np.empty((0, 0))
            value += weight * (theta @ A @ theta / 2 - b @ theta) - np.log(slack).sum()
            grad = grad + weight * (A @ theta - b) + (dquad / slack[:, None]).sum(0)
            hess = hess + weight * A + np.einsum("cij,c->ij", ddquad, 1 / slack)
            hess = hess + np.einsum("ci,cj,c->ij", dquad, dquad, 1 / slack**2)
            return value, E.T @ grad, E.T @ hess @ E

        y, weight = np.zeros(E.shape[1]), 1 / size
        while True:
            y = newton(partial(barrier, weight=weight), y)
            if constraints / weight <= gap:
                return origin + E @ y
            weight = min(weight * 8, constraints / gap)

    def _squares(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(||theta - c_i||_{S_i} / r_i)^2 with its gradient and Hessian."""
        scaled = np.asarray(self.matrices) / np.asarray(self.radii)[:, None, None] ** 2
        diff = theta - self.centers
        grad = np.einsum("cij,cj->ci", scaled, diff)
        return np.einsum("ci,ci->c", diff, grad), 2 * grad, 2 * scaled


def _positive(valid: ValidSet, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """-sum log p, up to a constant, over the rows that can be positive, with gradient and Hessian; inf outside."""
    rows = (np.asarray(valid.rows) / np.asarray(valid.sizes)[:, None])[np.asarray(valid.positive)]
    p = rows @ theta
    if not (p > 0).all():
        return np.inf, np.zeros_like(theta), np.zeros((len(theta), len(theta)))
    return -float(np.log(p).sum()), -(rows / p[:, None]).sum(0), (rows.T / p**2) @ rows


Smooth = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]


def newton(function: Smooth, v: np.ndarray) -> np.ndarray:
    """Damped Newton for a self-concordant function, until the decrement is at rounding."""
    for _ in range(100):
        value, grad, hess = function(v)
        step = -np.linalg.lstsq(hess, grad, rcond=None)[0]
        decrement = -float(grad @ step)
        if decrement <= 1e-13:
            break
        t = 1.0
        while t > 1e-12 and not function(v + t * step)[0] <= value - 0.1 * t * decrement:
            t /= 2
        if t <= 1e-12:
            break
        v = v + t * step
    return v
