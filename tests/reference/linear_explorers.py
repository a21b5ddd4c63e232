"""The explorers of linear MDPs as plain NumPy loops over steps, states and actions, with explicit inverses.

phi [S, A, d]; Lam [H, d, d] with its ridge, C [H, d, S]; `first` is the lowest action of the largest value. Steps count
from 0. Pooled data are the same tables for every step.
"""

import numpy as np


def instance():
    """Instance T: phi(s,a) = (1-q, q), q = (s+1+2a)/8, mu, and five episodes of three steps."""
    q = (np.arange(4)[:, None] + 1 + 2 * np.arange(2)[None]) / 8
    phi = np.stack([1 - q, q], -1)
    mu = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
    s = np.array([[0, 1, 3, 2], [0, 3, 2, 2], [0, 0, 1, 3], [0, 2, 3, 0], [0, 3, 3, 1]])
    a = np.array([[0, 1, 1], [1, 0, 1], [0, 0, 1], [1, 1, 0], [1, 1, 1]])
    return phi, mu, s, a


class Data:
    """gram and cross of every step, without a ridge; weights are 1 unless given."""

    def __init__(self, phi, H):
        S, _, d = phi.shape
        self.phi, self.H = phi, H
        self.gram, self.cross = np.zeros((H, d, d)), np.zeros((H, d, S))

    def add(self, s, a, weight=None, steps=None):
        for h in range(self.H) if steps is None else steps:
            x, g = self.phi[s[h], a[h]], 1.0 if weight is None else weight[h]
            self.gram[h] += g * np.outer(x, x)
            self.cross[h][:, s[h + 1]] += g * x
        return self

    def tables(self, lam, is_pooled):
        """(Lam, C) of every step."""
        gram, cross = self.gram, self.cross
        if is_pooled:
            gram, cross = (np.broadcast_to(x.sum(0), x.shape) for x in (gram, cross))
        return gram + lam * np.eye(gram.shape[-1]), cross


def norm(x, Lam):
    return np.sqrt(x @ np.linalg.inv(Lam) @ x)


def norms(phi, Lam):
    return np.array([[[norm(x, L) for x in row] for row in phi] for L in Lam])


