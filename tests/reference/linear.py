"""The certificates of linear MDPs as docs/linear.md defines them: loops over pairs, one number after the other.

Symbols: V0, V1, C1 -> sums before and since the start of a bet; X, n, e, bad -> of each pair; L -> a level.
Policies are actions [H, S].
"""

import math

import numpy as np


class Fit:
    """The estimate of one bet, by pseudo-inverse, in the coordinates in which phi was given."""

    def __init__(self, phi, V0, V1, C1, ratio=9.0):
        S, A, d = phi.shape
        R = 0.25 * ratio * V0 + sum(np.outer(x, x) for x in phi.reshape(-1, d)) / (S * A)
        self.logdet = math.log(np.linalg.det(np.eye(d) + np.linalg.inv(R) @ V1))
        root = np.linalg.cholesky(R + V1)
        inverse = np.linalg.pinv(V1, rcond=1e-9, hermitian=True)
        self.P, self.raw, self.X = np.zeros((S, A, S)), np.zeros((S, A, S)), np.zeros((S, A, d))
        self.n, self.e, self.bad = np.zeros((S, A)), np.zeros((S, A)), np.zeros((S, A), bool)
        for s, a in np.ndindex(S, A):
            x = phi[s, a]
            if np.linalg.norm(V1 @ inverse @ x - x) > 1e-8:
                self.bad[s, a], self.P[s, a], self.raw[s, a] = True, 1 / S, 1 / S
                continue
            self.raw[s, a] = x @ inverse @ C1
            positive = [max(p, 0.0) for p in self.raw[s, a]]
            self.P[s, a] = [p / sum(positive) for p in positive]
            self.X[s, a] = root.T @ inverse @ x
            self.n[s, a] = math.sqrt(inverse @ x @ (R + V1) @ inverse @ x)
            moved = self.raw[s, a] - self.P[s, a]
            self.e[s, a] = max(moved[moved > 0].sum(), -moved[moved < 0].sum())

    def beta(self, L):
        return math.sqrt((self.logdet / 2 + L) / 2)

    def width(self, L):
        return np.where(self.bad, 1.0, np.minimum(1.0, self.beta(L) * self.n + self.e))


def level_of_all(S, delta):
    return (S - 1) * math.log(2) + math.log(1 / delta)


def uniform(fit, H, start, L):
    S, A = fit.n.shape
    U, b = np.zeros(S), fit.width(L)
    for _ in range(H - 1):
        U = np.array([max(min(1.0, b[s, a] + fit.P[s, a] @ U) for a in range(A)) for s in range(S)])
    return min(1.0, 2 * U[start])


def plan(P, reward):
    """The optimal policy in a kernel, first action first, and its values."""
    H, S, _ = reward.shape
    V, policy = np.zeros((H + 1, S)), np.zeros((H, S), int)
    for h in range(H - 1, -1, -1):
        Q = reward[h] + P @ V[h + 1]
        policy[h], V[h] = Q.argmax(-1), Q.max(-1)
    return policy, V


def bounds(fit, reward, policy, start, L, L_all):
    """(D, up, lo) at the start: the regret of the policy, and where the best value lies."""
    H, S, A = reward.shape
    P, X, n, e, bad, beta = fit.P, fit.X, fit.n, fit.e, fit.bad, fit.beta(L)
    b = fit.width(L_all)
    J, c = np.zeros((S, H, X.shape[-1])), np.zeros(H)
    V, E, rho, D, up, lo = np.zeros((6, S))

    def size(difference):
        return beta * sum(c[k] * np.linalg.norm(difference[k]) for k in range(H))

    for h in range(H - 1, -1, -1):
        c[h] = up.max() - lo.min()
        r = reward[h]
        Q_up, Q_lo, Q, Ea = np.zeros((4, S, A))
        psi = np.zeros((S, A, H, X.shape[-1]))
        for s, a in np.ndindex(S, A):
            w = c[h] if bad[s, a] else min(c[h], c[h] * (beta * n[s, a] + e[s, a]))
            Q_up[s, a] = min(1.0, r[s, a] + P[s, a] @ up + w)
            Q_lo[s, a] = max(0.0, r[s, a] + P[s, a] @ lo - w)
            Q[s, a] = r[s, a] + P[s, a] @ V
            Ea[s, a] = 1.0 if bad[s, a] else c[h] * e[s, a] + P[s, a] @ E
            if not bad[s, a]:
                psi[s, a] = np.einsum("t,thd->hd", P[s, a], J)
                psi[s, a, h] = X[s, a]
        new = {name: np.zeros(S) for name in ("V", "E", "rho", "D", "up", "lo")}
        new_J = np.zeros_like(J)
        for s in range(S):
            p = policy[h, s]
            half = size(psi[s, p]) + Ea[s, p]
            gains, slopes = [0.0], [0.0]
            for a in range(A):
                if a == p:
                    slopes.append(P[s, p] @ rho)
                    continue
                is_open = bad[s, a] or bad[s, p]
                tangent = (
                    Q[s, a] - Q[s, p] + size(psi[s, a] - psi[s, p]) + Ea[s, a] + Ea[s, p] + P[s, a] @ rho
                )
                moved = P[s, a] - P[s, p]
                wide = 2 * c[h]
                if not is_open:
                    turned = beta * np.linalg.norm(X[s, a] - X[s, p]) + e[s, a] + e[s, p]
                    wide = min(2 * c[h], c[h] * turned)
                bands = r[s, a] - r[s, p] + np.maximum(moved, 0) @ up - np.maximum(-moved, 0) @ lo + wide
                gains.append(min(1.0 if is_open else tangent, bands, Q_up[s, a] - Q_lo[s, p]))
                slopes.append(Q_up[s, a] - Q[s, p] + half if bad[s, a] else tangent)
            top = max(gains)
            highest = max(0.0, Q_up[s].max() - Q[s, p] + half)
            new["rho"][s] = 0.0 if bad[s, p] else min(highest, top + P[s, p] @ rho, max(slopes))
            new["V"][s], new["E"][s], new_J[s] = Q[s, p], Ea[s, p], psi[s, p]
            new["up"][s] = min(1.0, Q_up[s].max(), Q[s, p] + half + new["rho"][s])
            new["lo"][s] = min(new["up"][s], max(0.0, Q_lo[s].max(), Q[s, p] - half))
            onward = min(D.max(), P[s, p] @ D + b[s, p] * (D.max() - D.min()))
            new["D"][s] = min(1.0, new["up"][s], top + onward)
        V, E, rho, D, up, lo = (new[name] for name in ("V", "E", "rho", "D", "up", "lo"))
        J = new_J
    return D[start], up[start], lo[start]
