"""Branch and bound for max over f in [0,1]^n of ||F f|| - kappa Var_p(f).

On a cell with centre c, -Var_p is below its tangent at c (it is concave), so the objective is below a convex function,
whose maximum over the cell is at a vertex. A cell that cannot beat the best point attained by more than `slack` is
closed; the others are halved where p_i width_i^2, the error of the tangent, is largest.

Along f + c the variance stays and the norm is convex in c, so the maximum is at an end of such a line: where an entry
is 0 or 1. Only those 2 n faces are searched. (Where probabilities are known to sum to one, F 1 is nearly 0, and inside
the cube there would be lines of best points, which no halving ends soon.)

native/penalised.c is an implementation in C, about four times as fast.
"""

import ctypes

import numpy as np
from jaxtyping import Float

from horizonfree.models.base import length
from horizonfree.native import library

ABSOLUTE_SLACK = 1e-15  # smallest bound


def branch_and_bound(
    F: Float[np.ndarray, "X m n"], p: Float[np.ndarray, "X n"], kappa: float, slack: float, most: int
) -> Float[np.ndarray, " X"]:
    """Upper bounds of the maxima, one per row, with at most so many cells at a time."""
    loaded, (X, m, n) = library.load(), F.shape
    most = max(most, 2 * n)
    if loaded is None:
        return np.array([row_bound(*row, kappa, slack, most) for row in zip(F, p)])
    F, p = np.ascontiguousarray(F, np.float64), np.ascontiguousarray(p, np.float64)
    out, scratch = np.empty(X), np.empty(4 * most * n + m + n)
    integer, real, pointer = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
    function = loaded[0].horizonfree_penalised
    function.argtypes = [*[integer] * 3, *[pointer] * 2, *[real] * 3, integer, *[pointer] * 2]
    function.restype = None
    arrays = F.ctypes.data, p.ctypes.data
    function(X, m, n, *arrays, kappa, slack, ABSOLUTE_SLACK, most, out.ctypes.data, scratch.ctypes.data)
    return out


def row_bound(
    F: Float[np.ndarray, "m n"], p: Float[np.ndarray, " n"], kappa: float, slack: float, most: int
) -> float:
    """The definition in NumPy: cells in order of size; once no more fit into memory, open cells keep their bounds."""
    n = len(p)
    vertices = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(np.float64)
    lows, widths = np.zeros((2 * n, n)), np.ones((2 * n, n))
    lows[np.arange(n, 2 * n), np.arange(n)] = 1.0
    widths[np.arange(2 * n), np.arange(2 * n) % n] = 0.0
    attained, bound = 0.0, 0.0  # f = 0 gives 0
    while len(lows):
        halves: list[tuple[np.ndarray, np.ndarray]] = []
        for low, width in zip(lows, widths):
            value, above = _cell(F, p, kappa, low, width, vertices)
            attained = max(attained, value)
            if above <= (1 + slack) * attained + ABSOLUTE_SLACK:
                continue
            if len(halves) + 2 > most:
                bound = max(bound, above)
                continue
            half = width.copy()
            split = int(np.argmax(p * width**2))
            half[split] /= 2
            upper = low.copy()
            upper[split] += half[split]
            halves += [(low, half), (upper, half)]
        lows, widths = (np.array(x).reshape(-1, n) for x in (zip(*halves) if halves else ((), ())))
    return max(bound, (1 + slack) * attained + ABSOLUTE_SLACK)


def _cell(
    F: np.ndarray, p: np.ndarray, kappa: float, low: np.ndarray, width: np.ndarray, vertices: np.ndarray
) -> tuple[float, float]:
    """The best value at a vertex, and an upper bound over the cell."""
    c, f = low + width / 2, low + vertices * width
    slope = 2 * p * (c - p @ c)  # of Var_p at c
    size = length(f @ F.T)
    value = size - kappa * (f**2 @ p - (f @ p) ** 2)
    above = size - kappa * (p @ c**2 - (p @ c) ** 2 + (f - c) @ slope)  # Var(f) >= Var(c) + <slope, f - c>
    return float(value.max()), float(above.max())
