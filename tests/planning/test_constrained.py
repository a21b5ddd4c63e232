"""The linear programme over occupancy measures agrees with mixtures of deterministic policies."""

import numpy as np
import pytest

from horizonfree.errors import OptionError
from horizonfree.mdp.space import Kernel
from horizonfree.planning import constrained
from horizonfree.planning.constrained import OccupancyProgram
from horizonfree.planning.induction import best_policy, policy_values
from tests.reference import mixtures_of_policies as mixtures


def kernel_of(P):
    S, A, _ = P.shape
    return Kernel(np.broadcast_to(np.arange(S), (S, A, S)).astype(np.int32), P, True)


def system(seed, H, S, A, m, *, is_sharp=False):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(S, 0.7), (S, A))
    if is_sharp:
        P = np.eye(S)[rng.integers(S, size=(S, A))]
    start = rng.dirichlet(np.ones(S)) if seed % 2 else np.eye(S)[0]
    return kernel_of(P), start, rng.random((H, S, A)), rng.random((m, H, S, A)), rng


def total(kernel, start, table, policy):
    return policy_values(kernel, table, policy)[0] @ start


SHAPES = [(3, 2, 2, 1), (2, 3, 2, 2), (1, 2, 3, 1), (4, 1, 3, 2), (3, 3, 1, 1), (2, 2, 3, 3)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_sharp", [False, True])
def test_the_programme_agrees_with_mixtures_of_all_deterministic_policies(shape, is_sharp):
    H, S, A, m = shape
    found = set()
    for seed in range(6):
        kernel, start, reward, costs, rng = system(seed, H, S, A, m, is_sharp=is_sharp)
        allowed = np.ones((S, A), bool)
        if A > 1 and seed > 3:
            allowed[rng.integers(S), rng.integers(A)] = False
        values = mixtures.totals(kernel.prob, start, np.concatenate([reward[None], costs]), allowed)
        limits = np.quantile(values[1:], rng.uniform(0, 0.8), axis=1)
        program = OccupancyProgram(kernel, start, costs, allowed)
        expected = mixtures.best(values[0], values[1:], limits)
        safest = program.safest(limits)
        assert safest.value == pytest.approx(mixtures.least_excess(values[1:], limits), abs=1e-9)
        excess = [total(kernel, start, c, safest.policy) for c in costs] - limits
        assert excess.max() == pytest.approx(safest.value, abs=1e-7)
        assert safest.multipliers.sum() == pytest.approx(1.0)
        # the weights prove that no policy has a smaller excess
        assert (safest.multipliers @ (values[1:] - limits[:, None])).min() == pytest.approx(
            safest.value, abs=1e-7
        )
        result = program.best(reward, limits)
        found.add(expected is None)
        assert (result is None) == (expected is None)
        if result is None:
            continue
        assert result.value == pytest.approx(expected, abs=1e-9)
        assert total(kernel, start, reward, result.policy) == pytest.approx(expected, abs=1e-7)
        assert all(
            total(kernel, start, c, result.policy) <= b + 1e-7 for c, b in zip(costs, limits, strict=True)
        )
        assert not result.policy[:, ~allowed].any()
        np.testing.assert_allclose(result.policy.sum(-1), 1.0, atol=1e-12)
        # strong duality
        priced = (values[0] - result.multipliers @ values[1:]).max() + result.multipliers @ limits
        assert priced == pytest.approx(expected, abs=1e-7)
    if m > 1 and A > 1:
        assert False in found


@pytest.mark.parametrize("seed", range(8))
def test_one_constraint_has_the_answer_of_the_programme(seed):
    """Asked for twice, it is solved by the linear programme."""
    kernel, start, reward, costs, rng = system(seed, 12, 15, 3, 1, is_sharp=seed % 3 == 0)
    allowed = np.ones((15, 3), bool)
    allowed[rng.integers(15, size=4), rng.integers(3, size=4)] = False
    one, two = (OccupancyProgram(kernel, start, c, allowed) for c in (costs, np.repeat(costs, 2, axis=0)))
    least, free = one.safest(np.zeros(1)), one.best(reward, np.full(1, 100.0))
    most = total(kernel, start, costs[0], free.policy)
    assert least.value == pytest.approx(two.safest(np.zeros(2)).value, abs=1e-9)
    assert one.best(reward, np.array([least.value - 1e-6])) is None
    for bound in least.value + np.array([0.0, 1e-3, 0.3, 0.9, 1.1]) * (most - least.value):
        found, expected = one.best(reward, np.array([bound])), two.best(reward, np.array([bound] * 2))
        assert found.value == pytest.approx(expected.value, abs=1e-6)
        assert total(kernel, start, reward, found.policy) == pytest.approx(found.value, abs=1e-9)
        assert total(kernel, start, costs[0], found.policy) <= bound + 1e-9
        priced, _ = best_policy(
            kernel, reward - found.multipliers[0] * costs[0] + np.where(allowed, 0.0, -np.inf)
        )
        slack = bound - total(kernel, start, costs[0], priced)
        dual = total(kernel, start, reward, priced) + found.multipliers[0] * slack
        assert dual == pytest.approx(found.value, abs=1e-9 * (1 + found.multipliers[0]))


def test_a_long_horizon_and_lost_mass():
    """Half of the mass leaves where action 1 is taken: H = 500, and rows that sum to less than one."""
    P = np.zeros((2, 2, 2))
    P[:, 0] = [[0.9, 0.1], [0.0, 1.0]]
    P[:, 1] = 0.25
    H = 500
    reward, cost = np.zeros((H, 2, 2)), np.zeros((1, H, 2, 2))
    reward[:, 1] = 1 / H
    cost[0, :, :, 0] = 1 / H
    program = OccupancyProgram(kernel_of(P), np.array([1.0, 0.0]), cost, np.ones((2, 2), bool))
    result = program.best(reward, np.array([0.5]))
    policy = result.policy
    assert total(kernel_of(P), [1.0, 0.0], cost[0], policy) == pytest.approx(0.5, abs=1e-7)
    assert total(kernel_of(P), [1.0, 0.0], reward, policy) == pytest.approx(result.value, abs=1e-7)


def test_where_the_measure_does_not_come_the_policy_is_best_for_the_priced_reward():
    kernel, start, reward, costs, _ = system(4, 3, 3, 2, 1, is_sharp=True)
    result = OccupancyProgram(kernel, start, costs, np.ones((3, 2), bool)).best(reward, np.array([9.0]))
    np.testing.assert_allclose(result.multipliers, 0.0, atol=1e-12)
    assert (result.policy.argmax(-1) == best_policy(kernel, reward)[0]).all()


def test_a_programme_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(constrained, "MAX_NONZEROS", 10)
    kernel, start, _, costs, _ = system(0, 3, 3, 2, 2)
    with pytest.raises(OptionError, match="at most 10 are possible"):
        OccupancyProgram(kernel, start, costs, np.ones((3, 2), bool))
