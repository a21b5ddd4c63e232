"""Backward induction, evaluation and visits as plain loops over the full table P [S, A, S]."""

import numpy as np


def optimal(P, reward):
    """(policy [H, S], V [H+1, S]); the first action of largest value."""
    H, S, A = reward.shape
    policy, V = np.zeros((H, S), int), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            Q = [reward[h, s, a] + float(np.dot(P[s, a], V[h + 1])) for a in range(A)]
            policy[h, s] = Q.index(max(Q))
            V[h, s] = max(Q)
    return policy, V


def evaluate(P, reward, policy):
    """V [H+1, S] of action probabilities [H, S, A]."""
    H, S, A = reward.shape
    V = np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            V[h, s] = sum(
                policy[h, s, a] * (reward[h, s, a] + float(np.dot(P[s, a], V[h + 1]))) for a in range(A)
            )
    return V


def visits(P, policy, start):
    """d [H, S, A] of action probabilities [H, S, A]."""
    H, S, A = policy.shape
    d, mass = np.zeros((H, S, A)), np.zeros(S)
    mass[start] = 1.0
    for h in range(H):
        following = np.zeros(S)
        for s in range(S):
            for a in range(A):
                d[h, s, a] = mass[s] * policy[h, s, a]
                following += d[h, s, a] * P[s, a]
        mass = following
    return d
