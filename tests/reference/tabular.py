"""Certificates of unknown tables, word for word as docs/tabular.md has them: loops, sums over counts, searches."""

import itertools
import math

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln

KAPPAS = (1.0, 32.0, 1024.0, 32768.0)
RARE = ((1, 1.0), (2, 1.0), (4, 0.7), (8, 0.7), (16, 0.6))
ROUNDS = 4


def psi(x):
    return x - math.log1p(x) if abs(x) > 1e-5 else x * x / 2 - x**3 / 3


def k(x):
    return psi(x) / x**2 if x != 0 else 0.5


def psi_inverse(c):
    return (
        0.0
        if c == 0
        else brentq(lambda x: psi(x) - c, 0.0, 3 * c + 3 * math.sqrt(c) + 1, xtol=1e-300, rtol=1e-14)
    )


def log_bet(kappa, N, p):
    """f_kappa(p) by its definition."""
    total = gammaln(kappa) - gammaln(kappa + N.sum())
    for count, q in zip(N, p):
        total += np.log(kappa + np.arange(count) / q).sum() if count else 0.0
    return float(total)


def log_kt(N, m):
    """log of the Krichevsky-Trofimov probability: one factor per observation."""
    total, num_seen = 0.0, 0
    for count in N:
        for j in range(int(count)):
            total += math.log((j + 0.5) / (num_seen + m / 2))
            num_seen += 1
    return total


def log_e(N, p, m):
    """The logarithm of the e-process of a pair with m possible successors: the mean of the bets."""
    bets, is_seen = [log_bet(kappa, N, p) for kappa in KAPPAS], N > 0
    bets.append(log_kt(N, m) - float((N[is_seen] * np.log(p[is_seen])).sum()))
    return float(np.logaddexp.reduce(bets) - math.log(len(bets)))


def A(kappa, N, p):
    j = np.arange(N, dtype=float)
    return float((j / (kappa * p + j)).sum()) if N else 0.0


def M(kappa, N, p):
    j = np.arange(N, dtype=float)
    return float((j * (2 * kappa * p + j) / (kappa * p + j) ** 2)[1:].sum()) if N else 0.0


def expand(N, complete, kappas, need, r0, theta):
    """eps of Lemmas 2 and 3; complete: every possible successor is among those of N that are not zero."""
    n = N.sum()
    if n < 2:
        return math.inf
    seen_slots = [i for i in range(len(N)) if N[i] > 0]
    frequent, rare = [i for i in seen_slots if N[i] >= r0], [i for i in seen_slots if N[i] < r0]
    if not frequent:
        return math.inf
    p = N / n

    def mean(f, *args):
        return sum(f(kappa, *args) for kappa in kappas) / len(kappas)

    a = {i: mean(A, N[i], p[i]) / p[i] for i in seen_slots}
    share = sum(p[i] for i in frequent)
    nu = sum(a[i] * p[i] for i in frequent) / share
    W = need - mean(log_bet, N, p)
    for i in rare:
        slope = mean(M, N[i], 1.0)
        c = a[i] * p[i] - (1 - theta) * nu * p[i]
        if a[i] > nu or (slope > 0 and c >= slope):
            return math.inf
        W += (nu - a[i]) * p[i] + (max(0.0, -slope * math.log1p(-c / slope)) if slope > 0 else 0.0)
    e = {i: a[i] - nu for i in frequent}
    T, p_high = W + max(e.values()), {i: 1.0 for i in frequent}
    for _ in range(ROUNDS):
        G_sq = 0.0
        for i in frequent:
            slope = mean(M, N[i], p_high[i])
            if slope <= 0:
                return math.inf
            b = min(psi_inverse(T / slope), 1 / p[i] - 1)
            p_high[i] = min(p_high[i], p[i] * (1 + b))
            G_sq += (p[i] * e[i]) ** 2 / (slope * k(b))
        T = min(T, (math.sqrt(G_sq) / 2 + math.sqrt(G_sq / 4 + W)) ** 2)
    least = min(mean(M, N[i], p_high[i]) / p[i] for i in frequent)
    if not (complete and not rare):
        least = min(least, theta * nu)
    return T / (share * least) if least > 0 else math.inf


def ball(N, m, L):
    """(centre, eps, is_complete) of a pair with m possible successors."""
    N = np.asarray(N, float)
    n, complete = N.sum(), int((N > 0).sum()) == m
    bets = len(KAPPAS) + 1
    best, r_best = math.inf, 1
    if n > 0:
        positive = N[N > 0]
        best = (L + math.log(bets) + float((positive * np.log(positive / n)).sum()) - log_kt(N, m)) / n
    for r0, theta in RARE:
        windows = [(x,) for x in KAPPAS] + list(itertools.pairwise(KAPPAS))
        for window in windows:
            eps = expand(N, complete, window, L + math.log(bets / len(window)), r0, theta)
            if eps < best:
                best, r_best = eps, r0
    frequent = np.where(N >= r_best, N, 0.0)
    return frequent / max(frequent.sum(), 1.0), best, int((frequent > 0).sum()) == m


