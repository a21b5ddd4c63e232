"""Bounds of one reward: the literal recursion, many directions, and starts that are drawn."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.mdp.space import occupied_states
from horizonfree.models import certify
from horizonfree.models.mixture import tangent
from horizonfree.models.mixture.tangent import MAX_SECOND_ORDER
from horizonfree.planning import induction
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
        gap = case.for_reward(i, reward, policy)[0].gaps["tangent"]
        z = case.slots(confidence.ball.z)
        literal = ref.tangent(confidence.step.kernel.dense(), z, reward, policy, case.start)
        assert gap >= literal - 1e-9  # operator norms are bounded from above
        if q <= 3:
            assert gap <= literal * q ** (1 / 16) + 1e-9


def test_many_directions_are_bounded_without_the_second_order():
    """q = 18: the expansion stops at the first order, whose remainder is bounded without any q x q matrix."""
    case = cases.Case(small.tabular(A=3), episodes=2000, seeds=2)
    assert case.valid.num_free > MAX_SECOND_ORDER
    for i in range(2):
        rng = np.random.default_rng(i)
        reward = cases.random_reward(rng, 3, 3, 3)
        for policy in (case.plan(i, reward), rng.integers(3, size=(3, 3))):
            gap = case.for_reward(i, reward, policy)[0].gaps["tangent"]
            points = case.points_of_U(i, rng, 30)
            worst = max(ref.regret(case.kernel(theta), reward, policy, case.start) for theta in points)
            assert worst <= gap + 1e-9
        assert gap < 1


@pytest.mark.parametrize("name", ["zoned-grid", "river-swim"])
def test_a_pass_over_the_states_that_can_be_occupied_gives_the_same_numbers(name, monkeypatch):
    """Beside `back` over all states; in blocks of three states. Other actions elsewhere change nothing."""
    monkeypatch.setattr(induction, "STATES_PER_BLOCK", 3)
    run = hf.explore(hf.make(name, horizon=6), "uniform", episodes=30, progress=False)
    confidence, (H, S, A) = run.confidence(), run.problem.space.sizes
    assert not confidence.space.is_dense
    occupied, rng = occupied_states(confidence.space), np.random.default_rng(0)
    assert 0 < occupied.mean() < 0.9
    for stochastic in (False, True):
        reward = cases.random_reward(rng, H, S, A)
        policy = rng.dirichlet(np.ones(A), (H, S)) if stochastic else rng.integers(A, size=(H, S))
        found, shortfall = tangent.at_start(confidence, reward, policy)
        values = tangent.at_end(confidence)
        with np.errstate(all="ignore"):  # infinite divergences
            for h in reversed(range(H)):
                values, _ = tangent.back(confidence, values, reward[h], policy[h], is_last=h == H - 1)
        for x, y in zip(found, values):
            np.testing.assert_allclose(x, y[confidence.space.start], rtol=1e-12, atol=1e-15)
        other = policy.copy()
        other[~occupied] = policy[0, confidence.space.start]
        again, same = tangent.at_start(confidence, reward, other)
        assert shortfall == same
        for x, y in zip(found, again):
            np.testing.assert_array_equal(x, y)


def test_a_plan_is_optimal_in_the_estimate_though_states_out_of_reach_have_no_transitions_there():
    """Within five steps a state may lead to another where no episode can act: its values do not count."""
    run = hf.explore(hf.make("zoned-grid", size=6, horizon=5), "uniform", episodes=3, progress=False)
    confidence, rng = run.confidence(), np.random.default_rng(0)
    assert not confidence.space.reachable.all()
    for _ in range(5):
        reward = rng.random(run.problem.space.sizes) / 5
        plan = best_plan(confidence.kernel, reward).policy
        assert certify.bounds(confidence, reward, plan).gaps["uniform"] <= confidence.eps


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
