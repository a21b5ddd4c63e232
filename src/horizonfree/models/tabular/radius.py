"""How far the row of a pair can be from what was seen of it: counts to a ball KL(centre || p) <= eps.

With counts N_i, n of them in all, and a bet centred at p itself (kappa > 0 says how sharply),

    f_kappa(p) = log Gamma(kappa)/Gamma(kappa + n) + sum_{N_i>0} phi_i(p_i),    phi_i(p) = sum_{j<N_i} log(kappa + j/p),

and the Krichevsky-Trofimov mixture over all possible successors: the mean of these e-processes stays below
X/((1 - JOINT) delta) for all X unknown pairs and at all times with probability 1 - (1 - JOINT) delta. The share JOINT
of delta belongs to the joint e-process of joint.py. `expand` turns that into a ball around the frequencies p_hat of the
successors that were seen often enough ("kept"), for one window of kappas and a way to set rare successors aside;
`balls` keeps the smallest. docs/tabular.md has the proofs.

In their names: A_i = -p phi_i'(p) and M_i <= p^2 phi_i''(p), nu the mean of a_i = A_i/p_hat_i, e_i = a_i - nu,
x_i = p_i/p_hat_i - 1 <= b_i, W the slack at p_hat, T the bound on  theta nu (mass elsewhere) + sum M_i psi(x_i).

Sums over counts replace differences of Gamma functions, which lose digits:

    slope(z, N)  = sum_{j<N} j/(z + j)                  = N - z [digamma(z + N) - digamma(z)]
    bend(z, N)   = sum_{j<N} 1 - (z/(z + j))^2          = N - z^2 [trigamma(z) - trigamma(z + N)]
    stirling(y)  = log Gamma(y) - (y - 1/2) log y + y - log(2 pi)/2

The first terms are summed; from y = z + HEAD on the asymptotic series are exact to rounding (Abramowitz and Stegun
1964, 6.1.41, 6.3.18, 6.4.12), and what cancels in them is cancelled by hand.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.guarantees.divergence import curvature, psi, psi_inverse

HEAD_TERMS = 8  # terms that are summed one by one

# Coefficients of y^-2, y^-4, .. (digamma), y^-3, y^-5, .. (trigamma), y^-1, y^-3, .. (log Gamma).
_DIGAMMA = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
_LOG_GAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def slope(z: Float[np.ndarray, "*n"], N: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """sum_{j<N} j/(z + j), for z > 0."""
    y, y_end, d = _tail(z, N)
    change = d / (2 * y * y_end) + _series(_DIGAMMA, y_end) / y_end**2 - _series(_DIGAMMA, y) / y**2
    tail = HEAD_TERMS * d / y + z * (psi(d / y) - change)
    return _head(z, N, lambda share: share) + np.where(N > HEAD_TERMS, tail, 0.0)


def bend(z: Float[np.ndarray, "*n"], N: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """sum_{j<N} 1 - (z/(z + j))^2, for z > 0."""
    y, y_end, d = _tail(z, N)
    change = _series(_TRIGAMMA, y) / (y * y * y) - _series(_TRIGAMMA, y_end) / (y_end * y_end * y_end)
    square = d * (y + y_end) / (2 * y**2 * y_end**2)
    tail = d * (z * (HEAD_TERMS + N) + HEAD_TERMS * N) / (y * y_end) - z**2 * (square + change)
    return _head(z, N, lambda share: share * (2 - share)) + np.where(N > HEAD_TERMS, tail, 0.0)


def stirling(y: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """What Stirling's formula lacks of log Gamma(y), for y > 0.

    Below HEAD by Gamma(y) = Gamma(y + HEAD) / (y (y + 1) .. (y + HEAD - 1)).
    """
    is_small = y < HEAD_TERMS
    large = np.where(is_small, y + HEAD_TERMS, y)
    series = _series(_LOG_GAMMA, large) / large
    small = np.where(is_small, y, 1.0)
    product = np.ones_like(small)
    for j in range(1, HEAD_TERMS):
        product = product * (small + j)
    lacks = (large - 0.5) * np.log(large) - HEAD_TERMS - np.log(product) - (small + 0.5) * np.log(small)
    return np.where(is_small, series + lacks, series)


def _head(
    z: Float[np.ndarray, "*n"], N: Float[np.ndarray, "*n"], term: Callable[[np.ndarray], np.ndarray]
) -> Float[np.ndarray, "*n"]:
    """The sum of the terms 1 <= j < N below HEAD, as functions of j/(z + j); that of j = 0 is zero."""
    total = np.zeros_like(N)
    for j in range(1, HEAD_TERMS):
        total += (j < N) * term(j / (z + j))
    return total


def _tail(
    z: Float[np.ndarray, "*n"], N: Float[np.ndarray, "*n"]
) -> tuple[Float[np.ndarray, "*n"], Float[np.ndarray, "*n"], Float[np.ndarray, "*n"]]:
    """The first and last index of the series, and the number of terms."""
    y, d = z + HEAD_TERMS, np.maximum(N - HEAD_TERMS, 0.0)
    return y, y + d, d


def _series(coefficients: tuple[float, ...], y: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """c_0 + c_1/y^2 + c_2/y^4 + .. ."""
    *others, last = coefficients
    total, w = np.full_like(y, last), 1 / y**2
    for c in reversed(others):
        total = total * w + c
    return total


KAPPAS = (1.0, 32.0, 1024.0, 32768.0)
NUM_BETS = len(KAPPAS) + 1  # with Krichevsky and Trofimov's, all of the same weight
JOINT = 0.2  # the share of delta of the joint e-process
# Kappas over which a bound is averaged: each alone, and neighbours.
WINDOWS: tuple[tuple[float, ...], ...] = (*((x,) for x in KAPPAS), *itertools.pairwise(KAPPAS))
# Successors seen less often are rare, and theta: the share of nu that is charged for their mass.
RARE = ((1, 1.0), (2, 1.0), (4, 0.7), (8, 0.7), (16, 0.6))
ROUNDS = 4  # more change eps by less than 1e-7 of it
ROUNDING_FACTOR = 1 + 1e-9  # rounding
BLOCK_SIZE = 2**13  # counts that are computed side by side: about as many as fit into the cache of a core


@dataclass(frozen=True, eq=False)
class Ball:
    """KL(centre || p) <= eps, infinite where nothing is known; `is_complete`: p has no mass outside the centre."""

    centre: Float[np.ndarray, "X n"]
    eps: Float[np.ndarray, " X"]
    is_complete: Bool[np.ndarray, " X"]


def level(num_pairs: int, delta: float) -> float:
    """L = log(X/((1 - JOINT) delta)), which the e-process of no pair reaches."""
    return math.log(max(num_pairs, 1) / ((1 - JOINT) * delta))


def log_bet(
    kappa: float, N: Float[np.ndarray, "X n"], p: Float[np.ndarray, "X n"]
) -> Float[np.ndarray, " X"]:
    """f_kappa(p) of any p; infinite where p excludes what was seen.

    log Gamma(y + N)/Gamma(y) = N log(y + N) - y psi(N/y) - log1p(N/y)/2 + stirling(y + N) - stirling(y), y = kappa p.
    """
    n, is_seen = N.sum(-1, keepdims=True), N > 0
    is_used = is_seen & (p > 0)
    q = np.where(is_used, p, 1.0)

    def ratio(y: np.ndarray, N: np.ndarray) -> np.ndarray:
        return np.asarray(stirling(y + N) - stirling(y) - y * psi(N / y) - np.log1p(N / y) / 2)

    each = ratio(kappa * q, N) + N * np.log1p((N / q - n) / (kappa + n))
    each = np.where(is_used, each, np.where(is_seen, np.inf, 0.0))
    return np.asarray(each.sum(-1) - ratio(np.full_like(n, kappa), n)[:, 0])


def log_kt(N: Float[np.ndarray, "X n"], m: Float[np.ndarray, " X"]) -> Float[np.ndarray, " X"]:
    """log of the Krichevsky-Trofimov probability of the data over that of the frequencies, m successors.

    Gamma(m/2)/Gamma(n + m/2) prod_i Gamma(N_i + 1/2)/Gamma(1/2) / p_hat_i^N_i, with Stirling's formula cancelled.
    """
    n, seen = N.sum(-1), np.where(N > 0, N, 1.0)
    each = N * np.log1p(0.5 / seen) - 0.5 + stirling(seen + 0.5) + 0.5 * math.log(2)  # Gamma(1/2) = sqrt(pi)
    top, some = n + m / 2, np.maximum(n, 1.0)
    all_of_it = n * np.log1p(m / (2 * some)) + ((m - 1) / 2) * np.log(top) - m / 2 + stirling(top)
    start = ((m - 1) / 2) * np.log(m / 2) - m / 2 + stirling(m / 2)  # log Gamma(m/2) - log(2 pi)/2
    return np.asarray(np.where(N > 0, each, 0.0).sum(-1) - all_of_it + start)


def violation(
    N: Float[np.ndarray, "X n"],
    p: Float[np.ndarray, "X n"],
    m: Float[np.ndarray, " X"],
    L: float,
) -> Float[np.ndarray, " X"]:
    """log sum_j w_j exp f_j(p) - L: above 0, p is outside the confidence set of its pair."""
    safe = np.where(N > 0, np.maximum(p, 1e-300), 1.0)
    p_hat = np.where(N > 0, N / np.maximum(N.sum(-1, keepdims=True), 1.0), 1.0)
    kt = log_kt(N, m) + (N * np.log(p_hat / safe)).sum(-1)
    bets = [*(log_bet(kappa, N, p) for kappa in KAPPAS), kt]
    log_e: np.ndarray = np.logaddexp.reduce(bets, axis=0) - math.log(NUM_BETS)
    return log_e - L


def at_frequencies(
    kappa: float, N: Float[np.ndarray, "X n"], p: Float[np.ndarray, "X n"]
) -> Float[np.ndarray, " X"]:
    """f_kappa at p = N/n, where all that is large in Stirling's formula cancels; never above 0.

    -(seen - 1)/2 log((kappa + n)/kappa) + sum_i [stirling((kappa + n) p_i) - stirling(kappa p_i)] - the same of p = 1.
    """
    total, is_seen = kappa + N.sum(-1), N > 0
    each = stirling(total[:, None] * p) - stirling(kappa * p)
    whole = stirling(total) - stirling(np.full_like(total, kappa))
    unknowns = is_seen.sum(-1) - 1
    return np.asarray(np.where(is_seen, each, 0.0).sum(-1) - whole - unknowns / 2 * np.log(total / kappa))


def expand(
    N: Float[np.ndarray, "X n"],
    possible: Int[np.ndarray, " X"],
    window: tuple[float, ...],
    need: float,
    enough: Float[np.ndarray, " X"],
) -> Float[np.ndarray, "X R"]:
    """eps of Lemmas 2 and 3 for one window of kappas and every (r0, theta); need = L + KL(window || weights).

    possible: how many successors each pair can have; whether all of them are listed does not matter. Infinite where it
    is surely not below `enough`.
    """
    n, is_seen = N.sum(-1), N > 0
    p = np.where(is_seen, N / np.maximum(n, 1.0)[:, None], 1.0)
    slack = need - _mean(window, lambda kappa: at_frequencies(kappa, N, p))
    A = _mean(window, lambda kappa: slope(kappa * p, N))
    M = _mean(window, lambda kappa: bend(kappa * p, N))
    most = _mean(window, lambda kappa: bend(np.full_like(p, kappa), N))  # M at p = 1

    # Options that set nothing aside are not better than the first, and those that keep nothing are void.
    r0, theta = np.array(RARE).T
    is_kept = N[:, None] >= r0[:, None]
    is_option = (is_seen[:, None] & ~is_kept).any(-1) & is_kept.any(-1)
    is_option[:, 0] = n >= 2
    eps = np.full(is_option.shape, np.inf)
    pair, option = np.nonzero(is_option)
    is_kept, theta = is_kept[pair, option], theta[option]
    share = np.where(is_kept, p[pair], 0.0).sum(-1)
    nu = np.where(is_kept, A[pair], 0.0).sum(-1) / share
    is_rare = is_seen[pair] & ~is_kept
    aside, is_void = _set_aside(is_rare, p[pair], A[pair], most[pair], nu, theta)
    W = slack[pair] + aside
    elsewhere = np.where(is_kept.sum(-1) == possible[pair], np.inf, theta * nu)

    # eps = T / (share * least), T >= W, and M is largest at the frequencies.
    least = np.minimum(np.where(is_kept, M[pair] / p[pair], np.inf).min(-1), elsewhere)
    is_good = ~is_void & (least > 0)
    is_good &= W / np.where(is_good, share * least, 1.0) < enough[pair]
    pair, option, is_kept, nu, W = (x[is_good] for x in (pair, option, is_kept, nu, W))
    T, least = _tighten(window, N[pair], p[pair], A[pair], most[pair], is_kept, nu, W)
    least = np.minimum(least, elsewhere[is_good])
    eps[pair, option] = np.where(least > 0, T / np.where(least > 0, share[is_good] * least, 1.0), np.inf)
    return eps


def _mean(window: tuple[float, ...], f: Callable[[float], np.ndarray]) -> np.ndarray:
    """The mean of a function over a window of kappas."""
    result: np.ndarray = np.mean([f(kappa) for kappa in window], axis=0)
    return result


def _tighten(
    window: tuple[float, ...],
    N: Float[np.ndarray, "B n"],
    p: Float[np.ndarray, "B n"],
    A: Float[np.ndarray, "B n"],
    most: Float[np.ndarray, "B n"],
    is_kept: Bool[np.ndarray, "B n"],
    nu: Float[np.ndarray, " B"],
    W: Float[np.ndarray, " B"],
) -> tuple[Float[np.ndarray, " B"], Float[np.ndarray, " B"]]:
    """T, and the least M/p_hat: from bounds b on x to T, to smaller b; most: M at p = 1."""
    e = np.where(is_kept, A / p - nu[:, None], 0.0)
    T, p_high, M = W + e.max(-1), np.ones_like(p), most
    for _ in range(ROUNDS):
        # A successor seen once has M = 0; where it is kept, the least is 0.
        is_bent = is_kept & (M > 0)
        b = psi_inverse(np.where(is_bent, T[:, None] / np.where(is_bent, M, 1.0), 0.0))
        b = np.minimum(b, 1 / p - 1)
        p_high = np.where(is_bent, np.minimum(p_high, p * (1 + b)), p_high)
        G_sq = np.where(is_bent, (p * e) ** 2 / np.where(is_bent, M * curvature(b), 1.0), 0.0).sum(-1)
        T = np.minimum(T, (np.sqrt(G_sq) / 2 + np.sqrt(G_sq / 4 + W)) ** 2)
        M = _mean(window, lambda kappa, p=p_high: bend(kappa * p, N))  # type: ignore[misc]
    return T, np.where(is_kept, M / p, np.inf).min(-1)


def _set_aside(
    is_rare: Bool[np.ndarray, "B n"],
    p: Float[np.ndarray, "B n"],
    A: Float[np.ndarray, "B n"],
    M: Float[np.ndarray, "B n"],
    nu: Float[np.ndarray, " B"],
    theta: Float[np.ndarray, " B"],
) -> tuple[Float[np.ndarray, " B"], Bool[np.ndarray, " B"]]:
    """What W grows by for the rare, and where they void the option; M at p = 1."""
    c = A - ((1 - theta) * nu)[:, None] * p
    is_bent = is_rare & (M > 0)
    is_void = (is_rare & (A > nu[:, None] * p)) | (is_bent & (c >= M))
    ratio = np.where(is_bent & ~is_void, c / np.where(is_bent, M, 1.0), 0.0)
    s = np.maximum(-M * np.log1p(-ratio), 0.0)
    return np.where(is_rare, nu[:, None] * p - A + s, 0.0).sum(-1), is_void.any(-1)


def balls(counts: Float[np.ndarray, "X n"], possible: Int[np.ndarray, " X"], L: float) -> Ball:
    """The smallest ball of every pair.

    possible: how many successors each pair can have; those that were seen must be listed.
    """
    size = max(1, BLOCK_SIZE // counts.shape[1])
    parts = [
        _smallest(counts[i : i + size], possible[i : i + size], L)
        for i in range(0, max(1, len(counts)), size)
    ]
    eps, r0 = (np.concatenate(x) for x in zip(*parts))
    counted = np.where(counts >= r0[:, None], counts, 0.0)
    centre = counted / np.maximum(counted.sum(-1, keepdims=True), 1.0)
    return Ball(centre, eps * ROUNDING_FACTOR, (counted > 0).sum(-1) == possible)


def _smallest(
    counts: Float[np.ndarray, "X n"], possible: Int[np.ndarray, " X"], L: float
) -> tuple[Float[np.ndarray, " X"], Float[np.ndarray, " X"]]:
    """The smallest eps of every pair, and the r0 that it is for."""
    n = counts.sum(-1)
    log_e = log_kt(counts, possible.astype(float))
    eps = np.where(n > 0, (L + math.log(NUM_BETS) - log_e) / np.maximum(n, 1.0), np.inf)
    best_r0 = np.ones_like(n)
    for window in WINDOWS:
        need = L + math.log(NUM_BETS / len(window))
        result = expand(counts, possible, window, need, eps)
        least = result.min(1)
        is_better = least < eps
        eps = np.where(is_better, least, eps)
        best_r0 = np.where(is_better, np.array(RARE)[result.argmin(1), 0], best_r0)
    return eps, best_r0
