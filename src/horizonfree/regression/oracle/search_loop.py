"""A whole call of the oracle on a CPU, compiled by Numba: starts, climbs, a second search if needed, and both bounds.

ascent.py and bounds.py define what is computed; climb_loop.py says why this is faster. Numba's cache on disk notices
changes of this file alone: after editing the two that it imports, remove the caches (*.nbi, *.nbc).
"""

import numpy as np
from numba import njit

from horizonfree.planning.backward import TIE
from horizonfree.regression.oracle.climb_loop import (
    NO,
    YES,
    Tables,
    all_actions,
    at_start,
    back,
    climb,
    copy,
    gather,
    padded,
)
from horizonfree.regression.oracle.draws import FIRST, SECOND, THIRD, below, child, uniform
from horizonfree.regression.oracle.tiles import flip
from horizonfree.regression.oracle.vectors import TILE


@njit
def _relaxed(t, beta, policy, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """bounds.relaxed: its policy is written, U at the start is returned."""
    H, N, T = t.reach.size, t.state.size, t.box.size // (t.A * TILE)
    R, P = room[3], policy.size // H
    U, after = np.zeros(N + 1), np.zeros(2 * (N + 1))  # in place of V_{h+1} and Vhat_{h+1}: 0 and U
    for i in range(policy.size - P, policy.size):
        policy[i] = 0
    for h in range(H - 2, -1, -1):
        for tile in range((t.reach[h] + TILE - 1) // TILE):
            all_actions(t, tile, after, FIRST, beta, room)
            for a in range(t.A):
                for k in range(TILE):
                    stage = min(beta * t.box[(a * T + tile) * TILE + k], 1.0)
                    R[a * TILE + k] = min(stage + R[a * TILE + k], 1.0)
            for s in range(tile * TILE, min((tile + 1) * TILE, t.reach[h])):
                lane, top, a = s - tile * TILE, 0.0, 0
                for b in range(t.A):
                    top = max(top, R[b * TILE + lane])
                while R[a * TILE + lane] < top - TIE * top:
                    a += 1
                policy[h * P + s], U[s] = a, top
        for s in range(N):
            after[2 * s + 1] = U[s]
    return at_start(t, U, NO)


@njit
def _most(t, beta, tile, w, y, best):  # type: ignore[no-untyped-def]  # pragma: no cover
    """best = max over z in [0, w] of 2 beta |F z| + max(p, 0)'z: all 2^n vertices, one coordinate at a time."""
    for k in range(y.size):
        y[k] = 0.0
    for k in range(TILE):
        best[k] = 0.0
    for code in range(1, 2**t.n):
        j = 0  # the coordinate that differs between the Gray codes of code - 1 and code
        while not (code >> j) & 1:
            j += 1
        sign = 1.0 if ((code ^ (code >> 1)) >> j) & 1 else -1.0
        flip(t.F_hat, t.p, tile, t.m, t.n, j, sign, w, beta, y, best)


@njit
def _upper(t, beta, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """bounds.upper_bound: W at the start."""
    N, T = t.state.size, t.box.size // (t.A * TILE)
    w, best, top, stage, y = room[0], room[1], room[2], room[3], np.zeros((t.m + 1) * TILE)
    W, after = np.zeros(N + 1), np.zeros(N + 1)
    for h in range(t.reach.size - 2, -1, -1):
        for tile in range((t.reach[h] + TILE - 1) // TILE):
            for k in range(TILE):
                top[k] = 0.0
            for a in range(t.A):
                least = np.inf
                for k in range(TILE):
                    stage[k] = min(beta * t.box[(a * T + tile) * TILE + k], 1.0)
                    top[k] = max(top[k], stage[k])
                    least = min(least, top[k])
                if least >= 1:  # more changes nothing
                    break
                gather(t, after, FIRST, a * T + tile, w)
                _most(t, beta, a * T + tile, w, y, best)
                for k in range(TILE):
                    top[k] = max(top[k], min(stage[k] + best[k], 1.0))
            for s in range(tile * TILE, min((tile + 1) * TILE, t.reach[h])):
                W[s] = top[s - tile * TILE]
        copy(W, after)
    return at_start(t, W, NO)


@njit
def _start(key, t, radius, i, policy, target, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The start of chain i > 0: of the relaxed bound, or drawn; its step is the last. See ascent._starts."""
    P = policy.size // t.reach.size
    for s in range(target.size):
        target[s] = False
    if i == 1:
        _relaxed(t, radius, policy, room)
        return
    key = child(key, i - 2)
    key_policy, key_set = child(key, FIRST), child(key, SECOND)
    for h in range(t.reach.size):
        for s in range(t.reach[h]):
            policy[h * P + s] = below(key_policy, h * t.S + t.state[s], t.A)
    for s in range(target.size):
        target[s] = uniform(key_set, t.state[s]) < 0.5


@njit
def _search(key, t, radius, chains, sweeps, policy, step, target, size, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """All chains from one point, which becomes the best that they find: its step is returned."""
    values, steps = np.empty(chains), np.empty(chains, np.int64)
    policies, targets = np.empty((chains, policy.size), np.int32), np.empty((chains, target.size), np.bool_)
    best, winner = -np.inf, 0
    for i in range(chains):
        copy(policy, policies[i])
        copy(target, targets[i])
        steps[i] = step if i == 0 else t.reach.size - 1
        if i > 0:
            _start(child(key, SECOND), t, radius, i, policies[i], targets[i], room)
        chain = child(child(key, THIRD), i)
        values[i], steps[i] = climb(chain, t, radius, sweeps, policies[i], steps[i], targets[i], size, room)
        best = max(best, values[i])
    while values[winner] < best - TIE * abs(best):
        winner += 1
    copy(policies[winner], policy)
    copy(targets[winner], target)
    return steps[winner]


@njit
def _tables(layout, S, x, is_triangle):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The factors of the kinds, laid out per kind and per pair."""
    kind, A = layout.kind, layout.kind.shape[1]
    (G, m, n), T = x.F_tilde.shape, kind.shape[0] // TILE
    p, box = np.empty((A, T, n, TILE)), np.empty((A, T, TILE))
    F, F_hat = np.empty((A, T, m, n, TILE)), np.empty((A, T, m, n, TILE))
    for s in range(kind.shape[0]):
        tile, lane = s // TILE, s % TILE
        for a in range(A):
            g = kind[s, a]
            box[a, tile, lane] = x.box_tilde[g]
            for j in range(n):
                p[a, tile, j, lane] = x.p[g, j]
                for i in range(m):
                    F[a, tile, i, j, lane] = x.F_tilde[g, i, j]
                    F_hat[a, tile, i, j, lane] = x.F_hat[g, i, j]
    rows, columns = np.zeros((G, padded(m), padded(n), 2)), np.zeros((G, n, padded(m), 2))
    p1, slope1 = np.empty((G, n)), np.empty((G, n))
    for g in range(G):
        for j in range(n):
            p1[g, j], slope1[g, j] = x.p[g, j], x.box_slope[g, j]
            for i in range(m):
                rows[g, i, j, 0] = columns[g, j, i, 0] = x.F_tilde[g, i, j]
                rows[g, i, j, 1] = columns[g, j, i, 1] = x.F_hat[g, i, j]
    known = layout.reach, layout.state, S, A, m, n, layout.succ, kind, layout.initial
    pairs = p.ravel(), F.ravel(), F_hat.ravel(), box.ravel()
    return Tables(*known, *pairs, p1.ravel(), slope1.ravel(), rows.ravel(), columns.ravel(), is_triangle)


@njit(cache=True, nogil=True)
def search(key, layout, x, is_triangle, beta, radius, chains, sweeps, policy, step, target, values):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The oracle: policy [H, S] and target [S] become those of the answer where an episode can be, and values V, Vhat.

    x: the factors of the kinds; radius: that of the search. Returns the step, the sweeps, the numbers of `reply.Reply`.
    """
    (H, S), state = policy.shape, layout.state
    N = state.size
    P = N + TILE - N % TILE
    here, chosen, V = np.zeros((H, P), np.int32), np.empty(N, np.bool_), np.zeros((H + 1, P, 2))
    for s in range(N):
        chosen[s] = target[state[s]]
        for h in range(H):
            here[h, s] = policy[h, state[s]]
    t, flat, numbers = _tables(layout, S, x, is_triangle), here.ravel(), V.ravel()
    room, raw = np.zeros((5, max(padded(t.n), t.A, padded(t.m)) * TILE)), np.zeros(flat.size)
    radius, used = min(radius, beta), 0
    while True:
        step = _search(key, t, radius, chains, sweeps, flat, step, chosen, numbers.size, room)
        used += chains * sweeps
        searched = back(t, radius, 0.0, NO, flat, step, chosen, numbers, numbers, raw, room)
        found = back(t, beta, 0.0, NO, flat, step, chosen, numbers, numbers, raw, room)
        value = at_start(t, raw, YES)
        if value >= 1 or radius >= beta:
            break
        key, radius = child(key, FIRST), beta
    for s in range(N):
        target[state[s]] = chosen[s]
        for h in range(H):
            policy[h, state[s]] = here[h, s]
            values[0, h, state[s]], values[1, h, state[s]] = V[h, s, 0], V[h, s, 1]
    upper, relaxed = _upper(t, beta, room), _relaxed(t, beta, np.empty_like(flat), room)
    return step, used, (value, found, upper, radius, searched, relaxed)
