"""A run: plans are optimal in their model, gaps hold in the truth, units come back."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree import planning
from horizonfree.errors import OptionError, ShapeError
from horizonfree.guarantees.certificate import bound_statement, round_up, round_up_text


@pytest.fixture(scope="module")
def problem() -> hf.Problem:
    return hf.make("zoned-grid", size=3, zones=3, horizon=5)


@pytest.fixture(scope="module")
def run(problem: hf.Problem) -> hf.Run:
    return hf.explore(problem, "optimal-design", episodes=60, seed=2)


def test_a_plan_is_the_best_policy_of_its_model(run: hf.Run, problem: hf.Problem) -> None:
    reward = hf.goal(problem, 8)
    plan = run.plan(reward)
    kernel = plan.kernel
    theta = run.confidence().theta
    np.testing.assert_allclose(kernel.prob, problem.model.kernel(theta).prob, rtol=1e-14)
    assert plan.value == pytest.approx(planning.optimal(kernel, reward).V[0, problem.start], abs=1e-12)
    assert plan.value == pytest.approx(
        planning.evaluate(kernel, reward, plan.policy)[0, problem.start], abs=1e-12
    )


def test_no_plan_loses_more_than_was_certified(problem: hf.Problem) -> None:
    """Three runs at delta = 1e-8, nine goals each: a false alarm has probability at most 3e-8."""
    for seed in range(3):
        run = hf.explore(problem, "optimal-design", episodes=80, seed=seed)
        uniform_eps = run.certificate(1e-8, method="uniform").eps
        for state in range(9):
            reward = hf.goal(problem, state)
            plan = run.plan(reward, delta=1e-8)
            loss = hf.true_gap(problem, reward, plan.policy)
            assert -1e-12 <= loss <= plan.gap + 1e-9
            assert loss <= uniform_eps + 1e-9
            assert plan.gap <= uniform_eps + 1e-9


def test_values_and_gaps_come_in_the_units_of_the_reward(run: hf.Run, problem: hf.Problem) -> None:
    table = np.random.default_rng(0).uniform(size=(5, 9, 4))
    scaled_plan, per_step = run.plan(table / 5), run.plan(table, scale="per-step")
    np.testing.assert_array_equal(scaled_plan.policy, per_step.policy)
    assert per_step.value == pytest.approx(5 * scaled_plan.value)
    assert per_step.gap == pytest.approx(5 * scaled_plan.gap)
    for plan in (scaled_plan, per_step):  # what is said is what is certified, in the same units
        assert (
            plan.certificate.is_vacuous
            or f"suboptimality at most {round_up(plan.gap):.3g} (" in plan.certificate.summary()
        )
    cost = hf.rescale(problem, -3 * table)
    kernel = run.plan(cost).kernel
    best = planning.optimal(kernel, cost.table)
    total = planning.evaluate(kernel, table, best.policy)[0, problem.start]
    assert run.plan(cost).value == pytest.approx(-3 * total, abs=1e-9)


def test_a_plan_acts_in_every_state_and_step_and_nowhere_else(run: hf.Run, problem: hf.Problem) -> None:
    plan = run.plan(hf.goal(problem, 8))
    assert plan.act(4, 8) == plan.policy[4, 8]
    for h, s in ((5, 0), (0, 9), (-1, 0), (True, 0), (0.5, 0)):
        with pytest.raises(ShapeError, match=r"(h|state) is .*; it must be a (step, 0 to 4|state, 0 to 8)"):
            plan.act(h, s)


def test_more_episodes_make_a_new_certificate(run: hf.Run) -> None:
    first = run.certificate()
    second = run.resume(episodes=200).certificate()
    assert second.eps < first.eps
    assert second.parts["episodes"] == 260
    assert run.certificate() == first


def test_the_explorers_own_model_is_planned_in_when_asked_for(run: hf.Run, problem: hf.Problem) -> None:
    plan = run.plan(hf.goal(problem, 8), model="explorer")
    kernel = problem.model.kernel(run.theta_hat)
    best = planning.optimal(kernel, hf.goal(problem, 8)).V[0, problem.start]
    assert plan.value == pytest.approx(best, abs=1e-12)
    value = planning.evaluate(kernel, hf.goal(problem, 8), plan.policy)[0, problem.start]
    assert value == pytest.approx(best, abs=1e-12)


def test_what_is_not_known_is_refused(run: hf.Run, problem: hf.Problem) -> None:
    with pytest.raises(OptionError, match="method is 'magic'; it must be 'uniform', 'direct' or 'paper'"):
        run.certificate(method="magic")
    with pytest.raises(OptionError, match="no certificate of its own"):
        run.certificate(method="paper")
    with pytest.raises(OptionError, match="'likelihood' or 'explorer'"):
        run.plan(hf.goal(problem, 8), model="magic")


def test_no_probability_is_said_to_be_one() -> None:
    assert bound_statement(0.25, 0.05) == "suboptimality at most 0.25 (95% confidence, any stopping time)"
    assert (
        bound_statement(0.25, 1e-12) == "suboptimality at most 0.25 (1 - 1e-12 confidence, any stopping time)"
    )


@pytest.mark.parametrize("rare", [1e-6, 1e-10, 1e-15])
def test_a_small_gap_in_large_units_is_not_called_rounding(rare: float) -> None:
    """A reward behind a rare transition, in units that make up for it: words and gap cover what is really lost.

    Episodes do not show p. The plan takes its chance, 0.55 in the middle of the class, before the sure 0.5.
    """

    def kernel(p: float) -> np.ndarray:
        P = np.zeros((4, 2, 4))
        P[0, :, [1, 3]] = [[rare] * 2, [1 - rare] * 2]
        P[1, 0, 2:], P[1, 1, 2:] = [p, 1 - p], 0.5
        P[2, :, 2] = P[3, :, 3] = 1
        return P

    problem = hf.Mixture.from_kernels([kernel(0.2), kernel(0.9)], horizon=3, weights=[0.95, 0.05])
    costs = np.zeros((3, 4, 2))
    costs[2, 2] = 1 / rare
    reward = hf.rescale(problem, costs)
    plan = hf.explore(problem, "uniform", episodes=20).plan(reward)
    loss = hf.true_gap(problem, reward, plan.policy)
    assert loss == pytest.approx(0.265)
    assert plan.gap >= loss
    assert (
        plan.certificate.summary()
        == f"suboptimality at most {round_up_text(plan.gap)} (95% confidence, any stopping time)"
    )


def test_the_value_of_a_plan_is_that_of_the_model_it_was_made_in(problem: hf.Problem) -> None:
    run = hf.explore(problem, "ucrl-rfe", episodes=3)
    reward = hf.goal(problem, 3)
    thetas = {"likelihood": run.confidence().theta, "explorer": run.theta_hat}
    for model, theta in thetas.items():
        plan = run.plan(reward, model=model)
        expected = planning.evaluate(problem.model.kernel(theta), reward, plan.policy)[0, problem.start]
        assert plan.value == pytest.approx(expected, abs=1e-12)
    values = {run.plan(reward, model=model).value for model in ("likelihood", "explorer")}
    assert len(values) == 2


def test_plans_can_be_told_apart(run: hf.Run, problem: hf.Problem) -> None:
    plan = run.plan(hf.goal(problem, 8))
    assert plan == plan
    assert plan != run.plan(hf.goal(problem, 8))
    assert len({plan, plan}) == 1
