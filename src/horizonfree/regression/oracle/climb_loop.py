"""The ascent on a CPU, compiled by Numba once for all sizes; ascent.py says what it does, search_loop.py calls it.

What makes it fast: step h looks only at states that can be reached by then, the first `reach[h]` in the order of their
distance from the start; nothing is computed from the step of the reward on, where V_{h+1} = Vhat_{h+1} = 0; all actions
are looked at in tiles of states, and moves that leave the policy alone look at one action; derivatives are taken of
moves that are kept; numbers are drawn for kicks that happen. Draws are JAX's (draws.py), ties are broken alike, so the
answers are those of `ascent` but for rounding, wherever an episode can be.

V, Vhat (Z) and the weights (wV, wZ) are flat: entry h P + s, with P >= N + 1 a multiple of TILE.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from horizonfree.planning.backward import TIE
from horizonfree.regression.oracle.ascent import LEAK, MOVES, RISE
from horizonfree.regression.oracle.draws import child, uniform
from horizonfree.regression.oracle.tiles import ROWS, TILE, product, step_back, weigh

FUSED = {"contract"}


class Tables(NamedTuple):
    """One call: N states by distance, in T tiles, G kinds of pairs (s,a). Flat tables; letters as in `Prepared`."""

    reach: np.ndarray  # [H] states that step h can reach
    state: np.ndarray  # [N] their numbers in the problem, of S
    S: int
    A: int
    m: int
    n: int
    succ: np.ndarray  # [A T n TILE]; N stands for states that no step reaches
    kind: np.ndarray  # [N, A]
    initial: np.ndarray  # [N]
    p: np.ndarray  # [A T n TILE]
    F: np.ndarray  # [A T m n TILE], of the tilde norm
    F_hat: np.ndarray
    box: np.ndarray  # [A T TILE], of the tilde norm
    p1: np.ndarray  # [G n]
    slope1: np.ndarray  # [G n]
    F1: np.ndarray  # [G m n'], n' and m' padded to multiples of ROWS
    F_hat1: np.ndarray
    columns1: np.ndarray  # [G n m'], F transposed
    columns_hat1: np.ndarray


@njit
def at_start(t, x, is_capped):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The mean over the start of x, or of min(x, 1)."""
    total = 0.0
    for s in range(t.reach[0]):
        total += t.initial[s] * (min(x[s], 1.0) if is_capped else x[s])
    return total


