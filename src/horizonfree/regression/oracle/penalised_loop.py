"""Branch and bound for max over f in [0,1]^n of ||F f|| - kappa Var_p(f), compiled by Numba once for all sizes.

On a cell with centre c, -Var_p is below its tangent at c (it is concave), so the objective is below a convex function,
whose maximum over the cell is at a vertex. A cell that cannot beat the best point found by more than `slack` is closed;
the others are halved where p_i width_i^2, the error of the tangent, is largest. Vertices are visited in the order of a
Gray code: F f, p'f, p'(f^2) and the tangent change by one coordinate at a time.

Along f + c the variance stays and the norm is convex in c, so the maximum is at an end of such a line: where an entry
is 0 or 1. Only those 2 n faces are searched. (Where probabilities are known to sum to one, F 1 is nearly 0, and inside
the cube there would be lines of best points, which no halving ends soon.)
"""

import numpy as np
from numba import njit, types

LEAST = 1e-15  # a bound is never below this
_TABLES = (types.Array(types.float64, 3, "C"), types.Array(types.float64, 2, "C"))


@njit
def _cell(F, p, kappa, low, width, u, slope):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The best value at a vertex, and an upper bound over the cell."""
    m, n = F.shape
    at_c = mean_c = 0.0
    for i in range(n):
        c = low[i] + width[i] / 2
        mean_c += p[i] * c
        at_c += p[i] * c * c
    at_c -= mean_c * mean_c
    for k in range(m):
        u[k] = 0.0
    mean = square = rise = 0.0
    for i in range(n):
        slope[i] = 2 * p[i] * (low[i] + width[i] / 2 - mean_c)  # of Var_p at c
        mean += p[i] * low[i]
        square += p[i] * low[i] * low[i]
        rise -= slope[i] * width[i] / 2
        for k in range(m):
            u[k] += F[k, i] * low[i]
    value, above = -np.inf, -np.inf
    for vertex in range(2**n):
        if vertex > 0:
            i = 0
            while not (vertex >> i) & 1:
                i += 1
            sign = 1.0 if ((vertex ^ (vertex >> 1)) >> i) & 1 else -1.0
            by = sign * width[i]
            mean += p[i] * by
            square += sign * p[i] * width[i] * (2 * low[i] + width[i])
            rise += slope[i] * by
            for k in range(m):
                u[k] += F[k, i] * by
        size = 0.0
        for k in range(m):
            size += u[k] * u[k]
        size = np.sqrt(size)
        value = max(value, size - kappa * (square - mean * mean))
        above = max(above, size - kappa * (at_c + rise))  # Var(f) >= Var(c) + <slope, f - c>
    return value, above


@njit
def _row(F, p, kappa, slack, lows, widths, u, slope):  # type: ignore[no-untyped-def]  # pragma: no cover
    """One row, all cells of a size before smaller ones; once no more fit, what is open keeps its bound.

    lows, widths: [2, N, n], the cells of this level and of the next.
    """
    n = p.size
    for face in range(2 * n):
        for i in range(n):
            lows[0, face, i], widths[0, face, i] = 0.0, 1.0
        lows[0, face, face % n], widths[0, face, face % n] = face // n, 0.0
    found, bound = 0.0, 0.0  # f = 0 gives 0
    this, cells = 0, 2 * n
    while cells:
        after, low, width = 0, lows[1 - this], widths[1 - this]
        for cell in range(cells):
            size = widths[this, cell]
            value, above = _cell(F, p, kappa, lows[this, cell], size, u, slope)
            found = max(found, value)
            if above <= (1 + slack) * found + LEAST:
                continue
            if after + 2 > low.shape[0]:
                bound = max(bound, above)
                continue
            split = 0
            for i in range(n):
                if p[i] * size[i] ** 2 > p[split] * size[split] ** 2:
                    split = i
            for half in range(2):
                for i in range(n):
                    low[after, i], width[after, i] = lows[this, cell, i], size[i]
                width[after, split] /= 2
                low[after, split] += half * width[after, split]
                after += 1
        this, cells = 1 - this, after
    return max(bound, (1 + slack) * found + LEAST)


@njit(types.float64[::1](*_TABLES, types.float64, types.float64, types.int64), cache=True, nogil=True)
def branch_and_bound(F, p, kappa, slack, most):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Upper bounds of the maxima, one per row of F [X, m, n] and p [X, n], with at most so many cells at a time."""
    X, m, n = F.shape
    out, lows, widths = np.empty(X), np.empty((2, most, n)), np.empty((2, most, n))
    u, slope = np.empty(m), np.empty(n)
    for x in range(X):
        out[x] = _row(F[x], p[x], kappa, slack, lows, widths, u, slope)
    return out
