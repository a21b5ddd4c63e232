"""A claim of HF-UCRL-RFE++ under attack by systems of any size: 4 T alone, or the likelihood ratio alone.

Two policies, a reward and theta_star are improved in turn: the reward by a linear programme in which the plan stays
optimal in theta, the rival as the best policy in theta_star, theta_star along the derivative of what is lost, as far as
the ellipsoid ||theta_star - theta|| <= 2 (beta = 1) and the weights go. What is found is really lost.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

import horizonfree as hf
from horizonfree import oracle
from horizonfree._x64 import to_device
from horizonfree.oracle.variance import variance_bound


class System(NamedTuple):
    """Kernels [d, S, A, S], weights of theta, and a root of the covariance."""

    kernels: np.ndarray
    weights: np.ndarray
    root: np.ndarray


def random_system(rng, d, S, A, successors):
    """A random system; each pair has `successors` successors."""
    kernels = np.zeros((d, S, A, S))
    for s in range(S):
        for a in range(A):
            targets = rng.choice(S, successors, replace=False)
            kernels[:, s, a, targets] = rng.dirichlet(np.full(successors, 0.4), d)
    root = 10 ** rng.uniform(0.5, 2.5) * rng.normal(size=(d, d)) * 10 ** rng.uniform(-1, 1, d)
    return System(kernels, rng.dirichlet(np.ones(d) * 2), root)


def fork_system(rng, d, S, A, successors):
    """As `drawn`, but at the start two actions lead to either of two states, in opposite ways."""
    kernels, weights, root = random_system(rng, d, S, A, successors)
    good_row, bad_row = np.eye(S)[1], np.eye(S)[2]
    share = rng.random(d)[:, None]
    kernels[:, 0, 0] = share * good_row + (1 - share) * bad_row
    kernels[:, 0, 1] = (1 - share) * good_row + share * bad_row
    if rng.random() < 0.5:
        kernels[:, 1:3] = np.eye(S)[1:3, None]
    return System(kernels, weights, root)


def perturb(rng, system, size):
    """Near another one."""
    kernels, weights, root = system
    if rng.random() < 0.7:
        kernels = np.where(kernels > 0, kernels * np.exp(size * rng.normal(size=kernels.shape)), 0)
        kernels = kernels / kernels.sum(-1, keepdims=True)
    if rng.random() < 0.5:
        weights = weights * np.exp(size * rng.normal(size=weights.shape))
        weights = weights / weights.sum()
    if rng.random() < 0.7:
        root = root * np.exp(size * rng.normal()) + 0.3 * size * np.abs(root).max() * rng.normal(
            size=root.shape
        )
    return System(kernels, weights, root)


def four_T(prepared):
    """4 T at beta = 1."""
    return 4 * variance_bound(prepared, 1.0)


def bound(system, horizon, claimed=four_T):
    """What is claimed of a prepared problem, and the covariance in weights; their sum is known."""
    kernels, weights, root = system
    problem = hf.Mixture.from_kernels(kernels, horizon=horizon, weights=weights)
    d = len(weights)
    unit = [problem.model.parameter(e, "a weight") for e in np.eye(d)]
    to_theta = np.array(unit).T
    Sigma = root @ root.T + 1e-6 * np.eye(d) + 1e4 * np.abs(root).max() ** 2
    inv = to_theta @ np.linalg.inv(Sigma) @ to_theta.T  # the norm of a change of weights is that of Sigma
    prepared_model = oracle.prepare(*to_device((problem.model, problem.truth, inv, inv)))
    return claimed(prepared_model), Sigma


def solve(P, reward):
    """V, Q [H, S, A] and the best policy [H, S]."""
    H, S, A = reward.shape
    V, Q = np.zeros((H + 1, S)), np.zeros((H, S, A))
    for h in reversed(range(H)):
        Q[h] = reward[h] + P @ V[h + 1]
        V[h] = Q[h].max(-1)
    return V, Q, Q.argmax(-1)


def values(P, policy, reward):
    """V [H+1, S] of a policy, and the occupancy [H, S]."""
    H, S, _ = reward.shape
    states = np.arange(S)
    V = np.zeros((H + 1, S))
    for h in reversed(range(H)):
        V[h] = reward[h, states, policy[h]] + P[states, policy[h]] @ V[h + 1]
    return V


def occupancy(P, policy, start=0):
    """[H, S, A]."""
    H, S = policy.shape
    table, state = np.zeros((H, S, P.shape[1])), np.eye(S)[start]
    for h in range(H):
        table[h, np.arange(S), policy[h]] = state
        state = state @ P[np.arange(S), policy[h]]
    return table


class Programme:
    """The worst reward for two policies, in which one is optimal in P. Variables r, V of P, and M: no path above 1."""

    def __init__(self, P, support, H):
        S, A, _ = P.shape
        n, m = H * S * A, H * S
        rows, columns, entries, line = [], [], [], 0

        def put(column, entry):
            rows.append(line)
            columns.append(column)
            entries.append(entry)

        for h in range(H):
            for s in range(S):
                for a in range(A):
                    r = (h * S + s) * A + a
                    put(r, 1.0)  # r + P V_{h+1} <= V_h
                    put(n + h * S + s, -1.0)
                    if h < H - 1:
                        for successor in np.flatnonzero(P[s, a] > 0):
                            put(n + (h + 1) * S + successor, P[s, a, successor])
                    line += 1
                    for successor in np.flatnonzero(support[s, a]):
                        put(r, 1.0)  # r + M_{h+1}(s') <= M_h
                        put(n + m + h * S + s, -1.0)
                        if h < H - 1:
                            put(n + m + (h + 1) * S + successor, 1.0)
                        line += 1
        self.A_ub = coo_matrix((entries, (rows, columns)), shape=(line, n + 2 * m)).tocsr()
        self.b_ub, self.n, self.m, self.P, self.shape = np.zeros(line), n, m, P, (H, S, A)

    def worst(self, P_star, plan, rival_policy):
        """The reward in which the plan, optimal in P, loses most to the rival in P_star."""
        n, m = self.n, self.m
        c = np.zeros(n + 2 * m)
        c[:n] = (occupancy(P_star, plan) - occupancy(P_star, rival_policy)).ravel()
        optimal = np.zeros((1, n + 2 * m))
        optimal[0, :n] = -occupancy(self.P, plan).ravel()
        optimal[0, n] = 1.0  # V_1(s_1) is what the plan earns in P
        bounds = [(0, 1)] * n + [(0, 1)] * (2 * m)
        solution = linprog(c, self.A_ub, self.b_ub, optimal, [0.0], bounds=bounds, method="highs")
        return None if solution.x is None else solution.x[:n].reshape(self.shape)


def worst_loss(rng, system, Sigma, horizon, starts=2, rounds=4):
    """The largest loss found of a plan that is optimal in theta."""
    kernels, weights, _ = system
    P = np.einsum("d,dsat->sat", weights, kernels)
    support = (kernels > 0).any(0)
    programme, inv, worst = Programme(P, support, horizon), np.linalg.inv(Sigma), 0.0
    S, A = P.shape[:2]
    for _ in range(starts):
        star = move_weights(weights, Sigma, inv, rng.normal(size=len(weights)))
        P_star = np.einsum("d,dsat->sat", star, kernels)
        reward = np.zeros((horizon, S, A))
        reward[rng.integers(horizon)] = rng.random((S, A)) < 0.5
        plan, rival_policy = solve(P, reward)[2], solve(P_star, reward)[2]
        if (plan == rival_policy).all():
            rival_policy = rng.integers(0, A, plan.shape)
        for _ in range(rounds):
            candidate = programme.worst(P_star, plan, rival_policy)
            if candidate is None:
                break
            rival_policy = solve(P_star, candidate)[2]
            loss = values(P_star, rival_policy, candidate)[0, 0] - values(P_star, plan, candidate)[0, 0]
            worst = max(worst, loss)
            V = [values(P_star, x, candidate) for x in (rival_policy, plan)]
            weight = [occupancy(P_star, x) for x in (rival_policy, plan)]
            slope = sum(
                sign * np.einsum("hsa,dsat,ht->d", w, kernels, v[1:])
                for sign, w, v in zip((1, -1), weight, V)
            )
            star = move_weights(weights, Sigma, inv, slope)
            P_star = np.einsum("d,dsat->sat", star, kernels)
            rival_policy = solve(P_star, candidate)[2]
            worst = max(
                worst, values(P_star, rival_policy, candidate)[0, 0] - values(P_star, plan, candidate)[0, 0]
            )
    return worst


def worst_of_two(rng, programme, P_star, rounds=4):
    """The largest loss found in P_star of a plan that is optimal in P; rewards and rivals in turn."""
    H, S, A = programme.shape
    worst = 0.0
    reward = np.zeros((H, S, A))
    reward[rng.integers(H)] = rng.random((S, A)) < 0.5
    plan, rival_policy = solve(programme.P, reward)[2], solve(P_star, reward)[2]
    if (plan == rival_policy).all():
        rival_policy = rng.integers(0, A, plan.shape)
    for _ in range(rounds):
        candidate = programme.worst(P_star, plan, rival_policy)
        if candidate is None:
            break
        rival_policy = solve(P_star, candidate)[2]
        worst = max(
            worst, values(P_star, rival_policy, candidate)[0, 0] - values(P_star, plan, candidate)[0, 0]
        )
    return worst


def move_weights(weights, Sigma, inv, slope):
    """As far along the slope as the ellipsoid and the simplex go; the weights keep their sum."""
    shift = inv @ np.ones(len(weights))
    direction = inv @ slope
    direction = direction - shift * direction.sum() / shift.sum()
    size = np.sqrt(max(direction @ Sigma @ direction, 1e-300))
    step = 2 * direction / size
    shortest = min([1.0, *(-w / x for w, x in zip(weights, step) if x < 0)])
    return weights + shortest * step


def ratio(rng, system, horizon, claimed=four_T):
    """The share of the claim that is really lost; 0 where nothing is claimed."""
    claim, Sigma = bound(system, horizon, claimed)
    if claim >= 1:
        return 0.0
    return worst_loss(rng, system, Sigma, horizon) / claim
