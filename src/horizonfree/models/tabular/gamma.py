"""Sums over counts that ratios of Gamma functions stand for, without the digits that such ratios lose.

    slope(z, N)  = sum_{j<N} j/(z + j)                  = N - z [digamma(z + N) - digamma(z)]
    bend(z, N)   = sum_{j<N} 1 - (z/(z + j))^2          = N - z^2 [trigamma(z) - trigamma(z + N)]
    stirling(y)  = log Gamma(y) - (y - 1/2) log y + y - log(2 pi)/2

The first terms are summed; from y = z + HEAD on the asymptotic series are exact to rounding (Abramowitz and Stegun
1964, 6.1.41, 6.3.18, 6.4.12), and what cancels in them is cancelled by hand.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from horizonfree.guarantees.divergence import psi

HEAD_TERMS = 8  # terms that are summed one by one

# Coefficients of y^-2, y^-4, .. (digamma), y^-3, y^-5, .. (trigamma), y^-1, y^-3, .. (log Gamma).
_DIGAMMA = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
_LOG_GAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def slope(z: Float[np.ndarray, "*n"], N: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """sum_{j<N} j/(z + j), for z > 0."""
    y, y_end, d = _tail(z, N)
    change = d / (2 * y * y_end) + _series(_DIGAMMA, y_end) / y_end**2 - _series(_DIGAMMA, y) / y**2
    tail = HEAD_TERMS * d / y + z * (psi(d / y) - change)
    return _head(z, N, lambda share: share) + np.where(N > HEAD_TERMS, tail, 0.0)


def bend(z: Float[np.ndarray, "*n"], N: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """sum_{j<N} 1 - (z/(z + j))^2, for z > 0."""
    y, y_end, d = _tail(z, N)
    change = _series(_TRIGAMMA, y) / (y * y * y) - _series(_TRIGAMMA, y_end) / (y_end * y_end * y_end)
    square = d * (y + y_end) / (2 * y**2 * y_end**2)
    tail = d * (z * (HEAD_TERMS + N) + HEAD_TERMS * N) / (y * y_end) - z**2 * (square + change)
    return _head(z, N, lambda share: share * (2 - share)) + np.where(N > HEAD_TERMS, tail, 0.0)


def stirling(y: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """What Stirling's formula lacks of log Gamma(y), for y > 0.

    Below HEAD by Gamma(y) = Gamma(y + HEAD) / (y (y + 1) .. (y + HEAD - 1)).
    """
    is_small = y < HEAD_TERMS
    large = np.where(is_small, y + HEAD_TERMS, y)
    series = _series(_LOG_GAMMA, large) / large
    small = np.where(is_small, y, 1.0)
    product = np.ones_like(small)
    for j in range(1, HEAD_TERMS):
        product = product * (small + j)
    lacks = (large - 0.5) * np.log(large) - HEAD_TERMS - np.log(product) - (small + 0.5) * np.log(small)
    return np.where(is_small, series + lacks, series)


def _head(
    z: Float[np.ndarray, "*n"], N: Float[np.ndarray, "*n"], term: Callable[[np.ndarray], np.ndarray]
) -> Float[np.ndarray, "*n"]:
    """The sum of the terms 1 <= j < N below HEAD, as functions of j/(z + j); that of j = 0 is zero."""
    total = np.zeros_like(N)
    for j in range(1, HEAD_TERMS):
        total += (j < N) * term(j / (z + j))
    return total


def _tail(
    z: Float[np.ndarray, "*n"], N: Float[np.ndarray, "*n"]
) -> tuple[Float[np.ndarray, "*n"], Float[np.ndarray, "*n"], Float[np.ndarray, "*n"]]:
    """From where to where the series reach, and how many terms that are."""
    y, d = z + HEAD_TERMS, np.maximum(N - HEAD_TERMS, 0.0)
    return y, y + d, d


def _series(coefficients: tuple[float, ...], y: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """c_0 + c_1/y^2 + c_2/y^4 + .. ."""
    *others, last = coefficients
    total, w = np.full_like(y, last), 1 / y**2
    for c in reversed(others):
        total = total * w + c
    return total
