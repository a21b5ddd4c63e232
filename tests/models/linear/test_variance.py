"""Radii of declared rewards by second moments (docs/linear.md, section 5)."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

import horizonfree as hf
from horizonfree import testing
from horizonfree.models.linear import bounds
from horizonfree.models.linear.variance import MAX_TILT, SCALES, SHARES, TILTS, leverages, metric
from tests.adversary import sets
from tests.models.linear.systems import tiny
from tests.reference import linear as reference


def psi(a):
    return -np.log1p(-np.abs(a)) - np.abs(a)


def test_one_step_of_the_e_process_has_a_mean_of_at_most_one():
    """exp(a Y - psi(|a|) Y^2) <= 1 + a Y for Y in [0, 1] and |a| < 1; equal at Y = 1 for negative a."""
    a, Y = np.meshgrid(np.linspace(-0.999, 0.999, 801), np.linspace(0, 1, 401))
    assert (np.exp(a * Y - psi(a) * Y**2) <= 1 + a * Y + 1e-12).all()
    at_one = np.linspace(-0.999, 0, 100)
    np.testing.assert_allclose(np.exp(at_one - psi(at_one)), 1 + at_one, atol=1e-12)


@pytest.mark.parametrize(("n", "d"), [(2, 1), (8, 2), (300, 5), (60, 12)])
def test_no_feature_is_longer_than_one_in_the_metric(n, d):
    rng = np.random.default_rng(d)
    x = rng.dirichlet(np.full(d, 0.3), n) + 0.01 * rng.random((n, d))
    M = metric(x) @ metric(x).T
    assert leverages(x, M).max() <= 1
    assert leverages(x, M).max() > 1 - 1e-8
    np.testing.assert_allclose(M, reference.design(x[:, None]), rtol=1e-7, atol=1e-12)


def ball(M, count, d):
    """Points of the ball u'Mu <= MAX_TILT^2 and their weights: for d = 1 and 2."""
    if d == 1:
        u = MAX_TILT * (2 * (np.arange(count) + 0.5) / count - 1)[:, None]
        weights = np.full(count, 1 / count)
    else:
        radius, angle = (np.arange(count) + 0.5) / count, np.arange(2 * count) * np.pi / count
        u = MAX_TILT * radius[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], -1)
        u, weights = u.reshape(-1, 2), np.repeat(radius / radius.sum() / (2 * count), 2 * count)
    return u @ np.linalg.inv(np.linalg.cholesky(M)), weights


@pytest.mark.parametrize("d", [1, 2])
def test_what_follows_from_the_event_holds_at_its_limit_and_is_near(d):
    """Sums S in random directions, as long as the event allows: y'S against Lemma 9 for every option."""
    rng, nearest = np.random.default_rng(d), 0.0
    for _ in range(40):
        phi = rng.dirichlet(np.ones(d), (4, 2)) if d > 1 else np.ones((4, 2, 1))
        M = reference.design(phi)
        counts = rng.integers(0, 10 ** rng.integers(1, 4), (4, 2, 4)).astype(float)
        Y = rng.random(4) * rng.choice([0.1, 1.0])
        u, weights = ball(M, 60, d)
        tilts = u @ phi.reshape(-1, d).T
        penalty = psi(tilts) @ (counts.reshape(-1, 4) @ Y**2)
        direction, level = rng.standard_normal(d), rng.choice([3.0, 10.0])

        def log_e(size, u=u, weights=weights, penalty=penalty, direction=direction):
            exponents = size * (u @ direction) - penalty
            return np.log(weights @ np.exp(exponents - exponents.max())) + exponents.max()

        low, high = 0.0, 1.0
        while log_e(high) < level:
            high *= 2
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if log_e(middle) < level else (low, middle)
        S = low * direction
        options = [
            (lam, share * lam, scale) for lam, share, scale in itertools.product(TILTS, SHARES, SCALES)
        ]
        least = np.inf
        for lam, alpha, scale in options:
            rho = math.sqrt(scale * (d + 2) / 2 * lam**2 / psi(lam))
            Q = reference.moment_matrix(phi, counts, M, level, Y, lam, alpha, rho)
            norm = math.sqrt(S @ np.linalg.solve(Q, S))  # the largest y'S / sqrt(y'Qy)
            assert norm <= 1 + 1e-3  # the sum over the grid is not quite the mean over the ball
            least = min(least, 1 / norm)
        nearest = max(nearest, 1 / least)
    assert nearest > 0.5


