"""Constrained optima from their definition: every deterministic policy, and mixtures of them.

A mixture draws a deterministic policy before the episode. What randomised policies attain, mixtures attain, and the
other way round (Kuhn 1953), so the largest value within bounds is a linear programme over the weights of a mixture.
"""

import itertools

import numpy as np
from scipy.optimize import linprog


def totals(P, initial, tables, allowed):
    """Expected totals [tables, policies] of every deterministic policy, from P [S, A, S]."""
    H, S = tables.shape[1:3]
    choices = [np.flatnonzero(allowed[s]) for _ in range(H) for s in range(S)]
    policies = np.array(list(itertools.product(*choices))).reshape(-1, H, S)
    sums = np.zeros((len(tables), len(policies)))
    for i, table in enumerate(tables):
        V, s = np.zeros((len(policies), S)), np.arange(S)
        for h in reversed(range(H)):
            a = policies[:, h]
            V = table[h][s, a] + np.einsum("nst,nt->ns", P[s, a], V)
        sums[i] = V @ initial
    return sums


def best(rewards, costs, limits):
    """The largest mean of rewards [N] with means of costs [m, N] within limits; None where there is none."""
    total_weight = np.ones((1, len(rewards)))
    for method in (
        "highs",
        "highs-ipm",
    ):  # the first may stop at bounds that are met within its tolerance only
        solution = linprog(-rewards, A_ub=costs, b_ub=limits, A_eq=total_weight, b_eq=[1.0], method=method)
        if solution.status in (0, 2):
            return None if solution.status == 2 else -solution.fun
    raise AssertionError(f"neither solved nor infeasible: {solution.message}")


def least_excess(costs, limits):
    """The smallest max_i (mean of costs_i - limits_i)."""
    m, N = costs.shape
    solution = linprog(
        np.append(np.zeros(N), 1.0),
        A_ub=np.hstack([costs, -np.ones((m, 1))]),
        b_ub=limits,
        A_eq=np.append(np.ones(N), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * N + [(None, None)],
        method="highs",
    )
    return solution.fun
