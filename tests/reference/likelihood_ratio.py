"""Theorem N written out: the programme by loops and interpolation, its recursion without a grid, and its definition."""

from itertools import product

import numpy as np


def least(p, stars, succ, start, lam, H):
    """min over lam of lam - 1 + 2 j(start, lam)."""
    return (lam - 1 + 2 * by_interpolation(p, stars, succ, lam, H)[start]).min()


def by_interpolation(p, stars, succ, lam, H):
    """j [S, L] with H - 1 transitions; stars[s][a] is a list of rows P_star."""
    S, A, n = p.shape
    j = np.array([np.maximum(1 - lam, 0)] * S)
    for _ in range(H - 1):
        now = np.zeros_like(j)
        for s, a in product(range(S), range(A)):
            for star in stars[s][a]:
                total = 0.0
                for i in range(n):
                    if star[i] > 0:
                        at = lam * p[s, a, i] / star[i]
                        total += star[i] * np.interp(at, np.append(0, lam), np.append(1, j[succ[s, a, i]]))
                now[s] = np.maximum(now[s], total)
        j = np.minimum(now, 1)
    return j


def exactly(p, stars, succ, s, lam, k):
    """j_k(s, lam) with rows P_star among `stars`, without a grid."""
    if k == 0 or lam == 0:
        return max(1 - lam, 0.0)
    found = 0.0
    for a in range(p.shape[1]):
        for star in stars[s][a]:
            rows = [(x, y, to) for x, y, to in zip(star, p[s, a], succ[s, a]) if x > 0]
            found = max(found, sum(x * exactly(p, stars, succ, to, lam * y / x, k - 1) for x, y, to in rows))
    return min(found, 1.0)


def trajectories(row, H):
    """The probabilities under P and P_star of all trajectories from state 0.

    row(history): P and P_star on the successors of its last state and action, and these.
    """
    laws = [((0,), 1.0, 1.0)]
    for _ in range(H - 1):
        last, laws = laws, []
        for history, mass, mass_star in last:
            for x, y, to in zip(*row(history)):
                laws.append(((*history, int(to)), mass * x, mass_star * y))
    return np.array([law[1] for law in laws]), np.array([law[2] for law in laws])


def adversary(p, stars, succ, s, lam, k):
    """P and P_star of all trajectories of a policy and a kernel that follow the recursion; both have a memory, lam."""
    if k == 0:
        return [(1.0, 1.0)]

    def value(choice):
        a, star = choice
        ahead = zip(star, p[s, a], succ[s, a])
        return sum(x * exactly(p, stars, succ, to, lam * y / x, k - 1) for x, y, to in ahead if x > 0)

    a, star = max(((a, star) for a in range(p.shape[1]) for star in stars[s][a]), key=value)
    laws = []
    for x, y, to in zip(star, p[s, a], succ[s, a]):
        later = adversary(p, stars, succ, to, lam * y / x, k - 1) if x > 0 else [(1.0, 0.0)]
        laws += [(y * P, x * P_star) for P, P_star in later]
    return laws
