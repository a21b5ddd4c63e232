"""Recorded episodes: the same evidence and certificates as of a run, and clear errors."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import ModelError, ShapeError
from horizonfree.planning import evaluate, optimal


@pytest.fixture(scope="module")
def problem() -> hf.Problem:
    return hf.make("zoned-grid", size=3, zones=3, horizon=5)


def test_logged_episodes_give_the_certificate_of_the_run_that_gathered_them(problem: hf.Problem) -> None:
    batch = hf.simulate(problem, np.full((5, 9, 4), 0.25), episodes=40, seed=3)
    run = hf.from_episodes(problem, (batch.s, batch.a))
    assert run.episodes == 40
    assert run.evidence.counts.sum() == 200
    assert hf.certify(problem, batch) == run.certificate()


def test_a_budget_that_was_declared_sets_the_bets(problem: hf.Problem) -> None:
    batch = hf.simulate(problem, np.full((5, 9, 4), 0.25), episodes=40, seed=3)
    run = hf.from_episodes(problem, batch, budget=40)
    assert run.evidence.starts.tolist() == [0, 8]
    assert hf.certify(problem, batch, budget=40, delta=0.2) == run.certificate(0.2)


def test_plans_as_the_explorer_would_are_made_in_the_estimate_of_the_evidence(problem: hf.Problem) -> None:
    """Without an explorer the estimate is the predictor."""
    run = hf.from_episodes(problem, hf.simulate(problem, np.full((5, 9, 4), 0.25), episodes=10, seed=1))
    reward = hf.goal(problem, 8)
    plan = run.plan(reward, model="explorer")
    np.testing.assert_array_equal(run.theta_hat, run.evidence.theta)
    kernel = problem.model.kernel(run.theta_hat)
    assert plan.value == pytest.approx(optimal(kernel, reward).V[0, problem.start], abs=1e-12)
    assert plan.value == pytest.approx(evaluate(kernel, reward, plan.policy)[0, problem.start], abs=1e-12)


def test_a_transition_that_cannot_be_is_kept_and_rejects_the_class(problem: hf.Problem) -> None:
    episodes = hf.simulate(problem, np.full((5, 9, 4), 0.25), episodes=10, seed=1)
    s = np.array(episodes.s)
    s[4] = [s[4, 0], 8, 0, 8, 0, 8]  # from corner to corner
    run = hf.from_episodes(problem, (s, episodes.a))
    assert run.evidence.impossible == 5
    assert run.certificate().is_rejected


def test_what_is_no_episode_is_refused(problem: hf.Problem) -> None:
    with pytest.raises(ShapeError, match=r"states has shape \(3, 4\)"):
        hf.from_episodes(problem, (np.zeros((3, 4), int), np.zeros((3, 5), int)))
    with pytest.raises(ShapeError, match=r"actions\[0, 0\] is 4; actions are 0 to 3"):
        hf.from_episodes(problem, (np.zeros((3, 6), int), np.full((3, 5), 4)))
    with pytest.raises(ShapeError, match="must be a pair of arrays"):
        hf.from_episodes(problem, np.zeros((3, 6), int))
    with pytest.raises(ModelError, match="episode 1 starts in state 4; the problem starts in 0"):
        hf.from_episodes(problem, (np.repeat([[0], [4]], 6, axis=1), np.zeros((2, 5), int)))


# Starts that are drawn


def test_logged_episodes_may_start_wherever_the_problem_may() -> None:
    """Eighty starts without one of probability 0.2 happen with probability 2e-8."""
    kernels = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 4, 2))
    start = [0.5, 0.0, 0.3, 0.2]
    problem = hf.Mixture.from_kernels(kernels, horizon=3, start=start, weights=[0.5, 0.5])
    episodes = hf.simulate(problem, np.full((3, 4, 2), 0.5), episodes=80, seed=3)
    assert set(np.unique(episodes.s[:, 0])) == {0, 2, 3}
    run = hf.from_episodes(problem, (episodes.s, episodes.a))
    assert run.evidence.counts.sum() == 80 * 3
    assert not run.certificate(1e-6).is_rejected
    odd = np.array(episodes.s)
    odd[7, 0] = 1
    with pytest.raises(ModelError, match="episode 7 starts in state 1; the problem starts elsewhere"):
        hf.from_episodes(problem, (odd, episodes.a))
