"""Distinct feature rows in the coordinates of what can be learnt, and the small matrices made of them.

theta = center + Z y,   p_r(y) = <x_r, theta>,   z_r = Z'x_r

z stands here with its few directions first: what is done for all rows is then done for numbers side by side.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from horizonfree._arrays import Array, library, taken
from horizonfree.models.mixture.valid import ValidSet
from horizonfree.models.norms import UNROLLED, length

MANY = 10_000  # rows: of so many every sum takes long


class Coordinates(eqx.Module):
    """Theta seen from y: z_r = Z'x_r, and p_r at the centre; rows that are not free have z = 0."""

    z: Float[Array, "q R"]
    p_center: Float[Array, " R"]
    basis: Float[Array, "d q"]
    center: Float[Array, " d"]

    def p(self, y: Float[Array, " q"]) -> Float[Array, " R"]:
        """p_r(y)."""
        return self.p_center + y @ self.z

    def theta(self, y: Float[Array, " q"]) -> Float[Array, " d"]:
        """The parameter with coordinates y."""
        return self.center + self.basis @ y

    def y(self, theta: Float[Array, " d"]) -> Float[Array, " q"]:
        """The coordinates of a parameter."""
        return self.basis.T @ (theta - self.center)


def coordinates(valid: ValidSet) -> Coordinates:
    """Theta in the coordinates y; traceable."""
    rows, basis, center = valid.rows, valid.basis, valid.center
    return Coordinates(jnp.where(valid.free, basis.T @ rows.T, 0.0), rows @ center, basis, center)


def at_slots(x: Float[Array, "R *q"], row_of: Array) -> Float[Array, "S A n *q"]:
    """Each slot's entry of an array over rows; zero for padding; NumPy in, NumPy out, or traced."""
    xp = library(x)
    return taken(xp.concatenate([x, xp.zeros_like(x[:1])]), row_of)


def gram(z: Float[Array, "q R"], weight: Float[Array, " R"]) -> Float[Array, "q q"]:
    """sum_r weight_r z_r z_r'. Of many rows one direction at a time: so no product of all is kept."""
    if z.shape[1] > MANY and z.shape[0] <= UNROLLED:
        return jnp.stack([z @ (weight * direction) for direction in z])
    return (z * weight) @ z.T


def whiten(F: Float[Array, "q q"], z: Float[Array, "q R"]) -> Float[Array, "q R"]:
    """F^(-1/2) z_r up to a rotation: their norms are ||z_r|| in F^-1. Scaled to a unit diagonal first."""
    scale = jnp.sqrt(jnp.diagonal(F))
    factor = jnp.linalg.cholesky(F / (scale[:, None] * scale[None, :]))
    half = jax.scipy.linalg.solve_triangular(factor, jnp.diag(1 / scale), lower=True)
    return half @ z


def solve(matrix: Float[Array, "q q"], b: Float[Array, " q"]) -> Float[Array, " q"]:
    """The solution of a positive definite system, scaled to a unit diagonal first; zero where it fails."""
    scale = jnp.sqrt(jnp.diagonal(matrix))
    factor = jax.scipy.linalg.cho_factor(matrix / (scale[:, None] * scale[None, :]))
    x = jax.scipy.linalg.cho_solve(factor, b / scale) / scale
    return jnp.where(jnp.isfinite(x).all(), x, 0.0)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def norm(x: Float[Array, "..."], axis: int = -1) -> Float[Array, "..."]:
    """Euclidean norm along one axis; its slope at 0 is 0."""
    return length(x, axis)


@norm.defjvp
def _slope(axis: int, at: tuple[Array], along: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = at, along
    size = norm(x, axis)
    is_zero = size == 0
    slope = (dx * x + x * dx).sum(axis) * (0.5 / jnp.where(is_zero, 1.0, size))
    return size, jnp.where(is_zero, 0.0, slope)