def highest_mean(p, eps, v, top):
    """max p'.v over KL(p || p') <= eps, v of p' at most top: the smallest of Jensen's bounds, from a grid on."""
    mean = float(p @ v)
    if eps == 0 or top <= mean:
        return mean
    if not math.isfinite(eps):
        return top
    is_used = p > 0
    d = v[is_used] - mean

    @np.errstate(divide="ignore")  # at the top itself the bound is the top
    def bound(log_x):
        t = top - mean + np.exp(np.asarray(log_x, float))
        return mean - t * np.expm1(np.log1p(-d / t[..., None]) @ p[is_used] - eps)

    grid = np.linspace(-30, 25, 221)
    best = int(np.argmin(bound(grid)))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    optimum = minimize_scalar(bound, bounds=ends, method="bounded", options={"xatol": 1e-9})
    return min(float(optimum.fun), float(bound(grid[best])), float(bound(-700.0)), top)


def uniform(P, eps, H, start, is_covered=None, exponent=math.inf):
    """What bounds the loss for every reward; start: a distribution; is_covered: the pairs of the joint set."""
    S, num_actions, _ = P.shape
    start, pairs = np.asarray(start, float), list(np.ndindex(S, num_actions))
    is_covered = np.zeros(eps.shape, bool) if is_covered is None else is_covered
    is_point = np.reshape([(P[x] > 0).sum() == 1 and 0 < eps[x] < math.inf for x in pairs], eps.shape)

    def programme(cost, cap):
        c = np.zeros(S)
        for _ in range(H - 1):
            c = np.array(
                [max(min(cap, cost[s, a] + P[s, a] @ c) for a in range(num_actions)) for s in range(S)]
            )
        return float(start @ c)

    def along_paths(cost):
        c = np.zeros(S)
        for _ in range(H - 1):
            c = np.array([max(cost[s, a] + future(c, s, a) for a in range(num_actions)) for s in range(S)])
        return float(start @ c)

    def future(c, s, a):
        return c[P[s, a] > 0].max(initial=0.0) if math.isfinite(eps[s, a]) else 0.0

    etas = np.geomspace(2e-3, 0.6, 30)
    missing = -np.expm1(-eps)
    pinsker = min(
        eta + 2 * programme(np.where(is_point, np.minimum(eps / (4 * eta), missing), eps / (4 * eta)), 1.0)
        for eta in etas
    )
    kappa = programme(np.minimum(eps, 1e200 / H), math.inf)
    is_point &= is_covered | (eps <= 1.0)
    remainder = 0.0
    if programme(np.where(is_point, 0.0, np.minimum(eps, 1e200)), 1.0) > 0:
        remainder = min(eta + 2 * programme(np.where(is_point, 0.0, eps / (4 * eta)), 1.0) for eta in etas)
    one_by_one = along_paths(np.where(is_point, eps, 0.0))
    joint_bound = exponent + along_paths(np.where(is_point & ~is_covered, eps, 0.0))
    leak = 1 - math.exp(-min(one_by_one, joint_bound))
    hellinger = math.sqrt(1 - math.exp(-2 * kappa))
    return {"pinsker": pinsker, "hellinger": hellinger, "kappa": kappa, "leak": leak, "rest": remainder}


OMEGA = 0.1
JOINT = 0.2


def log_e_alone(N, p):
    """log E_x of the joint e-process: observation by observation, the first one free."""
    if (N > 0).sum() > 1:
        return math.log(OMEGA)
    bet, y = 1.0, int(np.argmax(N))
    for _ in range(int(N.sum()) - 1):
        bet /= p[y]
    return math.log(OMEGA + (1 - OMEGA) * bet)


def most_visits(P, eps, weight, H, start):
    """max over pairs of (most visits in H - 1 steps, the mean over the start) / weight: one programme per pair."""
    (S, num_actions, _), best = P.shape, 0.0
    for pair in np.argwhere(weight > 0):
        m = np.zeros(S)
        for _ in range(H - 1):
            values = np.zeros(S)
            for s, a in np.ndindex(S, num_actions):
                future = m[P[s, a] > 0].max(initial=0.0) if math.isfinite(eps[s, a]) else 0.0
                values[s] = max(values[s], ((s, a) == tuple(pair)) + future)
            m = values
        best = max(best, float(start @ m) / weight[tuple(pair)])
    return best


