"""One step back of tangent.py for rows (g, s), in a loop that Numba compiles once for all sizes.

Same letters as there; the numbers are the same but for rounding. NumPy and XLA write down what is between the formulas,
a hundred times as much as what goes in and comes out. Here a row stays in the first-level cache, and the norm of a
matrix is computed only where its action may have the largest regret: the Euclidean norm of its entries is larger.

Arrays are copied number by number: Numba takes seconds to compile an assignment to a slice.

A row holds V_star, kappa, hit; V, R, D, upper, lower, higher; J [q]; B [q, q], or nothing of it without second order.
"""

import math

import numpy as np
from numba import njit

from horizonfree.planning.induction import ROUNDING

V_STAR, KAPPA, HIT, V, R, D, UPPER, LOWER, HIGHER, J = range(10)  # where they stand; J is the first of q
FUSED = {"contract"}


@njit(cache=True)
def _at_most(x, cap):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The smaller; the cap where x is not a number."""
    return x if x < cap else cap


@njit(cache=True, fastmath=FUSED)
def _opnorm(M, power, square):  # type: ignore[no-untyped-def]  # pragma: no cover
    """As norms.opnorm: tr(M^16)^(1/16)."""
    q, scale = len(M), 0.0
    for i in range(q):
        for j in range(q):
            scale = max(scale, abs(M[i, j]))
    if scale == 0.0:
        return 0.0
    for i in range(q):
        for j in range(q):
            power[i, j] = M[i, j] / scale
    for _ in range(3):
        for i in range(q):
            for j in range(q):
                square[i, j] = 0.0
            for k in range(q):
                x = power[i, k]
                for j in range(q):
                    square[i, j] += x * power[k, j]
        power, square = square, power
    total = 0.0
    for i in range(q):
        for j in range(q):
            total += power[i, j] ** 2
    return scale * math.sqrt(total) ** (1 / 8)


@njit(cache=True, fastmath=FUSED)
def _sums(after, rows, p, z, mean, slope):  # type: ignore[no-untyped-def]  # pragma: no cover
    """sum_s' p f of everything carried, and sum_s' z f of what depends on theta, V and all behind it."""
    (n, q), F = z.shape, len(mean)
    mean[:] = 0.0
    slope[:] = 0.0
    for j in range(n):
        f, x = after[rows[j]], p[j]
        for m in range(F):
            mean[m] += x * f[m]
        for i in range(q):
            x = z[j, i]
            for m in range(slope.shape[1]):
                slope[i, m] += x * f[V + m]


@njit(cache=True, fastmath=FUSED)
def _rest(after, rows, z, mean):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Without second order: sum |z| |J - mean J|."""
    (n, q), total = z.shape, 0.0
    for j in range(n):
        own, apart = 0.0, 0.0
        for i in range(q):
            own += z[j, i] ** 2
            apart += (after[rows[j], J + i] - mean[J + i]) ** 2
        total += math.sqrt(own) * math.sqrt(apart)
    return total


@njit(cache=True, fastmath=FUSED)
def _expansion(mean, slope, squares, gQ, bQ):  # type: ignore[no-untyped-def]  # pragma: no cover
    """gQ and bQ; the norms of the slopes, of each of the six numbers and of B; 1 + |gQ| + |bQ|."""
    q, e = len(gQ), len(bQ)
    squares[:] = 0.0
    for i in range(q):
        for m in range(slope.shape[1]):
            squares[m] += slope[i, m] ** 2
    rest, g, b = 0.0, 0.0, 0.0
    for m in range(J - V + e, J - V + e + e * e):
        rest += squares[m]
    for i in range(q):
        gQ[i] = slope[i, 0] + mean[J + i]
        g += gQ[i] ** 2
    for i in range(e):
        for j in range(e):
            bQ[i, j] = (slope[j, J - V + i] + slope[i, J - V + j]) / 2 + mean[J + e + i * e + j]
            b += bQ[i, j] ** 2
    for m in range(J - V):
        squares[m] = math.sqrt(squares[m])
    return math.sqrt(rest), 1.0 + math.sqrt(g) + math.sqrt(b)


