"""psi(x) = x - log(1 + x), the price of a relative change x of a probability, its curvature and its inverse.

    KL(p || p') = sum p psi(x) + p'(where p is 0),      x = p'/p - 1;        psi(x) = k(x) x^2

k decreases, from infinity at -1 through 1/2 at 0, so psi(x) >= k(b) x^2 for x <= b.
"""

import numpy as np
from jaxtyping import Float

from horizonfree._arrays import Array

NEWTON = 4  # steps to the inverse: exact to 12 digits by then


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
    for _ in range(NEWTON):
        x = x - (psi(x) - c) * (1 + x) / np.maximum(x, 1e-300)
    return x
