"""The ascent on a CPU, compiled by Numba once for all sizes; ascent.py says what it does, search_loop.py calls it.

What makes it fast: step h looks only at states that can be reached by then, the first `reach[h]` in the order of their
distance from the start; nothing is computed from the step of the reward on, where V_{h+1} = Vhat_{h+1} = 0; all actions
are looked at in tiles of states, and moves that leave the policy alone look at one action; derivatives are taken of
moves that are kept; numbers are drawn for kicks that happen; where the best reward is the one that is there, a move of
the reward alone changes nothing, and one of the policy alone is the move of both, which has failed. Draws are JAX's
(draws.py), ties are broken alike, so the answers are those of `ascent` but for rounding, wherever an episode can be.

What steps and states have is flat: entry h P + s, with P >= N + 1 a multiple of TILE. V and Vhat are pairs in one
array, V[2 (h P + s)] and the number after it; and so are the weights w, the derivatives by them.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from horizonfree.planning.backward import TIE
from horizonfree.regression.oracle.ascent import LEAK, MOVES, RISE
from horizonfree.regression.oracle.draws import FIRST, FOURTH, SECOND, THIRD, child, uniform
from horizonfree.regression.oracle.pairs import look_ahead, slopes, spread
from horizonfree.regression.oracle.tiles import choose, step_back
from horizonfree.regression.oracle.vectors import PART, ROWS, TILE, merged, part

FUSED = {"contract"}
YES, NO = np.bool_(True), np.bool_(False)  # a function is compiled once more for a literal one


class Tables(NamedTuple):
    """One call: N states by distance, in T tiles, G kinds of pairs (s,a). Flat tables; letters as in `Prepared`."""

    reach: np.ndarray  # [H] states that step h can reach
    state: np.ndarray  # [N] their numbers in the problem, of S
    S: int
    A: int
    m: int
    n: int
    succ: np.ndarray  # [A T n TILE], where their pairs are: 2 s; N stands for states that no step reaches
    kind: np.ndarray  # [N, A]
    initial: np.ndarray  # [N]
    p: np.ndarray  # [A T n TILE]
    F: np.ndarray  # [A T m n TILE], of the tilde norm
    F_hat: np.ndarray
    box: np.ndarray  # [A T TILE], of the tilde norm
    p1: np.ndarray  # [G n]
    slope1: np.ndarray  # [G n]
    rows1: np.ndarray  # [G m' n' 2] of F and F_hat in pairs; n' and m' are padded to multiples of ROWS
    columns1: np.ndarray  # [G n m' 2]
    is_triangle: bool  # nothing is below the diagonals of F and F_hat


class Room(NamedTuple):
    """What a call writes on: zeros, made by whoever calls, since loops that make no array are compiled sooner."""

    tiles: np.ndarray  # [5, TILE times the most of A, n', m']
    sums: np.ndarray  # [(m + 1) TILE]
    V: np.ndarray  # [2 (H + 1) P], as are the weights
    w: np.ndarray
    raw: np.ndarray  # [H P]
    policies: (
        np.ndarray
    )  # [chains + 3, H P] the best of each chain; of all; where a chain stands; what it tries
    targets: np.ndarray  # [chains + 3, N]
    steps: np.ndarray  # [chains]
    values: np.ndarray  # [chains]
    rises: np.ndarray  # [H]


@part
def at_start(t, x, is_capped):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The mean over the start of x, or of min(x, 1)."""
    total = 0.0
    for s in range(t.reach[0]):
        total += t.initial[s] * (min(x[s], 1.0) if is_capped else x[s])
    return total


