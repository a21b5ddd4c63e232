"""T' of HF-UCRL-RFE++ written out: one policy-free dynamic programme by loops, roots by bisection."""

import numpy as np

from horizonfree.oracle.box import row_bound

SLACK, MOST = 1e-2, 2**20


def of_features(phi, theta, inv, beta, H, start, mus):
    """T for full features phi [S, A, S, d] and the inverse of a covariance."""
    P, root = phi @ theta, np.linalg.cholesky(inv)
    factors = [[(x @ root).T for x in row] for row in phi]
    return least(P, P, factors, beta, H, start, mus)


def least(P, p, factors, beta, H, start, mus):
    """The least y over mu with y <= D_1(start) + mu (1/2 + 2 sqrt(q y))^2.

    P [S, A, S]: the kernel. p[s][a], factors[s][a]: the probabilities of the successors of a pair, and F with ||phi_f||
    = ||F f||. q starts at 1 and falls to twice the largest y of any state; all states must be reachable.
    """
    S, A = P.shape[:2]
    rows = []
    for mu in mus:
        g = np.zeros((S, A))
        for s in range(S):
            for a in range(A):
                n = len(p[s][a])
                bound = row_bound(factors[s][a], p[s][a], mu / beta, SLACK, MOST >> n)
                g[s, a] = min(0.5, beta * bound)
        D = np.zeros(S)
        for _ in range(H - 1):
            D = np.array([max(g[s, a] + P[s, a] @ D for a in range(A)) for s in range(S)])
        rows.append((mu, D))
    q = 1.0
    for _ in range(50):
        q = min(q, 2 * max_of_all(rows, q))
    return min(0.25, min(largest(D[start], mu, q) for mu, D in rows))


def max_of_all(rows, q):
    """A bound of the largest y of any state."""
    return min(largest(D.max(), mu, q) for mu, D in rows)


def largest(D, mu, q):
    """The largest y with y <= D + mu (1/2 + 2 sqrt(q y))^2, by bisection; infinite where there is none."""
    if 4 * mu * q >= 1:
        return np.inf
    low, high = D, D + 1.0

    def holds(y):
        return y <= D + mu * (0.5 + 2 * np.sqrt(q * y)) ** 2

    while holds(high):
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
