"""UCRL-RFE+ against the algorithm as printed, its weights, its optimism and its certificate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError
from horizonfree.estimators import radius
from horizonfree.estimators.optimism import exploration_reward, max_box_norm
from horizonfree.estimators.weighted import HAT, TILDE
from horizonfree.explorers.base import ConfidenceBall
from horizonfree.explorers.loop import ball_records
from horizonfree.explorers.ucrl_rfe_plus import UCRLRFEPlus
from horizonfree.planning.traced import optimal_jax
from tests.reference import ucrl_rfe as literal
from tests.reference import ucrl_vtr_plus as weights
from tests.reference.episodes import follow, full_features, full_slots, seeds


def mixture():
    return hf.make("random-mixture", states=4, actions=2, dim=3, horizon=4)


@pytest.mark.parametrize("constants", ["paper", "scaled"])
def test_twenty_episodes_agree_with_the_printed_algorithm(constants, x64):
    """Ties are free in the paper: maximisers and actions are the library's, once shown to attain the maxima."""
    problem, K = mixture(), 20
    model, phi = problem.model, full_features(problem.model)
    H, d, lam = model.space.horizon, model.dim, model.bound**-2
    explorer = UCRLRFEPlus(constants=constants, scale=0.3, bias_scale=0.1, budget=K)
    radii, beta = jax.tree.map(float, explorer.radii(model))
    box, hat, tilde = (literal.Regression.init(lam, d) for _ in range(3))
    for state, trajectory, updated in follow(problem, explorer, K):
        width = literal.widest(phi, box.Sigma)
        f = full_slots(model.space, state.f)
        np.testing.assert_allclose(literal.attained_norm(phi, f, box.Sigma), width, rtol=0, atol=1e-9)
        reward = literal.exploration_reward(width, beta, H)
        Q, V = literal.plan(phi, [hat.theta()] * H, [hat.Sigma] * H, radii.hat, reward, H)
        chosen_Q = np.take_along_axis(Q, state.policy[..., None], axis=2)[..., 0]
        np.testing.assert_allclose(chosen_Q, V[:H], atol=1e-9)
        np.testing.assert_allclose(state.V, V, atol=1e-9)
        s, a = trajectory.s, trajectory.a
        weights.regress([hat] * H, [tilde] * H, phi, V, s, a, radii.check, radii.tilde)
        literal.regress_on_maximisers(box, phi, f, s, a)
        for regression, ridge in (
            (box, updated.ridge),
            (hat, pick(updated.own, HAT)),
            (tilde, pick(updated.own, TILDE)),
        ):
            np.testing.assert_allclose(ridge.Sigma, regression.Sigma, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(ridge.b, regression.b, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(np.asarray(ridge.theta), regression.theta(), rtol=1e-9, atol=1e-9)


def pick(ridge, i):
    return jax.tree.map(lambda x: x[i], ridge)


@pytest.fixture(scope="module")
def two_hundred():
    """200 seeds with the paper's radii, and with radii that let values fall below H."""
    problem, episodes = mixture(), {}
    for constants in ("paper", "scaled"):
        explorer = UCRLRFEPlus(constants=constants, budget=40, scale=0.5, bias_scale=0.5)

        def details(setting, state, explorer=explorer):
            model = setting.model
            r = exploration_reward(model, max_box_norm(model, state.ridge), explorer.radii(model)[1])
            best = optimal_jax(model.kernel(setting.truth), r)[1][0, model.space.start]
            radii, beta = explorer.radii(model)
            balls = (
                ConfidenceBall(state.ridge, beta),
                ConfidenceBall(state.own, jnp.stack([radii.hat, radii.tilde])),
            )
            return {"optimum": best, "ratio_before": ball_records(balls, setting.truth)["truth_ratio"]}

        episodes[constants] = seeds(problem, explorer, 40, 200, details)
    return problem, episodes


def test_values_are_optimistic_whenever_the_balls_hold_the_truth(two_hundred):
    """With the paper's radii they always did; with smaller ones the implication is tested below the cap H."""
    problem, episodes = two_hundred
    assert float(episodes["paper"]["ratio_before"].max()) < 1
    for rows in episodes.values():
        holds = rows["ratio_before"] <= 1
        assert (rows["V"] >= rows["optimum"] - 1e-9)[holds].all()
    assert (holds & (rows["V"] < problem.horizon)).sum() > 1000


def test_nu_lies_between_its_bounds_and_uses_the_room(two_hundred):
    """H^2/d <= nu <= 3 H^2; only the smaller radii ever reach the floor."""
    problem, episodes = two_hundred
    H, d = problem.horizon, problem.model.dim
    for rows in episodes.values():
        assert (rows["smallest_nu"] >= H**2 / d - 1e-12).all()
        assert (rows["largest_nu"] <= 3 * H**2 + 1e-9).all()
    assert (episodes["scaled"]["smallest_nu"] < H**2 / d + 1e-9).any()
    assert (episodes["paper"]["largest_nu"] > 2 * H**2 - 1e-9).any()


def test_the_radii_are_those_of_the_theorem_and_the_budget_is_asked_for(x64):
    model = mixture().model
    expected = radius.radii_rfe_plus(50, radius.model_sizes(model), 0.05)
    assert UCRLRFEPlus(constants="paper", budget=50).radii(model) == expected
    with pytest.raises(OptionError, match="budget is missing"):
        UCRLRFEPlus(constants="paper").radii(model)
    scaled = UCRLRFEPlus(scale=2.0, bias_scale=0.5).radii(model)
    H, d = model.space.horizon, model.dim
    np.testing.assert_allclose(scaled[0], (2.5, 2 * d**0.5 + 0.5, 2 * H**2 + 0.5))
    assert float(scaled[1]) == pytest.approx(2 * H + 0.5)


def test_the_certificate_speaks_of_its_constants(x64):
    model, explorer = mixture().model, UCRLRFEPlus()
    assert "no guarantee" in explorer.claim(model, explorer.init(model)).summary()
