"""Confidence sets written from their definitions in the docs, in plain NumPy, and extreme points of them.

A set has `inside(parameters)`, `kernels(parameters)` and `members(rng, count)`; parameters are stacked along the first
axis. Sets are convex, so boundary points are found by bisection from a member towards any target.
"""

import itertools

import numpy as np
from scipy.special import gammaln, logsumexp

from horizonfree import testing
from horizonfree.mdp.space import UNSEEN
from tests.reference import linear as reference

QUADRATURE = 1e-2  # by which the logarithm of a mean over a ball may differ from that over a grid
MARGIN = 1e-9  # by which members keep away from the boundary: rounding


def transitions(run):
    """Dense counts [K, S, A, S] of each logged episode."""
    S, A = run.problem.num_states, run.problem.num_actions
    s, a, j = (np.asarray(x) for x in (run.log.s, run.log.a, run.log.j))
    is_seen = j != UNSEEN
    counts = np.zeros((len(s), S, A, S))
    k, h = np.nonzero(is_seen)
    np.add.at(counts, (k, s[k, h], a[k, h], s[k, h + 1]), 1)
    return counts


def starts_and_weights(run):
    return np.asarray(run.evidence.starts), np.asarray(run.evidence.weights)


class LinearlyParametrised:
    """Parameters [N, *shape] whose kernels are linear in them."""

    def __init__(self, run, delta):
        self.run, self.delta, self.model = run, delta, run.problem.model
        self.shape, matrix = testing.linear_map(self.model)
        S, A = run.problem.num_states, run.problem.num_actions
        self.matrix = matrix.reshape(S, A, S, -1)

    def kernels(self, x):
        return np.einsum("satp,np->nsat", self.matrix, x.reshape(len(x), -1))

    def is_valid(self, P):
        allowed = np.asarray(self.run.problem.actions_allowed)
        sums = np.abs(P.sum(-1) - 1).max((1, 2)) < 1e-9
        return sums & (np.where(allowed[..., None], P, 0.0).min((1, 2, 3)) >= -1e-13)

    def origins(self):
        """Points that may be members."""
        truth = [] if self.run.problem.truth is None else [np.asarray(self.run.problem.truth, float)]
        return truth + self.estimates()

    def members(self, rng, count):
        origins = [x for x in self.origins() if self.inside(x[None])[0]]
        if not origins:
            return np.zeros((0, *self.shape))
        targets = testing.valid_vertices(self.model, count, rng)
        mixed = np.tensordot(rng.dirichlet(np.full(len(targets), 0.3), count), targets, 1)
        groups = [np.stack(origins)]
        for origin in origins:
            for goals in (targets, mixed):
                groups.append(testing.to_boundary(self.inside, origin, goals))
        points = np.concatenate(groups)
        return points[self.inside(points)]

    def improve(self, x, score, rng, rounds=3, count=32):
        """Members with larger scores: random combinations of the best ones, pushed to the boundary."""
        for _ in range(rounds):
            if len(x) < 2:
                return x
            best = x[np.argsort(-score(self.kernels(x)))[:6]]
            i, j = rng.integers(len(best), size=(2, count)), rng.integers(len(x), size=(2, count))
            push = best[i[0]] - x[j[0]] + rng.choice([0.0, 0.3]) * (best[i[1]] - x[j[1]])
            step = rng.choice([0.3, 1.0, 10.0], count).reshape(-1, *(1,) * (x.ndim - 1))
            new = np.concatenate(
                [
                    testing.to_boundary(self.inside, best[k], (best[i[0]] + step * push)[i[0] == k])
                    for k in range(len(best))
                    if (i[0] == k).any()
                ]
            )
            x = np.concatenate([x, new[self.inside(new)]])
        return x


