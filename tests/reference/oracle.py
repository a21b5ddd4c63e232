"""Vhat of HF-UCRL-RFE++ (arXiv 2303.10165, section 4), written out step by step."""

import numpy as np


def pseudo_values(phi, theta, Sigma_tilde, Sigma_hat, beta, policy, reward):
    """V [..., H+1, S], Vhat [..., H+1, S] and Vhat before its cap [..., H, S], for full features phi [S, A, S, d].

    Of one policy and reward [H, S], or of many: axes before these are broadcast. Covariances are given, not their
    inverses: norms are taken by solving.
    """
    policy, reward = np.broadcast_arrays(policy, reward)
    *batch, H, S = reward.shape
    V, V_hat, raw = (np.zeros((*batch, steps, S)) for steps in (H + 1, H + 1, H))
    for h in reversed(range(H)):
        x = phi[np.arange(S), policy[..., h, :]]  # [..., S, S, d]
        phi_V, phi_V_hat = (np.einsum("...snd,...n->...sd", x, f[..., h + 1, :]) for f in (V, V_hat))
        V[..., h, :] = np.clip(reward[..., h, :] + phi_V @ theta, 0, 1)
        u = np.minimum(1, beta * _norm(Sigma_tilde, phi_V))
        bonus = 2 * beta * _norm(Sigma_hat, phi_V_hat)
        raw[..., h, :] = np.maximum(u + bonus + phi_V_hat @ theta, 0)
        V_hat[..., h, :] = np.minimum(raw[..., h, :], 1)
    return V, V_hat, raw


def _norm(Sigma, x):
    """sqrt(x' Sigma^-1 x)."""
    return np.sqrt((x * np.linalg.solve(Sigma, x[..., None])[..., 0]).sum(-1))


def true_pseudo_values(phi, theta, theta_star, Sigma_tilde, beta, policy, reward):
    """Vbar [H+1, S], the true kernel in place of the hat term: Vbar_h = min(1, u_h + P_star Vbar_{h+1})."""
    H, S = reward.shape
    V, V_bar = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        x = phi[np.arange(S), policy[h]]
        phi_V = np.einsum("snd,n->sd", x, V[h + 1])
        V[h] = np.clip(reward[h] + phi_V @ theta, 0, 1)
        u = np.minimum(1, beta * _norm(Sigma_tilde, phi_V))
        V_bar[h] = np.minimum(1, u + x @ theta_star @ V_bar[h + 1])
    return V_bar


def policy_value(P, policy, reward):
    """V [H+1, S] of a policy under a kernel P [S, A, S]."""
    H, S = reward.shape
    V = np.zeros((H + 1, S))
    for h in reversed(range(H)):
        V[h] = reward[h] + P[np.arange(S), policy[h]] @ V[h + 1]
    return V