def backup(phi, Lam, C, gain, low, cap, missing=None):
    """Q [H, S, A] and V [H + 1, S]."""
    H, (S, A, _) = len(Lam), phi.shape
    Q, V = np.zeros((H, S, A)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        w = np.linalg.inv(Lam[h]) @ sum(C[h][:, t] * V[h + 1, t] for t in range(S))
        for s in range(S):
            for a in range(A):
                Q[h, s, a] = phi[s, a] @ w + gain[h, s, a]
                if missing is not None:
                    Q[h, s, a] += missing[h, s, a] * V[h + 1].max()
                Q[h, s, a] = min(max(Q[h, s, a], low), cap)
            V[h, s] = Q[h, s].max()
    return Q, V


def wang(phi, Lam, C, beta, cap):
    """Algorithm 1 in values up to H; without `cap` nothing is cut off above."""
    H = len(Lam)
    u = beta * norms(phi, Lam)
    u = np.minimum(u, H) if cap else u
    return backup(phi, Lam, C, u / H + u, 0.0, H if cap else np.inf)


def design(phi, Lam, C):
    """The design, and the mass that the ridge takes."""
    widths = np.array(
        [[[x @ np.linalg.inv(L) @ c.sum(-1) for x in row] for row in phi] for L, c in zip(Lam, C)]
    )
    return backup(phi, Lam, C, norms(phi, Lam) ** 2, -np.inf, np.inf, np.maximum(0.0, 1 - widths))


def policy_gradient_value(phi, Lam, C, xi, p):
    """FRANCIS: the reward phi'xi at step p alone."""
    gain = np.zeros((len(Lam), *phi.shape[:2]))
    gain[p] = phi @ xi
    return backup(phi, Lam, C, gain, -np.inf, np.inf)


def lsvi_rfe(phi, Lam, C, Lam_raw, C_raw):
    """Q, V and sigma^2 [H, S, A]."""
    H = len(Lam)
    n, n_raw = norms(phi, Lam), norms(phi, Lam_raw)
    Q, V = backup(phi, Lam, C, 2 * np.minimum(1.0, 0.5 * n), 0.0, 1.0)
    sigma_sq = np.zeros_like(n)
    for h, s, a in np.ndindex(*n.shape):
        m1 = np.clip(phi[s, a] @ np.linalg.inv(Lam[h]) @ C[h] @ V[h + 1], 0, 1)
        m2 = np.clip(phi[s, a] @ np.linalg.inv(Lam_raw[h]) @ C_raw[h] @ V[h + 1] ** 2, 0, 1)
        U = min(1.0, 2 * 0.5 * n[h, s, a]) + min(1.0, 0.5 * n_raw[h, s, a])
        sigma_sq[h, s, a] = np.clip(m2 - m1**2 + U, 1 / H, 1)
    return Q, V, sigma_sq


def egs_reward(phi, gram, gamma_sq, is_left):
    """1[phi in X] min{1, ||phi||^2/gamma^2} in (I + gram)^-1."""
    Lam = np.eye(len(gram)) + gram
    return np.array(
        [
            [is_left[s, a] * min(1.0, norm(x, Lam) ** 2 / gamma_sq) for a, x in enumerate(row)]
            for s, row in enumerate(phi)
        ]
    )


def lsvi_ucb(phi, Lam, C, reward, h, radius):
    """Optimism for a reward at step h alone."""
    gain = radius * norms(phi, Lam)
    gain[h], gain[h + 1 :] = reward, 0.0
    return backup(phi, Lam, C, gain, 0.0, 1.0)


def plan(phi, Lam, C, reward, bonus=0.0):
    """Least-squares value iteration with values in [0, 1]."""
    return backup(phi, Lam, C, reward + bonus * norms(phi, Lam), 0.0, 1.0)


def psi(y):
    return np.log(1 + y + y**2) if y >= 0 else -np.log(1 - y + y**2)


def catoni(X, a):
    """The root of sum psi(a(X - z)); 0 of nothing."""
    if not len(X):
        return 0.0
    low, high = min(X), max(X)
    for _ in range(200):
        z = (low + high) / 2
        low, high = (z, high) if sum(psi(a * (x - z)) for x in X) > 0 else (low, z)
    return (low + high) / 2


class Force:
    """FORCE of one epoch of K episodes, reward at step h alone: transitions (x, s', vbar^2) of every step."""

    def __init__(self, phi, H, K, delta):
        self.phi, self.H, self.K, d = phi, H, K, phi.shape[-1]
        self.past = [[] for _ in range(H)]
        self.L = d**2 * np.log(max(d, H, K)) + np.log(2 * H * K / delta)
        self.beta, self.v_min = 6 * np.sqrt(self.L), 1 / K

    def Lam(self, t):
        return np.eye(self.phi.shape[-1]) / self.H**2 + sum(np.outer(x, x) / v for x, _, v in self.past[t])

    def estimate(self, t, V, u):
        n, Lam = len(self.past[t]), self.Lam(t)
        v = n * np.linalg.inv(Lam) @ u
        length = np.sqrt(max(0.0, v @ (Lam - np.eye(len(u)) / self.H**2) @ v))
        a = min(self.beta / length if length > 0 else np.inf, self.K / self.v_min)
        return catoni([v @ x * V[s_next] / vbar for x, s_next, vbar in self.past[t]], a)

    def optimism(self, reward, h, scale):
        """Q [H, S, A], V [H + 1, S]."""
        S, A, d = self.phi.shape
        Q, V = np.zeros((self.H, S, A)), np.zeros((self.H + 1, S))
        wide = np.sqrt(d) + 2
        for t in reversed(range(h + 1)):
            k, Lam = len(self.past[t]) + 1, self.Lam(t)
            U = np.linalg.eigh(Lam)[1]
            w = sum(self.estimate(t, V[t + 1], u) * u for u in U.T)
            for s, a in np.ndindex(S, A):
                b = (
                    3 * wide * self.beta * norm(self.phi[s, a], Lam)
                    + 3 * wide**2 * self.v_min * self.beta**2 / k**2
                )
                Q[t, s, a] = reward[s, a] if t == h else min(max(self.phi[s, a] @ w + scale * b, 0.0), self.H)
            V[t] = Q[t].max(-1)
        return Q, V

    def learn(self, s, a, V):
        """vbar^2 of the transitions of an episode, by what was known before it."""
        new = []
        for t in range(self.H):
            x, k = self.phi[s[t], a[t]], len(self.past[t]) + 1
            vbar = 2 * self.H**2
            if k > self.L:
                doubt = norm(x, self.Lam(t)) + self.v_min * self.beta / k**2
                vbar = max(20 * self.H * (self.estimate(t, V[t + 1], x) + self.beta * doubt), self.v_min**2)
            new.append((x, s[t + 1], vbar))
        for t in range(self.H):
            self.past[t].append(new[t])
