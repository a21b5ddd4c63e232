"""The certificates of linear MDPs as docs/linear.md defines them: loops over pairs, one number after the other.

Symbols: V0, V1, C1 -> sums before and since the start of a bet; g, n, e, bad -> of each pair; L -> a level; Q -> of a
step, y'S_V is at most sqrt(y'Qy).
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
        self.phi, self.metric = phi, R + V1
        inverse = np.linalg.pinv(V1, rcond=1e-9, hermitian=True)
        self.P, self.raw, self.g = np.zeros((S, A, S)), np.zeros((S, A, S)), np.zeros((S, A, d))
        self.n, self.e, self.bad = np.zeros((S, A)), np.zeros((S, A)), np.zeros((S, A), bool)
        for s, a in np.ndindex(S, A):
            x = phi[s, a]
            if np.linalg.norm(V1 @ inverse @ x - x) > 1e-8:
                self.bad[s, a], self.P[s, a], self.raw[s, a] = True, 1 / S, 1 / S
                continue
            self.raw[s, a] = x @ inverse @ C1
            positive = [max(p, 0.0) for p in self.raw[s, a]]
            self.P[s, a] = [p / sum(positive) for p in positive]
            self.g[s, a] = inverse @ x
            self.n[s, a] = math.sqrt(inverse @ x @ (R + V1) @ inverse @ x)
            difference = self.raw[s, a] - self.P[s, a]
            self.e[s, a] = max(difference[difference > 0].sum(), -difference[difference < 0].sum())

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


def design(phi):
    """M of section 5: thirty rounds of the multiplicative algorithm, then x'M^-1 x is at most 1."""
    x = phi.reshape(-1, phi.shape[-1])
    weights = [1 / len(x)] * len(x)
    for _ in range(30):
        M = sum(w * np.outer(y, y) for w, y in zip(weights, x))
        weights = [w * (y @ np.linalg.inv(M) @ y) for w, y in zip(weights, x)]
        weights = [w / sum(weights) for w in weights]
    M = sum(w * np.outer(y, y) for w, y in zip(weights, x))
    return M * max(y @ np.linalg.inv(M) @ y for y in x)


def moment_matrix(phi, counts, M, level, above, lam, alpha, rho):
    """4 k Lam (W + zeta M) of Lemma 9, where above is at least V - min V."""
    S, A, d = phi.shape
    W = sum(
        counts[s, a, t] * min(1.0, above[t]) ** 2 * np.outer(phi[s, a], phi[s, a])
        for s, a, t in np.ndindex(S, A, S)
    )
    k = (-math.log(1 - lam) - lam) / lam**2
    B = W + rho**2 / (alpha * lam) * M
    Lam = level + k * rho**2 / (d + 2) * np.trace(np.linalg.inv(B) @ W) + d * math.log(0.9 / rho)
    Lam += math.log(np.linalg.det(np.linalg.inv(M) @ B)) / 2 + math.log(lam / alpha) / 2
    return 4 * k * Lam * (W + Lam / (k * (lam - alpha) ** 2) * M)


def by_moments(fit, counts, M, level):
    """The matrix Q of a step from above = up' - min lo': the option with the smallest mean width."""

    def choose(above):
        best = None
        for lam, share, scale in np.ndindex(3, 3, 2):
            lam, share, scale = (0.3, 0.6, 0.9)[lam], (0.05, 0.1, 0.2)[share], (1.0, 4.0)[scale]
            k = (-math.log(1 - lam) - lam) / lam**2
            rho = math.sqrt(scale * (fit.phi.shape[-1] + 2) / (2 * k))
            Q = moment_matrix(fit.phi, counts, M, level, above, lam, share * lam, rho)
            total = sum(math.sqrt(g @ Q @ g) for g in fit.g[~fit.bad])
            if best is None or total < best[0]:
                best = total, Q
        return best

    return choose


def bounds(fit, reward, policy, start, L, L_all, choose=None):
    """(D, up, lo) at the start: the regret of the policy, and where the best value lies.

    choose: `by_moments`, which may make a step sharper.
    """
    H, S, A = reward.shape
    P, g, n, e, bad, beta = fit.P, fit.g, fit.n, fit.e, fit.bad, fit.beta(L)
    b = fit.width(L_all)
    J, c, Q_by_step = np.zeros((S, H, g.shape[-1])), np.zeros(H), np.zeros((H, g.shape[-1], g.shape[-1]))
    V, E, rho, D, upper, lo = np.zeros((6, S))

    def size(difference):
        return sum(math.sqrt(max(0.0, difference[k] @ Q_by_step[k] @ difference[k])) for k in range(H))

    for h in range(H - 1, -1, -1):
        c[h] = upper.max() - lo.min()
        Q_by_step[h] = (beta * c[h]) ** 2 * fit.metric
        if choose is not None:
            total, Q = choose(np.maximum(upper - lo.min(), 0.0))
            if total < beta * c[h] * n[~bad].sum():
                Q_by_step[h] = Q
        r = reward[h]
        Q_up, Q_lo, Q, Ea = np.zeros((4, S, A))
        psi = np.zeros((S, A, H, g.shape[-1]))
        for s, a in np.ndindex(S, A):
            width = math.sqrt(g[s, a] @ Q_by_step[h] @ g[s, a])
            w = c[h] if bad[s, a] else min(c[h], width + c[h] * e[s, a])
            Q_up[s, a] = min(1.0, r[s, a] + P[s, a] @ upper + w)
            Q_lo[s, a] = max(0.0, r[s, a] + P[s, a] @ lo - w)
            Q[s, a] = r[s, a] + P[s, a] @ V
            Ea[s, a] = 1.0 if bad[s, a] else c[h] * e[s, a] + P[s, a] @ E
            if not bad[s, a]:
                psi[s, a] = np.einsum("t,thd->hd", P[s, a], J)
                psi[s, a, h] = g[s, a]
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
                shift = P[s, a] - P[s, p]
                wide = 2 * c[h]
                if not is_open:
                    turn = g[s, a] - g[s, p]
                    wide = min(2 * c[h], math.sqrt(turn @ Q_by_step[h] @ turn) + c[h] * (e[s, a] + e[s, p]))
                bands = r[s, a] - r[s, p] + np.maximum(shift, 0) @ upper - np.maximum(-shift, 0) @ lo + wide
                gains.append(min(1.0 if is_open else tangent, bands, Q_up[s, a] - Q_lo[s, p]))
                slopes.append(Q_up[s, a] - Q[s, p] + half if bad[s, a] else tangent)
            top = max(gains)
            highest = max(0.0, Q_up[s].max() - Q[s, p] + half)
            new["rho"][s] = 0.0 if bad[s, p] else min(highest, top + P[s, p] @ rho, max(slopes))
            new["V"][s], new["E"][s], new_J[s] = Q[s, p], Ea[s, p], psi[s, p]
            new["up"][s] = min(1.0, Q_up[s].max(), Q[s, p] + half + new["rho"][s])
            new["lo"][s] = min(new["up"][s], max(0.0, Q_lo[s].max(), Q[s, p] - half))
            future = min(D.max(), P[s, p] @ D + b[s, p] * (D.max() - D.min()))
            new["D"][s] = min(1.0, new["up"][s], top + future)
        V, E, rho, D, upper, lo = (new[name] for name in ("V", "E", "rho", "D", "up", "lo"))
        J = new_J
    return D[start], upper[start], lo[start]
