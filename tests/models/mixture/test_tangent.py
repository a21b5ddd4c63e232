"""Bounds of one reward: the literal recursion, many directions, and starts that are drawn."""

import numpy as np
import pytest

from horizonfree.models import certify
from horizonfree.models.mixture.tangent import MAX_SECOND_ORDER
from horizonfree.planning.induction import best_plan
from tests.reference import cases, small
from tests.reference import certificates as ref
from tests.reference.backward_induction import evaluate


@pytest.fixture(scope="module", params=list(cases.PROBLEMS))
def case(request):
    return cases.make_case(request.param)


def test_the_tangent_bound_agrees_with_its_literal_recursion(case):
    rng = np.random.default_rng(1)
    q, (H, S, A) = case.valid.num_free, case.space.sizes
    for i in range(4):
        confidence = case.confidences[i]
        reward = cases.random_reward(rng, H, S, A)
        policy = case.plan(i, reward) if i % 2 else rng.integers(A, size=(H, S))
        tangent = case.for_reward(i, reward, policy)[0].gaps["tangent"]
        z = case.slots(confidence.ball.z)
        literal = ref.tangent(confidence.step.kernel.dense(), z, reward, policy, case.start)
        assert tangent >= literal - 1e-9  # operator norms are bounded from above
        if q <= 3:
            assert tangent <= literal * q ** (1 / 16) + 1e-9


def test_many_directions_are_bounded_without_the_second_order():
    """q = 18: the expansion stops at the first order, whose remainder is bounded without any q x q matrix."""
    case = cases.Case(small.tabular(A=3), episodes=2000, seeds=2)
    assert case.valid.num_free > MAX_SECOND_ORDER
    for i in range(2):
        rng = np.random.default_rng(i)
        reward = cases.random_reward(rng, 3, 3, 3)
        for policy in (case.plan(i, reward), rng.integers(3, size=(3, 3))):
            tangent = case.for_reward(i, reward, policy)[0].gaps["tangent"]
            points = case.points_of_U(i, rng, 30)
            worst = max(ref.regret(case.kernel(theta), reward, policy, case.start) for theta in points)
            assert worst <= tangent + 1e-9
        assert tangent < 1


def test_the_true_value_of_a_policy_lies_between_low_and_high(case):
    H, S, A = case.space.sizes
    for i in range(4):
        rng = np.random.default_rng(i)
        reward = cases.random_reward(rng, H, S, A)
        policy = rng.integers(A, size=(H, S))
        bounds, _ = case.for_reward(i, reward, policy)
        assert bounds.low - 1e-9 <= bounds.value <= bounds.high + 1e-9
        for theta in case.points_of_U(i, rng, 10):
            V = evaluate(case.kernel(theta), reward, np.eye(A)[policy])[0]
            value = V @ ref.distribution(case.start, S)
            assert bounds.low - 1e-9 <= value <= bounds.high + 1e-9


def test_from_a_drawn_start_the_bounds_are_the_mean_over_the_states():
    """The same evidence, whose episodes any start could have given: every state is a step away from every other."""
    share = np.array([0.4, 0.6])
    drawn = small.dense(start=[0.4, 0.0, 0.6, 0.0])
    fixed = [small.dense(start=s) for s in (0, 2)]
    evidence = small.pick(small.gather(drawn, 400, [0]), 0)
    rng = np.random.default_rng(0)
    confidence, *each = (certify.confidence(x.model, evidence) for x in (drawn, *fixed))
    for other in each:
        np.testing.assert_array_equal(other.bet, confidence.bet)
        np.testing.assert_array_equal(other.divergence.stop, confidence.divergence.stop)
    for part in ("kappa", "hit"):
        values = [getattr(x.divergence, part) for x in each]
        assert getattr(confidence.divergence, part) == pytest.approx(values @ share, rel=1e-9, abs=1e-15)
    for k in range(4):
        reward = cases.random_reward(rng, *drawn.space.sizes)
        plan = best_plan(confidence.kernel, reward).policy if k % 2 else rng.integers(2, size=(4, 4))
        bounds, *others = (
            certify.for_reward(x.model, y, reward, plan)[0]
            for x, y in zip((drawn, *fixed), (confidence, *each))
        )
        assert bounds.value == pytest.approx(share @ [x.value for x in others])
        assert bounds.gaps["tangent"] == pytest.approx(share @ [x.gaps["tangent"] for x in others], abs=1e-12)
        # first orders of several starts may cancel, so that intervals are about as wide, not exactly
        assert bounds.high - bounds.low <= 1.1 * (share @ [x.high - x.low for x in others])
