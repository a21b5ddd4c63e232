"""HF-UCRL-VTR+ and UCRL-VTR, optimistic planning for one reward, in plain NumPy."""

import numpy as np


def optimistic(phi, theta, Sigma, beta, reward):
    """Q_h = [r_h + <theta, phi_V> + beta ||phi_V||]_{[0,1]} for phi [S, A, S, d]; V [H+1, S] and the greedy policy."""
    H, S, A = reward.shape
    V, policy = np.zeros((H + 1, S)), np.zeros((H, S), int)
    for h in reversed(range(H)):
        for s in range(S):
            Q = np.zeros(A)
            for a in range(A):
                x = sum(phi[s, a, s_next] * V[h + 1, s_next] for s_next in range(S))
                bonus = beta * np.sqrt(x @ np.linalg.solve(Sigma, x))
                Q[a] = min(max(reward[h, s, a] + x @ theta + bonus, 0), 1)
            V[h, s], policy[h, s] = Q.max(), Q.argmax()
    return V, policy
