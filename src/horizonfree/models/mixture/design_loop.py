"""The design of design.py on a CPU, compiled by Numba once for all sizes: with very many states XLA takes much longer.

Same letters, same ties; the numbers are those of `design` but for rounding. What does not change from episode to
episode (z, p at the centre, the lists) is looked at once.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from numba import njit

from horizonfree._x64 import leaf, to_device, to_numpy
from horizonfree.mdp.space import Space
from horizonfree.models.mixture.likelihood import pseudo_counts
from horizonfree.models.mixture.rows import coordinates
from horizonfree.models.mixture.valid import ValidSet
from horizonfree.planning.backward import TIE

FUSED = {"contract"}
Design = Callable[
    [Int[np.ndarray, " R"], Float[np.ndarray, " d"]], tuple[Int[np.ndarray, "H S"], Float[np.ndarray, ""]]
]


@njit(cache=True, fastmath=FUSED)
def _known(z, p_center, y, free, known, p):  # type: ignore[no-untyped-def]  # pragma: no cover
    """p_r, and F = sum_r known_r z_r z_r' / p_r^2 over free rows, whose z alone are not zero."""
    R, q = z.shape
    F = np.zeros((q, q))
    for r in range(R):
        x = p_center[r]
        for i in range(q):
            x += z[r, i] * y[i]
        p[r] = x
        if free[r]:
            w = known[r] / (x * x)
            for i in range(q):
                for j in range(i + 1):
                    F[i, j] += w * z[r, i] * z[r, j]
    for i in range(q):
        for j in range(i):
            F[j, i] = F[i, j]
    return F


@njit(cache=True, fastmath=FUSED)
def _promises(z, half, free, p, promise):  # type: ignore[no-untyped-def]  # pragma: no cover
    """tr(F^-1 z z') / p of one slot, half = F^(-1/2) but for a rotation."""
    R, q = z.shape
    for r in range(R):
        total = 0.0
        if free[r]:
            for i in range(q):
                x = 0.0
                for j in range(i + 1):
                    x += half[i, j] * z[r, j]
                total += x * x
            total /= p[r]
        promise[r] = total


@njit
def _first(succ, prob, gain, after, s, least):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The first action of a state that is worth as much."""
    _, A, n = succ.shape
    for a in range(A):
        q = gain[s, a]
        for j in range(n):
            q += prob[s, a, j] * after[succ[s, a, j]]
        if q >= least:
            return a
    return A


@njit(cache=True)
def _backward(succ, row_of, p, promise, reachable, policy):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The greedy policy for the promises, and V_1; what is nearly best counts as equal, and the first is taken."""
    (H, S), (_, A, n) = policy.shape, succ.shape
    prob, gain = np.zeros((S, A, n)), np.zeros((S, A))
    for s in range(S):
        for a in range(A):
            for j in range(n):
                r = row_of[s, a, j]
                if r < p.size:
                    prob[s, a, j] = p[r]
                    if reachable[s]:
                        gain[s, a] += promise[r]
    after, now = np.zeros(S), np.zeros(S)
    for h in range(H - 1, -1, -1):
        for s in range(S):
            best, before, greedy = -np.inf, -np.inf, 0
            for a in range(A):
                q = gain[s, a]
                for j in range(n):
                    q += prob[s, a, j] * after[succ[s, a, j]]
                if q > best:
                    best, before, greedy = q, best, a
            least = best - TIE * abs(best)
            if before >= least:  # an earlier action is nearly as good
                greedy = _first(succ, prob, gain, after, s, least)
            now[s], policy[h, s] = best, greedy
        after, now = now, after
    return after


def _half(F: Float[np.ndarray, "q q"]) -> Float[np.ndarray, "q q"]:
    """F^(-1/2) but for a rotation, scaled to a unit diagonal first; nan, as in compiled code, where there is none."""
    scale = np.sqrt(np.diagonal(F))
    try:
        factor = np.linalg.cholesky(F / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        return np.full_like(F, np.nan)
    return np.asarray(np.linalg.inv(factor) / scale)


def designer(space: Space, valid: ValidSet) -> Design:
    """`design` as a function of the counts and theta, on the host. Call it inside the scope."""
    at, pseudo = to_numpy((coordinates(to_device(valid)), pseudo_counts(to_device(valid))[1]))
    free, virtual = np.asarray(valid.free), np.asarray(valid.virtual)
    lists = (
        np.ascontiguousarray(space.succ).view(np.uint32),
        np.ascontiguousarray(valid.row_of).view(np.uint32),
    )
    reachable, z, p_center = (np.ascontiguousarray(x) for x in (space.reachable, at.z.T, at.p_center))
    p, promise = np.empty(len(z)), np.empty(len(z))

    def design(
        counts: Int[np.ndarray, " R"], theta: Float[np.ndarray, " d"]
    ) -> tuple[Int[np.ndarray, "H S"], Float[np.ndarray, ""]]:
        known = np.where(virtual, 0.0, counts + pseudo)
        F = _known(z, p_center, np.asarray(at.y(leaf(theta))), free, known, p)
        _promises(z, _half(F), free, p, promise)
        policy = np.empty((space.horizon, space.num_states), np.int32)
        V = _backward(*lists, p, promise, reachable, policy)
        return policy, np.asarray(space.at_start(V))

    return design
