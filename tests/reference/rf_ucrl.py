"""RF-UCRL and RF-Express as printed (arXiv 2006.06294, 2007.13442), in plain NumPy loops: slow, literal.

Nothing is shared with the library. h counts from 0, so H - h of the papers is H - 1 - h.
"""

import numpy as np


class Counts:
    """N_h(s,a,s') of each step, or of all steps together."""

    def __init__(self, H, S, A, pooled=False, possible=None):
        self.N, self.pooled = np.zeros((H, S, A, S)), pooled
        self.possible = np.ones((S, A, S), bool) if possible is None else possible

    def add(self, s, a):
        for h in range(len(a)):
            self.N[h, s[h], a[h], s[h + 1]] += 1

    def of(self, h, s, a):
        row = self.N[:, s, a].sum(0) if self.pooled else self.N[h, s, a]
        return int(row.sum()), row

    def p_hat(self, h, s, a):
        n, row = self.of(h, s, a)
        return row / n if n else self.possible[s, a] / max(self.possible[s, a].sum(), 1)


def beta_ucrl(n, S, A, H, delta):
    """H = 1 in the place of H where the steps are pooled."""
    spread = (S - 1) * np.log(np.e * (1 + n / (S - 1))) if S > 1 else 0.0
    return np.log(2 * S * A * H / delta) + spread


def beta_express(n, S, A, H, delta):
    return np.log(3 * S * A * H / delta) + S * np.log(8 * np.e * (n + 1))


def rf_ucrl(counts, delta, clip=True, bonus_scale=1.0, largest=None):
    """E [H, S, A]; largest: what is left of the rewards after each step, H - h unless given."""
    H, S, A, _ = counts.N.shape
    E = np.zeros((H + 1, S, A))
    for h in reversed(range(H)):
        largest_left = H - 1 - h if largest is None else largest[h]
        for s in range(S):
            for a in range(A):
                n, _ = counts.of(h, s, a)
                if n == 0 and clip and bonus_scale == 1:
                    E[h, s, a] = largest_left
                    continue
                beta = beta_ucrl(n, S, A, 1 if counts.pooled else H, delta)
                bonus = bonus_scale * largest_left * np.sqrt(2 * beta / max(n, 1))
                E[h, s, a] = bonus + sum(counts.p_hat(h, s, a)[x] * max(E[h + 1, x]) for x in range(S))
                if clip:
                    E[h, s, a] = min(largest_left, E[h, s, a])
    return E[:H]


def rf_express(counts, delta, clip=True, bonus_scale=1.0):
    """W [H, S, A]."""
    H, S, A, _ = counts.N.shape
    W = np.zeros((H + 1, S, A))
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                n, _ = counts.of(h, s, a)
                if n == 0 and clip and bonus_scale == 1:
                    W[h, s, a] = H
                    continue
                bonus = bonus_scale * 15 * H**2 * beta_express(n, S, A, H, delta) / max(n, 1)
                future = sum(counts.p_hat(h, s, a)[x] * max(W[h + 1, x]) for x in range(S))
                W[h, s, a] = bonus + (1 + 1 / H) * future
                if clip:
                    W[h, s, a] = min(H, W[h, s, a])
    return W[:H]


def value_iteration(counts, reward):
    """The best values in p_hat."""
    H, S, A, _ = counts.N.shape
    V = np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            V[h, s] = max(reward[h, s, a] + counts.p_hat(h, s, a) @ V[h + 1] for a in range(A))
    return V
