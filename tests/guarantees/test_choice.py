"""What a plan can lose is charged from the first state with a real choice on: literal recursion, adversaries, zeros."""

from functools import cache

import numpy as np
import pytest

from horizonfree import simulate
from horizonfree.models import certify
from tests.reference import cases, choice, small
from tests.reference import certificates as ref

PROBLEMS = cases.PROBLEMS | {
    "gate": choice.gate,
    "twins": lambda: choice.one_action(A=2),
    "sparse truth": lambda: small.dense(S=8, weights=(0.9, 0.1, 0.0, 0.0)),
}


@cache
def make_case(name, episodes=200, seeds=4):
    """Of each problem one, for all tests that look at it."""
    return cases.Case(PROBLEMS[name](), episodes, seeds)


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_the_gap_agrees_with_its_literal_recursion(name):
    """Of two actions the same; of more, pairs taken one by one can only be smaller, and by little."""
    case = make_case(name)
    for i, confidence in enumerate(case.confidences):
        literal, eps = choice.largest_loss(case, i), float(confidence.eps)
        # the largest eigenvalue is bounded within a factor of q^(1/16), and eps grows like its root
        q = case.valid.num_free
        assert literal <= eps + 1e-9
        assert eps <= min(1.0, literal * q ** (1 / 32)) + 1e-9
        assert eps <= min(1.0, float(confidence.divergence.eps)) + 1e-12


@pytest.mark.parametrize("make", [choice.one_action, lambda: choice.one_action(A=3), choice.context])
def test_where_no_action_decides_anything_nothing_can_be_lost(make):
    case = cases.Case(make(), episodes=30, seeds=2)
    for i, confidence in enumerate(case.confidences):
        assert confidence.eps == 0
        assert 0 < confidence.divergence.eps  # the divergence alone would charge for it
        assert (
            case.uniform(i)
            .summary()
            .startswith("every reward r_h(s, a) of total at most 1: suboptimality at most 0 (")
        )


def test_a_choice_after_something_nobody_influences_is_charged_alone():
    case = make_case("gate", episodes=300, seeds=6)
    for confidence in case.confidences:
        assert confidence.eps < 0.8 * confidence.divergence.eps


@pytest.mark.parametrize("name", ["gate", "sparse truth"])
def test_no_reward_of_an_adversary_over_U_costs_more_than_the_gap(name):
    """Parameters of U, not only the truth; rewards by linear programmes."""
    case = make_case(name)
    H, S, A = case.space.sizes
    support = case.slots(np.ones(len(case.valid.rows))) > 0
    losses = []
    for i, confidence in enumerate(case.confidences):
        rng, P_hat = np.random.default_rng(i), confidence.step.kernel.dense()
        for theta in case.points_of_U(i, rng, 4)[1::2]:
            first = cases.random_reward(rng, H, S, A)
            _, _, loss = ref.worst_reward(P_hat, case.kernel(theta), support, first, case.start)
            assert loss <= confidence.eps + 1e-7
            losses.append(loss / float(confidence.eps))
    assert max(losses) > 0.05


def test_actions_that_do_the_same_are_told_from_those_that_do_not():
    problem = choice.gate()
    space, valid = problem.space, problem.model.valid
    for s in range(5):
        for a in range(2):
            is_same = any(choice.do_the_same(space, valid.row_of, len(valid.rows), s, a, b) for b in range(a))
            assert valid.choices[s, a] == (not is_same)
    np.testing.assert_array_equal(valid.choices.sum(1), [1, 2, 2, 1, 1])


def test_what_follows_a_choice_must_be_charged():
    """Left or right, then a coin that no action influences: (left, heads) and (right, tails) pay, so it matters."""
    from horizonfree import Mixture

    kernels = np.zeros((2, 7, 2, 7))
    for i, heads in enumerate((0.2, 0.8)):
        kernels[i, 0, 0, 1] = kernels[i, 0, 1, 2] = 1.0
        kernels[i, 1, :, 3], kernels[i, 1, :, 4] = heads, 1 - heads
        kernels[i, 2, :, 5], kernels[i, 2, :, 6] = heads, 1 - heads
        for s in range(3, 7):
            kernels[i, s, :, s] = 1.0
    problem = Mixture.from_kernels(kernels, horizon=3, weights=[0.5, 0.5])
    case = cases.Case(problem, episodes=100, seeds=2)
    reward = np.zeros((3, 7, 2))
    reward[2, [3, 6]] = 1.0
    for i, confidence in enumerate(case.confidences):
        policy = case.plan(i, reward)
        worst = max(
            ref.regret(case.kernel(theta), reward, policy, 0)
            for theta in case.points_of_U(i, np.random.default_rng(0), 40)
        )
        assert 0.01 < worst <= confidence.eps


def test_a_policy_that_is_not_optimal_under_the_estimate_does_not_get_the_gap_of_plans():
    """With one action per state a plan loses nothing; with two that differ, a policy that errs does."""
    case = make_case("gate", episodes=300, seeds=6)
    reward = np.zeros(case.space.sizes)
    reward[-1, 3] = 1.0
    plan = case.plan(0, reward)
    wrong = np.zeros_like(plan)  # never takes the risk
    plan_bounds, wrong_bounds = (
        certify.for_reward(case.model, case.confidences[0], reward, x)[0] for x in (plan, wrong)
    )
    assert plan_bounds.gaps["uniform"] <= case.confidences[0].eps
    true = ref.regret(case.P_star, reward, wrong, 0)
    assert true > 0.1
    assert min(wrong_bounds.gaps.values()) >= true


def test_random_data_of_one_action_need_no_episode_at_all():
    problem = choice.one_action()
    data = simulate(problem, np.zeros((problem.horizon, problem.num_states), int), episodes=1, seed=0)
    from horizonfree import certify as certify_log

    assert certify_log(problem, data, budget=30).eps == 0  # with as many bets as in the cases: one program