@merged
def padded(m):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The next multiple of ROWS."""
    return (m + ROWS - 1) // ROWS * ROWS


@part
def copy(x, y, size):  # type: ignore[no-untyped-def]  # pragma: no cover
    """y = x, the first `size` entries."""
    for i in range(size):
        y[i] = x[i]


@merged
def gather(t, V, first, tile, v):  # type: ignore[no-untyped-def]  # pragma: no cover
    """v[j, s] = V[first + j-th successor of s], for one action in a tile of states."""
    at = tile * t.n * TILE
    for i in range(t.n * TILE):
        v[i] = V[first + (t.succ[at + i] >> 1)]


@merged
def _cap(x, leak):  # type: ignore[no-untyped-def]  # pragma: no cover
    return min(x, 1.0) + leak * max(x - 1.0, 0.0)


@part
def all_actions(t, tile, V, first, beta, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """One step back for all actions in a tile of states: Q and R of step_back."""
    v, z, Q, R, T = room[0], room[1], room[2], room[3], t.box.size // (t.A * TILE)
    F, hat, p, succ, m, n = t.F, t.F_hat, t.p, t.succ, t.m, t.n
    for a in range(t.A):
        step_back(F, hat, p, succ, a * T + tile, m, n, t.is_triangle, V, first, beta, v, z, Q, R, a)


@merged
def _improve(t, h, beta, policy, w, V, raw, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """One step back, and the best action for the weighted values; see objective.sweep_back."""
    P, Q, R, score = raw.size // t.reach.size, room[2], room[3], room[4]
    for tile in range((t.reach[h] + TILE - 1) // TILE):
        all_actions(t, tile, V, (h + 1) * P, beta, room)
        left, at = t.reach[h] - tile * TILE, h * (P // TILE) + tile
        choose(Q, R, t.A, w, score, left, policy, V, raw, at)


@njit(**PART, fastmath=FUSED)
def _follow(t, h, beta, leak, policy, V, raw, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """One step back under the policy."""
    n, m, y, out = t.n, padded(t.m), room[0], room[1]
    P, T = raw.size // t.reach.size, t.box.size // (t.A * TILE)
    for s in range(t.reach[h]):
        i, a = h * P + s, policy[h * P + s]
        at = (a * T + s // TILE) * n * TILE + s % TILE
        look_ahead(t.columns1, t.p1, t.kind[s, a], m, n, t.succ, at, V, (h + 1) * P, y, out)
        raw[i] = max(_cap(beta * out[0], leak) + (2 * beta * out[1] + out[3]), 0.0)
        V[2 * i], V[2 * i + 1] = min(max(out[2], 0.0), 1.0), _cap(raw[i], leak)


@part
def back(t, beta, leak, improves, policy, step, target, w, V, raw, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """V and Vhat (V), and Vhat before its cap (raw), of a policy that is improved on the way if asked.

    Returns raw at the start.
    """
    P = raw.size // t.reach.size
    for i in range(2 * step * P, V.size):
        V[i] = 0.0
    for i in range(step * P, raw.size):
        raw[i] = 0.0
    for s in range(t.reach[step]):
        V[2 * (step * P + s)] = 1.0 if target[s] else 0.0
    for h in range(step - 1, -1, -1):
        if improves:
            _improve(t, h, beta, policy, w, V, raw, room)
        else:
            _follow(t, h, beta, leak, policy, V, raw, room)
    return at_start(t, raw, NO)


@njit(**PART, fastmath=True)  # no entry is infinite, or not a number
def _drop_rounding(w, first, end):  # type: ignore[no-untyped-def]  # pragma: no cover
    """planning.backward.significant, of both weights."""
    top = top_hat = 0.0
    for i in range(first, end):
        top = max(top, abs(w[2 * i]))
        top_hat = max(top_hat, abs(w[2 * i + 1]))
    for i in range(first, end):
        w[2 * i] = w[2 * i] if abs(w[2 * i]) > TIE * top else 0.0
        w[2 * i + 1] = w[2 * i + 1] if abs(w[2 * i + 1]) > TIE * top_hat else 0.0


@njit(**PART, fastmath=FUSED)
def _adjoint(t, beta, policy, step, V, raw, w, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Derivatives of raw at the start by V_h and Vhat_h (w); see objective.adjoint."""
    H, n, m = t.reach.size, t.n, padded(t.m)
    y, out, slope = room[0], room[1], room[2]
    P, T = raw.size // H, t.box.size // (t.A * TILE)
    for i in range(w.size):
        w[i] = 0.0
    for s in range(t.reach[0]):
        w[2 * s + 1] = t.initial[s]
    for h in range(H - 1):
        for s in range(t.reach[h]):
            by, by_hat = w[2 * (h * P + s)], w[2 * (h * P + s) + 1]
            if by == 0 and by_hat == 0:
                continue
            a, bonus, hat = policy[h * P + s], 0.0, 0.0
            g, at = t.kind[s, a], (a * T + s // TILE) * n * TILE + s % TILE
            if h < step:
                slopes(t.columns1, t.rows1, g, m, n, t.succ, at, V, (h + 1) * P, y, out, slope)
                bonus, hat = out[0], out[1]
            if h > 0 and raw[h * P + s] >= 1:  # the value itself is not capped
                by_hat *= LEAK
            steep = (1.0 if beta * bonus < 1 else LEAK) * beta * by_hat
            steep_hat = 2 * beta * by_hat / hat if hat > 0 else 0.0
            if bonus > 0:
                steep /= bonus
            else:
                for j in range(n):
                    slope[2 * j] = t.slope1[g * n + j]
            spread(slope, t.p1, g, n, t.succ, at, w, (h + 1) * P, steep, steep_hat, by, by_hat)
        _drop_rounding(w, (h + 1) * P, (h + 1) * P + t.reach[h + 1])


@njit(**PART, fastmath={"reassoc"})
def _rises(w, first, end):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The positive weights of V, summed."""
    total = 0.0
    for i in range(first, end):
        total += max(w[2 * i], 0.0)
    return total


@merged
def _best_reward(t, w, total, target):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The step of the best single-step indicator, whose set is written to `target`."""
    H = t.reach.size
    P, top, step = w.size // (2 * (H + 1)), 0.0, 0
    for h in range(H):
        total[h] = _rises(w, h * P, h * P + t.reach[h])
        top = max(top, total[h])
    while total[step] < top - TIE * top:
        step += 1
    for s in range(target.size):
        target[s] = w[2 * (step * P + s)] > 0
    return step


@merged
def _kick(key, t, policy, step, target):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The random change of ascent._kick, where it can matter."""
    H, P = t.reach.size, policy.size // t.reach.size
    kinds, states, entries = child(key, FIRST), child(key, SECOND), child(key, THIRD)
    of_set, of_step, which, of_policy = (
        uniform(kinds, FIRST),
        uniform(kinds, SECOND),
        uniform(kinds, THIRD),
        uniform(kinds, FOURTH),
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
                    policy[h * P + s] = int(u / 0.15 * t.A)
    if of_step < 0.6:
        return step
    return H - 1 if of_step < 0.8 else int(which * H)


@merged
def _differs(x, y):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Whether two sets do."""
    differs = False
    for i in range(x.size):
        differs |= x[i] != y[i]
    return differs


@part
def climb(key, t, radius, sweeps, chain, step, r):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The best point of one chain, in place of where it starts: its value and its step; see ascent._climb."""
    V, w, raw, policy, target, last = r.V, r.w, r.raw, r.policies[chain], r.targets[chain], r.steps.size
    now, now_step, now_target = r.policies[last + 1], step, r.targets[last + 1]
    trial, trial_target = r.policies[last + 2], r.targets[last + 2]
    failures, value, best, is_new = MOVES, -np.inf, -np.inf, True  # is_new: the best reward is another one
    for i in range(sweeps):
        is_kick = failures == MOVES
        if not (is_kick or failures == 0 or is_new):
            failures += 1
            continue
        copy(policy if is_kick else now, trial, raw.size)
        copy(target if is_kick else now_target, trial_target, target.size)
        trial_step = step if is_kick else now_step
        if is_kick and i > 0:
            trial_step = _kick(child(key, i), t, trial, trial_step, trial_target)
        if failures == 0 or failures == 2:
            trial_step = _best_reward(t, w, r.rises, trial_target)
            is_new = trial_step != now_step or _differs(trial_target, now_target)
        found = back(t, radius, LEAK, failures <= 1, trial, trial_step, trial_target, w, V, raw, r.tiles)
        if i == 0 or found > best + RISE * abs(best):
            best, step = found, trial_step
            copy(trial, policy, raw.size)
            copy(trial_target, target, target.size)
        failures += 1
        is_last = i == sweeps - 1
        if (is_kick or found > value + RISE * abs(value)) and not is_last:
            _adjoint(t, radius, trial, trial_step, V, raw, w, r.tiles)
            value, now_step, failures = found, trial_step, 0
            copy(trial, now, raw.size)
            copy(trial_target, now_target, target.size)
    return best, step
