"""The design of design.py on a CPU, compiled by Numba once for all sizes: with very many states XLA takes much longer.

Same letters, same ties; the numbers are those of `design` but for rounding. What does not change from episode to
episode (z, p at the centre, the lists) is looked at once, and what depends on theta alone when theta changes.

Arrays are copied number by number: Numba takes seconds to compile the assignment of one to a slice.

Most actions are not computed. From one step to the one before, Q(s,a) grows by P(V_{h+1} - V_{h+2})(s,a). If these
differences lie in c +- r, all actions grow by the same but for 2 (|c| excess + r (1 + excess + 2 negative)): `excess`,
by how much rows of P miss a sum of 1, `negative`, what they have below 0 (at states out of reach theta may give
anything). A state whose best action was ahead by more than has come together since has the same best action.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numba import njit

from horizonfree._x64 import leaf, to_device, to_numpy
from horizonfree.mdp.space import Space
from horizonfree.models.mixture.rows import coordinates
from horizonfree.models.mixture.valid import ValidSet
from horizonfree.planning.backward import TIE

FUSED = {"contract"}
TILE = 512  # rows that are looked at together, once for each direction
ROUNDING = 2.0**-46  # of a sum of n products, as a share of values: more than it can be
Design = Callable[
    [Float[np.ndarray, " R"], Float[np.ndarray, " d"]], tuple[Int[np.ndarray, "H S"], Float[np.ndarray, ""]]
]


@njit(cache=True, fastmath=FUSED)
def _probabilities(z, p_center, y, row_of, p, prob):  # type: ignore[no-untyped-def]  # pragma: no cover
    """p_r, and on the lists; by how much sums over successors miss 1, and the most that a row has below 0."""
    (q, R), (S, A, n) = z.shape, row_of.shape
    for r in range(R):
        p[r] = p_center[r]
    for i in range(q):
        for r in range(R):
            p[r] += z[i, r] * y[i]
    excess = negative = 0.0
    for s in range(S):
        for a in range(A):
            mass = below = 0.0
            for j in range(n):
                r = row_of[s, a, j]
                x = p[r] if r < R else 0.0
                prob[s, a, j] = x
                mass += x
                below -= min(x, 0.0)
            excess, negative = max(excess, abs(mass - 1.0)), max(negative, below)
    return excess, negative


@njit(cache=True, fastmath=FUSED | {"reassoc"})
def _information(z, known, inverse):  # type: ignore[no-untyped-def]  # pragma: no cover
    """F = sum_r known_r / p_r^2 z_r z_r'; rows that are not free have z = 0."""
    q, R = z.shape
    F, room = np.zeros((q, q)), np.empty(TILE)
    for first in range(0, R, TILE):
        here = slice(first, min(first + TILE, R))
        w = room[: min(TILE, R - first)]
        for r in range(w.size):
            w[r] = known[first + r] * inverse[first + r] * inverse[first + r]
        for i in range(q):
            left = z[i, here]
            for j in range(i + 1):
                right, total = z[j, here], 0.0
                for r in range(w.size):
                    total += w[r] * left[r] * right[r]
                F[i, j] += total
    for i in range(q):
        for j in range(i):
            F[j, i] = F[i, j]
    return F


@njit(cache=True, fastmath=FUSED)
def _gains(z, half, inverse, row_of, reachable, promise, gain):  # type: ignore[no-untyped-def]  # pragma: no cover
    """tr(F^-1 G) of every pair, from tr(F^-1 z z') / p of every row; half = F^(-1/2) but for a rotation."""
    (q, R), (S, A, n) = z.shape, row_of.shape
    room = np.empty(TILE)
    for first in range(0, R, TILE):
        here = slice(first, min(first + TILE, R))
        total, x = promise[here], room[: min(TILE, R - first)]
        total[:] = 0.0
        for i in range(q):
            x[:] = 0.0
            for j in range(i + 1):
                factor, right = half[i, j], z[j, here]
                for r in range(x.size):
                    x[r] += factor * right[r]
            for r in range(x.size):
                total[r] += x[r] * x[r]
        total *= inverse[here]
    for s in range(S):
        for a in range(A):
            total = 0.0
            for j in range(n):
                r = row_of[s, a, j]
                if r < R and reachable[s]:
                    total += promise[r]
            gain[s, a] = total


@njit
def _value(succ, prob, gain, after, s, a):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Q(s,a)."""
    q = gain[s, a]
    for j in range(succ.shape[2]):
        q += prob[s, a, j] * after[succ[s, a, j]]
    return q


@njit
def _first(succ, prob, gain, after, s, least):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The first action of a state that is worth as much."""
    A = succ.shape[1]
    for a in range(A):
        if _value(succ, prob, gain, after, s, a) >= least:
            return a
    return A


