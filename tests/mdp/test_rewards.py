"""Rewards: forms, totals, costs, refusals."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horizonfree import Mixture
from horizonfree.errors import RewardError, ShapeError, UnknownNameError
from horizonfree.mdp.rewards import (
    Reward,
    as_table,
    goal,
    max_total,
    occupancy,
    rescale,
    resolve,
)
from horizonfree.mdp.space import occupied_states

H, S, A = 3, 4, 2


def mixture(start):
    rng = np.random.default_rng(5)
    P = np.where(rng.random((2, S, A, S)) < 0.4, rng.random((2, S, A, S)), 0)
    P += 0.1 * np.eye(S)[:, None]
    return Mixture.from_kernels(P / P.sum(-1, keepdims=True), horizon=H, start=start, weights=[0.5, 0.5])


@pytest.fixture(scope="module")
def problem():
    return mixture(0)


@pytest.fixture(scope="module", params=[0, (0.0, 0.3, 0.7, 0.0)], ids=["one start", "two starts"])
def any_start(request):
    return mixture(request.param)


def trajectories(problem):
    """Every possible trajectory of state-action pairs from a start."""
    P, starts = problem.kernel().dense(), np.flatnonzero(problem.space.starts())
    for actions in itertools.product(range(A), repeat=H):
        for s in itertools.product(starts, *[range(S)] * (H - 1)):
            if all(P[s[h], actions[h], s[h + 1]] > 0 for h in range(H - 1)):
                yield tuple(zip(range(H), s, actions))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_largest_total_equals_enumeration_of_all_trajectories(any_start, seed):
    table = np.random.default_rng(seed).normal(size=(H, S, A))
    best = max(sum(table[step] for step in path) for path in trajectories(any_start))
    totals = max_total(any_start.space, table)[0, any_start.space.starts()]
    assert totals.max() == pytest.approx(best, abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_rescaled_costs_are_rewards_and_the_map_goes_back(any_start, seed):
    costs = -np.random.default_rng(seed).exponential(size=(H, S, A))
    reward = rescale(any_start, costs)
    totals = {path: sum(reward.table[step] for step in path) for path in trajectories(any_start)}
    assert reward.table[reward.occupied].min() >= 0
    assert max(totals.values()) == pytest.approx(1.0)
    for path, total in totals.items():
        assert reward.factor * total + reward.offset == pytest.approx(sum(costs[step] for step in path))


def test_a_map_made_for_one_problem_is_not_used_for_another():
    """States that could not be occupied there were left out; where fewer can be, the map still holds."""

    def chain(moves):
        kernel = np.zeros((3, 2, 3))
        kernel[np.arange(3), 0, np.arange(3)] = 1
        kernel[np.arange(3), 1, np.minimum(np.arange(3) + moves, 2)] = 1
        return Mixture.from_kernels([kernel], horizon=2, weights=[1.0])

    cost = -np.arange(3.0)
    slow, fast = (rescale(chain(moves), cost) for moves in (1, 2))
    with pytest.raises(
        RewardError, match="another problem: there state 2 cannot be occupied at step 1, here it can"
    ):
        resolve(chain(2), slow)
    wide = np.ones((3, 2, 3)) / 3
    rescaled = rescale(Mixture.from_kernels([wide], horizon=2), cost)
    assert resolve(chain(1), rescaled) is rescaled
    assert resolve(chain(2), fast) is fast


def test_a_constant_reward_rescales_to_nothing_to_choose(problem):
    reward = rescale(problem, np.full((S, A), -2.0))
    assert (reward.table == 0).all()
    assert reward.offset == -2.0 * H


def test_occupied_states_are_those_of_some_trajectory(any_start):
    is_occupied = np.zeros((H, S), bool)
    for path in trajectories(any_start):
        for h, s, _ in path:
            is_occupied[h, s] = True
    np.testing.assert_array_equal(occupied_states(any_start.space), is_occupied)


def test_the_total_counts_from_every_state_in_which_an_episode_can_start():
    """Not on average: a rare start with a high total is refused, an impossible one is not, and the words name it."""
    P = np.eye(3)[:, None]  # three absorbing states
    problem = Mixture.from_kernels([P], horizon=2, start=[0.999, 0.001, 0.0], weights=[1.0])
    assert isinstance(resolve(problem, np.array([0.5, 0.5, 9.0])), Reward)
    with pytest.raises(RewardError, match=r"the total reaches 1\.5 on the trajectory \(s=1, a=0, r=0\.75\)"):
        resolve(problem, np.array([0.5, 0.75, 0.0]))
    reward = rescale(problem, np.array([-3.0, -1.0, 100.0]))
    np.testing.assert_allclose(reward.table[:, :, 0], [[0, 0.5, 25.75]] * 2)
    assert (reward.factor, reward.offset) == (4.0, -6.0)


def test_a_map_made_for_one_start_is_not_used_for_others():
    P = np.eye(3)[:, None]
    fixed, drawn = (Mixture.from_kernels([P], horizon=2, start=start) for start in (0, [0.5, 0.5, 0.0]))
    cost = -np.arange(3.0)
    with pytest.raises(RewardError, match="there state 1 cannot be occupied at step 0, here it can"):
        resolve(drawn, rescale(fixed, cost))
    rescaled = rescale(drawn, cost)
    assert resolve(fixed, rescaled) is rescaled


def test_all_forms_of_one_reward_agree(problem):
    by_state = np.array([0.0, 0.1, 0.2, 0.3])
    table = as_table(problem, by_state)
    assert table.shape == (H, S, A)
    np.testing.assert_array_equal(table, as_table(problem, np.repeat(by_state[:, None], A, 1)))
    np.testing.assert_array_equal(table, as_table(problem, lambda h, s, a: by_state[s]))
    np.testing.assert_array_equal(table, resolve(problem, table).table)


def test_goal_and_occupancy_mean_what_they_say(problem):
    r = goal(problem, 2)
    assert r.sum() == A
    assert (r[H - 1, 2] == 1).all()
    assert (goal(problem, [1, 2], step=0)[0, 1:3] == 1).all()
    np.testing.assert_allclose(occupancy(problem, 2)[:, 2], 1 / H)
    for reward in (r, occupancy(problem, range(S))):
        resolve(problem, reward)


def test_the_per_step_scale_divides_by_the_horizon_and_remembers_it(problem):
    reward = resolve(problem, np.ones((S, A)), scale="per-step")
    assert reward.factor == H
    np.testing.assert_allclose(reward.table, 1 / H)
    assert resolve(problem, reward) is reward


BAD = [
    (np.ones((S, A)), "total", RewardError, r"the total reaches 3 on the trajectory \(s=0, a=0, r=1\)"),
    (-np.ones(S), "total", RewardError, r"reward\[h=0, s=0, a=0\] is -1; .*rescale"),
    (2 * np.ones(S), "per-step", RewardError, r"is 2; with scale='per-step'"),
    (np.full(S, np.nan), "total", RewardError, r"reward\[0\] is nan"),
    (np.ones(S + 1), "total", ShapeError, r"the reward has shape \(5,\); it must be \[S\]=\(4,\)"),
    ("high", "total", ShapeError, "the reward has type .*; it must hold real numbers"),
    (np.zeros(S), "sum", RewardError, "scale is 'sum'"),
    (np.zeros(S, complex), "total", ShapeError, "has type complex128; it must hold real numbers"),
    ([[1], [1, 2]], "total", ShapeError, "the reward is not an array"),
    (np.full(S, (1 + 1e-7) / H), "total", RewardError, r"the total reaches 1\.0000001 on"),
    (np.full(S, 1 + 1e-7), "per-step", RewardError, r"is 1\.0000001; with scale"),
    (lambda h, s: 0.0, "total", RewardError, r"gives no number at \(h, s, a\) = \(0, 0, 0\)"),
    (lambda h, s, a: [0.0] * (s + 1), "total", RewardError, r"at \(h, s, a\) = \(0, [01], 0\)"),
    (Reward(np.full((H, S, A), 7.0)), "total", RewardError, "the total reaches 21"),
    (
        Reward(np.zeros((H + 1, S, A))),
        "total",
        ShapeError,
        r"shape \(4, 4, 2\); it must be \[H, S, A\]=\(3, 4, 2\)",
    ),
]


def test_bad_rewards_are_refused(problem, subtests):
    for reward, scale, error, message in BAD:
        with subtests.test(message), pytest.raises(error, match=message):
            resolve(problem, reward, scale=scale)


def test_states_and_steps_outside_the_problem_are_refused(problem):
    with pytest.raises(ShapeError, match="state 9 does not exist; states are 0 to 3"):
        goal(problem, 9)
    with pytest.raises(UnknownNameError, match="there is no state 'x'; states are 0 to 3"):
        occupancy(problem, "x")
    with pytest.raises(
        ShapeError, match=r"states has shape \(1, 2\); it must be a state or a list of states"
    ):
        occupancy(problem, [[0, 1]])
    with pytest.raises(ShapeError, match="states has type float64; it must hold whole numbers"):
        occupancy(problem, 1.5)
    for step in (H, True, 1.5, "x", [1]):
        with pytest.raises(RewardError, match="it must be a step, 0 to 2"):
            goal(problem, 1, step=step)


def test_costs_whose_totals_overflow_are_refused(problem):
    for costs in (5e307 * np.arange(S), 1e308 * np.linspace(-1, 1, S)):
        with pytest.raises(RewardError, match="have totals that overflow; divide the reward first"):
            rescale(problem, costs)


def test_a_total_above_one_only_on_impossible_trajectories_is_allowed():
    P = np.eye(2)[:, None]  # two absorbing states
    problem = Mixture.from_kernels([P], horizon=2, weights=[1.0])
    assert isinstance(resolve(problem, np.array([0.5, 9.0])), Reward)
