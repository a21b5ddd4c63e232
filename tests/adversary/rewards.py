"""Rewards that make a plan lose as much as possible: linear programmes over rewards of total at most 1."""

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from horizonfree import testing


def occupancies(P, policy, start):
    """P(s_h = s, a_h = a) [H, S, A] of a deterministic policy [H, S]."""
    H, S = policy.shape
    occupancy, mu = np.zeros((H, S, P.shape[1])), start
    for h in range(H):
        occupancy[h, np.arange(S), policy[h]] = mu
        mu = np.einsum("sa,sat->t", occupancy[h], P)
    return occupancy


def worst_reward(P, estimate, support, start, other_policy, plan):
    """The reward of total at most 1 that maximises V^rival_P - V^plan_P, where the plan is optimal in the estimate.

    Variables: r [H, S, A] >= 0, T [H, S] >= 0 the largest total from (h, s) on, W [H, S] the plan's values in the
    estimate. Returns the reward and the difference, or None where the solver fails.
    """
    H, S = plan.shape
    A = P.shape[1]
    nr, nv = H * S * A, H * S
    r = np.arange(nr).reshape(H, S, A)
    T, W = nr + np.arange(nv).reshape(H, S), nr + nv + np.arange(nv).reshape(H, S)
    rows, cols, data, count = [], [], [], 0
    equal_rows, equal_cols, equal_data, equal = [], [], [], 0
    for h, s, a in np.ndindex(H, S, A):
        successors = np.flatnonzero(support[s, a]) if h + 1 < H else [None]
        for t in successors:  # r + T' - T <= 0
            entries = [(r[h, s, a], 1.0), (T[h, s], -1.0)] + ([] if t is None else [(T[h + 1, t], 1.0)])
            for col, x in entries:
                rows.append(count), cols.append(col), data.append(x)
            count += 1
        entries = [(r[h, s, a], 1.0), (W[h, s], -1.0)]
        entries += [(W[h + 1, t], estimate[s, a, t]) for t in range(S)] if h + 1 < H else []
        if plan[h, s] == a:
            for col, x in entries:
                equal_rows.append(equal), equal_cols.append(col), equal_data.append(x)
            equal += 1
        else:
            for col, x in entries:
                rows.append(count), cols.append(col), data.append(x)
            count += 1
    n = nr + 2 * nv
    above = coo_array((data, (rows, cols)), (count, n)).tocsr()
    equal_matrix = coo_array((equal_data, (equal_rows, equal_cols)), (equal, n)).tocsr()
    gain = np.zeros(n)
    gain[:nr] = (occupancies(P, other_policy, start) - occupancies(P, plan, start)).ravel()
    high = np.full(n, np.inf)
    high[T[0][start > 0]] = 1.0
    low = np.where(np.arange(n) < nr + nv, 0.0, -np.inf)
    solved = linprog(
        -gain, above, np.zeros(count), equal_matrix, np.zeros(equal), np.stack([low, high], axis=1)
    )
    if solved.status != 0:
        return None
    return np.maximum(solved.x[:nr].reshape(H, S, A), 0.0), -solved.fun


def prefer(reward, plan):
    """The same reward with a little more for the plan's actions, so that no other plan is as good; total at most 1."""
    H, S = plan.shape
    bonus = np.zeros(reward.shape)
    bonus[np.arange(H)[:, None], np.arange(S), plan] = 1.0 / H
    return (reward + 1e-6 * bonus) * (1 - 2e-6)


def search(problem, kernels, estimate, rng, tries=6, rounds=3):
    """Rewards with large losses of the estimate's plan over these kernels, by alternating linear programmes."""
    support = np.zeros((problem.num_states, problem.num_actions, problem.num_states), bool)
    space = problem.space
    for s, a, j in np.argwhere(np.asarray(space.support)):
        support[s, a, space.succ[s, a, j]] = True
    task = testing.task_of(problem, np.zeros(problem.num_states))
    tasks = []
    for _ in range(tries):
        P = kernels[rng.integers(len(kernels))]
        reward = testing.random_reward(problem, rng)
        candidate = task._replace(reward=reward)
        rival_policy = testing.optimal_policy(P, candidate)
        is_random = rng.random() < 0.5
        plan = (
            testing.random_policy(problem, rng, is_stochastic=False)
            if is_random
            else testing.optimal_policy(estimate, candidate)
        )
        best = None
        for _ in range(rounds):
            solved = worst_reward(P, estimate, support, task.start, rival_policy, plan)
            if solved is None or solved[1] <= 1e-9:
                break
            best = prefer(solved[0], plan)
            candidate = task._replace(reward=best)
            losses = testing.optimal_values(kernels, candidate) - testing.policy_values(
                kernels, candidate, plan
            )
            P = kernels[losses.argmax()]
            rival_policy = testing.optimal_policy(P, candidate)
        if best is not None:
            tasks.append(best)
    return tasks