@njit
def padded(m):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The next multiple of ROWS."""
    return (m + ROWS - 1) // ROWS * ROWS


@njit
def copy(x, y):  # type: ignore[no-untyped-def]  # pragma: no cover
    """y = x, of flat arrays."""
    for i in range(x.size):
        y[i] = x[i]


@njit
def gather(t, V, first, tile, v):  # type: ignore[no-untyped-def]  # pragma: no cover
    """v[j, s] = V[first + j-th successor of s], for one action in a tile of states."""
    at = tile * t.n * TILE
    for i in range(t.n * TILE):
        v[i] = V[first + t.succ[at + i]]


@njit
def _cap(x, leak):  # type: ignore[no-untyped-def]  # pragma: no cover
    return min(x, 1.0) + leak * max(x - 1.0, 0.0)


@njit
def _improve(t, h, beta, policy, wV, wZ, V, Z, raw, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """One step back for all actions, and the best of them for the weighted values; see objective.sweep_back."""
    P, T, N = V.size // (t.reach.size + 1), t.box.size // (t.A * TILE), t.state.size
    v, z, Q, R, score = room[0], room[1], room[2], room[3], room[4]
    for tile in range((t.reach[h] + TILE - 1) // TILE):
        for a in range(t.A):
            gather(t, V, (h + 1) * P, a * T + tile, v)
            gather(t, Z, (h + 1) * P, a * T + tile, z)
            step_back(t.F, t.F_hat, t.p, a * T + tile, t.m, t.n, v, z, beta, Q, R, a)
            weigh(Q, R, a, wV, wZ, h * (P // TILE) + tile, score)
        for s in range(tile * TILE, min((tile + 1) * TILE, t.reach[h])):
            lane, a, top = s - tile * TILE, policy[h * N + s], -np.inf
            for b in range(t.A):
                top = max(top, score[b * TILE + lane])
            least = top - TIE * abs(top)
            if score[a * TILE + lane] < least:
                a = 0
                while score[a * TILE + lane] < least:
                    a += 1
                policy[h * N + s] = a
            V[h * P + s], raw[h * N + s] = Q[a * TILE + lane], R[a * TILE + lane]
            Z[h * P + s] = _cap(R[a * TILE + lane], LEAK)


@njit(fastmath=FUSED)
def _follow(t, h, beta, leak, policy, V, Z, raw, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """One step back under the policy."""
    n, m, N = t.n, padded(t.m), t.state.size
    P, T = V.size // (t.reach.size + 1), t.box.size // (t.A * TILE)
    v, z, y = room[0], room[1], room[2]
    for s in range(t.reach[h]):
        a = policy[h * N + s]
        g, at = t.kind[s, a], (a * T + s // TILE) * n * TILE + s % TILE
        pv = pz = 0.0
        for j in range(n):
            after = (h + 1) * P + t.succ[at + j * TILE]
            v[j], z[j] = V[after], Z[after]
            pv += t.p1[g * n + j] * v[j]
            pz += t.p1[g * n + j] * z[j]
        u = beta * np.sqrt(product(t.columns1, g * n, v, n, m, y))
        bonus = 2 * beta * np.sqrt(product(t.columns_hat1, g * n, z, n, m, y))
        V[h * P + s] = min(max(pv, 0.0), 1.0)
        raw[h * N + s] = max(_cap(u, leak) + (bonus + pz), 0.0)
        Z[h * P + s] = _cap(raw[h * N + s], leak)


@njit
def back(t, beta, leak, improves, policy, step, target, wV, wZ, V, Z, raw, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """V, Vhat (Z) and Vhat before its cap (raw) of a policy, improved on the way if asked; returns raw at the start."""
    P, N = V.size // (t.reach.size + 1), t.state.size
    for i in range(step * P, V.size):
        V[i] = Z[i] = 0.0
    for i in range(step * N, raw.size):
        raw[i] = 0.0
    for s in range(t.reach[step]):
        V[step * P + s] = 1.0 if target[s] else 0.0
    for h in range(step - 1, -1, -1):
        if improves:
            _improve(t, h, beta, policy, wV, wZ, V, Z, raw, room)
        else:
            _follow(t, h, beta, leak, policy, V, Z, raw, room)
    return at_start(t, raw, False)


@njit(fastmath=True)  # no entry is infinite, or not a number
def _drop_rounding(x, first, end):  # type: ignore[no-untyped-def]  # pragma: no cover
    """planning.backward.significant."""
    top = 0.0
    for i in range(first, end):
        top = max(top, abs(x[i]))
    for i in range(first, end):
        x[i] = x[i] if abs(x[i]) > TIE * top else 0.0


@njit
def _slopes(columns, F, g, m, n, v, y, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """|F v| of one kind, and its gradient by v times |F v|."""
    size = np.sqrt(product(columns, g * n, v, n, padded(m), y))
    product(F, g * m, y, m, padded(n), out)
    return size


@njit(fastmath=FUSED)
def _adjoint(t, beta, policy, step, V, Z, raw, wV, wZ, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Derivatives of raw at the start by V_h (wV) and Vhat_h (wZ); see objective.adjoint."""
    H, n, m, N = t.reach.size, t.n, t.m, t.state.size
    P, T = V.size // (H + 1), t.box.size // (t.A * TILE)
    v, z, y, d_v, d_z = room[0], room[1], room[2], room[3], room[4]
    for i in range(wV.size):
        wV[i] = wZ[i] = 0.0
    copy(t.initial, wZ)
    for h in range(H - 1):
        for s in range(t.reach[h]):
            by_V, by_Z = wV[h * P + s], wZ[h * P + s]
            if by_V == 0 and by_Z == 0:
                continue
            a, bonus, hat = policy[h * N + s], 0.0, 0.0
            g, at = t.kind[s, a], (a * T + s // TILE) * n * TILE + s % TILE
            if h < step:
                for j in range(n):
                    after = (h + 1) * P + t.succ[at + j * TILE]
                    v[j], z[j] = V[after], Z[after]
                bonus = _slopes(t.columns1, t.F1, g, m, n, v, y, d_v)
                hat = _slopes(t.columns_hat1, t.F_hat1, g, m, n, z, y, d_z)
            kept = 1.0 if h == 0 or raw[h * N + s] < 1 else LEAK  # the value itself is not capped
            steep = kept * (1.0 if beta * bonus < 1 else LEAK) * beta * by_Z
            per_bonus, steep_hat = 1 / bonus if bonus > 0 else 0.0, 2 * beta / hat if hat > 0 else 0.0
            if h >= step:
                for j in range(n):
                    d_z[j] = 0.0
            for j in range(n):
                after, p = (h + 1) * P + t.succ[at + j * TILE], t.p1[g * n + j]
                slope = d_v[j] * per_bonus if bonus > 0 else t.slope1[g * n + j]
                wV[after] += steep * slope + by_V * p
                wZ[after] += by_Z * kept * (steep_hat * d_z[j] + p)
        _drop_rounding(wV, (h + 1) * P, (h + 1) * P + t.reach[h + 1])
        _drop_rounding(wZ, (h + 1) * P, (h + 1) * P + t.reach[h + 1])


@njit
def _best_reward(t, wV, target):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The step of the best single-step indicator, whose set is written to `target`."""
    H, N = t.reach.size, t.state.size
    P, total, top, step = wV.size // (H + 1), np.zeros(H), 0.0, 0
    for h in range(H):
        for s in range(t.reach[h]):
            total[h] += max(wV[h * P + s], 0.0)
        top = max(top, total[h])
    while total[step] < top - TIE * top:
        step += 1
    for s in range(N):
        target[s] = wV[step * P + s] > 0
    return step


@njit
def _kick(key, t, policy, step, target):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The random change of ascent._kick, where it can matter."""
    H, N = t.reach.size, t.state.size
    kinds, states, entries = child(key, 0), child(key, 1), child(key, 2)
    of_set, of_step, which, of_policy = (
        uniform(kinds, 0),
        uniform(kinds, 1),
        uniform(kinds, 2),
        uniform(kinds, 3),
    )
    if of_set < 0.8:
        for s in range(target.size):
            u = uniform(states, t.state[s])
            if of_set < 0.5:
                target[s] ^= u < max(1.5 / t.S, 0.1)
            else:
                target[s] = not target[s] if of_set < 0.65 else u < 0.5
    if of_policy < 0.5:
        for h in range(H):
            for s in range(t.reach[h]):
                u = uniform(entries, h * t.S + t.state[s])
                if u < 0.15:
                    policy[h * N + s] = int(u / 0.15 * t.A)
    if of_step < 0.6:
        return step
    return H - 1 if of_step < 0.8 else int(which * H)


@njit
def climb(key, t, radius, sweeps, policy, step, target, size, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The best point of one chain, in place of where it starts: its value and its step; see ascent._climb."""
    V, Z, wV, wZ = np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size)
    raw, failures, value, best = np.zeros(policy.size), MOVES, -np.inf, -np.inf
    now, now_step, now_target = np.empty_like(policy), step, np.empty_like(target)
    trial, trial_target = np.empty_like(policy), np.empty_like(target)
    for i in range(sweeps):
        is_kick = failures == MOVES
        copy(policy if is_kick else now, trial)
        copy(target if is_kick else now_target, trial_target)
        trial_step = step if is_kick else now_step
        if is_kick and i > 0:
            trial_step = _kick(child(key, i), t, trial, trial_step, trial_target)
        if failures == 0 or failures == 2:
            trial_step = _best_reward(t, wV, trial_target)
        found = back(t, radius, LEAK, failures <= 1, trial, trial_step, trial_target, wV, wZ, V, Z, raw, room)
        if i == 0 or found > best + RISE * abs(best):
            best, step = found, trial_step
            copy(trial, policy)
            copy(trial_target, target)
        failures += 1
        is_last = i == sweeps - 1
        if (is_kick or found > value + RISE * abs(value)) and not is_last:
            _adjoint(t, radius, trial, trial_step, V, Z, raw, wV, wZ, room)
            value, now_step, failures = found, trial_step, 0
            copy(trial, now)
            copy(trial_target, now_target)
    return best, step
