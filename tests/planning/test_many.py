"""Values of many rewards at the start, some rewards at a time."""

import weakref

import numpy as np
import pytest

from horizonfree.errors import RewardError, ShapeError
from horizonfree.planning import induction, optimal, optimal_values
from horizonfree.planning.native import LANES
from tests.reference.kernels import random_case


@pytest.fixture(scope="module")
def kernel():
    return random_case(((9, 3, 4, 4), 0))[0]


@pytest.fixture(scope="module")
def rewards(kernel):
    return np.random.default_rng(0).standard_normal((2 * LANES + 5, 4, *kernel.prob.shape[:2]))


def test_values_are_those_of_whole_solutions(kernel, rewards):
    S = kernel.num_states
    drawn = np.random.default_rng(1).dirichlet(np.ones(S))
    whole = optimal(kernel, rewards)
    for given in (rewards, list(rewards), (x for x in rewards)):
        found = optimal_values(kernel, given, drawn, policies=True)
        np.testing.assert_allclose(found.value, whole.V[:, 0] @ drawn, rtol=1e-12)
        np.testing.assert_array_equal(found.policy, whole.policy)
    found = optimal_values(kernel, rewards, 2)
    np.testing.assert_allclose(found.value, whole.V[:, 0, 2], rtol=1e-13)  # alone or in blocks
    assert found.policy is None


def test_rewards_of_one_step_stay_views(kernel, rewards, monkeypatch):
    seen = []
    solve = induction.solve
    monkeypatch.setattr(
        "horizonfree.planning.solvers.solve",
        lambda k, x, *a, **b: seen.append(x.shape[1]) or solve(k, x, *a, **b),
    )
    steady = [np.broadcast_to(x[0], x.shape) for x in rewards]
    found = optimal_values(kernel, steady, 0)
    assert seen == [1, 1, 1]
    np.testing.assert_allclose(found.value, optimal(kernel, np.stack(steady)).V[:, 0, 0], rtol=1e-12)
    optimal_values(kernel, [*steady[:3], rewards[0]], 0)
    assert seen[-1] == 4


def test_few_rewards_are_in_memory_at_a_time(kernel, rewards):
    alive: list[weakref.ref] = []

    def made():
        for x in rewards:
            one = x.copy()
            alive.append(weakref.ref(one))
            assert sum(ref() is not None for ref in alive) <= 2 * LANES
            yield one

    assert len(optimal_values(kernel, made(), 0).value) == len(rewards)


def test_what_are_no_rewards_is_refused(kernel, rewards):
    for given, says in [
        (3.0, "must be a batch"),
        ([], r"rewards is \[\]; it must be at least one reward"),
        (rewards[0], r"rewards\[0\] has shape"),
        ([rewards[0], rewards[0][:2]], r"rewards\[1\] has shape"),
        (["a"], r"rewards\[0\] has type"),
    ]:
        with pytest.raises(ShapeError, match=says):
            optimal_values(kernel, given, 0)
    with pytest.raises(RewardError, match="finite"):
        optimal_values(kernel, np.full_like(rewards, np.nan), 0)
    with pytest.raises(ShapeError, match="start"):
        optimal_values(kernel, rewards, kernel.num_states)
