"""psi(x) = x - log(1 + x), the price of a relative change x of a probability, its curvature and its inverse.

    KL(p || p') = sum p psi(x) + p'(where p is 0),      x = p'/p - 1;        psi(x) = k(x) x^2

k decreases, from infinity at -1 through 1/2 at 0, so psi(x) >= k(b) x^2 for x <= b.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

NEWTON = 4  # steps to the inverse: exact to 12 digits by then


def psi(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """x - log(1 + x); traceable."""
    return x**2 * curvature(x)


def curvature(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """k(x) = (x - log(1 + x)) / x^2 for x > -1; traceable."""
    is_small = jnp.abs(x) < 1e-3
    safe = jnp.where(is_small, 1.0, x)
    series = 1 / 2 - x * (1 / 3 - x * (1 / 4 - x * (1 / 5 - x * (1 / 6 - x / 7))))
    return jnp.where(is_small, series, (safe - jnp.log1p(safe)) / safe**2)


def psi_inverse(c: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The x >= 0 with psi(x) = c, from above: Newton on a convex function from above its root; traceable."""

    def newton(_: Array, x: Array) -> Array:
        return x - (psi(x) - c) * (1 + x) / jnp.maximum(x, 1e-300)

    start = c + jnp.sqrt(c * (c + 2))  # as psi(x) >= x^2 / (2 (1 + x))
    root: Array = jax.lax.fori_loop(0, NEWTON, newton, start)
    return root
