"""UCRL-VTR+ against the algorithm as printed, its weights and its optimism, with steps apart and pooled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree import planning
from horizonfree.estimators import radius
from horizonfree.estimators.radius import Sizes
from horizonfree.estimators.weighted import HAT, TILDE
from horizonfree.explorers.base import ConfidenceBall
from horizonfree.explorers.loop import ball_records
from horizonfree.explorers.ucrl_vtr_plus import UCRLVTRPlus
from tests.reference import ucrl_rfe as literal
from tests.reference import ucrl_vtr_plus as weights
from tests.reference.episodes import follow, full_features, seeds


def mixture():
    return hf.make("random-mixture", states=4, actions=2, dim=3, horizon=4)


def explorer(problem, **options):
    return UCRLVTRPlus(reward=hf.occupancy(problem, problem.num_states - 1), **options)


@pytest.mark.parametrize(("constants", "pool_steps"), [("paper", False), ("scaled", False), ("paper", True)])
def test_twenty_episodes_agree_with_the_printed_algorithm(constants, pool_steps, x64):
    """Ties are free in the paper: actions are the library's, once shown to attain the maximum."""
    problem, K = mixture(), 20
    model, phi = problem.model, full_features(problem.model)
    H, d, lam = model.space.horizon, model.dim, model.bound**-2
    vtr = explorer(problem, constants=constants, scale=0.3, bias_scale=0.1, pool_steps=pool_steps)
    first, second = (
        [literal.Regression.init(lam, d)] * H
        if pool_steps
        else [literal.Regression.init(lam, d) for _ in range(H)]
        for _ in range(2)
    )
    for state, trajectory, updated in follow(problem, vtr, K):
        radii = jax.tree.map(float, vtr.radii(model, state.episode + 1))
        theta, Sigma = [x.theta() for x in first], [x.Sigma for x in first]
        Q, V = literal.plan(phi, theta, Sigma, radii.hat, H * vtr.reward, H)
        chosen_Q = np.take_along_axis(Q, state.policy[..., None], axis=2)[..., 0]
        np.testing.assert_allclose(chosen_Q, V[:H], atol=1e-9)
        np.testing.assert_allclose(state.V, V, atol=1e-9)
        s, a = trajectory.s, trajectory.a
        weights.regress(first, second, phi, V, s, a, radii.check, radii.tilde)
        for regression, family in ((first, HAT), (second, TILDE)):
            regression = regression[0] if pool_steps else regression
            Sigma = regression.Sigma if pool_steps else [x.Sigma for x in regression]
            b = regression.b if pool_steps else [x.b for x in regression]
            np.testing.assert_allclose(updated.ridge.Sigma[..., family, :, :], Sigma, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(updated.ridge.b[..., family, :], b, rtol=1e-9, atol=1e-9)


@pytest.fixture(scope="module", params=[False, True], ids=["steps apart", "pooled"])
def two_hundred(request):
    """200 seeds with the paper's radii, and with radii that let values fall below H."""
    problem, episodes = mixture(), {}
    for constants in ("paper", "scaled"):
        vtr = explorer(problem, constants=constants, scale=1.0, bias_scale=0.5, pool_steps=request.param)

        def details(setting, state, vtr=vtr):
            radii = vtr.radii(setting.model, state.episode + 1)
            ball = ConfidenceBall(state.ridge, jnp.stack([radii.hat, radii.tilde]))
            return {"ratio_before": ball_records((ball,), setting.truth)["truth_ratio"]}

        episodes[constants] = seeds(problem, vtr, 60, 200, details)
    return problem, episodes


def test_values_are_optimistic_whenever_the_balls_hold_the_truth(two_hundred):
    problem, episodes = two_hundred
    best = planning.optimal(problem.kernel(), hf.occupancy(problem, problem.num_states - 1)).V[
        0, problem.start
    ]
    assert float(episodes["paper"]["ratio_before"].max()) < 1
    for rows in episodes.values():
        holds = rows["ratio_before"] <= 1
        assert (rows["V"] >= best - 1e-9)[holds].all()
    assert (holds & (rows["V"] < 1)).sum() > 1000


def test_sigma_lies_between_its_bounds(two_hundred):
    """H^2/d <= sigma^2 <= 3 H^2."""
    problem, episodes = two_hundred
    H, d = problem.horizon, problem.model.dim
    for rows in episodes.values():
        assert (rows["smallest_sigma_sq"] >= H**2 / d - 1e-12).all()
        assert (rows["largest_sigma_sq"] <= 3 * H**2 + 1e-9).all()


def test_pooled_radii_count_all_rows_and_do_not_share_delta(x64):
    problem = mixture()
    model, (d, H, B) = problem.model, (problem.model.dim, problem.horizon, problem.model.bound)
    for pool, t, delta in ((False, 1, 0.05), (True, H, 0.05 * H)):
        vtr = explorer(problem, constants="paper", pool_steps=pool)
        state = vtr.init(model)
        assert state.ridge.b.shape == ((2, d) if pool else (H, 2, d))
        assert vtr.radii(model, 1) == radius.radii_vtr_plus(t, Sizes(d, H, B), delta)


def test_it_learns_to_play_its_reward():
    """Regret in the last tenth of the episodes is a fraction of that of uniform play."""
    problem = mixture()
    reward = hf.occupancy(problem, 3)
    run = hf.explore(
        problem, "ucrl-vtr+", episodes=2000, reward=reward, scale=0.3, pool_steps=True, progress=False
    )
    uniform = np.full((problem.horizon, 4, 2), 0.5)
    assert hf.true_gap(problem, reward, run.progress.state.policy) < 0.25 * hf.true_gap(
        problem, reward, uniform
    )
