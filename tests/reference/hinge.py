"""The hinge the slow way: every history, and laws with few outcomes."""

import numpy as np

from tests.reference.certificates import distribution


def largest_hinge(P, log_ratio, stop, horizon, start, b):
    """max over policies that remember everything of E_P (b - t)^+, t the sum of log_ratio[s, a, s'] along the way.

    P, log_ratio [S, A, S]. There are horizon - 1 transitions; at a pair of `stop` the sum ends.
    """

    def value(h, s, t):
        if h == horizon - 1:
            return max(b - t, 0.0)
        best = -np.inf
        for a in range(P.shape[1]):
            if stop[s, a]:
                total = max(b - t, 0.0)
            else:
                successors = np.flatnonzero(P[s, a])
                total = sum(P[s, a, j] * value(h + 1, j, t + log_ratio[s, a, j]) for j in successors)
            best = max(best, total)
        return best

    return sum(p * value(0, s, 0.0) for s, p in enumerate(distribution(start, len(P))) if p > 0)


def largest_by_two_points(b, kappa, rng, count=200_000):
    """The largest E (b - t)^+ found among random laws of two points with E e^t <= 1 and E (-t) = kappa."""
    share = 10 ** rng.uniform(-5, -1e-3, size=count)
    low = b - np.sqrt(kappa) * 10 ** rng.uniform(-3, 5, size=count)
    high = (-kappa - share * low) / (1 - share)
    is_law = share * np.exp(low) + (1 - share) * np.exp(np.minimum(high, 100.0)) <= 1
    mean = share * np.maximum(b - low, 0) + (1 - share) * np.maximum(b - high, 0)
    return mean[is_law].max()
