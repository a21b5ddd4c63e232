"""Small tables and their evidence, many at once, for the tests of this folder."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.guarantees.e_processes import ladder
from horizonfree.models import certify
from horizonfree.models.tabular.confidence import confidence, uniform
from horizonfree.models.tabular.evidence import full_lists
from horizonfree.models.tabular.joint import no_joint
from horizonfree.planning.traced import Sampler
from horizonfree.problems.classes import Tabular


def random_table(rng, S, A, m):
    """A table with m successors of every pair, none of them rare."""
    P = np.zeros((S, A, S))
    for s, a in np.ndindex(S, A):
        P[s, a, rng.choice(S, m, replace=False)] = rng.dirichlet(np.ones(m)) * 0.9 + 0.1 / m
    return P


def random_reward(rng, H, S, A):
    """Entries of very different sizes; the largest total is 1."""
    reward = rng.random((H, S, A)) ** 4
    return reward / reward.max((1, 2)).sum()


def random_policy(rng, H, S, A):
    """Actions, or probabilities of actions."""
    return (
        rng.integers(A, size=(H, S)).astype(np.int32)
        if rng.random() < 0.5
        else rng.dirichlet(np.ones(A), (H, S))
    )


def as_weights(policy, A):
    """A policy as probabilities [H, S, A]."""
    return np.eye(A)[policy] if policy.ndim == 2 else policy


class Case(NamedTuple):
    """A problem, its evidence after some episodes of random actions, and the confidence set."""

    problem: object
    evidence: object
    confidence: object

    @property
    def table(self):
        """The centre, [S, A, S]."""
        return self.confidence.centre.dense()

    @property
    def pairs(self):
        """The unknown pairs, as an index."""
        return tuple(np.asarray(self.problem.model.pairs).T)

    @property
    def without_joint(self):
        """The confidence of the balls alone: kernels in every ball may be outside the joint confidence set."""
        confidence, joint = self.confidence, no_joint(self.confidence.balls.eps.shape)
        bound = uniform(confidence.space, confidence.centre, confidence.balls.eps, joint)
        return replace(confidence, joint=joint, uniform=bound, eps=bound.gap())

    def in_full(self, delta=0.05):
        """What the evidence says, on the lists of all that is possible."""
        model = self.problem.model
        lists = full_lists(model.space, self.evidence)
        return confidence(model.space, model.pairs, self.evidence, delta, model.is_support_known, lists)

    @property
    def possible(self):
        """Which transitions may happen, [S, A, S]."""
        space = self.problem.space
        return space.kernel(np.asarray(space.support, float)).dense() > 0


@x64
def gather(problem, episodes, seed=0):
    """The evidence of episodes of random actions."""
    return to_numpy(_gather(to_device(problem.model), to_device(problem.kernel()), seed, jnp.int32(episodes)))


@jax.jit
def _gather(model, kernel, seed, episodes):
    """One program for all problems of the same sizes, however many episodes there are."""
    H, S, A = model.space.sizes
    key, sampler, policy = jax.random.key(seed), Sampler.of(kernel), jnp.full((H, S, A), 1 / A)

    def episode(k, evidence):
        return model.update(evidence, sampler.episode(jax.random.fold_in(key, k), policy, model.space))

    return jax.lax.fori_loop(0, episodes, episode, model.init_evidence(ladder(None)))


def random_case(seed, S=3, A=2, m=2, H=4, episodes=60, support="any", terminal=(), delta=0.05):
    """A random table, explored at random."""
    rng = np.random.default_rng(seed)
    P = random_table(rng, S, A, m)
    for s in terminal:
        P[s] = np.arange(S) == s
    problem = Tabular.from_table(P, horizon=H, support=support, terminal=terminal)
    evidence = gather(problem, episodes, seed)
    return Case(problem, evidence, certify.confidence(problem.model, evidence, delta=delta))


def policy_bounds(case, reward, policy, confidence=None):
    """The bounds of a policy for a reward as numbers by name."""
    found = (confidence or case.confidence).bounds(reward, policy)
    numbers = {"value": found.value, "low": found.low, "high": found.high} | found.gaps
    return {name: float(x) for name, x in numbers.items()}


def boundary(centre, eps, is_possible, v):
    """The p with the largest p.v in the ball of a centre, anywhere where it can be: p ~ centre/(lam - v), KL = eps.

    Row by row: centre, can, v [..., S], eps [...].
    """
    eps, is_used, reached = np.asarray(eps)[..., None], centre > 0, np.where(is_possible, v, -np.inf)
    top = reached.max(-1, keepdims=True)

    def excess(x):
        denominator = np.where(is_used, top + x - v, 1.0)
        q = np.where(is_used, centre / denominator, 0.0)
        total = q.sum(-1, keepdims=True)
        return q / total, (np.log(denominator) * centre).sum(-1, keepdims=True) + np.log(total)

    low, high = np.full(top.shape, -30.0), np.full(top.shape, 30.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(200):
            middle = (low + high) / 2
            is_out = excess(np.exp(middle))[1] > eps
            low, high = np.where(is_out, middle, low), np.where(is_out, high, middle)
        p, g = excess(np.exp(high))
        remainder = np.where(g < eps, -np.expm1(g - eps), 0.0)
    p = p * (1 - remainder) + remainder * np.eye(v.shape[-1])[reached.argmax(-1)]
    is_flat = top - np.where(is_used, v, np.inf).min(-1, keepdims=True) <= 1e-12
    best = is_possible & (v == top)
    p = np.where(np.isfinite(eps), np.where(is_flat, centre, p), best / best.sum(-1, keepdims=True))
    return np.where(eps == 0, centre, p)


def kernels_on_the_boundary(case, rng, values):
    """For each function of the states tables whose rows all lie on the boundary of their balls: for, against, mixed."""
    eps, values = np.asarray(case.confidence.balls.eps), np.asarray(values)
    sign = rng.choice([-1.0, 1.0], size=(len(values), *eps.shape))
    ways = np.stack([np.ones_like(sign), -np.ones_like(sign), sign], axis=1)  # functions, 3, S, A
    v = ways[..., None] * values[:, None, None, None]
    return boundary(case.table, eps, case.possible, v).reshape(-1, *case.table.shape)


def loss(P, reward, policy, start=0):
    """V* - V^pi of a table, and V^pi."""
    H, S, A = reward.shape
    best, values, pi = np.zeros(S), np.zeros(S), as_weights(policy, A)
    for h in reversed(range(H)):
        best = (reward[h] + P @ best).max(1)
        values = (pi[h] * (reward[h] + P @ values)).sum(1)
    return best[start] - values[start], values[start]
