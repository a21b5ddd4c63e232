"""EULER (arXiv 1901.00210) as Jin et al. 2020 (arXiv 2002.02794) use it, and their planners, in plain NumPy loops.

Nothing is shared with the library. `counts` is a Counts of tests/reference/rf_ucrl.py; steps count from 0. The slips
that jin2020.py lists are corrected: L = ln(4SAT/delta'), cap H-t+1, the reward of the action itself.
"""

import numpy as np


def bonus(p, V, upper, lo, n, L, R):
    """b of the greedy line: phi(p, V) + (1/sqrt n)((4J + B_p)/sqrt n + B_v ||up - lo||_{2,p})."""
    mean = sum(p[x] * V[x] for x in range(len(p)))
    variance = sum(p[x] * (V[x] - mean) ** 2 for x in range(len(p)))
    phi = np.sqrt(2 * variance * L / n) + R * L / (3 * (n - 1))
    J, B_p, B_v = R * L / 3, R * np.sqrt(2 * L), np.sqrt(2 * L)
    norm = np.sqrt(sum(p[x] * (upper[x] - lo[x]) ** 2 for x in range(len(p))))
    return phi + (1 / np.sqrt(n)) * ((4 * J + B_p) / np.sqrt(n) + B_v * norm)


def euler(counts, goal, N0, delta, is_faithful, scale=1.0, policy=None):
    """Q [H, S, A] and the bounds up, lo [H + 1, S]; goal: (h, s). lo is that of the given actions, or of the best."""
    H, S, A, _ = counts.N.shape
    L = np.log(4 * (S if counts.pooled else S * H) * A * (N0 * H) / (delta / 7))
    R = H if is_faithful else 1
    Q, upper, lo = np.zeros((H, S, A)), np.zeros((H + 1, S)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            lower = np.zeros(A)
            r = float((h, s) == goal)
            for a in range(A):
                n, _ = counts.of(h, s, a)
                p = counts.p_hat(h, s, a)
                if not is_faithful and h >= goal[0]:
                    Q[h, s, a] = lower[a] = r
                elif n < 2:
                    Q[h, s, a] = H - h if is_faithful else 1
                else:
                    args = upper[h + 1], lo[h + 1], n, L, R
                    bound = r + p @ upper[h + 1] + scale * bonus(p, upper[h + 1], *args)
                    Q[h, s, a] = min(H - h if is_faithful else 1, bound)
                    lower[a] = max(0.0, r + p @ lo[h + 1] - scale * bonus(p, lo[h + 1], *args))
            upper[h, s] = Q[h, s].max()
            lo[h, s] = lower[Q[h, s].argmax() if policy is None else policy[h, s]]
    return Q, upper, lo


def q_values(P, reward, pi):
    """Q of action probabilities in tables P [H, S, A, S]."""
    H, S, A = reward.shape
    Q, V = np.zeros((H, S, A)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                Q[h, s, a] = reward[h, s, a] + P[h, s, a] @ V[h + 1]
            V[h, s] = pi[h, s] @ Q[h, s]
    return Q


def natural_policy_gradient(P, reward, eta, T):
    """pi_h(a|s) <- pi_h(a|s) exp(eta Q_h(s,a)), normalised."""
    pi = np.full(reward.shape, 1 / reward.shape[2])
    for _ in range(T):
        pi = pi * np.exp(eta * q_values(P, reward, pi))
        pi = pi / pi.sum(-1, keepdims=True)
    return pi


def policy_iteration(P, reward, T):
    """From the even policy on: the best action of Q^pi, T times."""
    pi = np.full(reward.shape, 1 / reward.shape[2])
    for _ in range(T):
        pi = np.eye(reward.shape[2])[q_values(P, reward, pi).argmax(-1)]
    return pi


def visits(P, pi, start):
    """P^pi_h(s,a) [H, S, A]."""
    H, S, A, _ = P.shape
    d, mass = np.zeros((H, S, A)), np.eye(S)[start]
    for h in range(H):
        d[h] = mass[:, None] * pi[h]
        mass = np.einsum("sa,san->n", d[h], P[h])
    return d


def most_reach(P, h, s, start):
    """max over policies of P^pi_h(s)."""
    V = np.eye(P.shape[1])[s]
    for t in reversed(range(h)):
        V = (P[t] @ V).max(-1)
    return V[start]