class MixtureSet(LinearlyParametrised):
    """L_j(theta) <= Lq_j + log(1/(delta w_j)) for every bet j, theta valid (docs/certificates.md, section 1)."""

    def __init__(self, run, delta):
        super().__init__(run, delta)
        starts, weights = starts_and_weights(run)
        if run.log is None:
            self.since = None  # the order of the episodes is not kept: membership is that of model.violation
            return
        episodes = transitions(run)
        self.since = np.stack([episodes[m:].sum(0) for m in starts])
        self.level = np.asarray(run.evidence.loss) - np.log(delta * weights)

    def inside(self, x):
        P = self.kernels(x)
        is_good = self.is_valid(P)
        if self.model.is_hull:
            is_good &= (x >= -1e-13).all(-1)
        else:
            is_good &= np.linalg.norm(x, axis=-1) <= self.model.bound * self.model.unit + 1e-9
        if self.since is None:
            return is_good & testing.is_inside(self.run, x, self.delta)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(self.since[None] > 0, np.log(np.maximum(P, 0.0))[:, None], 0.0)
        loss = -(self.since * logs).sum((2, 3, 4))
        return is_good & (loss <= self.level - MARGIN).all(-1)

    def estimates(self):
        confidence = self.run.confidence(self.delta)
        return [np.asarray(confidence.theta), np.asarray(self.run.evidence.theta)]


class LinearSet(LinearlyParametrised):
    """||S_V|| <= range(V) beta for every bet and every V in {0,1}^S (docs/linear.md, section 1).

    For declared rewards also the event of section 5, for two features: the mean over the ball is a sum over a grid.
    """

    def __init__(self, run, delta):
        super().__init__(run, delta)
        phi = np.asarray(self.model.phi)
        starts, weights = starts_and_weights(run)
        S, A, _ = phi.shape
        G = np.einsum("sai,saj->ij", phi, phi) / (S * A)
        has_declared = len(self.model.declared) > 0
        self.bets, self.V = [], np.array(list(itertools.product((0.0, 1.0), repeat=S)))[1:-1].T
        for V0, V1, C1, w in zip(*self.sums(phi, starts), weights):
            R = 0.25 * 9 * V0 + G
            logdet = np.linalg.slogdet(R + V1)[1] - np.linalg.slogdet(R)[1]
            all_V = (S - 1) * np.log(2) - np.log(delta * w / (2 if has_declared else 1))
            number = max(1, (run.problem.horizon - 1) * len(self.model.declared))
            some_V = np.log(number) - np.log(delta / 4 * w)
            betas = [np.sqrt((logdet / 2 + L) / 2) for L in (all_V, some_V)]
            self.bets.append((V1, C1, np.linalg.inv(R + V1), *betas))
        self.moments = []  # tilts u'x [n, S A], their weights, and the level
        if has_declared and 0 in starts:
            assert phi.shape[2] == 2
            M = reference.design(phi)
            radius, angle = (np.arange(12) + 0.5) / 12, np.arange(32) * np.pi / 16
            u = 0.9 * radius[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], -1)
            u = u.reshape(-1, 2) @ np.linalg.inv(np.linalg.cholesky(M))
            counts = self.run.evidence.counts if run.log is None else transitions(run).sum(0)
            self.counts = np.asarray(counts, float).reshape(S * A, S)
            weights = np.repeat(radius / radius.sum() / 32, 32)
            self.moments = [(u @ phi.reshape(-1, 2).T, np.log(weights), np.log(number / (delta / 4)))]

    def sums(self, phi, starts):
        """V0, V1 and C1 of each bet, from the log where there is one."""
        if self.run.log is None:
            evidence = self.run.evidence
            V0, C0 = np.asarray(evidence.gram_at), np.asarray(evidence.cross_at)
            return V0, np.asarray(evidence.gram) - V0, np.asarray(evidence.cross) - C0
        episodes = transitions(self.run)
        sums_before, sums_since = (
            [part.sum(0) for part in parts] for parts in zip(*((episodes[:m], episodes[m:]) for m in starts))
        )
        V0, V1 = (
            [np.einsum("sa,sai,saj->ij", n.sum(-1), phi, phi) for n in x] for x in (sums_before, sums_since)
        )
        return V0, V1, [np.einsum("sat,sai->it", n, phi) for n in sums_since]

    def inside(self, x):
        P = self.kernels(x)
        is_good = self.is_valid(P)
        for V1, C1, inverse, beta, beta_declared in self.bets:
            noise = C1 - np.einsum("ij,njs->nis", V1, x)
            scores = noise @ self.V
            size = np.sqrt(np.einsum("niv,ij,njv->nv", scores, inverse, scores).max(-1))
            is_good &= size <= beta - MARGIN
            for reward in np.asarray(self.model.declared):
                for V in _optimal(P, reward):
                    spread = np.ptp(V, axis=-1)
                    score = np.einsum("nis,ns->ni", noise, V)
                    size = np.sqrt(np.einsum("ni,ij,nj->n", score, inverse, score))
                    is_good &= size <= spread * beta_declared + 1e-12
        for a, log_weights, level in self.moments:
            penalty = (-np.log1p(-np.abs(a)) - np.abs(a)) @ self.counts
            for reward in np.asarray(self.model.declared):
                for V in _optimal(P, reward):
                    means = (P.reshape(len(P), -1, P.shape[-1]) @ V[..., None])[..., 0]
                    sums = (self.counts @ V[..., None])[..., 0] - self.counts.sum(-1) * means
                    Y = V - V.min(-1, keepdims=True)
                    log_e = logsumexp(sums @ a.T - Y**2 @ penalty.T + log_weights, axis=-1)
                    is_good &= log_e <= level - QUADRATURE
        return is_good

    def estimates(self):
        return []


