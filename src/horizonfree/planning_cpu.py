"""Backward induction on a CPU, compiled by Numba once for all sizes.

Successor lists: XLA turns indexed loads into slow gathers on CPUs. Two choices make the loops here fast. The
successors are seen as unsigned numbers: no test for a negative index is left in the inner loop. And there is no
fastmath: it would let the compiler use hardware gathers, which are slower than plain loads.

Dense kernels: one BLAS product of matrix and vector a step, without XLA's cost of entering a compiled call.

A reward is [H, S, A], or [1, S, A] when it is the same at every step.
"""

import numpy as np
from jaxtyping import Float, Int
from numba import njit, types

from horizonfree.mixture import Kernel

BLOCK = 32  # rewards that share one pass over the kernel: their values lie side by side in memory


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
    H, S = policy.shape
    A = prob.shape[1]
    rows, PV = prob.reshape(S * A, S), np.empty(S * A)
    V[H] = 0.0
    for h in range(H - 1, -1, -1):
        r = reward[h % reward.shape[0]]
        np.dot(rows, V[h + 1], PV)
        for s in range(S):
            best, greedy = -np.inf, 0
            for a in range(A):
                q = r[s, a] + PV[s * A + a]
                if q > best:
                    best, greedy = q, a
            V[h, s] = best
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


@njit(_signature(1), cache=True)
def _block(succ, prob, reward, policy, V):  # type: ignore[no-untyped-def]  # pragma: no cover
    _, H, S = policy.shape
    _, A, n = succ.shape
    after, now = np.zeros((S, BLOCK)), np.empty((S, BLOCK))
    q, best, greedy = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK, np.int64)
    V[:, H] = 0.0
    for h in range(H - 1, -1, -1):
        r = reward[:, h % reward.shape[1]]
        for s in range(S):
            best[:] = -np.inf
            for a in range(A):
                for b in range(BLOCK):
                    q[b] = r[b, s, a]
                for j in range(0, n - 1, 2):  # two at a time: half as many trips of q to memory
                    p0, p1 = prob[s, a, j], prob[s, a, j + 1]
                    V0, V1 = after[succ[s, a, j]], after[succ[s, a, j + 1]]
                    for b in range(BLOCK):
                        q[b] += p0 * V0[b] + p1 * V1[b]
                if n % 2:
                    p0, V0 = prob[s, a, n - 1], after[succ[s, a, n - 1]]
                    for b in range(BLOCK):
                        q[b] += p0 * V0[b]
                for b in range(BLOCK):
                    if q[b] > best[b]:
                        best[b], greedy[b] = q[b], a
            for b in range(BLOCK):
                now[s, b] = V[b, h, s] = best[b]
                policy[b, h, s] = greedy[b]
        after, now = now, after


def optimal(
    kernel: Kernel, reward: Float[np.ndarray, "*R H|1 S A"], horizon: int
) -> tuple[Int[np.ndarray, "*R H S"], Float[np.ndarray, "*R H+1 S"]]:
    """The greedy policies and V of one reward, or of a batch of them for successor lists."""
    prob, reward = np.ascontiguousarray(kernel.prob), np.ascontiguousarray(reward)
    batch, S = reward.shape[:-3], prob.shape[0]
    policy = np.empty((*batch, horizon, S), np.int64)
    V = np.empty((*batch, horizon + 1, S))
    if kernel.is_dense:
        _dense(prob, reward, policy, V)
        return policy, V
    succ = np.ascontiguousarray(kernel.succ, np.int32).view(np.uint32)
    if not batch:
        _one(succ, prob, reward, policy, V)
        return policy, V
    whole = len(reward) - len(reward) % BLOCK
    for i in range(0, whole, BLOCK):
        b = slice(i, i + BLOCK)
        _block(succ, prob, reward[b], policy[b], V[b])
    for i in range(whole, len(reward)):
        _one(succ, prob, reward[i], policy[i], V[i])
    return policy, V
