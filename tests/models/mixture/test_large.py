"""Where there are many states and rows things are computed otherwise: the same numbers, and less work."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from horizonfree import explore, goal, make
from horizonfree._x64 import to_device
from horizonfree.guarantees import trajectories
from horizonfree.guarantees.choice import _two_largest, least_loss
from horizonfree.guarantees.trajectories import Steps, divergence
from horizonfree.models import certify
from horizonfree.models.mixture import confidence, ellipsoid, likelihood, rows, tangent
from horizonfree.models.mixture.steps import hellinger
from tests.reference import cases, small
from tests.reference.jitted import jitted

pytestmark = pytest.mark.usefixtures("x64")


def make_everything_much(monkeypatch):
    """And tiles of 5 states do not fit into 16."""
    for module in (trajectories, confidence):
        monkeypatch.setattr(module, "LARGE", 0)
    for module in (rows, likelihood, ellipsoid):
        monkeypatch.setattr(module, "MANY", 0)
    monkeypatch.setattr(tangent, "TILE", 5)


def test_certificates_and_plans_have_the_same_numbers(monkeypatch):
    """Padding, states out of reach and walls; three bets that have begun."""
    problem = make("zoned-grid", size=4, zones=2, horizon=5)
    model, run = problem.model, explore(problem, "information", episodes=80, progress=False)
    usual, reward = run.confidence(0.05), goal(problem, 15)
    policy = run.plan(reward).policy
    whole = certify.bounds(model, usual, reward, policy)
    counts, thetas = np.asarray(run.evidence.row_counts), np.asarray(run.evidence.thetas)
    fitted = to_device((model.valid, 3 * counts, thetas))
    predicted = jitted(likelihood.predict, *fitted)

    make_everything_much(monkeypatch)
    world = to_device((model, run.evidence, np.array(0.05)))
    found = jitted(lambda model, *given: model.confidence(*given), *world)
    assert found.bet == usual.bet
    for name in ("eps", "theta", "slacks"):
        np.testing.assert_allclose(getattr(found, name), getattr(usual, name), rtol=1e-9)
    np.testing.assert_allclose(found.divergence.kappa, usual.divergence.kappa, rtol=1e-9)
    asked = to_device((model, usual, reward, policy))
    bounds = jitted(lambda model, *given: model.bounds(*given), *asked)
    for name, x in whole.gaps.items():
        np.testing.assert_allclose(bounds.gaps[name], x, rtol=1e-12)
    np.testing.assert_allclose((bounds.low, bounds.high), (whole.low, whole.high), rtol=1e-12)
    again = jitted(lambda *given: likelihood.predict(*given), *fitted)
    np.testing.assert_allclose(again, predicted, rtol=1e-12)


@pytest.fixture(scope="module")
def case():
    """Rows that may have no probability are left out, and pairs are stopped at."""
    return cases.Case(small.dense(S=8, weights=(0.9, 0.1, 0.0, 0.0)), episodes=150, seeds=4)


def test_the_same_bad_set_is_found(case, monkeypatch):
    """Nothing to stop at; pairs above each threshold, and mass left out; nothing that is known."""
    rng, kernel = np.random.default_rng(0), case.confidences[0].kernel
    costs = 0.001 * rng.random(kernel.prob.shape[:2])
    mixed = costs * 10.0 ** rng.integers(0, 5, costs.shape)
    usual, large, hits = eqx.filter_jit(divergence), eqx.filter_jit(lambda *given: divergence(*given)), []
    for cost, leak in ((costs, 0 * costs), (mixed, costs), (costs + np.inf, 1 + 0 * costs)):
        given = to_device((case.space, Steps(kernel, cost, leak)))
        wanted = usual(*given)
        with monkeypatch.context() as patch:
            patch.setattr(trajectories, "LARGE", 0)
            found = large(*given)
        np.testing.assert_array_equal(found.stop, wanted.stop)
        for name in ("kappa", "hit", "eps"):
            np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-12)
        hits.append(float(wanted.hit))
    assert hits[0] == 0 < hits[1] < hits[2] == 1


def test_of_several_ellipsoids_those_that_cannot_be_the_best_are_left_out(case, monkeypatch):
    monkeypatch.setattr(confidence, "LARGE", 0)
    balls, comparisons = (
        jax.tree.map(lambda *x: np.stack(x), *(getattr(c, name) for c in case.confidences))
        for name in ("ball", "compared")
    )
    eps = np.array([float(c.eps) for c in case.confidences])
    is_begun = np.arange(len(eps)) != eps.argmin()
    given = to_device((case.space, case.valid, is_begun, balls, comparisons))
    losses = jitted(confidence.losses_in, *given)
    assert losses.argmin() == np.where(is_begun, eps, np.inf).argmin()
    is_computed = np.isfinite(losses)
    np.testing.assert_allclose(losses[is_computed], eps[is_computed], rtol=1e-12)
    assert 0 < is_computed.sum() < is_begun.sum()


def test_the_least_loss_is_no_more_than_the_loss_and_not_much_less(case):
    def least(space, valid, ball, compared):
        h2 = hellinger(space, valid, ball)
        return least_loss(space, compared.step, compared.divergence, h2, valid.choices)

    least, lows = eqx.filter_jit(least), []
    for c in case.confidences:
        space, valid, ball, compared = to_device((case.space, case.valid, c.ball, c.compared))
        low = float(least(space, valid, ball, compared))
        assert low <= float(c.eps) + 1e-12
        lows.append(low / float(c.eps))
    assert max(lows) > 0.8


@pytest.mark.parametrize("A", [1, 2, 3, 20])
def test_the_two_largest_of_few_actions_and_of_many(A):
    rng = np.random.default_rng(A)
    x, choices = rng.integers(0, 4, (50, A)) / 4, rng.random((50, A)) < 0.7
    wanted = np.sort(np.concatenate([np.where(choices, x, 0.0), np.zeros((50, 1))], 1))[:, :-3:-1].T
    np.testing.assert_array_equal(_two_largest(jnp.asarray(x), jnp.asarray(choices)), wanted)
