"""Problems of lower bounds: their published constants and closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horizonfree.problems import make
from tests.problems.test_named import largest_norm, optimal_and_worst


@pytest.mark.parametrize(
    ("d", "Delta", "alpha", "beta", "norm", "low", "high"),
    [
        (2, 0.0208333, 0.9897433, 0.1428571, 1.0208333, 0.1458, 0.1875),
        (3, 0.0138889, 0.9863939, 0.1162476, 1.0277778, 0.1389, 0.1944),
        (4, 0.0104167, 0.9847319, 0.1005038, 1.0312500, 0.1354, 0.1979),
        (5, 0.0083333, 0.9837388, 0.0898027, 1.0333333, 0.1333, 0.2000),
    ],
)
def test_the_hard_instance_has_its_published_constants(d, Delta, alpha, beta, norm, low, high):
    problem = make("hard-instance", dim=d, episodes=3 * d**2)
    theta, P = problem.truth, problem.kernel().dense()
    assert problem.model.unit == 1
    assert 1 / theta[0] == pytest.approx(alpha, abs=5e-8)
    assert problem.model.phi[0, 0, 2, 1:] == pytest.approx(-beta, abs=5e-8)
    assert np.abs(theta[1:]) * beta == pytest.approx(Delta, abs=5e-8)
    assert np.linalg.norm(theta) == pytest.approx(norm, abs=5e-8)
    assert P[0, :, 2].min() == pytest.approx(low, abs=5e-5)
    assert P[0, :, 2].max() == pytest.approx(high, abs=5e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.integers(0, 500), st.integers(2, 12), st.integers(0, 10**6))
def test_the_hard_instance_obeys_its_closed_forms(d, extra_actions, H, seed):
    K = 3 * d**2 + extra_actions
    problem = make("hard-instance", dim=d, episodes=K, horizon=H, bound=25 / 24, seed=seed)
    Delta, delta = 1 / np.sqrt(192 * K), 1 / 6
    # ||theta|| = 1 + Delta (d-1) < 25/24, and alpha^2 + (d-1) beta^2 = 1.
    assert np.linalg.norm(problem.truth) == pytest.approx(1 + Delta * (d - 1), abs=1e-12)
    phi = problem.model.phi
    alpha, beta = phi[1, 0, 1, 0], abs(phi[0, 0, 2, 1])
    assert alpha**2 + (d - 1) * beta**2 == pytest.approx(1, abs=1e-12)
    # The gap of an action grows by 2 Delta (H-1)/H with each wrong sign.
    mu = problem.truth[1:] * beta
    np.testing.assert_allclose(np.abs(mu), Delta, atol=1e-12)
    signs = np.array([[1 if a >> i & 1 else -1 for i in range(d - 1)] for a in range(2 ** (d - 1))])
    P = problem.kernel().dense()
    np.testing.assert_allclose(P[0, :, 2], delta + signs @ mu, atol=1e-12)
    wrong = (signs != np.sign(mu)).sum(axis=1)
    value = P[0, :, 2] * (H - 1) / H
    np.testing.assert_allclose(value.max() - value, 2 * Delta * (H - 1) / H * wrong, atol=1e-12)
    reward = np.zeros((H, 3, 2 ** (d - 1)))
    reward[:, 2] = 1 / H
    best, worst = optimal_and_worst(problem, reward)
    assert best == pytest.approx((delta + (d - 1) * Delta) * (H - 1) / H, abs=1e-12)
    assert best - worst <= d / (4 * np.sqrt(3 * K))
    for s in (1, 2):
        np.testing.assert_allclose(P[s], np.tile(np.eye(3)[s], (len(signs), 1)), atol=1e-12)


def test_the_hard_instance_of_four_dimensions_has_these_values():
    problem = make("hard-instance", dim=4, episodes=48, horizon=10)
    reward = np.zeros((10, 3, 8))
    reward[:, 2] = 0.1
    assert optimal_and_worst(problem, reward) == pytest.approx((0.178125, 0.121875), abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(4, 6), st.integers(3, 8), st.integers(0, 200), st.integers(0, 10**6))
def test_the_corridor_of_gambles_obeys_its_closed_forms(d, H, extra_actions, seed):
    K = int(np.ceil((d - 1) ** 2 * H / 2)) + extra_actions
    problem = make("vtr-lower-bound", dim=d, episodes=K, horizon=H, seed=seed)
    assert problem.num_states == H + 2
    assert problem.model.dim == 1 + H * (d - 1)
    assert problem.model.unit == 1
    Delta = np.sqrt(1 / H / K) / (4 * np.sqrt(2))
    assert np.linalg.norm(problem.truth) == pytest.approx(1 + (d - 1) * Delta * np.sqrt(H), abs=1e-12)
    assert problem.model.bound <= 1 + 1 / (4 * np.sqrt(H)) + 1e-12
    # Reward 1 in the goal at every step: V = sum_h (1 - (1 - p)^(h-1)), p best or worst at every gamble.
    reward = np.zeros((H, H + 2, 2 ** (d - 1)))
    reward[:, H + 1] = 1
    steps = np.arange(H)
    p = 1 / H + np.array([1, -1]) * (d - 1) * Delta
    expected = [(1 - (1 - q) ** steps).sum() for q in p]
    assert optimal_and_worst(problem, reward) == pytest.approx(tuple(expected), abs=1e-12)
    # Each step has signs of its own: the best action of x_h is where mu_h points.
    P, mu = problem.kernel().dense(), problem.truth[1:].reshape(H, d - 1)
    for h in range(H):
        best = P[h, :, H + 1].argmax()
        assert [best >> i & 1 for i in range(d - 1)] == (mu[h] > 0).tolist()
        np.testing.assert_allclose(P[h, :, H + 1] + P[h, :, h + 1], 1, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 7), st.floats(0.01, 0.7), st.integers(0, 10**6))
def test_the_biased_coin_obeys_its_closed_forms(d, c, seed):
    problem = make("rfe-lower-bound", dim=d, gap=c, seed=seed)
    t = np.sign(problem.truth[1:])
    signs = np.array([[1 if a >> i & 1 else -1 for i in range(d - 1)] for a in range(2 ** (d - 1))])
    P = problem.kernel().dense()
    np.testing.assert_allclose(P[0, :, 1], 0.5 + c * signs @ t / (np.sqrt(2) * d), atol=1e-12)
    np.testing.assert_allclose(P[0, :, 2], 0.5 - c * signs @ t / (np.sqrt(2) * d), atol=1e-12)
    norm = max(np.sqrt(1 / 8 + (d - 1) / (2 * d)), np.sqrt(1 / 2))
    assert largest_norm(problem.model) == pytest.approx(norm, abs=1e-12)
    assert norm < np.sqrt(5 / 8)
    assert np.linalg.norm(problem.truth) == pytest.approx(problem.model.bound, abs=1e-12)
