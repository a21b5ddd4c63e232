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
from horizonfree.regression.oracle.vectors import BARE, TILE, merged, part


@part
def _clear(x, size):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The first `size` numbers become zero."""
    for i in range(size):
        x[i] = 0.0


@part
def _relaxed(t, beta, policy, r):  # type: ignore[no-untyped-def]  # pragma: no cover
    """bounds.relaxed: its policy is written, U at the start is returned."""
    H, N, T = t.reach.size, t.state.size, t.box.size // (t.A * TILE)
    R, P, U, after = r.tiles[3], policy.size // H, r.raw, r.w  # after: 0 and U, for V_{h+1} and Vhat_{h+1}
    _clear(U, N + 1)
    _clear(after, 2 * (N + 1))
    for i in range(policy.size - P, policy.size):
        policy[i] = 0
    for h in range(H - 2, -1, -1):
        for tile in range((t.reach[h] + TILE - 1) // TILE):
            all_actions(t, tile, after, FIRST, beta, r.tiles)
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


@merged
def _most(t, beta, tile, w, y, best):  # type: ignore[no-untyped-def]  # pragma: no cover
    """best = max over z in [0, w] of 2 beta |F z| + max(p, 0)'z: all 2^n vertices, one coordinate at a time."""
    _clear(y, y.size)
    _clear(best, TILE)
    for code in range(1, 2**t.n):
        j = 0  # the coordinate that differs between the Gray codes of code - 1 and code
        while not (code >> j) & 1:
            j += 1
        sign = 1.0 if ((code ^ (code >> 1)) >> j) & 1 else -1.0
        flip(t.F_hat, t.p, tile, t.m, t.n, j, sign, w, beta, y, best)


@part
def _upper(t, beta, r):  # type: ignore[no-untyped-def]  # pragma: no cover
    """bounds.upper_bound: W at the start."""
    N, T = t.state.size, t.box.size // (t.A * TILE)
    w, best, top, stage, W, after = r.tiles[0], r.tiles[1], r.tiles[2], r.tiles[3], r.raw, r.w
    _clear(W, N + 1)
    _clear(after, N + 1)
    for h in range(t.reach.size - 2, -1, -1):
        for tile in range((t.reach[h] + TILE - 1) // TILE):
            _clear(top, TILE)
            for a in range(t.A):
                least = np.inf
                for k in range(TILE):
                    stage[k] = min(beta * t.box[(a * T + tile) * TILE + k], 1.0)
                    top[k] = max(top[k], stage[k])
                    least = min(least, top[k])
                if least >= 1:  # more changes nothing
                    break
                gather(t, after, FIRST, a * T + tile, w)
                _most(t, beta, a * T + tile, w, r.sums, best)
                for k in range(TILE):
                    top[k] = max(top[k], min(stage[k] + best[k], 1.0))
            for s in range(tile * TILE, min((tile + 1) * TILE, t.reach[h])):
                W[s] = top[s - tile * TILE]
        copy(W, after, N)
    return at_start(t, W, NO)


@merged
def _start(key, t, radius, i, policy, target, r):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The start of chain i > 0: of the relaxed bound, or drawn; its step is the last. See ascent._starts."""
    P = policy.size // t.reach.size
    for s in range(target.size):
        target[s] = False
    if i == 1:
        _relaxed(t, radius, policy, r)
        return
    key = child(key, i - 2)
    key_policy, key_set = child(key, FIRST), child(key, SECOND)
    for h in range(t.reach.size):
        for s in range(t.reach[h]):
            policy[h * P + s] = below(key_policy, h * t.S + t.state[s], t.A)
    for s in range(target.size):
        target[s] = uniform(key_set, t.state[s]) < 0.5


@merged
def _search(key, t, radius, sweeps, step, r):  # type: ignore[no-untyped-def]  # pragma: no cover
    """All chains from one point, which becomes the best that they find: its step is returned."""
    policy, target, chains, size, N = (
        r.policies[r.steps.size],
        r.targets[r.steps.size],
        r.steps.size,
        r.raw.size,
        t.state.size,
    )
    best, winner = -np.inf, 0
    for i in range(chains):
        copy(policy, r.policies[i], size)
        copy(target, r.targets[i], N)
        r.steps[i] = step if i == 0 else t.reach.size - 1
        if i > 0:
            _start(child(key, SECOND), t, radius, i, r.policies[i], r.targets[i], r)
        r.values[i], r.steps[i] = climb(child(child(key, THIRD), i), t, radius, sweeps, i, r.steps[i], r)
        best = max(best, r.values[i])
    while r.values[winner] < best - TIE * abs(best):
        winner += 1
    copy(r.policies[winner], policy, size)
    copy(r.targets[winner], target, N)
    return r.steps[winner]


@merged
def _lay_out(t, x):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The factors of the kinds, per pair and per kind, into the tables."""
    (G, m, n), T, M = x.F_tilde.shape, t.box.size // (t.A * TILE), padded(t.m)
    for s in range(T * TILE):
        for a in range(t.A):
            g, tile, lane = t.kind[s, a], a * T + s // TILE, s % TILE
            t.box[tile * TILE + lane] = x.box_tilde[g]
            for j in range(n):
                t.p[(tile * n + j) * TILE + lane] = x.p[g, j]
                for i in range(m):
                    t.F[((tile * m + i) * n + j) * TILE + lane] = x.F_tilde[g, i, j]
                    t.F_hat[((tile * m + i) * n + j) * TILE + lane] = x.F_hat[g, i, j]
    for g in range(G):
        for j in range(n):
            t.p1[g * n + j], t.slope1[g * n + j] = x.p[g, j], x.box_slope[g, j]
            for i in range(m):
                row, column = 2 * ((g * M + i) * padded(n) + j), 2 * ((g * n + j) * M + i)
                t.rows1[row] = t.columns1[column] = x.F_tilde[g, i, j]
                t.rows1[row + 1] = t.columns1[column + 1] = x.F_hat[g, i, j]


@njit(**BARE, cache=True, nogil=True)
def search(key, t, x, r, beta, radius, sweeps, policy, step, target, values):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The oracle: policy [H, S] and target [S] become those of the answer where an episode can be, and values V, Vhat.

    x: the factors of the kinds, which fill the tables t; r: room; radius: that of the search. Returns the step, the
    sweeps, the numbers of `reply.Reply`.
    """
    H, chains, N, P = t.reach.size, r.steps.size, t.state.size, r.raw.size // t.reach.size
    here, chosen = r.policies[chains], r.targets[chains]
    for s in range(N):
        chosen[s] = target[t.state[s]]
        for h in range(H):
            here[h * P + s] = policy[h, t.state[s]]
    _lay_out(t, x)
    radius, used = min(radius, beta), 0
    while True:
        step = _search(key, t, radius, sweeps, step, r)
        used += chains * sweeps
        searched = back(t, radius, 0.0, NO, here, step, chosen, r.V, r.V, r.raw, r.tiles)
        found = back(t, beta, 0.0, NO, here, step, chosen, r.V, r.V, r.raw, r.tiles)
        value = at_start(t, r.raw, YES)
        if value >= 1 or radius >= beta:
            break
        key, radius = child(key, FIRST), beta
    for s in range(N):
        target[t.state[s]] = chosen[s]
        for h in range(H):
            policy[h, t.state[s]] = here[h * P + s]
            for k in range(2):
                values[k, h, t.state[s]] = r.V[2 * (h * P + s) + k]
    upper, relaxed = _upper(t, beta, r), _relaxed(t, beta, here, r)
    return step, used, (value, found, upper, radius, searched, relaxed)
