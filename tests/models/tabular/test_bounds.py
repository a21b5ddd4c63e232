"""Bounds of one reward: the literal recursion, kernels on the boundary of the balls, and every kernel inside."""

from dataclasses import replace

import numpy as np
import pytest

from horizonfree.models.tabular import bounds
from horizonfree.planning import evaluate
from horizonfree.planning.induction import best_plan
from tests.models.tabular.cases import (
    as_weights,
    boundary,
    kernels_on_the_boundary,
    loss,
    policy_bounds,
    random_case,
    random_policy,
    random_reward,
)
from tests.reference import tabular as ref

CASES = {
    "any support": {"support": "any"},
    "known support": {"support": "given"},
    "little data": {"support": "any", "episodes": 4},
    "little data, known": {"support": "given", "episodes": 4},
    "terminal": {"support": "any", "terminal": (2,)},
    "one successor": {"support": "any", "m": 1},
    "much data": {"support": "given", "episodes": 20_000},
}


@pytest.fixture(scope="module", params=list(CASES))
def case(request):
    return random_case(7, **CASES[request.param])


def literal(case):
    balls = case.confidence.balls
    return ref.Tangent(case.table, np.asarray(balls.eps), np.asarray(balls.is_open), case.possible)


def test_the_bounds_agree_with_the_literal_recursion(case):
    rng = np.random.default_rng(1)
    H, S, A = case.problem.space.sizes
    slow, confidences = literal(case), (case.confidence, case.in_full())
    for i in range(3):
        reward = random_reward(rng, H, S, A)
        policy = best_plan(case.confidence.centre, reward).policy if i == 0 else random_policy(rng, H, S, A)
        expected = slow.bounds(reward, as_weights(policy, A), 0)
        for confidence in confidences:
            bounds = policy_bounds(case, reward, policy, confidence)
            if "paths" in bounds:
                low, high, _ = ref.paths(confidence, reward, policy, np.eye(S)[0])
                expected |= {"low": max(expected["low"], low), "high": min(expected["high"], high)}
            assert {name: bounds[name] for name in expected} == pytest.approx(expected, rel=1e-9, abs=1e-9)


def functions(case, rng, reward, policy):
    """Values of the plan at every step, of each state alone, and at random: what an adversary may aim at."""
    H, S, _A = reward.shape
    V = evaluate(case.confidence.centre, reward, policy)
    return [*V[1:H], *np.eye(S), *rng.random((4, S))]


def test_no_kernel_on_the_boundary_of_the_balls_loses_more(case):
    """Mass on successors that were never seen included; the bounds are for one reward each."""
    rng = np.random.default_rng(2)
    H, S, A = case.problem.space.sizes
    largest = 0.0
    for i in range(4):
        reward = random_reward(rng, H, S, A)
        policy = best_plan(case.confidence.centre, reward).policy if i < 3 else random_policy(rng, H, S, A)
        bounds = policy_bounds(case, reward, policy, case.without_joint)
        for P in kernels_on_the_boundary(case, rng, functions(case, rng, reward, policy)):
            losses, value = loss(P, reward, policy)
            for name in {"uniform", "interval", "tangent", "paths"} & bounds.keys():
                assert losses <= bounds[name] + 1e-9, name
            assert bounds["low"] - 1e-9 <= value <= bounds["high"] + 1e-9
            largest = max(largest, losses / max(bounds["tangent"], 1e-12))
    assert largest > 0.1  # the adversary is not a weak one


def test_no_kernel_has_a_best_value_above_the_tangent_and_b(case):
    """V*_P <= V + J.u + B, and |V_P - V - J.u| <= R, for kernels of the balls."""
    rng, nearest = np.random.default_rng(5), 0.0
    H, S, A = case.problem.space.sizes
    slow = literal(case)
    is_used = (slow.P > 0) & np.isfinite(slow.eps)[..., None]
    for i in range(3):
        reward = random_reward(rng, H, S, A)
        policy = best_plan(case.confidence.centre, reward).policy if i < 2 else random_policy(rng, H, S, A)
        V, *_, R, B, J = (x[0] for x in slow.values(reward, as_weights(policy, A)))

        def above(P, V=V, J=J, reward=reward, policy=policy):
            """V_P and V*_P minus the tangent."""
            u = np.where(is_used, P - slow.P, 0.0)
            losses, values = loss(P, reward, policy)
            difference = values - V - sum(J[x] @ u[pair] for x, pair in enumerate(slow.pairs))
            return difference, difference + losses

        cloud = kernels_on_the_boundary(case, rng, functions(case, rng, reward, policy))
        tables = [*cloud, max(cloud, key=lambda P: above(P)[1]).copy()]
        for s, a in np.ndindex(S, A):  # the last one is improved pair by pair
            candidates = np.repeat(tables[-1][None], len(cloud), 0)
            candidates[:, s, a] = cloud[:, s, a]
            tables.append(max(candidates, key=lambda P: above(P)[1]))
        for P in tables:
            values, best = above(P)
            assert abs(values) <= R + 1e-9
            assert best <= B + 1e-9
            nearest = max(nearest, best / max(B, 1e-9))
    assert nearest > 0.1 or not slow.pairs


