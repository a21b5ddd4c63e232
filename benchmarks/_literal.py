"""One episode of HF-UCRL-RFE++ as the paper prints it, in plain NumPy: the yardstick of benchmarks/explore.py.

J. Zhang, W. Zhang, Gu 2023 (arXiv 2303.10165): the value functions of section 4, then Algorithms 1 and 2 for both
families. Slow on purpose; nothing is shared with the library. The tests have a reference of their own.
"""

import numpy as np


def episode(phi, theta, Sigma, b, policy, reward, s, a, beta, alpha, gamma):
    """Both families of regressions, tilde and hat, after the episode s [H+1], a [H].

    Both start from Sigma [M, d, d] and b [M, d]. phi [S, A, S, d]; policy, reward [H, S]: the oracle's result.
    """
    values = pseudo_values(phi, theta, Sigma[0], beta, policy, reward)
    return [regress(Sigma, b, phi, V, s, a, beta, alpha, gamma) for V in values]


def pseudo_values(phi, theta, Sigma, beta, policy, reward):
    """V and Vhat [H+1, S] of section 4."""
    H, S = reward.shape
    V, V_hat = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            x = phi[s, policy[h, s]]
            phi_V = sum(x[s_next] * V[h + 1, s_next] for s_next in range(S))
            phi_V_hat = sum(x[s_next] * V_hat[h + 1, s_next] for s_next in range(S))
            V[h, s] = clip(reward[h, s] + phi_V @ theta)
            u = min(1, beta * norm_inv(phi_V, Sigma))
            V_hat[h, s] = clip(u + 2 * beta * norm_inv(phi_V_hat, Sigma) + phi_V_hat @ theta)
    return V, V_hat


def regress(Sigma_dot, b, phi, V, s, a, beta, alpha, gamma):
    """Lines 7-19 of Algorithm 1 for one family: Sigma and b after the episode."""
    M = len(b)
    theta = np.array([np.linalg.solve(Sigma_dot[m], b[m]) for m in range(M)])
    Sigma, b = Sigma_dot.copy(), b.copy()
    for h in range(len(a)):
        targets = [V[h + 1] ** (2**m) for m in range(M)]
        x = [sum(phi[s[h], a[h], i] * target[i] for i in range(len(target))) for target in targets]
        weights = home(x, theta, Sigma, Sigma_dot, beta, alpha, gamma)
        for m in range(M):
            Sigma[m] = Sigma[m] + np.outer(x[m], x[m]) / weights[m]
            b[m] = b[m] + x[m] * targets[m][s[h + 1]] / weights[m]
    return Sigma, b


def home(x, theta, Sigma, Sigma_dot, beta, alpha, gamma):
    """Algorithm 2: sigma_bar^2 [M]."""
    M = len(x)
    weights = np.zeros(M)
    for m in range(M):
        bound = 1.0
        if m < M - 1:
            Var = clip(x[m + 1] @ theta[m + 1]) - clip(x[m] @ theta[m]) ** 2
            E = clip(2 * beta * norm_inv(x[m], Sigma_dot[m]))
            bound = Var + E + clip(beta * norm_inv(x[m + 1], Sigma_dot[m + 1]))
        weights[m] = max(gamma**2 * norm_inv(x[m], Sigma[m]), bound, alpha**2)
    return weights


def clip(x):
    """x in [0, 1]."""
    return min(max(x, 0.0), 1.0)


def norm_inv(x, Sigma):
    """The norm of x by the inverse of Sigma."""
    return np.sqrt(x @ np.linalg.solve(Sigma, x))
