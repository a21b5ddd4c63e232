"""Plans within constraints: units, refusals and other starts."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError, OptionError, RewardError
from horizonfree.runs.constrained import ConstrainedPlan


@pytest.fixture(scope="module")
def run():
    problem = hf.make("river-swim", states=4, horizon=8)
    return hf.explore(problem, episodes=300, seed=0, progress=False)


@pytest.fixture(scope="module")
def goal(run):
    return hf.goal(run.problem, 3)


def test_units_of_costs_and_rewards_change_nothing(run, goal):
    cost = hf.occupancy(run.problem, 1)
    plan = run.plan(goal, constraints=[hf.at_most(cost, 0.2)])
    scaled = run.plan(
        100 * goal - 7,
        scale="rescale",
        constraints=[hf.at_most(50 * cost - 3, 50 * 0.2 - 3 * run.problem.horizon)],
    )
    assert plan.status == scaled.status == "feasible"
    total = 7 * run.problem.horizon
    assert scaled.value == pytest.approx(100 * plan.value - total, abs=1e-4)
    assert scaled.gap == pytest.approx(100 * plan.gap, rel=1e-3)
    high = 50 * plan.constraints[0].high - 3 * run.problem.horizon
    assert scaled.constraints[0].high == pytest.approx(high, abs=1e-4)
    assert scaled.multipliers[0] == pytest.approx(2 * plan.multipliers[0], rel=1e-3)
    turned = run.plan(goal, constraints=[hf.at_least(-cost, -0.2)])
    assert turned.status == "feasible"
    assert turned.gap == pytest.approx(plan.gap, rel=1e-3)
    rescaled = run.plan(goal, constraints=[hf.at_most(hf.rescale(run.problem, cost), 0.2)])
    assert rescaled.gap == pytest.approx(plan.gap, rel=1e-6)
    by_function = run.plan(goal, constraints=[hf.at_most(lambda h, s, a: cost[h, s, a], 0.2)])
    assert by_function.gap == plan.gap


def test_a_constraint_that_never_binds_leaves_the_plan_as_it_is(run, goal):
    plan, free = run.plan(goal, constraints=[hf.at_most(goal, 5.0)]), run.plan(goal)
    assert plan.status == "feasible"
    assert plan.value == pytest.approx(free.value, abs=1e-9)
    assert plan.gap == pytest.approx(free.gap, abs=1e-6)


def test_the_interval_of_a_constraint_is_that_of_its_evaluation(run, goal):
    cost = hf.occupancy(run.problem, 1)
    plan = run.plan(goal, constraints=[hf.at_most(cost, 0.2)])
    own = run.evaluate(cost, plan.policy, scale="rescale")
    (result,) = plan.constraints
    assert (result.value, result.low, result.high) == pytest.approx(
        (own.value, own.value_low, own.value_high), abs=1e-12
    )


def test_answers_are_three_and_say_what_is_proved(run, goal):
    words = {
        0.3: ("feasible", "all constraints hold (95% confidence"),
        0.45: ("undecided", "whether the constraints hold is undecided"),
        0.7: ("infeasible", "no policy satisfies the constraints (95% confidence"),
    }
    for bound, (status, start) in words.items():
        plan = run.plan(goal, constraints=[hf.at_least(goal, bound)])
        assert isinstance(plan, ConstrainedPlan)
        assert plan.status == status
        assert plan.certificate.summary().startswith(start)
        assert status in repr(plan)
    assert plan.gap == 1.0


def test_an_undecided_plan_has_a_forecast(run, goal):
    """More episodes of the estimate decide it; a bound that is the best total itself, never."""
    best = run.plan(goal).value
    for bound in (best - 0.05, best + 0.05):
        plan = run.plan(goal, constraints=[hf.at_least(goal, bound)])
        assert plan.status == "undecided"
        assert plan.certificate.forecast.endswith("more episodes decide the constraints")
    plan = run.plan(goal, constraints=[hf.at_least(goal, best)])
    assert "cannot be foreseen" in plan.certificate.forecast


@pytest.mark.parametrize(("S", "A", "H"), [(1, 1, 1), (1, 2, 3), (3, 1, 2), (2, 2, 1), (2, 2, 40)])
def test_odd_shapes(S, A, H):
    """The cost of action 0, and bounds that every policy or none is within."""
    problem = hf.Tabular.from_table(np.full((S, A, S), 1 / S), horizon=H)
    run = hf.explore(problem, episodes=20, progress=False)
    cost = np.zeros((S, A))
    cost[:, 0] = 1 / H
    for bound, status in ((1.1, "feasible"), (-0.1, "infeasible")):
        plan = run.plan(np.zeros(S), constraints=[hf.at_most(cost, bound)])
        assert (plan.status, plan.policy.shape) == (status, (H, S, A))
    if A > 1:
        plan = run.plan(cost, constraints=[hf.at_most(cost, 0.25)])  # a quarter of the steps, drawn
        assert plan.status == "feasible"
        assert 0.2 < plan.value <= 0.25


def test_nothing_is_certified_from_one_episode_or_for_a_refuted_class():
    problem = hf.Tabular(3, 2, horizon=3)
    run = hf.from_episodes(problem, ([[0, 0, 1, 1]], [[0, 0, 0]]))
    plan = run.plan(hf.goal(problem, 2), constraints=[hf.at_most(hf.goal(problem, 1), 0.5)])
    assert (plan.status, plan.gap) == ("undecided", 1.0)
    kernels = np.array([[[[1.0, 0.0]], [[0.0, 1.0]]], [[[1.0, 0.0]], [[0.5, 0.5]]]])
    wrong = hf.Mixture.from_kernels(kernels, horizon=2)
    refuted = hf.from_episodes(wrong, ([[0, 1, 1]], [[0, 0]]))
    plan = refuted.plan([0.0, 0.5], constraints=[hf.at_most([0.0, 0.5], 0.1)])
    assert plan.certificate.is_rejected
    assert plan.status == "undecided"


def test_another_start_and_horizon(run, goal):
    reward, cost = [0, 0, 0, 1 / 6], hf.occupancy(run.problem, 1)[0]
    plan = run.plan(reward, start=1, horizon=6, constraints=[hf.at_most(cost, 0.5)])
    there = run.restart_from(1, 6)
    same = there.plan(reward, constraints=[hf.at_most(cost, 0.5)])
    assert (plan.policy.shape, plan.value, plan.gap) == ((6, 4, 2), same.value, same.gap)
    assert "from state 1, in 6 steps" in plan.certificate.statement


def test_what_does_not_combine_is_refused(run, goal, tmp_path):
    problem, cost = run.problem, hf.occupancy(run.problem, 1)
    within = [hf.at_most(cost, 0.2)]
    wrong = {
        "leave model= out": {"model": "explorer"},
        "misspecification= proves nothing": {"misspecification": 0.01},
        "without discount=": {"discount": 0.9},
        "final= and transition=": {"transition": np.zeros((4, 2, 4))},
    }
    for words, option in wrong.items():
        with pytest.raises(OptionError, match=words):
            run.plan(goal, constraints=within, **option)
    for constraints in ([], within[0], "cost", [cost]):
        with pytest.raises(OptionError, match="constraints"):
            run.plan(goal, constraints=constraints)
    with pytest.raises(RewardError, match="absorbing"):
        run.plan(goal, constraints=[hf.at_most(hf.reach(problem, 3), 0.2)])
    with pytest.raises(RewardError, match="absorbing"):
        run.plan(hf.reach(problem, 3), constraints=within)
    for bound in (np.nan, np.inf, "1", None):
        with pytest.raises(HorizonfreeError, match="bound"):
            hf.at_most(cost, bound)
    plan = run.plan(goal, constraints=within)
    with pytest.raises(OptionError, match=r"run\.evaluate"):
        plan.credible_interval()
    with pytest.raises(OptionError, match="cannot be saved"):
        plan.certificate.save(tmp_path / "c.json")
