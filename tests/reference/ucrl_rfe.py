"""UCRL-RFE and UCRL-RFE+ as printed (Zhang, Zhou, Gu 2021, arXiv 2110.06394), in plain NumPy: slow, literal.

Nothing is shared with the library. h counts from 0, so V_{h+1} of the paper is V[h + 1] and H - h is H - 1 - h.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np


def norm_inv(x, Sigma):
    return np.sqrt(x @ np.linalg.solve(Sigma, x))


@dataclass
class Regression:
    Sigma: np.ndarray
    b: np.ndarray

    @classmethod
    def init(cls, lam, d):
        return cls(lam * np.eye(d), np.zeros(d))

    def theta(self):
        return np.linalg.solve(self.Sigma, self.b)

    def add(self, x, y, weight=1.0):
        self.Sigma = self.Sigma + weight * np.outer(x, x)
        self.b = self.b + weight * y * x


def phi_of_pair(phi, s, a, V):
    return sum(phi[s, a, x] * V[x] for x in range(len(V)))


def plan(phi, theta, Sigma, beta, reward, cap):
    """PLAN: Q [H, S, A] and V [H+1, S]; theta and Sigma of every step."""
    H, S, A = reward.shape
    Q, V = np.zeros((H, S, A)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                x = phi_of_pair(phi, s, a, V[h + 1])
                optimistic = reward[h, s, a] + x @ theta[h] + beta * norm_inv(x, Sigma[h])
                Q[h, s, a] = min(max(optimistic, 0.0), cap)
            V[h, s] = Q[h, s].max()
    return Q, V


def attained_norm(phi, f, Sigma):
    """||phi_f(s,a)|| in the inverse norm, f [S, A, S] of every pair."""
    S, A = phi.shape[:2]
    return np.array([[norm_inv(phi_of_pair(phi, s, a, f[s, a]), Sigma) for a in range(A)] for s in range(S)])


def widest(phi, Sigma):
    """max over f in {0,1}^S of ||phi_f(s,a)|| in the inverse norm, by looking at all of them."""
    S, A = phi.shape[:2]
    vertices = np.array(list(product([0.0, 1.0], repeat=S)))
    best = np.zeros((S, A))
    for s in range(S):
        for a in range(A):
            x = vertices @ phi[s, a]
            best[s, a] = np.sqrt((x * np.linalg.solve(Sigma, x.T).T).sum(1).max())
    return best


def exploration_reward(width, beta, H):
    """(4.2) without the root: over [0, H - h] the maximum is H - h times that over [0, 1]."""
    return np.array([np.minimum(1.0, 2 * beta / H * (H - 1 - h) * width) for h in range(H)])


def regress_on_maximisers(regression, phi, f, s, a):
    """One episode: u_h = (H - h) f(s_h, a_h)."""
    H = len(a)
    for h in range(H):
        u = (H - 1 - h) * f[s[h], a[h]]
        regression.add(phi_of_pair(phi, s[h], a[h], u), u[s[h + 1]])
