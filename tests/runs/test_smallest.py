"""`run.certificate()` is the smallest bound that is affordable: one number, everywhere the same."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError
from horizonfree.models.base import Bounds
from horizonfree.models.mixture.confidence import MAX_WORK


def explore(name, episodes=60, **parameters):
    return hf.explore(hf.make(name, **parameters), "uniform", episodes=episodes, progress=False)


@pytest.mark.parametrize("name", ["river-swim", "inventory", "hard-instance"])
def test_the_default_is_the_smaller_of_both_methods_and_names_it(name):
    run = explore(name, episodes=200)
    by = {method: run.certificate(method=method) for method in ("uniform", "direct")}
    smallest = run.certificate()
    assert smallest.eps == min(x.eps for x in by.values())
    assert smallest.eps < by["uniform"].eps
    assert (smallest.method, smallest.delta) == ("direct", 0.05)
    assert str(smallest) == str(by["direct"])
    assert smallest.holds_for == by["uniform"].holds_for  # plans in the same estimate
    np.testing.assert_array_equal(run.confidence().kernel.prob, run.confidence().centre.prob)


def test_where_the_sharper_method_gains_nothing_the_default_says_uniform():
    run = explore("rfe-lower-bound", episodes=3)
    assert run.certificate().eps == run.certificate(method="uniform").eps == 1
    assert run.certificate().method == "uniform"


def test_what_is_not_affordable_is_left_to_those_who_ask():
    small, large = hf.make("zoned-grid", size=4), hf.make("zoned-grid", size=30)
    work = [x.space.succ.size * x.horizon * 6**x.model.num_unknown for x in (small, large)]
    assert work[0] < MAX_WORK < work[1]
    data = (hf.explore(x, "uniform", episodes=2, progress=False) for x in (small, large))
    assert [run.confidence().sharpest for run in data] == ["direct", "uniform"]
    many_kernels = hf.Mixture.from_kernels(
        np.random.default_rng(0).dirichlet(np.ones(8), size=(7, 8, 1)), horizon=3
    )
    assert many_kernels.model.num_unknown == 6
    for problem in (many_kernels, hf.Tabular(3, 2, 3)):
        run = hf.from_episodes(problem, (np.zeros((1, 4), int), np.zeros((1, 3), int)))
        assert run.confidence().sharpest == "uniform"
        assert run.certificate().method == "uniform"


def test_exploration_stops_by_the_number_that_is_reported():
    run = hf.explore(hf.make("river-swim"), until_eps=0.45, progress=False)
    assert run.certificate().eps <= 0.45
    assert run.certificate(method="uniform").eps > 0.45


def test_the_default_within_a_misspecification_is_its_only_method():
    run = hf.explore(hf.make("river-swim"), episodes=60, progress=False)
    default, uniform = (
        run.certificate(misspecification=0.001, **options) for options in ({}, {"method": "uniform"})
    )
    assert default.eps == uniform.eps
    with pytest.raises(OptionError, match="'uniform', with misspecification="):
        run.certificate(misspecification=0.001, method="direct")
    with pytest.raises(OptionError, match="sharpest"):
        run.certificate(method="sharpest")


@pytest.mark.parametrize("name", ["river-swim", "inventory", "rfe-lower-bound", "table"])
@pytest.mark.parametrize("episodes", [5, 60])
def test_no_plan_has_a_larger_bound_than_the_certificate_for_every_reward(name, episodes):
    problem = hf.make("river-swim").as_tabular() if name == "table" else hf.make(name)
    run = hf.explore(problem, "uniform", episodes=episodes, progress=False)
    certificate, rng = run.certificate(), np.random.default_rng(0)
    H, S, A = problem.space.sizes
    rewards = [hf.goal(problem, s) for s in range(min(S, 4))] + [rng.random((H, S, A)) / H for _ in range(3)]
    for reward in rewards:
        plan = run.plan(reward)
        assert plan.gap <= certificate.eps + 1e-9
        assert run.evaluate(reward, plan.policy).gap == plan.gap  # the policy decides, not who asks


def test_the_method_direct_counts_for_an_optimal_plan_only_where_it_may_be_the_smallest():
    run = explore("river-swim", episodes=200)
    confidence, reward = run.confidence(), hf.goal(run.problem, 5)
    eps, least = confidence.sharper("direct")[0], confidence._by_kappa.least
    assert 0 < least <= eps < confidence.eps
    for gap, is_needed in ((1.0, True), (least * 1.001, True), (least, False), (1e-3, False)):
        bounds = Bounds(0.5, 0.0, 1.0, {"uniform": 1.0, "interval": np.nan, "tangent": gap})
        gaps = confidence._with_direct(bounds).gaps
        assert gaps == bounds.gaps | ({"direct": eps} if is_needed else {})
        forecast = confidence.after(1.5)[0]
        assert forecast._with_direct(bounds) is bounds  # a forecast
    plan = run.plan(reward)
    worse = (plan.policy + 1) % run.problem.num_actions  # not optimal in the estimate
    assert "direct" not in confidence.bounds(reward, worse).gaps