def paths(confidence, reward, policy, start):
    """(low, high, gap) of Theorem 7, from the centre, the balls and the joint set of a confidence."""
    P, eps = confidence.centre.dense(), confidence.balls.eps
    weight, budget, exponent = confidence.joint.weight, confidence.joint.budget, confidence.joint.exponent
    (H, S, num_actions), pairs = reward.shape, list(np.ndindex(*eps.shape))
    pi = policy if policy.ndim == 3 else np.eye(num_actions)[policy]
    is_point = {x: (P[x] > 0).sum() == 1 and 0 < eps[x] < math.inf for x in pairs}
    bounds = uniform(P, eps, H, start, weight > 0, exponent)
    leak, half = bounds["leak"], bounds["rest"] / 2
    V, best, mass, visits = np.zeros(S), np.zeros(S), np.asarray(start, float), np.zeros(eps.shape)
    for h in reversed(range(H)):
        best = (reward[h] + P @ best).max(1)
        V = (pi[h] * (reward[h] + P @ V)).sum(1)
    for h in range(H - 1):
        visits += mass[:, None] * pi[h]
        mass = np.einsum("s,sa,sat->t", mass, pi[h], P)
    weight_of_path = 1.0
    if not any(visits[x] > 0 and eps[x] > 0 and not is_point[x] for x in pairs):
        one_by_one = sum(visits[x] * eps[x] for x in pairs if is_point[x])
        joint_bound = budget * max((visits[x] / weight[x] for x in pairs if weight[x] > 0), default=0.0)
        joint_bound += sum(visits[x] * eps[x] for x in pairs if is_point[x] and weight[x] == 0)
        weight_of_path = 1 - math.exp(-min(one_by_one, joint_bound))
    cap, can_start = min(1.0, float(reward.max((1, 2)).sum())), np.asarray(start) > 0
    value, highest = float(start @ V), float(start @ best)
    below = min(cap * weight_of_path, value, leak * float(V[can_start].max()) + half)
    above = min(cap * weight_of_path, cap - value, leak * (cap - float(V[can_start].min())) + half)
    gap = highest + leak * (cap - float(best[can_start].min())) + half - value + below
    return value - below, value + above, gap


