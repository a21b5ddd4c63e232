"""Plans within constraints: units, refusals and other starts."""

import dataclasses

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError, OptionError, RewardError
from horizonfree.runs.plan import ConstrainedPlan


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
    negated = run.plan(goal, constraints=[hf.at_least(-cost, -0.2)])
    assert negated.status == "feasible"
    assert negated.gap == pytest.approx(plan.gap, rel=1e-3)
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
    evaluation = run.evaluate(cost, plan.policy, scale="rescale")
    (result,) = plan.constraints
    assert (result.value, result.low, result.high) == pytest.approx(
        (evaluation.value, evaluation.value_low, evaluation.value_high), abs=1e-12
    )


def test_answers_are_three_and_say_what_is_proved(run, goal):
    texts = {
        0.3: ("feasible", "all constraints hold (95% confidence"),
        0.45: ("undecided", "whether the constraints hold is undecided"),
        0.7: ("infeasible", "no policy satisfies the constraints (95% confidence"),
    }
    for bound, (status, start) in texts.items():
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
    restarted = run.restart_from(1, 6)
    restarted_plan = restarted.plan(reward, constraints=[hf.at_most(cost, 0.5)])
    assert (plan.policy.shape, plan.value, plan.gap) == ((6, 4, 2), restarted_plan.value, restarted_plan.gap)
    assert "from state 1, in 6 steps" in plan.certificate.statement


def test_what_does_not_combine_is_refused(run, goal, tmp_path):
    cost = hf.occupancy(run.problem, 1)
    bounds = [hf.at_most(cost, 0.2)]
    wrong = {
        "leave model= out": {"model": "explorer"},
        "whose actions are certain": {"misspecification": 0.01},
        "of the form g": {"transition": np.arange(32.0).reshape(4, 2, 4) ** 2},
    }
    for message, option in wrong.items():
        with pytest.raises(OptionError, match=message):
            run.plan(goal, constraints=bounds, **option)
    for constraints in ([], bounds[0], "cost", [cost]):
        with pytest.raises(OptionError, match="constraints"):
            run.plan(goal, constraints=constraints)
    smallest = dataclasses.replace(hf.reach(run.problem, 3), is_max=False)
    with pytest.raises(RewardError, match="for min bound the event"):
        run.plan(goal, constraints=[hf.at_most(smallest, 0.2)])
    for bound in (np.nan, np.inf, "1", None):
        with pytest.raises(HorizonfreeError, match="bound"):
            hf.at_most(cost, bound)
    plan = run.plan(goal, constraints=bounds)
    with pytest.raises(OptionError, match=r"run\.evaluate"):
        plan.credible_interval()
    with pytest.raises(OptionError, match="cannot be saved"):
        plan.certificate.save(tmp_path / "c.json")


def test_an_event_is_a_constraint_on_its_probability(run, goal):
    """The estimate's probability of the event by enumeration of what the plan remembers."""
    problem = run.problem
    H, S, _ = problem.space.sizes
    P = run.confidence().kernel.dense()
    for deadline in (None, 2, H):
        plan = run.plan(goal, constraints=[hf.at_most(hf.reach(problem, 2, within=deadline), 0.5)])
        assert plan.policy.shape == (H, 2 * S, 2)
        last = H - 1 if deadline is None else deadline
        mass, probability, value = {((0,), 1.0)}, 0.0, 0.0
        for h in range(H):
            new = {}
            for path, p in mass:
                row = plan.memory.state(path)
                assert row == path[-1] + S * (2 in path[:-1])
                if path[-1] == 2 and 2 not in path[:-1] and h <= last:
                    probability += p
                value += p * (plan.policy[h, row] * goal[h, path[-1]]).sum()
                for successor in range(S):
                    q = p * (plan.policy[h, row] @ P[path[-1], :, successor])
                    key = ((2,) if 2 in path else (0,), path[-1])  # what matters of the past
                    short = (2, successor) if 2 in path else (successor,)
                    new[short] = new.get(short, 0.0) + q
                    assert key
            mass = set(new.items())
        if last == H:
            probability += sum(p for path, p in mass if path == (2,))
        assert plan.constraints[0].value == pytest.approx(probability, abs=1e-9)
        assert plan.value == pytest.approx(value, abs=1e-9)
        assert plan.status == "feasible"


def test_a_plan_that_remembers_is_followed_state_by_state(run):
    problem = run.problem
    plan = run.plan(hf.goal(problem, 3), constraints=[hf.at_most(hf.reach(problem, 2), 0.4)])
    first_action, later_action = plan.act(3, 1), plan.act(3, 1, before=[0, 1, 2])
    assert first_action == plan.policy[3, 1].argmax()
    assert later_action == plan.policy[3, problem.num_states + 1].argmax()
    rows = [plan.rollout(problem.to_gymnasium(), seed=seed).states for seed in range(300)]
    share = np.mean([2 in states[:-1] for states in rows])
    true = plan.constraints[0]
    assert true.low - 0.15 <= share <= true.high + 0.15  # 300 episodes: Hoeffding, 1 - 1e-5 for 0.145 alone
    assert plan.occupancy.shape == (8, 8)
    assert "state 1 (decided: 1)" in plan.to_pandas()["state"].tolist()


def test_the_reward_may_be_an_event_and_several_events_may_be_bounded(run):
    problem = run.problem
    plan = run.plan(
        hf.reach(problem, 3, within=5),
        constraints=[
            hf.at_most(hf.reach(problem, 2, within=3), 0.5),
            hf.at_least(hf.occupancy(problem, 0), 0.2),
        ],
    )
    assert plan.policy.shape == (8, 16, 2)
    free = run.plan(hf.reach(problem, 3, within=5))
    assert plan.value <= free.value + 1e-9
    loose_plan = run.plan(hf.reach(problem, 3, within=5), constraints=[hf.at_most(hf.reach(problem, 2), 1.1)])
    assert loose_plan.value == pytest.approx(free.value, abs=1e-7)


def test_discounts_and_payments_after_the_last_step(run, goal):
    problem, constraints = run.problem, [hf.at_most(hf.occupancy(run.problem, 1), 5.0)]
    for options in (
        {"discount": 0.9},
        {"final": [0.0, 0, 0, 0.5]},
        {"transition": np.tile([0.0, 0, 0, 0.05], (4, 2, 1))},
    ):
        plan = run.plan(0.4 * goal, constraints=constraints, **options)
        free = run.plan(0.4 * goal, **options)
        assert plan.value == pytest.approx(free.value, abs=1e-7)
        assert plan.policy.shape == (8, 4, 2)
        plan_with_event = run.plan(
            0.4 * goal, constraints=[hf.at_most(hf.reach(problem, 2, within=8), 0.3)], **options
        )
        assert plan_with_event.policy.shape == (8, 8, 2)
        assert plan_with_event.value <= free.value + 1e-9


def test_a_plan_has_actions_for_all_steps_of_its_events(run, goal):
    """An event over more transitions than an episode has steps."""
    long = dataclasses.replace(hf.reach(run.problem, 2), steps=20)
    plan = run.plan(goal, constraints=[hf.at_most(long, 0.5, name="shoal")])
    assert plan.policy.shape == (20, 8, 2)
    assert plan.constraints[0].name == "shoal"
    assert "shoal" in repr(plan)
