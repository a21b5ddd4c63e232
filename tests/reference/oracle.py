"""Vhat of HF-UCRL-RFE++ (arXiv 2303.10165, section 4), written out state by state. Slow on purpose."""

import numpy as np


def pseudo_values(phi, theta, Sigma_tilde, Sigma_hat, beta, policy, reward):
    """V [H+1, S], Vhat [H+1, S] and Vhat before its cap [H, S], for full features phi [S, A, S, d] and reward [H, S].

    Covariances are given, not their inverses: norms are taken by solving.
    """
    H, S = reward.shape
    V, V_hat, raw = np.zeros((H + 1, S)), np.zeros((H + 1, S)), np.zeros((H, S))
    for h in reversed(range(H)):
        for s in range(S):
            x = phi[s, policy[h, s]]  # [S, d]
            phi_V = sum(x[s_next] * V[h + 1, s_next] for s_next in range(S))
            phi_V_hat = sum(x[s_next] * V_hat[h + 1, s_next] for s_next in range(S))
            V[h, s] = min(max(reward[h, s] + phi_V @ theta, 0), 1)
            u = min(1, beta * np.sqrt(phi_V @ np.linalg.solve(Sigma_tilde, phi_V)))
            bonus = 2 * beta * np.sqrt(phi_V_hat @ np.linalg.solve(Sigma_hat, phi_V_hat))
            raw[h, s] = max(u + bonus + phi_V_hat @ theta, 0)
            V_hat[h, s] = min(raw[h, s], 1)
    return V, V_hat, raw


def true_pseudo_values(phi, theta, theta_star, Sigma_tilde, beta, policy, reward):
    """Vbar [H+1, S], the true kernel in place of the hat term: Vbar_h = min(1, u_h + P_star Vbar_{h+1})."""
    H, S = reward.shape
    V, V_bar = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            x = phi[s, policy[h, s]]
            phi_V = V[h + 1] @ x
            V[h, s] = min(max(reward[h, s] + phi_V @ theta, 0), 1)
            u = min(1, beta * np.sqrt(phi_V @ np.linalg.solve(Sigma_tilde, phi_V)))
            V_bar[h, s] = min(1, u + V_bar[h + 1] @ (x @ theta_star))
    return V_bar


def policy_value(P, policy, reward):
    """V [H+1, S] of a policy under a kernel P [S, A, S]."""
    H, S = reward.shape
    V = np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            V[h, s] = reward[h, s] + P[s, policy[h, s]] @ V[h + 1]
    return V
