"""HF-UCRL-RFE++'s regressions as the paper prints them, in plain NumPy: slow, literal, for comparison only.

J. Zhang, W. Zhang, Gu 2023 (arXiv 2303.10165), Algorithms 1 and 2. Nothing is shared with the library.
"""

from dataclasses import dataclass

import numpy as np


def clip(x):
    return min(max(x, 0.0), 1.0)


def norm_inv(x, Sigma):
    return np.sqrt(x @ np.linalg.solve(Sigma, x))


def home(phi, theta, Sigma, Sigma_dot, beta, alpha, gamma):
    """Algorithm 2: phi, theta [M, d], Sigma, Sigma_dot [M, d, d] -> sigma_bar^2 [M]."""
    M = len(phi)
    sigma_bar_sq = np.zeros(M)
    for m in range(M - 1):
        Var = clip(phi[m + 1] @ theta[m + 1]) - clip(phi[m] @ theta[m]) ** 2  # line 2
        E = clip(2 * beta * norm_inv(phi[m], Sigma_dot[m])) + clip(
            beta * norm_inv(phi[m + 1], Sigma_dot[m + 1])
        )  # line 3
        sigma_bar_sq[m] = max(gamma**2 * norm_inv(phi[m], Sigma[m]), Var + E, alpha**2)  # line 4
    sigma_bar_sq[M - 1] = max(gamma**2 * norm_inv(phi[M - 1], Sigma[M - 1]), 1.0, alpha**2)  # line 6
    return sigma_bar_sq


@dataclass
class Family:
    """The M regressions of one family, hat or tilde."""

    Sigma: np.ndarray  # [M, d, d]
    b: np.ndarray  # [M, d]

    @classmethod
    def init(cls, M, d, lam):
        return cls(np.array([lam * np.eye(d) for _ in range(M)]), np.zeros((M, d)))  # line 2

    def theta(self):
        return np.array(
            [np.linalg.solve(Sigma, b) for Sigma, b in zip(self.Sigma, self.b)]
        )  # lines 3, 18, 19


def regress(family, phi, V, s, a, beta, alpha, gamma):
    """Lines 7-19 of Algorithm 1 for one family: phi [S, A, S, d], V [H+1, S] with V[h] = V_{h+1} of the paper.

    s [H+1], a [H] is the episode. Returns the family after it and sigma_bar^2 [H, M].
    """
    M = len(family.b)
    H = len(a)
    Sigma_dot = family.Sigma.copy()  # line 17 of the episode before
    theta = family.theta()
    Sigma, b = family.Sigma.copy(), family.b.copy()
    weights = np.zeros((H, M))
    for h in range(H):
        targets = [V[h + 1] ** (2**m) for m in range(M)]
        phi_m = [
            sum(phi[s[h], a[h], x] * target[x] for x in range(len(target))) for target in targets
        ]  # line 9
        weights[h] = home(phi_m, theta, Sigma, Sigma_dot, beta, alpha, gamma)  # lines 10, 11
        for m in range(M):
            Sigma[m] = Sigma[m] + np.outer(phi_m[m], phi_m[m]) / weights[h, m]  # lines 12, 13
            b[m] = b[m] + phi_m[m] * targets[m][s[h + 1]] / weights[h, m]  # lines 14, 15
    return Family(Sigma, b), weights


def episode(hat, tilde, phi, V_hat, V_tilde, s, a, beta, alpha, gamma):
    """One episode of both families: ((hat, tilde), (sigma_hat^2, sigma_tilde^2))."""
    hat, weights_hat = regress(hat, phi, V_hat, s, a, beta, alpha, gamma)
    tilde, weights_tilde = regress(tilde, phi, V_tilde, s, a, beta, alpha, gamma)
    return (hat, tilde), (weights_hat, weights_tilde)
