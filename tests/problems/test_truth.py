"""What only a problem that knows its truth can say: its episodes, and what a policy really loses."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import RewardError, ShapeError, SimulationError
from horizonfree.planning import evaluate, optimal, visits
from horizonfree.problems.simulate import simulate_kernel
from tests.reference.gymnasium_tables import hoeffding

H, S, A = 4, 5, 3


@pytest.fixture(scope="module")
def problem():
    return hf.make("random-mixture", states=S, actions=A, successors=3, horizon=H)


def test_what_a_policy_loses_is_the_difference_to_the_best(problem):
    rng = np.random.default_rng(0)
    table, policy = rng.uniform(size=(H, S, A)) / H, rng.integers(A, size=(H, S))
    best = optimal(problem.kernel(), table)
    value = evaluate(problem.kernel(), table, policy)[0, problem.start]
    assert hf.true_gap(problem, table, policy) == pytest.approx(best.V[0, problem.start] - value, abs=1e-15)
    assert hf.true_gap(problem, table, policy) > 0.01
    assert hf.true_gap(problem, table, best.policy) == 0
    uniform = np.full((H, S, A), 1 / A)
    value = evaluate(problem.kernel(), table, uniform)[0, problem.start]
    assert hf.true_gap(problem, table, uniform) == pytest.approx(best.V[0, problem.start] - value, abs=1e-15)


def test_what_is_lost_comes_in_the_units_of_the_reward(problem):
    rng = np.random.default_rng(1)
    table, policy = rng.uniform(size=(H, S, A)), rng.integers(A, size=(H, S))
    gap = hf.true_gap(problem, table / H, policy)
    assert hf.true_gap(problem, table, policy, scale="per-step") == pytest.approx(H * gap)
    assert hf.true_gap(problem, hf.rescale(problem, 7 * table), policy) == pytest.approx(7 * H * gap)


def test_from_a_random_start_it_is_the_mean(problem):
    kernels = np.random.default_rng(2).dirichlet(np.ones(S), size=(2, S, A))
    start = [0.1, 0.0, 0.4, 0.5, 0.0]
    random_start = hf.Mixture.from_kernels(kernels, horizon=H, start=start, weights=[0.5, 0.5])
    table, policy = np.random.default_rng(3).uniform(size=(H, S, A)) / H, np.zeros((H, S), int)
    gaps = [
        hf.true_gap(hf.Mixture.from_kernels(kernels, horizon=H, start=s, weights=[0.5, 0.5]), table, policy)
        for s in range(S)
    ]
    assert hf.true_gap(random_start, table, policy) == pytest.approx(np.dot(start, gaps), abs=1e-15)


def test_episodes_have_the_frequencies_of_the_truth(problem):
    """Every (h, s, a) against its probability; false alarm 1e-6."""
    N, policy = 5000, np.random.default_rng(4).dirichlet(np.ones(A), size=(H, S))
    episodes = hf.simulate(problem, policy, episodes=N, seed=1)
    count = np.zeros((H, S, A))
    for h in range(H):
        np.add.at(count[h], (episodes.s[:, h], episodes.a[:, h]), 1)
    expected = visits(problem.kernel(), policy, problem.start)
    assert np.abs(count / N - expected).max() <= hoeffding(N, count.size)


def test_episodes_of_the_truth_are_those_of_its_kernel(problem):
    policy = np.zeros((H, S), int)
    episodes = hf.simulate(problem, policy, episodes=20, seed=6)
    other = simulate_kernel(problem.kernel(), problem.space, policy, episodes=20, seed=6)
    for x, y in ((episodes.s, other.s), (episodes.a, other.a), (episodes.j, other.j)):
        np.testing.assert_array_equal(x, y)


def test_who_does_not_know_the_truth_cannot_say(problem):
    without_truth, policy = hf.Problem(problem.model), np.zeros((H, S), int)
    for ask in (
        lambda: hf.simulate(without_truth, policy),
        lambda: hf.true_gap(without_truth, hf.goal(without_truth, 1), policy),
    ):
        with pytest.raises(SimulationError, match="has no truth, so it cannot simulate itself"):
            ask()
    with pytest.raises(ShapeError, match="the problem is a MixtureModel; it must be a Problem"):
        hf.simulate(problem.model, policy)
    with pytest.raises(RewardError, match="the total reaches"):
        hf.true_gap(problem, np.ones((H, S, A)), policy)
