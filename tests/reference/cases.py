"""Small problems with evidence and confidences, and parameters of the set U that the evidence leaves possible."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from horizonfree.models import certify
from horizonfree.planning.induction import best_plan
from tests.reference import small

DELTA, EPISODES, SEEDS = 0.1, 60, 12
START = (0.5, 0.0, 0.0, 0.2, 0.0, 0.3)
PROBLEMS = small.PROBLEMS | {"drawn start": lambda: small.slips(start=START)}


class Later(Sequence):
    """The results of a function of the seed, computed when first needed."""

    def __init__(self, said, seeds):
        self.said, self.seeds = cache(said), range(seeds)

    def __len__(self):
        return len(self.seeds)

    def __getitem__(self, i):
        return self.said(self.seeds[i])


def make_confidence(model, evidence, delta):
    return model.confidence(evidence, delta)


class Case:
    """A problem with evidence of some seeds; U is sampled from its definition, not from the library's ball."""

    def __init__(self, problem, episodes=EPISODES, seeds=SEEDS, delta=DELTA):
        self.problem, self.model, self.space = problem, problem.model, problem.space
        self.valid, self.start = self.model.valid, problem.start
        self.evidence = Later(lambda seed: self._gather(seed, episodes), seeds)
        self.confidences = Later(lambda seed: make_confidence(self.model, self.evidence[seed], delta), seeds)
        self.P_star = problem.kernel().dense()

    def _gather(self, seed, episodes):
        return small.pick(small.gather(self.problem, episodes, [seed]), 0)

    def counts(self, i):
        return self.evidence[i].since[self.confidences[i].bet]

    def level(self, i):
        """Lq + log(1/(delta w)) of the bet that was chosen."""
        evidence, bet = self.evidence[i], int(self.confidences[i].bet)
        return evidence.loss[bet] - np.log(float(self.confidences[i].delta) * evidence.weights[bet])

    def excess(self, i):
        """The function L(theta) - Lq - log(1/(delta w)) of parameters [n, d], on the free rows; the others cancel."""
        counts = self.counts(i)
        free, fixed = (is_one & (counts > 0) for is_one in (self.valid.free, ~self.valid.free))
        rows, free_counts = self.valid.rows[free], counts[free]
        fixed_loss = counts[fixed] @ np.log(self.valid.rows[fixed] @ self.valid.center) + self.level(i)

        def excess(thetas):
            p = thetas @ rows.T
            loss = -np.log(np.maximum(p, 1e-300)) @ free_counts
            return np.where((p > 0).all(-1), loss - fixed_loss, np.inf)

        return excess

    def points_of_U(self, i, rng, count):
        """Parameters of U: on the way from theta_hat to random points of Theta, half of them on the boundary of U."""
        theta_hat, excess = np.asarray(self.confidences[i].theta), self.excess(i)
        directions = small.inside(self.valid, rng, count) - theta_hat
        inside, outside = np.zeros((count, 1)), np.ones((count, 1))
        for _ in range(50):
            middle = (inside + outside) / 2
            is_in = excess(theta_hat + middle * directions)[:, None] <= 0
            inside, outside = np.where(is_in, middle, inside), np.where(is_in, outside, middle)
        inside[excess(theta_hat + directions) <= 0] = 1.0
        inside[::2, 0] *= rng.uniform(size=len(inside[::2]))
        return [*(theta_hat + inside * directions)]

    def kernel(self, theta):
        return self.model.kernel(theta).dense()

    def slots(self, x):
        """An array over rows as a table over [S, A, S]."""
        S, A, n = self.space.succ.shape
        table = np.zeros((S, A, S, *x.shape[1:]))
        values = np.concatenate([x, np.zeros_like(x[:1])])[self.valid.row_of]
        for s, a, j in np.ndindex(S, A, n):
            table[s, a, self.space.succ[s, a, j]] += values[s, a, j]
        return table

    def uniform(self, i):
        return certify.uniform(self.model, self.evidence[i], self.confidences[i])

    def plan(self, i, reward):
        """The policy that is best under the estimate."""
        return best_plan(self.confidences[i].kernel, reward).policy

    def for_reward(self, i, reward, policy):
        return certify.for_reward(self.model, self.confidences[i], reward, policy)


@cache
def make_case(name):
    """The case of a problem by name, once for all files of tests."""
    return Case(PROBLEMS[name]())


def random_reward(rng, H, S, A):
    """A reward whose total is at most one on every trajectory; often sparse."""
    kind = rng.integers(3)
    if kind == 0:
        return rng.uniform(size=(H, S, A)) / H
    if kind == 1:
        reward = np.zeros((H, S, A))
        reward[rng.integers(H), rng.integers(S)] = 1.0
        return reward
    return np.where(rng.uniform(size=(H, S, A)) < 0.2, 1.0 / H, 0.0)