@njit
def _follow(succ, prob, gain, after, now):  # type: ignore[no-untyped-def]  # pragma: no cover
    """V of one action per state, a step before `after`."""
    for s in range(gain.size):
        total = gain[s]
        for j in range(succ.shape[1]):
            total += prob[s, j] * after[succ[s, j]]
        now[s] = total


@njit(cache=True)
def _backward(succ, prob, gain, excess, negative, policy):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The greedy policy for the gains, and V_1; what is nearly best counts as equal, and the first is taken.

    ahead: by how much the best action of a state was ahead when all were computed, on the scale of `closer`, which says
    how much may have come together since the last step. All states follow what was greedy; where another action may be
    by now (`doubtful`), all are computed.
    """
    (H, S), (_, A, n) = policy.shape, succ.shape
    after, now, doubtful = np.empty(S), np.empty(S), np.empty(S + 1, np.int64)
    greedy, ahead = np.empty(S, np.int32), np.empty(S)
    after[:], greedy[:], ahead[:] = 0.0, -1, -np.inf
    # Those of the greedy actions, side by side.
    own_succ, own_prob, own_gain = np.empty((S, n), succ.dtype), np.empty((S, n)), np.empty(S)
    closer, size = 0.0, 0.0  # size: of any value so far
    for s in range(S):
        for a in range(A):
            size = max(size, abs(gain[s, a]))
    for h in range(H - 1, -1, -1):
        low, high, number, enough = np.inf, -np.inf, 0, closer + 2 * TIE * size
        for s in range(S):
            doubtful[number] = s
            number += not ahead[s] > enough
        if number < S:
            _follow(own_succ, own_prob, own_gain, after, now)
        for i in range(number):
            s, best, second, action = doubtful[i], -np.inf, -np.inf, 0
            for a in range(A):
                q = _value(succ, prob, gain, after, s, a)
                is_better = q > best  # no branch: its outcome cannot be foreseen
                second = max(second, best if is_better else q)
                best, action = q if is_better else best, a if is_better else action
            now[s], ahead[s] = best, closer + (best - second)
            least = best - TIE * abs(best)
            if second >= least:  # another one, an earlier one perhaps, is nearly as good
                action = _first(succ, prob, gain, after, s, least)
            if action != greedy[s]:
                greedy[s], own_gain[s] = action, gain[s, action]
                for j in range(n):
                    own_succ[s, j], own_prob[s, j] = succ[s, action, j], prob[s, action, j]
        for s in range(S):
            low, high = min(low, now[s] - after[s]), max(high, now[s] - after[s])
            policy[h, s] = greedy[s]
        size = size + max(abs(low), abs(high))
        middle, radius = abs(high + low) / 2, (high - low) / 2
        closer += 2 * (middle * excess + radius * (1 + excess + 2 * negative)) + ROUNDING * n * size
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


class _Tables(NamedTuple):
    """What depends on theta alone: p of the rows, and on the lists; how far these are from probabilities."""

    theta: Float[np.ndarray, " d"]
    p: Float[np.ndarray, " R"]
    prob: Float[np.ndarray, "S A n"]
    inverse: Float[np.ndarray, " R"]  # 1 / p, and 0 where nothing is free
    excess: float
    negative: float


def designer(space: Space, valid: ValidSet) -> Design:
    """`design` as a function of what is known of each row and theta, on the host; inside the scope.

    The next call writes over the policy of the last.
    """
    at = to_numpy(coordinates(to_device(valid)))
    succ, row_of = (np.ascontiguousarray(x).view(np.uint32) for x in (space.succ, valid.row_of))
    arrays = space.reachable, valid.free, at.z, at.p_center
    reachable, free, z, p_center = (np.ascontiguousarray(x) for x in arrays)
    last: list[_Tables] = []
    promise, gain = np.empty(len(free)), np.empty(succ.shape[:2])
    policy = np.empty((space.horizon, space.num_states), np.int32)

    def tables(theta: Float[np.ndarray, " d"]) -> _Tables:
        if not last or not np.array_equal(theta, last[0].theta):
            p, prob = last[0][1:3] if last else (np.empty(len(free)), np.empty(succ.shape))
            off = _probabilities(z, p_center, np.asarray(at.y(leaf(theta))), row_of, p, prob)
            inverse = np.where(free, 1 / np.where(free, p, 1.0), 0.0)
            last[:] = [_Tables(theta, p, prob, inverse, *off)]
        return last[0]

    def design(
        known: Float[np.ndarray, " R"], theta: Float[np.ndarray, " d"]
    ) -> tuple[Int[np.ndarray, "H S"], Float[np.ndarray, ""]]:
        now = tables(theta)
        half = _half(_information(z, known, now.inverse))
        _gains(z, half, now.inverse, row_of, reachable, promise, gain)
        V = _backward(succ, now.prob, gain, now.excess, now.negative, policy)
        return policy, np.asarray(space.at_start(V))

    return design
