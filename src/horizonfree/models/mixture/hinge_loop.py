"""The dynamic programme of the hinge, compiled by Numba once for all sizes (hinge.py says what it computes).

On an even grid of y a transition shifts all values of the next state by the same number of points, whole and part:
the inner loop is a weighted sum of two neighbours along contiguous memory.
"""

import numpy as np
from numba import njit, types


def _array(dtype: types.Type, ndim: int, *, readonly: bool = True) -> types.Array:
    return types.Array(dtype, ndim, "C", readonly=readonly)


_SIGNATURE = types.void(
    _array(types.int32, 3),  # succ
    _array(types.float64, 3),  # prob
    _array(types.int32, 3),  # row_of
    _array(types.float64, 2),  # charge
    _array(types.boolean, 2),  # stop
    _array(types.boolean, 2),  # occupied
    _array(types.float64, 1),  # initial
    _array(types.float64, 1),  # y
    _array(types.float64, 2),  # logs
    _array(types.float64, 2, readonly=False),  # J
)


@njit
def _add(q, w, v, shift, g):  # type: ignore[no-untyped-def]  # pragma: no cover
    """q[i] += w v(i + shift): chords between the points, v[0] before the first, slope 1 after the last."""
    N = q.size
    whole = int(np.floor(shift))
    first, end = min(max(-whole, 0), N), min(max(N - 1 - whole, 0), N)
    left, right = w * (1 - (shift - whole)), w * (shift - whole)
    before, after = w * v[0], w * (v[N - 1] + g * (shift - (N - 1)))
    for i in range(first):
        q[i] += before
    if first < end:
        inside, near, far = (
            q[first:end],
            v[first + whole : end + whole],
            v[first + whole + 1 : end + whole + 1],
        )
        for i in range(inside.size):
            inside[i] += left * near[i] + right * far[i]
    for i in range(end, N):
        q[i] += after + w * g * i


@njit
def _copy(x, y):  # type: ignore[no-untyped-def]  # pragma: no cover
    """y = x: an assignment of arrays would take Numba seconds to compile."""
    for i in range(x.size):
        y[i] = x[i]


@njit(_SIGNATURE, cache=True, nogil=True)
def programme(succ, prob, row_of, charge, stop, occupied, initial, y, logs, J):  # type: ignore[no-untyped-def]  # pragma: no cover
    """J[b] = sum_s initial(s) J_1(s, y) for the point whose rows have log(1 + x) = logs[b], 0 for padding."""
    S, A, n = succ.shape
    N, g = y.size, y[1] - y[0]
    hinge, after, now = np.empty(N), np.empty((S, N)), np.empty((S, N))
    q, shift = np.empty(N), np.empty((S, A, n))
    for i in range(N):
        hinge[i] = max(y[i], 0.0)
    for b in range(len(logs)):
        for s in range(S):
            _copy(hinge, after[s])
            for a in range(A):
                for j in range(n):
                    shift[s, a, j] = (charge[s, a] - logs[b, row_of[s, a, j]]) / g
        for h in range(len(occupied) - 2, -1, -1):
            for s in range(S):
                if occupied[h, s]:
                    best = now[s]
                    best[:] = -np.inf
                    for a in range(A):
                        q[:] = 0.0
                        if stop[s, a]:
                            _copy(hinge, q)
                        else:
                            for j in range(n):
                                if prob[s, a, j] > 0:
                                    _add(q, prob[s, a, j], after[succ[s, a, j]], shift[s, a, j], g)
                        for i in range(N):
                            best[i] = max(best[i], q[i])
            after, now = now, after
        for i in range(N):
            J[b, i] = 0.0
        for s in range(S):
            if initial[s] > 0:
                for i in range(N):
                    J[b, i] += initial[s] * after[s, i]
