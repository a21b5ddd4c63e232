"""Sums over counts that ratios of Gamma functions stand for, without the digits that such ratios lose.

    slope(z, N)  = sum_{j<N} j/(z + j)                  = N - z [digamma(z + N) - digamma(z)]
    bend(z, N)   = sum_{j<N} 1 - (z/(z + j))^2          = N - z^2 [trigamma(z) - trigamma(z + N)]
    stirling(y)  = log Gamma(y) - (y - 1/2) log y + y - log(2 pi)/2

The first terms are summed; from y = z + HEAD on the asymptotic series are exact to rounding (Abramowitz and Stegun
1964, 6.1.41, 6.3.18, 6.4.12), and what cancels in them is cancelled by hand.
"""

import math
from collections.abc import Callable

import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Float

from horizonfree._arrays import Array
from horizonfree.guarantees.psi import psi

HEAD = 8  # terms that are summed one by one

# Coefficients of y^-2, y^-4, .. (digamma), y^-3, y^-5, .. (trigamma), y^-1, y^-3, .. (log Gamma).
_DIGAMMA = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
_LOG_GAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def slope(z: Float[Array, "*n"], N: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """sum_{j<N} j/(z + j), for z > 0; traceable."""
    y, y_end, d = _tail(z, N)
    change = d / (2 * y * y_end) + _series(_DIGAMMA, y_end) / y_end**2 - _series(_DIGAMMA, y) / y**2
    tail = HEAD * d / y + z * (psi(d / y) - change)
    return _head(N, lambda j: j / (z + j)) + jnp.where(N > HEAD, tail, 0.0)


def bend(z: Float[Array, "*n"], N: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """sum_{j<N} 1 - (z/(z + j))^2, for z > 0; traceable."""
    y, y_end, d = _tail(z, N)
    change = _series(_TRIGAMMA, y) / y**3 - _series(_TRIGAMMA, y_end) / y_end**3
    square = d * (y + y_end) / (2 * y**2 * y_end**2)
    tail = d * (z * (HEAD + N) + HEAD * N) / (y * y_end) - z**2 * (square + change)
    return _head(N, lambda j: j * (2 * z + j) / (z + j) ** 2) + jnp.where(N > HEAD, tail, 0.0)


def stirling(y: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """What Stirling's formula lacks of log Gamma(y), for y > 0; traceable."""
    is_small = y < HEAD
    small = jnp.where(is_small, y, 1.0)
    exact = gammaln(small) - (small - 0.5) * jnp.log(small) + small - 0.5 * math.log(2 * math.pi)
    large = jnp.where(is_small, HEAD, y)
    return jnp.where(is_small, exact, _series(_LOG_GAMMA, large) / large)


def _head(N: Float[Array, "*n"], term: Callable[[Array], Float[Array, "7 *n"]]) -> Float[Array, "*n"]:
    """The sum of the terms 1 <= j < N below HEAD; that of j = 0 is zero."""
    j = jnp.arange(1.0, HEAD).reshape(-1, *[1] * N.ndim)
    return jnp.where(j < N, term(j), 0.0).sum(0)


def _tail(z: Float[Array, "*n"], N: Float[Array, "*n"]) -> tuple[Array, Array, Array]:
    """From where to where the series reach, and how many terms that are."""
    d = jnp.maximum(N - HEAD, 0.0)
    return z + HEAD, z + HEAD + d, d


def _series(coefficients: tuple[float, ...], y: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """c_0 + c_1/y^2 + c_2/y^4 + .. ."""
    *others, last = coefficients
    total, w = jnp.full_like(y, last), 1 / y**2
    for c in reversed(others):
        total = total * w + c
    return total
