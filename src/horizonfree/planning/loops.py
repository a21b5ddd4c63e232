"""Backward induction on a CPU, compiled by Numba once for all sizes.

One reward. Successor lists: XLA turns indexed loads into slow gathers on CPUs. Two choices make the loop here fast. The
successors are seen as unsigned numbers: no test for a negative index is left in the inner loop. And there is no
fastmath: it would let the compiler use hardware gathers, which are slower than plain loads. Dense kernels: rows that
cannot matter are left out. What an action can be worth at most is known from the step before, and where it is less
than what another attains, the action is not best. The plan is the same, in every bit.

A batch of rewards: the values of one state for LANES rewards stand side by side and are one load (lanes.py). Blocks of
LANES rewards go to the threads that Numba may use.

A reward is [H, S, A], or [1, S, A] when it is the same at every step. Where a reward or a total is
not finite, V is not a number: 0 times each of them is added. Actions are numbers of 32 bits: plans of many
states wait for the memory that they are written to.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial, wraps
from threading import Lock
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numba import config, njit, types

from horizonfree.mdp.space import Kernel
from horizonfree.planning.lanes import (
    LANES,
    LINE,
    ROWS,
    add_rows,
    aligned,
    exceeds,
    fetch,
    fetch_near,
    load,
    plus_product,
    plus_zero_times,
    product,
    splat,
    store,
    transpose,
    where,
)

TILE = LINE  # states whose rewards are brought side by side at once
THREADS: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
FAR = 2**17  # values of all states, if a core's own cache does not hold them
AHEAD = 5  # rows for which values that lie far are asked early
EPS = np.finfo(np.float64).eps
NO_SQUARE = 1e-130  # values that stay below this have squares that vanish
NOTHING = np.empty((0, 0, 0), np.uint32)  # the successors of a dense kernel, which need not be listed


def _array(dtype: types.Type, ndim: int, *, readonly: bool) -> types.Array:
    return types.Array(dtype, ndim, "C", readonly=readonly)


def _signature(batch: int, *, sparse: bool = True) -> object:
    """([succ,] prob, reward, policy, V): one compilation, whether or not the caller's arrays are writable."""
    succ = [_array(types.uint32, 3, readonly=True)] if sparse else []
    return types.void(
        *succ,
        _array(types.float64, 3, readonly=True),
        _array(types.float64, batch + 3, readonly=True),
        _array(types.int32, batch + 2, readonly=False),
        _array(types.float64, batch + 2, readonly=False),
    )


def _when_needed(signature: object) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Compiled for this signature, or found in Numba's cache, at the first call: most people need one of the three."""

    def made(function: Callable[..., None]) -> Callable[..., None]:
        compiled: Callable[[], Any] = cache(lambda: njit(signature, cache=True, nogil=True)(function))
        one_at_a_time = Lock()

        @wraps(function)
        def call(*args: Any) -> None:
            with one_at_a_time:
                loop = compiled()
            loop(*args)

        return call

    return made


@njit
def _spreads(prob):  # type: ignore[no-untyped-def]  # pragma: no cover
    """|p - mean(p)| of every row p, rounded up, and a slack: so many times |v| covers rounding, and sums of p that
    are not 1, in `_promise`. A product of S terms is rounded by at most S EPS/2 |p| |v|."""
    S, A, _ = prob.shape
    rows, spread, ones = prob.reshape(-1), aligned(S * A), aligned(S)
    ones[:] = 1.0
    largest = excess = 0.0
    for i in range(S * A):
        mass, square = product(rows, i * S, ones, S), product(rows, i * S, rows[i * S :], S)
        spread[i] = np.sqrt(max((1 + 8 * S * EPS) * square - mass**2 / S, 0.0))
        largest, excess = max(largest, square), max(excess, abs(mass - 1.0))
    return spread, excess / np.sqrt(S) + 32 * S * EPS * np.sqrt(largest)


