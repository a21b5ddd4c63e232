"""The claim of HF-UCRL-RFE++ under attack: small systems, every policy, the worst reward, the worst theta in its balls.

A plan that is optimal in theta_k loses 4 min(U, T) at most in theta_star, wherever theta_star is within 2 beta of
theta_k in both norms. Two parameters, so that theta_star is on a line, whose ends are tried; beta = 1.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

import horizonfree as hf
from horizonfree import oracle
from horizonfree._x64 import to_device
from horizonfree.oracle.variance import variance_bound


class Attack(NamedTuple):
    """A system: two kernels [2, S, A, S], the weight of the second, and roots of both covariances."""

    kernels: np.ndarray
    weight: float
    tilde: np.ndarray
    hat: np.ndarray


def random_attack(rng, S=3, A=2):
    kernels = rng.dirichlet(np.full(S, 0.5), (2, S, A))
    return Attack(kernels, rng.uniform(0.2, 0.8), *10 ** rng.uniform(0.5, 2) * rng.normal(size=(2, 2, 2)))


def perturb(rng, attack, size):
    """Near another one."""
    logits = np.log(attack.kernels + 1e-6) + size * rng.normal(size=attack.kernels.shape) * (
        rng.random() < 0.7
    )
    kernels = np.exp(logits)
    kernels /= kernels.sum(-1, keepdims=True)
    weight = float(np.clip(attack.weight + 0.1 * size * rng.normal(), 0.01, 0.99))
    scale = np.exp(size * rng.normal(size=2) * (rng.random() < 0.7))
    tilde, hat = (
        s * x + 0.3 * size * rng.normal(size=(2, 2)) * np.abs(x).max() for s, x in zip(scale, attack[2:])
    )
    return Attack(kernels, weight, tilde, hat)


def four_U_or_T(prepared):
    """4 min(U, T) from state 0, at beta = 1."""
    return 4 * min(float(oracle.relaxed(prepared, 1.0)[1][0, 0]), variance_bound(prepared, 1.0))


def prepared_and_laws(attack, horizon):
    """The oracle's problem, and the kernels of theta_k and of the ends of the line on which theta_star is."""
    w = np.array([1 - attack.weight, attack.weight])
    problem = hf.Mixture.from_kernels(attack.kernels, horizon=horizon, weights=w)
    direction = problem.model.parameter(np.array([0.0, 1.0]), "second") - problem.model.parameter(
        np.array([1.0, 0.0]), "first"
    )
    Sigma = [x @ x.T + 1e-6 * np.eye(2) for x in attack[2:]]
    prepared = oracle.prepare(*to_device((problem.model, problem.truth, *map(np.linalg.inv, Sigma))))
    reach = min(2 / np.sqrt(direction @ x @ direction) for x in Sigma)
    ends = [np.clip(attack.weight + sign * reach, 0, 1) for sign in (-1, 1)]
    laws = [(1 - x) * attack.kernels[0] + x * attack.kernels[1] for x in (attack.weight, *ends)]
    return prepared, laws


def occupancies(P, H):
    """Of every deterministic policy, [policies, H * S * A]; the action of the last step is left to the reward: 0."""
    S, A = P.shape[:2]
    rows = []
    for actions in product(range(A), repeat=1 + S * (H - 2)):
        policy = np.zeros((H, S), int)
        policy[0, 0] = actions[0]
        policy[1 : H - 1] = np.reshape(actions[1:], (H - 2, S))
        table, state = np.zeros((H, S, A)), np.eye(S)[0]
        for h in range(H):
            table[h, np.arange(S), policy[h]] = state
            state = state @ P[np.arange(S), policy[h]]
        rows.append(table.ravel())
    return np.array(rows)


def worst_loss(laws, H):
    """The largest loss in the second kernel of a plan that is optimal in the first, by linear programmes in the reward.

    Of two policies, good in one and as good as any in the other: those that are judged most differently to begin with,
    then the best for the reward found. What is found is attained, so a lower bound of the worst.
    """
    P, P_star = laws
    S, A = P.shape[:2]
    estimated, real = occupancies(P, H), occupancies(P_star, H)
    total, least = _totals(H, S, A)
    n, worst = H * S * A, 0.0
    difference = real - estimated
    pairs = [
        (difference[:, i].argmax(), difference[:, i].argmin())
        for i in np.flatnonzero(np.abs(difference).max(0) > 0)
    ]
    pairs = sorted(set(pairs), key=lambda x: -np.abs(difference[x[0]] - difference[x[1]]).sum())[:3]
    for rival_policy, plan in pairs:
        for _ in range(3):
            # the plan is as good as any policy in P
            rivals = np.pad(estimated - estimated[plan], ((0, 0), (0, total.shape[1] - n)))
            solution = linprog(
                np.pad(real[plan] - real[rival_policy], (0, total.shape[1] - n)),
                A_ub=np.vstack([total, rivals]),
                b_ub=np.append(least, np.zeros(len(rivals))),
            )
            worst = max(worst, -solution.fun)
            best = int((real @ solution.x[:n]).argmax())
            if best == rival_policy:
                break
            rival_policy = best
    return worst


def _totals(H, S, A):
    """r_h(s,a) + M_{h+1}(s') <= M_h(s), M_1 <= 1, M_{H+1} = 0: no path collects more than 1. Variables r, then M."""
    rows, n = [], H * S * A
    for h, s, a, successor in product(range(H), range(S), range(A), range(S)):
        row = np.zeros(n + H * S)
        row[(h * S + s) * A + a] = 1
        row[n + h * S + s] = -1
        if h < H - 1:
            row[n + (h + 1) * S + successor] = 1
        rows.append(row)
    start = np.zeros(n + H * S)
    start[n] = 1
    return np.array([*rows, start]), np.append(np.zeros(len(rows)), 1.0)


def ratio(attack, horizon, claimed=four_U_or_T):
    """The share of the claim that is really lost; 0 where nothing is claimed."""
    prepared, (P, *ends) = prepared_and_laws(attack, horizon)
    claim = claimed(prepared)
    if claim >= 1:
        return 0.0
    return max(worst_loss((P, end), horizon) for end in ends) / claim