@njit(cache=True, fastmath=FUSED)
def _regret(own, Q, gQ, bQ, rQ, onward, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """D: the largest of what an action gains on the policy's own and what may be lost after it."""
    (A, q), e = gQ.shape, bQ.shape[1]
    best = onward[own]
    for a in range(A):
        if a == own:
            continue
        g, b = 0.0, 0.0
        for i in range(q):
            g += (gQ[a, i] - gQ[own, i]) ** 2
        for i in range(e):
            for j in range(e):
                room[0, i, j] = bQ[a, i, j] - bQ[own, i, j]
                b += room[0, i, j] ** 2
        advantage = Q[a] - Q[own] + math.sqrt(g) + rQ[a] + rQ[own]
        if not _at_most(advantage + math.sqrt(b), 1.0) + onward[a] <= best:
            norm = _opnorm(room[0], room[1], room[2])
            best = max(best, _at_most(advantage + norm, 1.0) + onward[a])
    return min(1.0, max(0.0, best))


@njit(cache=True)
def _first(Q):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The first action that is best but for rounding, and its value."""
    best = Q[0]
    for x in Q:
        best = max(best, x)
    least, a = best - ROUNDING * abs(best), 0
    while Q[a] < least:
        a += 1
    return a, best


@njit(cache=True, fastmath=FUSED, nogil=True)
def back(world, after, place, g, s, r, is_last, now):  # type: ignore[no-untyped-def]  # pragma: no cover
    """`now` from `after`, of rows (g, s) that are paid r, under their best actions. `place`: rows of the next step."""
    succ, p, z, cost, leak, stop = world
    (_, A, n, q), F = z.shape, after.shape[1]
    e = q if F > J + q else 0
    mean, slope = np.empty((A, F)), np.empty((q, (F if e else J) - V))
    squares, rows = np.empty(slope.shape[1]), np.empty(n, np.int64)
    gQ, bQ, room = np.empty((A, q)), np.empty((A, e, e)), np.empty((3, e, e))
    Q_star, Q, rQ, onward = np.empty(A), np.empty(A), np.empty(A), np.empty(A)
    spread = np.empty((A, J - V))
    for k in range(len(s)):
        x = s[k]
        for a in range(A):
            for j in range(n):
                rows[j] = place[g[k], succ[x, a, j]]
            _sums(after, rows, p[x, a], z[x, a], mean[a], slope)
            rest, most = _expansion(mean[a], slope, squares, gQ[a], bQ[a])
            if e == 0:
                rest = _rest(after, rows, z[x, a], mean[a])
            for m in range(J - V):
                spread[a, m] = squares[m]
            rQ[a] = _at_most(rest + mean[a, R] + spread[a, R - V], most)
            onward[a] = _at_most(mean[a, D] + spread[a, D - V], 1.0)
            Q_star[a], Q[a] = r[k] + mean[a, V_STAR], r[k] + mean[a, V]
        own, best = _first(Q_star)
        to, upper = now[k], -np.inf
        for a in range(A):
            upper = max(upper, _at_most(r[k] + mean[a, UPPER] + spread[a, UPPER - V], 1.0))
        to[V_STAR] = best
        to[KAPPA], to[HIT] = 0.0, 0.0
        if not is_last:  # the last transition touches no reward
            ends = stop[x, own]
            to[KAPPA] = 0.0 if ends else cost[x, own] + mean[own, KAPPA] / (1.0 - leak[x, own])
            to[HIT] = 1.0 if ends else leak[x, own] + mean[own, HIT]
        to[V], to[R], to[UPPER] = Q[own], rQ[own], upper
        to[D] = _regret(own, Q, gQ, bQ, rQ, onward, room)
        to[LOWER] = max(0.0, r[k] + mean[own, LOWER] - spread[own, LOWER - V])
        to[HIGHER] = _at_most(r[k] + mean[own, HIGHER] + spread[own, HIGHER - V], 1.0)
        for i in range(q):
            to[J + i] = gQ[own, i]
        for i in range(e):
            for j in range(e):
                to[J + q + i * e + j] = bQ[own, i, j]
