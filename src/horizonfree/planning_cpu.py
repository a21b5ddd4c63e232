"""Backward induction on a CPU, compiled by Numba once for all sizes.

One reward. Successor lists: XLA turns indexed loads into slow gathers on CPUs. Two choices make the loop here fast. The
successors are seen as unsigned numbers: no test for a negative index is left in the inner loop. And there is no
fastmath: it would let the compiler use hardware gathers, which are slower than plain loads. Dense kernels: sums stay
in registers, and pairs of rows share the loads of V.

A batch of rewards: the values of one state for LANES rewards stand side by side and are one load (lanes.py). Blocks of
LANES rewards go to the threads that Numba may use.

A reward is [H, S, A], or [1, S, A] when it is the same at every step.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from jaxtyping import Float, Int
from numba import config, njit, types

from horizonfree.lanes import (
    LANES,
    LINE,
    ROWS,
    add_rows,
    aligned,
    exceeds,
    fetch,
    load,
    one_row,
    plus_product,
    splat,
    store,
    transpose,
    two_rows,
    where,
)
from horizonfree.mixture import Kernel

TILE = LINE  # states whose rewards are brought side by side at once
THREADS: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
MANY = 16  # steps for which it pays to copy a dense kernel to the beginning of a cache line
NEAR = 2**17  # probabilities that a core's own cache holds; beyond, single rows stream better
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
        _array(types.int64, batch + 2, readonly=False),
        _array(types.float64, batch + 2, readonly=False),
    )


@njit(_signature(0, sparse=False), cache=True)
def _dense(prob, reward, policy, V):  # type: ignore[no-untyped-def]  # pragma: no cover
    """For LANES states or more."""
    H, S = policy.shape
    A = prob.shape[1]
    pairs = S * A - S * A % 2 if prob.size < NEAR else 0
    prob, after, q = prob.reshape(-1), aligned(S), aligned(S * A)
    after[:] = V[H] = 0.0
    for h in range(H - 1, -1, -1):
        r = reward[h % reward.shape[0]]
        for i in range(0, pairs, 2):
            two_rows(q, i, prob, i, S, after)
        for i in range(pairs, S * A):
            one_row(q, i, prob, i, S, after)
        for s in range(S):
            best, greedy = -np.inf, 0
            for a in range(A):
                if r[s, a] + q[s * A + a] > best:
                    best, greedy = r[s, a] + q[s * A + a], a
            V[h, s] = after[s] = best
            policy[h, s] = greedy


@njit(_signature(0), cache=True)
def _one(succ, prob, reward, policy, V):  # type: ignore[no-untyped-def]  # pragma: no cover
    H, S = policy.shape
    _, A, n = succ.shape
    V[H] = 0.0
    for h in range(H - 1, -1, -1):
        r = reward[h % reward.shape[0]]
        for s in range(S):
            best, greedy = -np.inf, 0
            for a in range(A):
                q = r[s, a]
                for j in range(n):
                    q += prob[s, a, j] * V[h + 1, succ[s, a, j]]
                if q > best:
                    best, greedy = q, a
            V[h, s] = best
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
        best, action = splat(-np.inf), splat(0)
        for a in range(A):
            q = load(r, (s * A + a) * LANES)
            is_better = exceeds(q, best)
            best, action = where(is_better, q, best), where(is_better, splat(a), action)
        store(now, (first + s) * LANES, best)
        store(greedy, (first + s) * LANES, action)


@njit
def _spread(x, h, table):  # type: ignore[no-untyped-def]  # pragma: no cover
    """table[b, h, s] = x[s, b]."""
    _, H, S = table.shape
    flat = table.reshape(-1)
    for b in range(0, LANES, LINE):
        for start in range(0, S, TILE):
            s = min(start, S - TILE)
            transpose(x, s * LANES + b, LANES, flat, (b * H + h) * S + s, H * S)


@njit
def _add_sparse(succ, prob, after, first, r):  # type: ignore[no-untyped-def]  # pragma: no cover
    """r += P V for the rows from `first` on that r holds."""
    n = succ.shape[2]
    succ, prob = succ.reshape(-1), prob.reshape(-1)
    for i in range(r.size // LANES):
        q, row = load(r, i * LANES), (first + i) * n
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


@njit(_signature(1), cache=True, nogil=True)
def _block(succ, prob, reward, policy, V):  # type: ignore[no-untyped-def]  # pragma: no cover
    """LANES rewards at once, for TILE states or more: the values of a state for all of them are a vector.

    succ is empty for a dense kernel.
    """
    _, H, S = policy.shape
    A = prob.shape[1]
    after, now, r = aligned(S * LANES), aligned(S * LANES), aligned(TILE * A * LANES)
    greedy = np.empty(S * LANES, np.int64)
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
        _spread(now, h, V)
        _spread(greedy, h, policy)
        after, now = now, after


def _lined_up(x: Float[np.ndarray, "S A n"]) -> Float[np.ndarray, "S A n"]:
    """x, copied unless it begins with a cache line: loads across two lines take twice as long."""
    if x.ctypes.data % (8 * LINE) == 0:
        return x
    copy = aligned(x.size).reshape(x.shape)
    copy[...] = x
    return copy


def optimal(
    kernel: Kernel, reward: Float[np.ndarray, "*R H|1 S A"], horizon: int
) -> tuple[Int[np.ndarray, "*R H S"], Float[np.ndarray, "*R H+1 S"]]:
    """The greedy policies and V of one reward, or of a batch of them."""
    prob, reward = np.ascontiguousarray(kernel.prob), np.ascontiguousarray(reward)
    batch, S = reward.shape[:-3], prob.shape[0]
    policy = np.empty((*batch, horizon, S), np.int64)
    V = np.empty((*batch, horizon + 1, S))
    is_dense = kernel.is_dense and S >= LANES  # smaller ones go as lists
    if is_dense and horizon >= MANY:
        prob = _lined_up(prob)
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