class Tangent:
    """Theorem 6 for a policy of probabilities [H, S, A]: P the centre, eps inf where nothing is known."""

    def __init__(self, P, eps, is_open, possible):
        self.P, self.eps, self.is_open, self.possible = P, eps, is_open, possible
        self.S, self.num_actions, _ = P.shape
        self.w = np.zeros_like(P)
        for s, a in np.ndindex(self.S, self.num_actions):
            for i in np.flatnonzero(P[s, a]):
                if 0 < eps[s, a] < math.inf:
                    b = min(psi_inverse(eps[s, a] / P[s, a, i]), 1 / P[s, a, i] - 1)
                    self.w[s, a, i] = P[s, a, i] / k(b)
        self.pairs = [(s, a) for s, a in np.ndindex(*eps.shape) if 0 < eps[s, a] < math.inf]

    def chi(self, s, a, v):
        return (
            math.sqrt(self.eps[s, a] * float(self.w[s, a] @ v**2)) if 0 < self.eps[s, a] < math.inf else 0.0
        )

    def size(self, J):
        return sum(self.chi(s, a, J[x]) for x, (s, a) in enumerate(self.pairs))

    def mean(self, s, a, v):
        w = self.w[s, a] if self.w[s, a].any() else self.P[s, a]
        return np.tensordot(w, v, axes=1) / max(w.sum(), 1e-300)

    def high(self, s, a, v, otherwise):
        if not math.isfinite(self.eps[s, a]):
            return otherwise
        return highest_mean(self.P[s, a], self.eps[s, a], v, float(v[self.possible[s, a]].max()))

    def pair(self, s, a, V, J, R, upi, lo, cap, cap_next):
        """g and loc of a pair."""
        zero = np.zeros((len(self.pairs), self.S))
        if not math.isfinite(self.eps[s, a]):
            return zero, cap
        g, c = np.tensordot(self.P[s, a], J, axes=1), self.mean(s, a, V)
        if (s, a) not in self.pairs:
            return g, 0.0
        g[self.pairs.index((s, a))] += V - c
        is_possible = self.possible[s, a]
        top, bottom = upi[is_possible].max(), lo[is_possible].min()
        rho = 1 - math.exp(-self.eps[s, a]) if self.is_open[s, a] else 0.0
        middle_J = self.mean(s, a, J)
        sizes = np.array([self.size(J[i] - middle_J) for i in range(self.S)])
        first = self.chi(s, a, sizes) + self.chi(s, a, R) + rho * (top - bottom + self.mean(s, a, R))
        mid = self.mean(s, a, (upi + lo) / 2 - V)
        change = np.maximum(abs(upi - V - mid), abs(lo - V - mid))
        second = self.chi(s, a, change) + rho * max(top - c - mid, c + mid - bottom)
        return g, min(first, second, 2 * cap_next)

    def rise(self, s, a, J, B, upper, lo):
        """By how much the best value of a pair may exceed Q + g.u."""
        if not math.isfinite(self.eps[s, a]):
            return math.inf
        is_possible, middle_J = self.possible[s, a], self.mean(s, a, J)
        rho = 1 - math.exp(-self.eps[s, a]) if self.is_open[s, a] else 0.0
        sizes = np.array([self.size(J[i] - middle_J) for i in range(self.S)])
        excess = rho * (upper[is_possible].max() - lo[is_possible].min() + self.mean(s, a, B))
        return self.high(s, a, B, 0.0) + self.chi(s, a, sizes) + excess

    def bounds(self, reward, policy, start):
        """value, low, high, interval, tangent at the start."""
        V, upper, upi, lo, D, *_ = self.values(reward, policy)
        return {
            "value": V[start],
            "low": lo[start],
            "high": upi[start],
            "interval": upper[start] - lo[start],
            "tangent": D[start],
        }

    def difference(self, reward, policies, start):
        """Corollary 6a: the least and the largest difference of the values of two policies, by tangents."""
        (V, *_, R, _, J), (W, *_, T, _, K) = (self.values(reward, policy) for policy in policies)
        error = self.size(J[start] - K[start]) + R[start] + T[start]
        return V[start] - W[start] - error, V[start] - W[start] + error

    def values(self, reward, policy):
        """V, up, upi, lo, D, R, B, J of every state at the first step."""
        H, S, X = len(reward), self.S, len(self.pairs)
        caps = [min(1.0, float(reward[h:].max((1, 2)).sum())) for h in range(H)] + [0.0]
        V, upper, upi, lo, D, R, B, J = *(np.zeros(S) for _ in range(7)), np.zeros((S, X, S))
        for h in reversed(range(H)):
            current = [np.zeros(S) for _ in range(7)] + [np.zeros((S, X, S))]
            for s in range(S):
                for x, y in zip(
                    current,
                    self.state(
                        h, s, reward[h, s], policy[h, s], caps[h : h + 2], V, upper, upi, lo, D, R, B, J
                    ),
                ):
                    x[s] = y
            V, upper, upi, lo, D, R, B, J = current
        return V, upper, upi, lo, D, R, B, J

    def state(self, h, s, r, pi, caps, V, up_values, upi, lo, D, R, B, J):
        cap, cap_next = caps
        actions = range(self.num_actions)
        row = [self.P[s, a] if math.isfinite(self.eps[s, a]) else np.zeros(self.S) for a in actions]
        g, loc = zip(*(self.pair(s, a, V, J, R, upi, lo, cap, cap_next) for a in actions))
        Q = np.array([r[a] + self.P[s, a] @ V for a in actions])
        own_J = sum(pi[a] * g[a] for a in actions)
        own_row = sum(pi[a] * row[a] for a in actions)
        value, size = float(pi @ Q), self.size(own_J)
        total = min(float(sum(pi[a] * loc[a] for a in actions) + own_row @ R), cap + size)
        upper = np.array([min(cap, r[a] + self.high(s, a, upi, cap_next)) for a in actions])
        lower = np.array([max(0.0, r[a] - self.high(s, a, -lo, 0.0)) for a in actions])
        low = max(float(pi @ lower), value - size - total)
        high = min(float(pi @ upper), value + size + total)
        d, b = 0.0, 0.0
        for a in actions:
            by_slopes = Q[a] - value + self.size(g[a] - own_J) + (1 - pi[a]) * loc[a]
            by_slopes += sum(pi[b] * loc[b] for b in actions if b != a) + float(abs(row[a] - own_row) @ R)
            star = min(cap, r[a] + self.high(s, a, up_values, cap_next))
            d = max(d, min(min(upper[a] - low, by_slopes) + self.high(s, a, D, cap_next), star - low))
            above = Q[a] - value + self.size(g[a] - own_J) + self.rise(s, a, J, B, up_values, lo)
            b = max(b, min(above, star - value + size))
        b = min(b, d + total)
        d = min(d, b + total)
        best = min(
            cap, max(r[a] + self.high(s, a, up_values, cap_next) for a in actions), high + d, value + size + b
        )
        return value, best, high, low, min(d, best - low, cap), total, b, own_J