def _optimal(P, reward):
    """V*_2..V*_H of a reward [H, S, A] for each kernel."""
    V, policies = np.zeros((len(P), P.shape[1])), []
    for h in range(len(reward) - 1, 0, -1):
        V = (reward[h] + np.einsum("nsat,nt->nsa", P, V)).max(-1)
        policies.append(V)
    return policies


KAPPAS = (1.0, 32.0, 1024.0, 32768.0)


class TableSet:
    """For every unknown pair log sum_j w_j exp f_j(p) < log(X/(.8 delta)), and sum log E_x(p_x) < log(1/(.2 delta)).

    docs/tabular.md, section 1.
    """

    def __init__(self, run, delta):
        self.run, space = run, run.problem.space
        S, A = run.problem.num_states, run.problem.num_actions
        self.support = np.zeros((S, A, S), bool)
        for s, a, j in np.argwhere(np.asarray(space.support)):
            self.support[s, a, space.succ[s, a, j]] = True
        allowed = np.asarray(run.problem.actions_allowed)
        self.counts = self.counted() if run.log is None else transitions(run).sum(0)
        unknown = (self.support.sum(-1) > 1) & np.asarray(space.reachable)[:, None] & allowed
        self.pairs = np.argwhere(unknown)
        self.level, self.joint_level = (
            np.log(max(1, len(self.pairs)) / (0.8 * delta)),
            np.log(1 / (0.2 * delta)),
        )
        self.free = np.argwhere((self.support.sum(-1) > 1) & ~unknown)  # rows that no episode can show
        self.acts = np.where(allowed, np.arange(A), allowed.argmax(1)[:, None])

    def counted(self):
        """Dense counts from those on the successor lists."""
        space, counts = self.run.problem.space, np.zeros(self.support.shape)
        for s, a, j in np.argwhere(np.asarray(space.support)):
            counts[s, a, space.succ[s, a, j]] = self.run.evidence.counts[s, a, j]
        return counts

    def e_values(self, s, a, p):
        """log sum_j w_j exp f_j(p) of laws p [N, S] of one pair."""
        N, is_seen = self.counts[s, a], self.counts[s, a] > 0
        n, q = N.sum(), np.where(is_seen, p, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = [
                gammaln(k)
                - gammaln(k + n)
                + np.where(is_seen, gammaln(k * q + N) - gammaln(k * q) - N * np.log(q), 0.0).sum(-1)
                for k in KAPPAS
            ]
            m = self.support[s, a].sum()
            kt = gammaln(m / 2) - gammaln(n + m / 2) + (gammaln(N + 0.5) - gammaln(0.5))[is_seen].sum()
            logs.append(kt - np.where(is_seen, N * np.log(q), 0.0).sum(-1))
        log_e = logsumexp(np.stack(logs), axis=0) - np.log(len(logs))
        return np.where((p < 0).any(-1) | (is_seen & (p <= 0)).any(-1), np.inf, log_e)

    def row_inside(self, s, a, p):
        return self.e_values(s, a, p) <= self.level - MARGIN

    def inside(self, tables):
        is_good = np.abs(tables.sum(-1) - 1).max((1, 2)) < 1e-9
        is_good &= (tables >= 0).all((1, 2, 3)) & ~(tables * ~self.support).any((1, 2, 3))
        joint_log_e = np.zeros(len(tables))
        for s, a in self.pairs:
            is_good &= self.row_inside(s, a, tables[:, s, a])
            joint_log_e += self.joint_e_value(s, a, tables[:, s, a])
        return is_good & (joint_log_e <= self.joint_level - MARGIN)

    def joint_e_value(self, s, a, p):
        """log(.1 + .9 [one successor y was seen] / p(y)^(n - 1)) of laws p [N, S] of one pair."""
        N = self.counts[s, a]
        if N.sum() < 2 or np.count_nonzero(N) > 1:
            return np.full(len(p), 0.0 if N.sum() < 2 else np.log(0.1))
        with np.errstate(divide="ignore"):
            return np.logaddexp(np.log(0.1), np.log(0.9) - (N.sum() - 1) * np.log(p[:, N.argmax()]))

    def kernels(self, tables):
        return tables

    def rows(self, rng, count):
        """Extreme laws of each pair: [S, A, count, S]."""
        S, A = self.support.shape[:2]
        rows = np.zeros((S, A, count, S))
        for s, a in np.ndindex(S, A):
            support = self.support[s, a]
            targets = np.zeros((count, S))
            targets[:, support] = rng.dirichlet(np.full(support.sum(), 0.2), count)
            corners = np.eye(S)[support]
            targets[: len(corners)] = corners[:count]
            if [s, a] in self.pairs.tolist():
                n = self.counts[s, a]
                centre = n / n.sum() if n.sum() else support / support.sum()
                targets = testing.to_boundary(lambda p, s=s, a=a: self.row_inside(s, a, p), centre, targets)
            rows[s, a] = targets
        return rows[np.arange(S)[:, None], self.acts]

    def pulled(self, tables):
        """Tables outside the set, as those of extreme rows of all pairs, moved to its boundary."""
        n = self.counts.sum(-1, keepdims=True)
        uniform = self.support / self.support.sum(-1, keepdims=True)
        centre = np.where(n > 0, self.counts / np.maximum(n, 1), uniform)[
            np.arange(len(n))[:, None], self.acts
        ]
        is_out = ~self.inside(tables)
        result = tables.copy()
        if is_out.any() and self.inside(centre[None])[0]:
            result[is_out] = testing.to_boundary(self.inside, centre, tables[is_out])
        return result

    def members(self, rng, count):
        self.cloud = self.rows(rng, 48)
        S, A, n, _ = self.cloud.shape
        choice = rng.integers(n, size=(count, S, A))
        choice = choice[:, np.arange(S)[:, None], self.acts]
        tables = self.pulled(self.cloud[np.arange(S)[:, None], np.arange(A), choice])
        if self.run.problem.truth is not None:
            tables = np.concatenate([tables, np.asarray(self.run.problem.kernel().dense())[None]])
        return tables[self.inside(tables)]

    def improve(self, tables, score, rng, rounds=3, count=32):
        """Coordinate ascent: one pair at a time takes each of its extreme laws."""
        if not len(tables):
            return tables
        S, A, n, _ = self.cloud.shape
        best = tables[np.argmax(score(tables))].copy()
        for _ in range(rounds):
            previous = best.copy()
            for s, a in np.ndindex(S, A):
                if self.acts[s, a] != a:
                    continue
                candidates = np.repeat(best[None], n, 0)
                candidates[:, s, self.acts[s] == a] = self.cloud[s, a][:, None]
                best = candidates[np.argmax(score(candidates))]
            if (best == previous).all():
                break
        pulled_tables = self.pulled(best[None])
        return np.concatenate([tables, pulled_tables[self.inside(pulled_tables)]])


def confidence_set(run, delta):
    """The set of a run's class."""
    name = type(run.problem.model).__name__
    return {"MixtureModel": MixtureSet, "TabularModel": TableSet, "LinearModel": LinearSet}[name](run, delta)