def test_bounds_agree_with_the_text_line_by_line():
    """Each step by its range or by second moments, whichever is less: at the start, in regret and intervals."""
    problem = tiny()
    rewards = [hf.goal(problem, s) for s in (2, 5)]
    is_used = []
    for episodes in (20, 3000):
        run = hf.explore(problem, "uniform", episodes=episodes, budget=3000, seed=1, rewards=rewards)
        confidence = run.confidence(0.05)
        text = reference.Fit(
            np.asarray(problem.model.phi), 0 * run.evidence.gram, run.evidence.gram, run.evidence.cross
        )
        M, counts = reference.design(text.phi), np.asarray(run.evidence.counts)
        L, L_all = math.log(4 * 2 * 4 / 0.05 / 0.1), reference.level_of_all(18, 0.025 * 0.1)
        choose = reference.by_moments(text, counts, M, confidence.whole.moments.level)
        for reward in rewards:
            policy, _ = reference.plan(text.P, reward)
            fit = confidence.whole
            first = bounds.values(
                fit.fit, reward, policy.astype(np.int32), fit.beta, fit.beta_all, fit.moments
            )
            expected = reference.bounds(text, reward, policy, problem.start, L, L_all, choose)
            actual = [float(x[problem.start]) for x in (first.at.D, first.at.up, first.at.lo)]
            np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9)
            unweighted = reference.bounds(text, reward, policy, problem.start, L, L_all)
            assert expected[1] <= unweighted[1] + 1e-12
            is_used.append(expected[1] < unweighted[1] - 1e-4)
    assert any(is_used)


def test_without_the_counts_or_an_e_process_from_the_start_there_are_none():
    problem = tiny()
    run = hf.explore(problem, "uniform", episodes=50, budget=50, seed=1, rewards=[hf.goal(problem, 2)])
    evidence = run.evidence
    assert run.confidence(0.05).whole is not None
    for change in ({"counts": np.zeros_like(evidence.counts)}, {"starts": evidence.starts + 1}):
        other = dataclasses.replace(evidence, **change)
        assert run.problem.model.confidence(other, 0.05).whole is None


def test_the_e_process_reaches_its_level_in_at_most_a_share_delta_of_runs():
    """delta = 0.5, 2,000 runs of 150 transitions: fails wrongly with probability <= 1e-6.

    Any law on the ball makes a test supermartingale: here that of a grid. Pairs are chosen by what was seen.
    """
    rng, delta, runs = np.random.default_rng(5), 0.5, 2000
    phi = np.array([[0.9, 0.1], [0.3, 0.7], [0.5, 0.5]])
    mu = np.array([[0.85, 0.1, 0.05], [0.97, 0.02, 0.01]])
    V = np.array([0.1, 0.6, 1.0])
    Y = V - V.min()
    u, weights = ball(reference.design(phi[:, None]), 10, 2)
    tilts, P = u @ phi.T, phi @ mu
    largest, log_e, last = np.zeros(runs), np.zeros((runs, len(u))), np.zeros(runs, int)
    for _ in range(150):
        x = np.where(last == 0, rng.integers(3, size=runs), (last + 1) % 3)
        successors = (rng.random(runs)[:, None] > np.cumsum(P[x], 1)).sum(1).clip(0, 2)
        a = tilts[:, x].T
        log_e += a * (V[successors] - (P @ V)[x])[:, None] - psi(a) * (Y[successors] ** 2)[:, None]
        largest = np.maximum(largest, np.exp(log_e) @ weights)
        last = successors
    num_crossed = (largest >= 1 / delta).sum()
    assert num_crossed <= binom.isf(1e-6, runs, delta)
    assert num_crossed > 20  # the level is reached at times


def test_no_member_of_the_set_violates_the_bounds_of_rare_goals():
    """Boundary points of the set of all radii: values, and what the plan loses, against bounds by second moments."""
    rng, ratios, is_used = np.random.default_rng(0), [], 0
    for seed in range(4):
        phi = rng.dirichlet(np.full(2, 0.5), (4, 2))
        phi[0, 0], phi[0, 1] = [0.95, 0.05], [0.1, 0.9]
        rare = np.array([[0.6, 0.3, 0.096, 0.004], [0.3, 0.6, 0.08, 0.02]])
        problem = hf.LinearMDP.from_features(phi, horizon=3, mu=rare)
        goal = hf.goal(problem, 3)
        run = hf.explore(
            problem, "uniform", episodes=4000, budget=4000, seed=seed, rewards=[goal], progress=False
        )
        plan = run.plan(goal, delta=0.5)
        is_used += plan.certificate.method == "variance"
        members = sets.confidence_set(run, 0.5)
        kernels = members.members(rng, 60)
        task = testing.task_of(problem, goal)
        for score in (
            lambda P, task=task: testing.optimal_values(P, task),
            lambda P, task=task, plan=plan: (
                testing.optimal_values(P, task) - testing.policy_values(P, task, plan.policy)
            ),
        ):
            P = members.kernels(members.improve(kernels, score, rng))
            best, value = testing.optimal_values(P, task), testing.policy_values(P, task, plan.policy)
            assert (value <= plan.value_high + 1e-9).all()
            assert (value >= plan.value_low - 1e-9).all()
            assert (best - value <= plan.gap + 1e-9).all()
            ratios.append((value.max() - plan.value) / (plan.value_high - plan.value))
    assert is_used == 4
    assert max(ratios) > 0.4  # the bounds are not far from what the set allows
