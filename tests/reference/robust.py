"""Certificates for a class that is a little wrong, literally and slowly: laws in a ball, worst systems, bounds."""

import numpy as np


def psi(x):
    return x - np.log1p(x)


def worst_mean(p, f, zeta, allowed=None):
    """max of Q f over laws Q within zeta of p in total variation, by moving mass to where f is largest."""
    allowed = p > 0 if allowed is None else allowed
    Q, budget = p.copy(), zeta
    best = int(np.where(allowed, f, -np.inf).argmax())
    for i in np.argsort(f):
        mass = min(budget, Q[i]) if i != best else 0.0
        Q[i] -= mass
        Q[best] += mass
        budget -= mass
    return float(Q @ f), Q


def worst_mean_by_divergence(p, f, eps):
    """max of Q f over laws Q with KL(p || Q) <= eps: Q = p/(nu - f) made a law, by halving nu; p > 0 everywhere."""
    inner, outer = 0.0, 1e9
    for _ in range(200):
        ahead = np.sqrt(inner * outer) if inner else outer / 2**20
        Q = p / (f.max() + ahead - f)
        Q /= Q.sum()
        inner, outer = (ahead, outer) if p @ np.log(p / Q) > eps else (inner, ahead)
        if inner == 0 and outer < 1e-12:
            break
    return float(Q @ f), Q


def history_gap(P, reward, policy, zeta, start, *, is_anywhere=False):
    """The largest V* - V^pi over systems whose laws, with memory, are within zeta of P [S, A, S]: exact.

    Where the best policy takes the plan's action both see the same law; after another action the laws of the two have
    nothing to do with each other, so that one is as good and the other as bad as can be.
    """
    H, S, A = reward.shape
    upper, low, gap = np.zeros(S), np.zeros(S), np.zeros(S)

    def largest_mean(s, a, f):
        return worst_mean(P[s, a], f, zeta[s, a], np.ones(S, bool) if is_anywhere else None)[0]

    for h in reversed(range(H)):
        new = np.zeros((3, S))
        for s in range(S):
            pi = policy[h, s]
            best = [reward[h, s, a] + largest_mean(s, a, upper) for a in range(A)]
            value = reward[h, s, pi] - largest_mean(s, pi, -low)
            advantage = max([best[a] - value for a in range(A) if a != pi], default=0.0)
            new[:, s] = max(best), value, max(largest_mean(s, pi, gap), advantage)
        upper, low, gap = new
    return float(gap @ start)


def best_plan(P, reward):
    """Actions [H, S] that are best in P; the first of equals."""
    H, S, _ = reward.shape
    V, plan = np.zeros(S), np.zeros((H, S), int)
    for h in reversed(range(H)):
        Q = reward[h] + P @ V
        plan[h], V = Q.argmax(-1), Q.max(-1)
    return plan


def total_one(P, reward):
    """A reward in units in which the best path from anywhere at the first step collects 1."""
    M = np.zeros(len(P))
    for r in reward[::-1]:
        M = (r + np.where(P > 0, M, -np.inf).max(-1)).max(-1)
    return reward / max(M.max(), 1e-12)


def worst_reward(P, estimate, zeta, start, rng, tries):
    """What the plan of `estimate` loses at worst in systems with memory near P, for the worst reward that is found.

    Climbs from a goal at a random step, by noise on a few entries, to where `history_gap` is larger.
    """
    S, A = P.shape[:2]
    reward = np.zeros((*tries[1:], S, A))
    reward[rng.integers(1, len(reward)), rng.integers(S)] = 1.0

    def loss(r):
        return history_gap(P, r, best_plan(estimate, r), zeta, start)

    largest, size = loss(reward), 1.0
    for _ in range(tries[0]):
        change = size * rng.normal(size=reward.shape) * (rng.random(reward.shape) < 0.2)
        other = total_one(P, np.maximum(reward + change, 0.0))
        candidate = loss(other)
        size = max(0.02, size * (1.3 if candidate > largest else 0.97))
        if candidate > largest:
            largest, reward = candidate, other
    return largest


def losses(P, z, reward, policy, zeta, adv, V, err):
    """E, D, G, up, lo of Theorem R6 at the first step, from the tangent's advantages [H, S, A], values and errors."""
    H, S, A = reward.shape
    E, D, G, upper, lo = (np.zeros(S) for _ in range(5))
    V, err = np.vstack([V, np.zeros(S)]), np.vstack([err, np.zeros(S)])

    def bounds(f, s, a):
        """Below and above Q f."""
        can_follow = P[s, a] > 0
        low, high = f[can_follow].min(), f[can_follow].max()
        spread = np.linalg.norm(f @ z[s, a]) + zeta[s, a] * (high - low)
        return max(low, P[s, a] @ f - spread), min(high, P[s, a] @ f + spread)

    def difference(h, s, a):
        """zeta times a bound on the span of V_theta at the next step."""
        can_follow = P[s, a] > 0
        high, low = (V[h + 1] + err[h + 1])[can_follow].max(), (V[h + 1] - err[h + 1])[can_follow].min()
        return zeta[s, a] * (min(1, high) - max(0, low))

    for h in reversed(range(H)):
        new = np.zeros((5, S))
        for s in range(S):
            pi = policy[h, s]
            up_E, up_D, up_G, up_up = ([bounds(f, s, a)[1] for a in range(A)] for f in (E, D, G, upper))
            cost = [adv[h, s, a] + difference(h, s, a) for a in range(A)]
            e = min(1, difference(h, s, pi) + up_E[pi])
            d = np.clip(max(cost[a] + min(1, up_D[a]) for a in range(A)), 0, 1)
            other_losses = [cost[a] + up_E[a] + e + min(1, up_G[a]) for a in range(A) if a != pi]
            g = min(d + e, np.clip(max([up_G[pi], *other_losses]), 0, 1))
            u = max(min(1, reward[h, s, a] + up_up[a]) for a in range(A))
            new[:, s] = e, d, g, u, max(0, reward[h, s, pi] + bounds(lo, s, pi)[0])
        E, D, G, upper, lo = new
    return E, D, G, upper, lo


def tilt(P, zeta, rng=None, sign=1):
    """A kernel [S, A, S] within zeta of P: mass from the most to the least likely successor, or between random ones."""
    Q = P.copy()
    for s, a in np.ndindex(P.shape[:2]):
        successors = np.flatnonzero(P[s, a] > 0)
        if len(successors) < 2:
            continue
        order = successors[np.argsort(P[s, a, successors], kind="stable")][::sign]
        target, source = (order[0], order[-1]) if rng is None else rng.choice(successors, 2, replace=False)
        mass = min(zeta, Q[s, a, source])
        Q[s, a, source] -= mass
        Q[s, a, target] += mass
    return Q
