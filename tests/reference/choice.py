"""What a plan can lose from the first choice on, the slow way: literal loops over states, actions and pairs of them.

Also problems of which no action, or only a late one, decides anything.
"""

from itertools import combinations

import numpy as np

from horizonfree import Mixture
from tests.reference.certificates import distribution


def eps_kl(rho, k1, k2):
    """Lemma 5, at most 1."""
    pinsker = rho + np.sqrt(k1 / 2) + np.sqrt(k2 / 2)
    return min(1.0, pinsker, 2 * rho + np.sqrt(1 - np.exp(-k1 - k2)))


def eps_angle(D1, D2):
    """The angle of two affinities."""
    alpha = np.arccos(1 - D1) + np.arccos(1 - D2)
    return np.sin(alpha) if alpha < np.pi / 2 else 1.0


def do_the_same(space, row_index, R, s, a, b):
    """Whether two actions have the same successors with the same rows."""

    def slots(action):
        return sorted((int(t), int(r)) for t, r in zip(space.succ[s, action], row_index[s, action]) if r < R)

    return slots(a) == slots(b)


def largest_loss(case, i):
    """G_1 at the start, with pairs of actions taken one by one: at most the library's."""
    confidence, space, valid = case.confidences[i], case.space, case.valid
    step, stop, H = confidence.step, confidence.divergence.stop, space.horizon
    P, z = step.kernel.dense(), case.slots(confidence.ball.z)
    S, A = step.cost.shape
    R = len(valid.rows)
    h2 = hellinger(case, i)
    kappa, hit, D, G = (np.zeros(S) for _ in range(4))
    for _ in range(H - 1):
        losses = np.zeros((4, S))
        for s in range(S):
            if not space.reachable[s]:
                continue
            k, c, d, agree = np.zeros(A), np.zeros(A), np.zeros(A), np.zeros(A)
            for a in range(A):
                k[a] = 0.0 if stop[s, a] else step.cost[s, a] + P[s, a] @ kappa / (1 - step.leak[s, a])
                c[a] = 1.0 if stop[s, a] else min(1.0, step.leak[s, a] + P[s, a] @ hit)
                d[a] = min(1.0, h2[s, a] + P[s, a] @ D + np.linalg.norm(z[s, a].T @ D) / 2)
                agree[a] = min(1.0, P[s, a] @ G + np.linalg.norm(z[s, a].T @ G))
            pair = 0.0
            for a, b in combinations(range(A), 2):
                if not do_the_same(space, valid.row_of, R, s, a, b):
                    pair = max(pair, min(eps_kl(c[a] + c[b], k[a], k[b]), eps_angle(d[a], d[b])))
            without_choice = min(eps_kl(2 * c.max(), k.max(), k.max()), eps_angle(d.max(), d.max()))
            losses[:, s] = k.max(), c.max(), d.max(), min(without_choice, max(pair, agree.max()))
        kappa, hit, D, G = losses
    return float(G @ distribution(case.start, S))


def hellinger(case, i):
    """The bound of one step on 1 - affinity, with exact eigenvalues, row by row as in docs/certificates.md."""
    ball, valid = case.confidences[i].ball, case.valid
    S, A, _ = case.space.succ.shape
    bound = np.zeros((S, A))

    def eta(x):
        return (np.sqrt(1 + x) - 1) ** 2 / 2

    for s in range(S):
        for a in range(A):
            M, single = np.zeros((ball.z.shape[1],) * 2), 0.0
            for r in valid.row_of[s, a]:
                if r == len(valid.rows) or not valid.free[r] or not case.space.reachable[s]:
                    continue
                below = min(1.0, ball.below[r])
                k = 1 / (2 * (1 + np.sqrt(1 - below)) ** 2)
                row_bound = ball.p[r] * max(eta(ball.above[r]), eta(-below))
                square = k / ball.p[r] * (ball.z[r] ** 2).sum()
                if row_bound < 0.95 * square:
                    single += row_bound
                else:
                    M += k / ball.p[r] * np.outer(ball.z[r], ball.z[r])
            bound[s, a] = min(1.0, single + (np.linalg.eigvalsh(M).max() if len(M) else 0.0))
    return bound


def one_action(d=3, S=4, horizon=6, A=1):
    """An unknown mixture in which every action does the same: every policy is optimal."""
    kernels = np.random.default_rng(0).dirichlet(np.ones(S), size=(d, S, 1))
    weights = np.ones(d) / d
    return Mixture.from_kernels(np.repeat(kernels, A, axis=2), horizon=horizon, weights=weights)


def context(m=4, horizon=4):
    """An unknown context is drawn at the first step, whatever one does; then all is known."""
    S = 1 + m
    kernels = np.zeros((m, S, 2, S))
    for i in range(m):
        kernels[i, 0, :, 1 + i] = 1.0
        for s in range(1, S):
            kernels[i, s, 0, s] = 1.0
            kernels[i, s, 1, 1 + s % m] = 1.0
    return Mixture.from_kernels(kernels, horizon=horizon, weights=np.ones(m) / m)


def gate(horizon=4):
    """A context that no action influences, then a choice between a safe action and one with an unknown outcome.

    States: 0 start, 1 and 2 contexts, 3 win, 4 lose. Kernels mix the odds of the context and of the risky arm.
    """
    kernels = np.zeros((4, 5, 2, 5))
    for i in range(4):
        odds, success = (0.2, 0.8)[i % 2], (0.3, 0.7)[i // 2]
        kernels[i, 0, :, 1], kernels[i, 0, :, 2] = odds, 1 - odds
        for s in (1, 2):
            kernels[i, s, 0, s] = 1.0
            kernels[i, s, 1, 3], kernels[i, s, 1, 4] = success, 1 - success
        kernels[i, 3, :, 3] = kernels[i, 4, :, 4] = 1.0
    return Mixture.from_kernels(kernels, horizon=horizon, weights=[0.4, 0.3, 0.2, 0.1])
