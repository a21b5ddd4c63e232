"""Certificates the slow way: literal loops, exact eigenvalues, brute force, and an adversary who knows the truth.

`start` is a state, or a distribution over states.
"""

from itertools import product

import numpy as np
from scipy.optimize import linprog

from tests.reference.backward_induction import optimal


def kl(p, q):
    """KL divergence of two distributions; infinite where q is zero and p is not."""
    return max(0.0, sum(x * (np.log(x) - np.log(y)) if y > 0 else np.inf for x, y in zip(p, q) if x > 0))


def binary_kl(v, w):
    """kl(v, w) of two coins."""
    return kl(np.array([v, 1 - v]), np.array([w, 1 - w]))


def distribution(start, S):
    """Of the first state."""
    return np.eye(S)[start] if np.ndim(start) == 0 else np.asarray(start)


def policies(H, S, A):
    """Every deterministic policy [H, S]."""
    for actions in product(range(A), repeat=H * S):
        yield np.array(actions).reshape(H, S)


def trajectories(P, policy, start):
    """Every trajectory (states) of a deterministic policy with its probability."""
    paths = [((s,), p) for s, p in enumerate(distribution(start, len(P))) if p > 0]
    for rule in policy:
        paths = [
            ((*states, s), p * P[states[-1], rule[states[-1]], s])
            for states, p in paths
            for s in range(P.shape[0])
            if P[states[-1], rule[states[-1]], s] > 0
        ]
    return dict(paths)


def expected_sum(P, f, policy, start):
    """E sum_h f(s_h, a_h) over the steps of a policy."""
    mass, total = distribution(start, len(P)), 0.0
    for rule in policy:
        pairs = (np.arange(len(mass)), rule)
        total += float(mass @ f[pairs])
        mass = mass @ P[pairs]
    return total


def regret(P, reward, policy, start):
    """V* - V^pi under P."""
    V = np.zeros(P.shape[0])
    for r, rule in zip(reward[::-1], policy[::-1]):
        pairs = (np.arange(len(V)), rule)
        V = r[pairs] + P[pairs] @ V
    return float((optimal(P, reward)[1][0] - V) @ distribution(start, len(P)))


def tangent(p, z, reward, policy, start):
    """The second-order tangent recursion with loops and exact operator norms. p [S,A,S], z [S,A,S,q]."""
    (H, S, A), q = reward.shape, z.shape[-1]
    V, R, D = np.zeros(S), np.zeros(S), np.zeros(S)
    J, B = np.zeros((S, q)), np.zeros((S, q, q))

    def opnorm(M):
        return float(np.abs(np.linalg.eigvalsh(M)).max()) if q else 0.0

    for h in reversed(range(H)):
        Q, rQ = np.zeros((S, A)), np.zeros((S, A))
        gQ, bQ = np.zeros((S, A, q)), np.zeros((S, A, q, q))
        for s in range(S):
            for a in range(A):
                Q[s, a] = reward[h, s, a] + p[s, a] @ V
                gQ[s, a] = sum(z[s, a, t] * V[t] + p[s, a, t] * J[t] for t in range(S))
                zJ = sum(np.outer(z[s, a, t], J[t]) for t in range(S))
                bQ[s, a] = (zJ + zJ.T) / 2 + sum(p[s, a, t] * B[t] for t in range(S))
                cubic = sum(z[s, a, t][:, None, None] * B[t] for t in range(S))
                zR = sum(z[s, a, t] * R[t] for t in range(S))
                rQ[s, a] = np.sqrt((cubic**2).sum()) + p[s, a] @ R + np.linalg.norm(zR)
                rQ[s, a] = min(rQ[s, a], 1 + np.linalg.norm(gQ[s, a]) + np.sqrt((bQ[s, a] ** 2).sum()))
        D_next = np.zeros(S)
        for s in range(S):
            i = policy[h, s]
            for a in range(A):
                advantage = 0.0
                if a != i:
                    advantage = Q[s, a] - Q[s, i] + np.linalg.norm(gQ[s, a] - gQ[s, i])
                    advantage = min(1.0, advantage + opnorm(bQ[s, a] - bQ[s, i]) + rQ[s, a] + rQ[s, i])
                zD = sum(z[s, a, t] * D[t] for t in range(S))
                D_next[s] = max(D_next[s], advantage + min(1.0, p[s, a] @ D + np.linalg.norm(zD)))
        rows = (np.arange(S), policy[h])
        V, J, B, R, D = Q[rows], gQ[rows], bQ[rows], rQ[rows], np.minimum(D_next, 1.0)
    return float(D @ distribution(start, S))


def adversary(P_hat, P_star, support, policy, rival_policy, start):
    """The reward (total <= 1 on every possible trajectory) whose plan under P_hat is `policy`, worst under P_star.

    A linear programme: max V_star(rival) - V_star(policy) over r >= 0, V_h(s) = the policy's values under P_hat with
    Q_h(s,a) <= V_h(s) for all a, and T_h(s) >= r_h(s,a) + T_{h+1}(s') for every possible s', T_1 <= 1 at every start.
    """
    (H, S), A = policy.shape, P_hat.shape[1]
    num_r, num_V = H * S * A, (H + 1) * S

    def r(h, s, a):
        return (h * S + s) * A + a

    def V(h, s):
        return num_r + h * S + s

    def T(h, s):
        return num_r + num_V + h * S + s

    size = num_r + 2 * num_V
    objective = np.zeros(size)
    for policy_of_sign, sign in ((rival_policy, 1.0), (policy, -1.0)):
        mass = distribution(start, S)
        for h in range(H):
            for s in range(S):
                objective[r(h, s, policy_of_sign[h, s])] += sign * mass[s]
            mass = mass @ P_star[np.arange(S), policy_of_sign[h]]
    upper, equal = [], []
    for h in range(H):
        for s in range(S):
            for a in range(A):
                row = np.zeros(size)
                row[r(h, s, a)] = 1.0
                row[[V(h + 1, t) for t in range(S)]] += P_hat[s, a]
                row[V(h, s)] -= 1.0
                (equal if a == policy[h, s] else upper).append(row)
                for t in np.flatnonzero(support[s, a]):
                    row = np.zeros(size)
                    row[r(h, s, a)], row[T(h + 1, t)], row[T(h, s)] = 1.0, 1.0, -1.0
                    upper.append(row)
    bounds = [(0.0, 1.0)] * size
    for s in range(S):
        bounds[V(H, s)] = bounds[T(H, s)] = (0.0, 0.0)
        for h in range(H):
            bounds[V(h, s)] = bounds[T(h, s)] = (0.0, None)
    for s in np.flatnonzero(distribution(start, S)):
        bounds[T(0, s)] = (0.0, 1.0)
    solution = linprog(
        -objective,
        np.array(upper),
        np.zeros(len(upper)),
        np.array(equal),
        np.zeros(len(equal)),
        bounds=bounds,
    )
    return solution.x[:num_r].reshape(H, S, A)


def worst_reward(P_hat, P_star, support, reward, start, rounds=3):
    """Alternate the adversary with the true optimum, from the plan of a first reward: reward, plan, its true gap."""
    policy = optimal(P_hat, reward)[0]
    rival_policy = optimal(P_star, reward)[0]
    for _ in range(rounds):
        reward = adversary(P_hat, P_star, support, policy, rival_policy, start)
        rival_policy = optimal(P_star, reward)[0]
    return reward, policy, regret(P_star, reward, policy, start)
