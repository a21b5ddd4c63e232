"""Numbers that people act on: intervals of values, families of rewards, comparisons, plans from elsewhere."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import RewardError, ShapeError
from horizonfree.models import certify
from horizonfree.planning import evaluate, optimal
from tests.reference import cases
from tests.reference.backward_induction import optimal as best


def value(P, reward, policy, start):
    V = np.zeros(P.shape[0])
    for r, rule in zip(reward[::-1], policy[::-1]):
        Q = r + P @ V
        V = Q[np.arange(len(V)), rule] if rule.ndim == 1 else (rule * Q).sum(1)
    return float(V @ (np.eye(len(V))[start] if np.ndim(start) == 0 else np.asarray(start)))


@pytest.fixture(scope="module", params=list(cases.PROBLEMS))
def case(request):
    return cases.make_case(request.param)


def random_policy(rng, sizes, k):
    H, S, A = sizes
    return rng.integers(A, size=(H, S)) if k % 2 else rng.dirichlet(np.ones(A), size=(H, S))


def test_values_lie_in_their_intervals_for_every_parameter_of_U(case):
    """Of plans, of random policies and of policies that draw their actions."""
    sizes = case.space.sizes
    for i in range(6):
        rng = np.random.default_rng(i)
        for k in range(3):
            reward = cases.random_reward(rng, *sizes)
            policy = case.plan(i, reward) if k == 2 else random_policy(rng, sizes, k)
            bounds, certificate = case.for_reward(i, reward, policy)
            assert 0 <= bounds.low <= bounds.value + 1e-12
            assert bounds.value <= bounds.high + 1e-12 <= 1 + 2e-12
            for theta in case.points_of_U(i, rng, 8):
                P = case.kernel(theta)
                true = value(P, reward, policy, case.start)
                assert bounds.low - 1e-9 <= true <= bounds.high + 1e-9
                loss = float(best(P, reward)[1][0] @ _initial(case)) - true
                assert loss <= certificate.eps + 1e-9


def _initial(case):
    S = case.space.num_states
    return np.eye(S)[case.start] if np.ndim(case.start) == 0 else np.asarray(case.start)


def test_differences_of_policies_lie_in_their_intervals(case):
    sizes, is_sharper = case.space.sizes, False
    for i in range(6):
        rng = np.random.default_rng(50 + i)
        for k in range(3):
            reward = cases.random_reward(rng, *sizes)
            a, b = case.plan(i, reward), random_policy(rng, sizes, k)
            low, high = certify.difference(case.model, case.confidences[i], reward, (a, b))
            bounds = [case.for_reward(i, reward, policy)[0] for policy in (a, b)]
            difference = bounds[0].high - bounds[1].low - (bounds[0].low - bounds[1].high)
            is_sharper |= bool(high - low < 0.9 * difference)
            assert high - low <= difference + 1e-9
            for theta in case.points_of_U(i, rng, 8):
                P = case.kernel(theta)
                true = value(P, reward, a, case.start) - value(P, reward, b, case.start)
                assert low - 1e-9 <= true <= high + 1e-9
    assert is_sharper  # what the policies have in common cancels


@pytest.fixture(scope="module")
def run():
    return hf.explore(hf.make("zoned-grid", size=4, zones=2, horizon=8), episodes=200, seed=0, budget=200)


def test_a_plan_says_between_which_numbers_its_value_lies(run):
    reward = hf.rescale(run.problem, -5.0 * hf.goal(run.problem, 9) + 2.0)
    plan = run.plan(reward)
    assert plan.value_low < plan.value < plan.value_high
    true = value(run.problem.kernel().dense(), reward.table, plan.policy, 0) * reward.factor + reward.offset
    assert plan.value_low <= true <= plan.value_high


def test_a_family_has_the_largest_gap_of_its_plans(run):
    problem = run.problem
    gaps = [run.plan(hf.goal(problem, s)).gap for s in range(problem.num_states)]
    certificate = run.certificate(rewards="goals")
    reachable_at_the_end = int(certificate.parts["rewards"])
    assert certificate.eps == pytest.approx(max(gaps), rel=1e-9)
    assert certificate.summary().startswith(f"all {reachable_at_the_end} goals: suboptimality at most ")
    assert certificate.parts["median"] <= certificate.eps
    list_certificate = run.certificate(rewards=[hf.goal(problem, 3), hf.occupancy(problem, 5)])
    assert list_certificate.summary().startswith("all 2 rewards: ")
    assert list_certificate.eps == pytest.approx(
        max(run.plan(hf.goal(problem, 3)).gap, run.plan(hf.occupancy(problem, 5)).gap)
    )
    stays = run.certificate(rewards="occupancies")
    assert stays.eps <= run.certificate().eps
    assert certificate.eps <= run.certificate().eps


def test_what_is_no_family_is_refused(run, subtests):
    for bad in ["gaols", [], 3, {"a": 1}]:
        message = "it must be 'goals', 'occupancies' or a list of rewards"
        with subtests.test(str(bad)), pytest.raises(RewardError, match=message):
            run.certificate(rewards=bad)


def test_forecasts_come_about(run):
    """Of the largest goal: with the episodes that it names the gap is near the target."""
    certificate = run.certificate(rewards="goals")
    target, episodes = certificate.forecast.split(" needs about ")
    num_more = int(episodes.split(" ")[0].replace(",", ""))
    longer_run = hf.explore(run.problem, episodes=200 + num_more, seed=0, budget=200 + num_more)
    assert longer_run.certificate(rewards="goals").eps <= 2 * float(target)
    assert "more episodes" in run.certificate().forecast


def test_a_policy_of_ones_own_is_valued_and_bounded(run):
    problem, reward = run.problem, hf.goal(run.problem, 10)
    stay = np.zeros(problem.num_states, int)
    evaluation = run.evaluate(reward, stay)
    P = problem.kernel().dense()
    table = np.broadcast_to(stay, (8, 16))
    assert evaluation.value_low <= value(P, reward, table, 0) <= evaluation.value_high
    assert evaluation.gap >= hf.true_gap(problem, reward, table)
    randomised = run.evaluate(reward, np.full((16, 4), 0.25))
    assert randomised.value == pytest.approx(
        float(evaluate(run.confidence().kernel, reward, np.full((8, 16, 4), 0.25))[0][0])
    )
    plan = run.plan(reward)
    plan_evaluation = run.evaluate(reward, plan.policy)
    assert (plan_evaluation.value, plan_evaluation.gap) == (
        pytest.approx(plan.value),
        pytest.approx(plan.gap),
    )


def test_a_comparison_says_which_policy_is_better_where_it_is_sure(run):
    problem, reward = run.problem, hf.goal(run.problem, 10)
    plan, stay = run.plan(reward).policy, np.zeros(problem.num_states, int)
    comparison = run.compare(reward, plan, stay)
    assert comparison.low <= comparison.difference <= comparison.high
    P, table = problem.kernel().dense(), np.broadcast_to(stay, (8, 16))
    true = value(P, reward, plan, 0) - value(P, reward, table, 0)
    assert comparison.low <= true <= comparison.high
    assert comparison.summary().startswith("a is better by at least")
    assert run.compare(reward, stay, plan).summary().startswith("b is better by at least")
    self_comparison = run.compare(reward, plan, plan)
    assert self_comparison.high == pytest.approx(-self_comparison.low)
    assert 0 <= self_comparison.high < 1e-9
    assert self_comparison.summary().startswith("either may be better")


def test_a_plan_from_elsewhere_is_that_of_a_problem_that_starts_there(run):
    problem = run.problem
    reward = np.random.default_rng(0).uniform(size=(5, 16, 4)) / 5
    moved_plan = run.plan(reward, start=6, horizon=5)
    kernel = run.confidence().kernel
    assert moved_plan.value == pytest.approx(optimal(kernel, reward).V[0, 6])
    assert moved_plan.policy.shape == (5, 16)
    assert moved_plan.certificate.summary().endswith("from state 6, in 5 steps")
    P = problem.kernel().dense()
    true = value(P, reward, moved_plan.policy, 6)
    assert moved_plan.value_low <= true <= moved_plan.value_high
    assert best(P, reward)[1][0][6] - true <= moved_plan.gap
    spread = np.full(16, 1 / 16)
    assert (
        run.plan(reward, start=spread, horizon=5)
        .certificate.summary()
        .endswith("16 states, drawn, in 5 steps")
    )
    assert run.plan(hf.goal(problem, 3)).certificate.summary().endswith("any stopping time)")


@pytest.fixture(scope="module")
def line():
    """Five states: action 0 stays, action 1 may go forward."""
    kernels = np.zeros((2, 5, 2, 5))
    for i, p in enumerate((0.6, 0.9)):
        for s in range(5):
            kernels[i, s, 0, s] = 1.0
            kernels[i, s, 1, min(s + 1, 4)] += p
            kernels[i, s, 1, s] += 1 - p
    return hf.explore(hf.Mixture.from_kernels(kernels, horizon=3, weights=[0.5, 0.5]), episodes=50, seed=0)


def test_a_start_of_which_nothing_can_be_known_is_refused(line):
    """A line of five states and two steps: state 4 is never reached."""
    run = line
    with pytest.raises(ShapeError, match=r"state 4 can be reached, which no episode of 3 steps"):
        run.plan(np.zeros(5), start=4)
    with pytest.raises(ShapeError, match="state 3 can be reached"):
        run.plan(np.zeros(5), horizon=4)
    with pytest.raises(ShapeError, match="horizon is 0"):
        run.plan(np.zeros(5), horizon=0)
    assert run.plan(np.zeros(5), start=1, horizon=2).value == 0


def test_a_rescaled_plan_acts_well_also_where_no_episode_comes(line):
    """A line that only goes forward: at step 0 only state 0 is occupied, yet costs elsewhere are heeded."""
    cost = -np.array([1.0, 1.0, 30.0, 2.0, 2.0])[:, None] + np.zeros((5, 2))
    plan = line.plan(hf.rescale(line.problem, cost))
    # state 2 cannot be occupied at step 0, but there it is far better to move on
    assert plan.act(0, 2) == 1
    literal = best(plan.kernel.dense(), np.broadcast_to(cost, (3, 5, 2)))[0]
    np.testing.assert_array_equal(plan.policy, literal)
    assert plan.value_low - 1e-9 <= plan.value <= plan.value_high + 1e-9  # in the units of the costs
