"""Where there are many states and rows things are computed otherwise: the same numbers, and less work."""

import numpy as np
import pytest

from horizonfree import explore, make
from horizonfree._x64 import scope, to_device
from horizonfree.guarantees.divergence import (
    RowDivergence,
    _two_largest,
    bad_sets,
    divergence,
    gap,
    largest_hit,
    largest_sum,
    least_loss,
)
from horizonfree.models.mixture import confidence, learner
from horizonfree.models.mixture.ellipsoid import DivergenceBound, hellinger
from tests.reference import cases, small
from tests.reference.jitted import jitted

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinite divergences


def test_certificates_and_predictors_have_the_same_numbers(monkeypatch):
    """Padding, states out of reach and walls; three bets that have begun."""
    problem = make("zoned-grid", size=4, zones=2, horizon=5)
    model, run = problem.model, explore(problem, "optimal-design", episodes=80, progress=False)
    usual = run.confidence(0.05)
    counts, thetas = np.asarray(run.evidence.row_counts), np.asarray(run.evidence.thetas)
    with scope():
        fitted = to_device((model.valid, 3 * counts, thetas))
        predicted = jitted(learner.predict, *fitted)

    monkeypatch.setattr(confidence, "MIN_SLOTS_TO_PRUNE", 0)
    monkeypatch.setattr(learner, "MAX_DENSE_ROWS", 0)
    found = model.confidence(run.evidence, 0.05)
    assert found.bet == usual.bet
    for name in ("eps", "theta", "slacks"):
        np.testing.assert_allclose(getattr(found, name), getattr(usual, name), rtol=1e-9)
    np.testing.assert_allclose(found.divergence.kappa, usual.divergence.kappa, rtol=1e-9)
    with scope():
        again = jitted(lambda *given: learner.predict(*given), *fitted)
    np.testing.assert_allclose(again, predicted, rtol=1e-12)


@pytest.fixture(scope="module")
def case():
    """Rows that may have no probability are left out, and pairs are stopped at."""
    return cases.Case(small.dense(S=8, weights=(0.9, 0.1, 0.0, 0.0)), episodes=150, seeds=4)


def test_the_best_bad_set_is_found(case):
    """Nothing to stop at; pairs above each threshold, and mass left out; nothing that is known."""
    rng, kernel = np.random.default_rng(0), case.confidences[0].kernel
    costs = 0.001 * rng.random(kernel.prob.shape[:2])
    mixed = costs * 10.0 ** rng.integers(0, 5, costs.shape)
    hits = []
    for cost, leak in ((costs, 0 * costs), (mixed, costs), (costs + np.inf, 1 + 0 * costs)):
        step = RowDivergence(kernel, cost, leak)
        found = divergence(case.space, step)
        each = []
        for stop in bad_sets(step):
            kappa = largest_sum(case.space, step, np.where(stop, 0.0, cost), stop)
            hit = largest_hit(case.space, step, stop)
            each.append(float(gap(*(np.asarray(x) for x in (2 * hit, kappa, kappa)))))
        assert found.eps == min(each)
        np.testing.assert_array_equal(found.stop, bad_sets(step)[int(np.argmin(each))])
        hits.append(found.hit)
    assert hits[0] == 0 < hits[1] < hits[2] == 1


def test_of_several_ellipsoids_those_that_cannot_be_the_best_are_left_out(case, monkeypatch):
    monkeypatch.setattr(confidence, "MIN_SLOTS_TO_PRUNE", 0)
    eps = np.array([c.eps for c in case.confidences])
    asked = [i for i in range(len(eps)) if i != eps.argmin()]
    balls = {i: case.confidences[i].ball for i in asked}
    parts = {i: case.confidences[i] for i in asked}
    comparisons = {i: DivergenceBound(x.step, x.divergence, x.is_out) for i, x in parts.items()}
    losses = confidence.largest_losses(case.space, case.valid, balls, comparisons)
    assert min(losses, key=losses.get) == min(asked, key=lambda i: eps[i])
    computed = [i for i in asked if np.isfinite(losses[i])]
    np.testing.assert_allclose([losses[i] for i in computed], eps[computed], rtol=1e-12)
    assert 0 < len(computed) < len(asked)


def test_the_least_loss_is_no_more_than_the_loss_and_not_much_less(case):
    lows = []
    for c in case.confidences:
        h2 = hellinger(case.space, case.valid, c.ball)
        low = least_loss(case.space, c.step, c.divergence, h2, case.valid.choices)
        assert low <= float(c.eps) + 1e-12
        lows.append(low / float(c.eps))
    assert max(lows) > 0.8


@pytest.mark.parametrize("A", [1, 2, 3, 20])
def test_the_two_largest_of_few_actions_and_of_many(A):
    rng = np.random.default_rng(A)
    x, choices = rng.integers(0, 4, (50, A)) / 4, rng.random((50, A)) < 0.7
    wanted = np.sort(np.concatenate([np.where(choices, x, 0.0), np.zeros((50, 1))], 1))[:, :-3:-1].T
    np.testing.assert_array_equal(_two_largest(x, choices), wanted)
