"""The reconstruction of SSTP that explorers/sstp.py describes, in plain NumPy loops. Steps count from 0."""

import numpy as np

C1, C3 = 460 / 9, 544 / 9


def goals(N, base, stage):
    """Pairs (s,a) with fewer visits than base 2^-k; all pairs are unknown."""
    return N.sum(-1) < base * 2.0**-stage


def reach(N, Y, H, delta, scale=1.0):
    """Q [H, S, A]: the optimistic probability to take a goal from there on."""
    S, A, _ = N.shape
    Q, V, iota = np.zeros((H, S, A)), np.zeros((H + 1, S)), np.log(2 / delta)
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                n = N[s, a].sum()
                p = N[s, a] / n if n else np.full(S, 1 / S)
                mean = sum(p[x] * V[h + 1, x] for x in range(S))
                variance = sum(p[x] * (V[h + 1, x] - mean) ** 2 for x in range(S))
                n = max(n, 1)
                b = C1 * np.sqrt(variance * iota / n) + C3 * iota / n
                Q[h, s, a] = 1.0 if Y[s, a] else min(1.0, mean + scale * b)
            V[h, s] = Q[h, s].max()
    return Q