def test_b_is_attained_where_a_gain_and_the_way_to_it_are_uncertain():
    """State 0 leads to 1 or 2, and 1 has a bet on state 3 against the sure 1/2 of the policy, as other ways have."""
    P = np.zeros((6, 2, 6))
    P[0, :, [1, 2]] = P[1, 1, [3, 4]] = 0.5
    P[1, 0, 5] = P[2, :, 5] = P[[3, 4, 5], :, [3, 4, 5]] = 1.0
    eps, reward = np.zeros((6, 2)), np.zeros((3, 6, 2))
    eps[0], eps[1, 1] = 0.1, 0.2
    reward[2, 3], reward[2, 5] = 1.0, 0.5
    slow = ref.Tangent(P, eps, np.zeros((6, 2), bool), P > 0)
    policy = np.zeros((3, 6), np.int32)
    V, *_, R, B, _ = (x[0] for x in slow.values(reward, as_weights(policy, 2)))
    first, second = np.eye(6)[[1, 3]]
    worst = P.copy()
    worst[0, :] = boundary(P[0], eps[0], P[0] > 0, np.broadcast_to(first, (2, 6)))
    worst[1, 1] = boundary(P[1, 1], eps[1, 1], P[1, 1] > 0, second)
    assert (V, R) == pytest.approx((0.5, 0.0), abs=1e-12)
    assert pytest.approx(loss(worst, reward, policy)[0], abs=1e-9) == B


def test_differences_of_policies_agree_with_the_literal_recursion_and_hold_on_the_boundary(case):
    """Corollary 6a: never wider than the intervals of both, and no kernel of the balls is outside."""
    rng = np.random.default_rng(4)
    H, S, A = case.problem.space.sizes
    slow = literal(case)
    for i in range(3):
        reward = random_reward(rng, H, S, A)
        a = best_plan(case.confidence.centre, reward).policy
        b = (
            np.where(rng.random(a.shape) < 0.2, rng.integers(A, size=a.shape), a)
            if i
            else random_policy(rng, H, S, A)
        )
        low, high = case.confidence.difference(reward, (a, b))
        first, other = (policy_bounds(case, reward, x) for x in (a, b))
        expected = slow.difference(reward, [as_weights(x, A) for x in (a, b)], 0)
        assert low == pytest.approx(max(expected[0], first["low"] - other["high"]), abs=1e-9)
        assert high == pytest.approx(min(expected[1], first["high"] - other["low"]), abs=1e-9)
        for P in kernels_on_the_boundary(case, rng, functions(case, rng, reward, a)):
            difference = loss(P, reward, a)[1] - loss(P, reward, b)[1]
            assert low - 1e-9 <= difference <= high + 1e-9


def test_without_blocks_the_bounds_hold_and_are_wider(case, monkeypatch):
    """Where gradients would take too much memory, intervals alone remain."""
    rng = np.random.default_rng(3)
    reward = random_reward(rng, *case.problem.space.sizes)
    policy = best_plan(case.confidence.centre, reward).policy
    with_blocks = policy_bounds(case, reward, policy)
    monkeypatch.setattr(bounds, "MAX_GRADIENT_SIZE", 0)
    no_blocks = policy_bounds(case, reward, policy, replace(case.confidence))
    assert no_blocks["tangent"] >= with_blocks["tangent"] - 1e-9
    for P in kernels_on_the_boundary(case, rng, functions(case, rng, reward, policy)):
        assert loss(P, reward, policy)[0] <= no_blocks["tangent"] + 1e-9
