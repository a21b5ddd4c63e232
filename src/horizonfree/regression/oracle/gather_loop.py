"""D_h(s) = max_a g_h(s,a) + sum_s' p(s'|s,a) D_{h+1}(s') from D_H = 0, compiled by Numba once for all sizes."""

import numpy as np
from numba import njit, types

_TABLE = types.Array(types.float64, 2, "C", readonly=True)
_SIGNATURE = types.float64[::1](
    types.Array(types.int32, 3, "C", readonly=True),  # succ [n A S]
    types.Array(types.float64, 3, "C", readonly=True),  # p [n A S]
    _TABLE,
    _TABLE,
    types.int64,
)


@njit(_SIGNATURE, cache=True, nogil=True)
def gathered(succ, p, last, g, H):  # type: ignore[no-untyped-def]  # pragma: no cover
    """D_1, where g_{H-1} is `last` [A S] and g_h is `g` before."""
    n, A, S = p.shape
    D, new = np.zeros(S), np.empty(S)
    for h in range(H - 1, 0, -1):
        table = last if h == H - 1 else g
        for s in range(S):
            best = -np.inf
            for a in range(A):
                total = 0.0
                for j in range(n):
                    total += p[j, a, s] * D[succ[j, a, s]]
                best = max(best, table[a, s] + total)
            new[s] = best
        D, new = new, D
    return D