@njit
def _moments(v, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The mean m of v, |v - m| and |v|."""
    S = v.size
    room[:] = 1.0
    mean = product(v, 0, room, S) / S
    for s in range(S):
        room[s] = v[s] - mean
    return mean, np.sqrt(product(room, 0, room, S)), np.sqrt(product(v, 0, v, S))


@njit
def _promise(promise, spread, slack, after, change, room):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Bounds of P V for V = `after`, from those for the V before it, which differs by `change`.

    p v = m sum(p) + (p - mean(p)) (v - m) <= m sum(p) + |p - mean(p)| |v - m| for a row p, and v with mean m.
    """
    m, deviation, size = _moments(after, room)
    if size < NO_SQUARE:
        promise[:] = np.inf if (after != 0).any() else 0.0
        return
    m_change, deviation_change, size_change = _moments(change, room)
    m += slack * size
    m_change += slack * (size + size_change)
    if not m + deviation + m_change + deviation_change < np.inf:  # numbers too large to square
        promise[:] = np.inf
        return
    for i in range(promise.size):
        anew = m + spread[i] * deviation
        onward = promise[i] + m_change + spread[i] * deviation_change
        promise[i] = onward if onward < anew else anew


@_when_needed(_signature(0, sparse=False))
def _dense(prob, reward, policy, V):  # type: ignore[no-untyped-def]  # pragma: no cover
    """For LANES states or more. An action that promises less than another attains is not computed."""
    H, S = policy.shape
    A = prob.shape[1]
    spread, slack = _spreads(prob)
    prob, bounds = prob.reshape(-1), aligned(S * A)
    after, change, room = aligned(S), aligned(S), aligned(S)
    bounds[:] = after[:] = change[:] = V[H] = 0.0
    promise = bounds.reshape(S, A)
    for h in range(H - 1, -1, -1):
        r = reward[h % reward.shape[0]]
        _promise(bounds, spread, slack, after, change, room)
        for s in range(S):
            first, top, second, check = 0, -np.inf, -np.inf, 0.0
            for a in range(A):
                check += 0 * r[s, a]
                q = r[s, a] + promise[s, a]
                if q > top:
                    first, top, second = a, q, top
                elif q > second:
                    second = q
            promise[s, first] = product(prob, (s * A + first) * S, after, S)
            best, greedy = r[s, first] + promise[s, first], first
            if second >= best:
                for a in range(A):
                    if a != first and r[s, a] + promise[s, a] >= best:
                        promise[s, a] = product(prob, (s * A + a) * S, after, S)
                        q = r[s, a] + promise[s, a]
                        # without a branch, whose outcome cannot be foreseen among ties
                        is_better = (q > best) | ((q == best) & (a < greedy))
                        best, greedy = q if is_better else best, a if is_better else greedy
            V[h, s], policy[h, s] = best + (check + 0 * best), greedy
        for s in range(S):
            change[s], after[s] = V[h, s] - after[s], V[h, s]


@_when_needed(_signature(0))
def _one(succ, prob, reward, policy, V):  # type: ignore[no-untyped-def]  # pragma: no cover
    H, S = policy.shape
    _, A, n = succ.shape
    V[H] = 0.0
    for h in range(H - 1, -1, -1):
        r = reward[h % reward.shape[0]]
        for s in range(S):
            best, greedy, check = -np.inf, 0, 0.0
            for a in range(A):
                q = r[s, a]
                check += 0 * q
                for j in range(n):
                    q += prob[s, a, j] * V[h + 1, succ[s, a, j]]
                if q > best:
                    best, greedy = q, a
            V[h, s] = best + (check + 0 * best)
            policy[h, s] = greedy


@njit
def _bring(reward, h, first, r):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The rewards of a tile of states, side by side in r; those of a later tile are asked for."""
    _, steps, S, A = reward.shape
    flat = reward.reshape(-1)
    for b in range(LANES):
        ahead = ((b * steps + h % steps) * S + first + 2 * TILE) * A
        for k in range(0, TILE * A, LINE):
            fetch(flat, ahead + k)
    for b in range(0, LANES, LINE):
        here = ((b * steps + h % steps) * S + first) * A
        for k in range(0, TILE * A, LINE):
            transpose(flat, here + k, steps * S * A, r, k * LANES + b, LANES)


@njit
def _choose(r, first, now, greedy):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The best of the action values r of a tile, and the lowest action that attains it."""
    A = r.size // (TILE * LANES)
    for s in range(TILE):
        best, action, check = splat(-np.inf), splat(0), splat(0.0)
        for a in range(A):
            q = load(r, (s * A + a) * LANES)
            check = plus_zero_times(check, q)
            is_better = exceeds(q, best)
            best, action = where(is_better, q, best), where(is_better, splat(a), action)
        store(now, (first + s) * LANES, plus_product(best, 1.0, check))
        store(greedy, (first + s) * LANES, action)


@njit
def _hand_out(x, h, table):  # type: ignore[no-untyped-def]  # pragma: no cover
    """table[b, h, s] = x[s, b]."""
    _, H, S = table.shape
    flat = table.reshape(-1)
    for b in range(0, LANES, LINE):
        for start in range(0, S, TILE):
            s = min(start, S - TILE)
            transpose(x, s * LANES + b, LANES, flat, (b * H + h) * S + s, H * S)


@njit
def _add_sparse(succ, prob, after, first, r):  # type: ignore[no-untyped-def]  # pragma: no cover
    """r += P V for the rows from `first` on that r holds; values that lie far are asked for some rows ahead."""
    n = succ.shape[2]
    succ, prob = succ.reshape(-1), prob.reshape(-1)
    is_far = after.size > FAR
    for i in range(r.size // LANES):
        q, row = load(r, i * LANES), (first + i) * n
        if is_far:
            ahead = min(row + AHEAD * n, succ.size - n)
            for j in range(ahead, ahead + n):
                for line in range(0, LANES, LINE):
                    fetch_near(after, succ[j] * LANES + line)
        for j in range(row, row + n):
            q = plus_product(q, prob[j], load(after, succ[j] * LANES))
        store(r, i * LANES, q)


@njit
def _add_dense(prob, after, first, r):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The same for a dense kernel."""
    n = prob.shape[2]
    prob = prob.reshape(-1)
    for i in range(0, r.size // LANES, ROWS):
        add_rows(r, i, prob, first + i, n, after)


@_when_needed(_signature(1))
def _block(succ, prob, reward, policy, V):  # type: ignore[no-untyped-def]  # pragma: no cover
    """LANES rewards at once, for TILE states or more: the values of a state for all of them are a vector.

    succ is empty for a dense kernel.
    """
    _, H, S = policy.shape
    A = prob.shape[1]
    after, now, r = aligned(S * LANES), aligned(S * LANES), aligned(TILE * A * LANES)
    greedy = np.empty(S * LANES, np.int32)
    after[:] = V[:, H] = 0.0
    for h in range(H - 1, -1, -1):
        for start in range(0, S, TILE):
            first = min(start, S - TILE)  # the last tile may repeat some states of the one before
            _bring(reward, h, first, r)
            if succ.size == 0:
                _add_dense(prob, after, first * A, r)
            else:
                _add_sparse(succ, prob, after, first * A, r)
            _choose(r, first, now, greedy)
        _hand_out(now, h, V)
        _hand_out(greedy, h, policy)
        after, now = now, after


def optimal(
    kernel: Kernel, reward: Float[np.ndarray, "*R H|1 S A"], horizon: int
) -> tuple[Int[np.ndarray, "*R H S"], Float[np.ndarray, "*R H1 S"]]:
    """The greedy policies and V of one reward, or of a batch of them."""
    prob, reward = np.ascontiguousarray(kernel.prob, np.float64), np.ascontiguousarray(reward)
    batch, S = reward.shape[:-3], prob.shape[0]
    policy = np.empty((*batch, horizon, S), np.int32)
    V = np.empty((*batch, horizon + 1, S))
    is_dense = kernel.is_dense and S >= LANES  # smaller ones go as lists
    succ = NOTHING if is_dense else np.ascontiguousarray(kernel.succ, np.int32).view(np.uint32)
    solve = partial(_dense, prob) if is_dense else partial(_one, succ, prob)
    if not batch:
        solve(reward, policy, V)
        return policy, V
    if len(reward) < LANES or S < TILE:
        for one in zip(reward, policy, V):
            solve(*one)
        return policy, V

    def block(start: int) -> None:
        first = min(start, len(reward) - LANES)  # the last block may repeat some rewards of the one before
        b = slice(first, first + LANES)
        _block(succ, prob, reward[b], policy[b], V[b])

    starts = range(0, len(reward), LANES)
    workers = min(len(starts), THREADS)
    if workers == 1:
        for start in starts:
            block(start)
    else:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(block, starts))
    return policy, V
