"""The space: where episodes start, which states they can come to, and kernels on successor lists."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from horizonfree import Mixture
from horizonfree.errors import KernelError, ShapeError, UnknownNameError
from horizonfree.mdp.space import occupied_states, start_distribution

RING = np.roll(np.eye(5), 1, axis=1)[:, None]  # s -> s + 1 mod 5


def space(start, horizon=3):
    return Mixture.from_kernels([RING], horizon=horizon, start=start).space


def test_a_start_is_a_state_or_a_distribution_over_states():
    fixed, drawn_space = space(3), space([0.25, 0.0, 0.75, 0.0, 0.0])
    assert (fixed.start, fixed.initial) == (3, None)
    np.testing.assert_array_equal(fixed.starts(), [False, False, False, True, False])
    assert drawn_space.start is None
    np.testing.assert_array_equal(drawn_space.initial, [0.25, 0.0, 0.75, 0.0, 0.0])
    np.testing.assert_array_equal(drawn_space.starts(), [True, False, True, False, False])


def test_a_problem_says_where_it_starts():
    problems = [Mixture.from_kernels([RING], horizon=3, start=start) for start in (3, np.full(5, 0.2))]
    assert problems[0].start == 3
    np.testing.assert_array_equal(problems[1].start, np.full(5, 0.2))
    for problem in (
        Mixture.from_features(RING[..., None], horizon=3, bound=1.0, start=np.full(5, 0.2)),
        Mixture.from_tabular(RING, horizon=3, support=RING > 0, start=np.full(5, 0.2)),
    ):
        np.testing.assert_array_equal(problem.start, np.full(5, 0.2))


@pytest.mark.parametrize("state", range(5))
def test_a_distribution_that_is_sure_of_a_state_is_that_state(state):
    one_hot, fixed = space(np.eye(5)[state]), space(state)
    assert jax.tree.structure(one_hot) == jax.tree.structure(fixed)
    for x, y in zip(jax.tree.leaves(one_hot), jax.tree.leaves(fixed)):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(start_distribution(state, 5), np.eye(5)[state])
    np.testing.assert_array_equal(start_distribution(np.eye(5)[state], 5), np.eye(5)[state])


def test_values_at_the_start_are_the_mean_over_it():
    initial = np.array([0.25, 0.0, 0.75, 0.0, 0.0])
    fixed, drawn_space = space(3), space(initial)
    V = np.random.default_rng(0).random((2, 4, 5))
    np.testing.assert_array_equal(fixed.at_start(V), V[..., 3])
    np.testing.assert_allclose(drawn_space.at_start(V), 0.25 * V[..., 0] + 0.75 * V[..., 2], rtol=1e-14)
    assert drawn_space.at_start(V[0, 0]) == pytest.approx(V[0, 0] @ initial)
    with jax.enable_x64(True):
        for start_space in (fixed, drawn_space):
            traced = jax.jit(lambda start_space, V: start_space.at_start(V))(start_space, jnp.asarray(V))
            np.testing.assert_allclose(traced, start_space.at_start(V), rtol=1e-14)


def test_a_distribution_is_normalised_and_the_given_array_left_alone():
    initial = np.full(5, 0.2 + 1e-9)
    original = initial.copy()
    assert np.asarray(space(initial).initial).sum() == pytest.approx(1, abs=1e-15)
    np.testing.assert_array_equal(initial, original)


def test_states_are_reached_and_occupied_from_every_start():
    drawn_space = space([0.5, 0.0, 0.5, 0.0, 0.0], horizon=2)
    np.testing.assert_array_equal(drawn_space.reachable, [True, True, True, True, False])
    np.testing.assert_array_equal(occupied_states(drawn_space), [[1, 0, 1, 0, 0], [0, 1, 0, 1, 0]])
    for horizon in (1, 2, 3, 7):
        drawn_space = space([0.5, 0.0, 0.5, 0.0, 0.0], horizon)
        fixed_spaces = [space(s, horizon) for s in (0, 2)]
        np.testing.assert_array_equal(
            drawn_space.reachable, fixed_spaces[0].reachable | fixed_spaces[1].reachable
        )
        np.testing.assert_array_equal(
            occupied_states(drawn_space), occupied_states(fixed_spaces[0]) | occupied_states(fixed_spaces[1])
        )
        np.testing.assert_array_equal(drawn_space.reachable, occupied_states(drawn_space).any(axis=0))


def test_a_state_first_entered_after_the_last_action_is_not_reachable():
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 2] = 1.0
    short, long = (Mixture.from_kernels([P], horizon=H).space for H in (2, 3))
    np.testing.assert_array_equal(short.reachable, [True, True, False])
    np.testing.assert_array_equal(long.reachable, [True, True, True])


NO_STARTS = [
    (5, ShapeError, "^start is 5; it must be a state, 0 to 4, or a distribution over them$"),
    (-1, ShapeError, "^start is -1; it must be a state, 0 to 4, or"),
    (1.5, ShapeError, "^start is 1.5; it must be a state"),
    (True, ShapeError, "^start is True; it must be a state"),
    ("left", UnknownNameError, "^start is 'left'; it must be a state"),
    (None, ShapeError, "^start is None; it must be a state"),
    (
        [0.5, 0.5],
        ShapeError,
        r"^start has shape \(2,\); it must be \(5,\), a distribution over the 5 states$",
    ),
    (
        np.eye(5),
        ShapeError,
        r"^start has shape \(5, 5\); it must be \(5,\), a distribution over the 5 states",
    ),
    (["a"] * 5, ShapeError, "^start has type .*; it must hold real numbers"),
    ([1.5, -0.5, 0, 0, 0], KernelError, r"^start\[1\] is -0.5; every probability must be a number >= 0$"),
    ([1, 0, 0, np.nan, 0], KernelError, r"^start\[3\] is nan; every probability must be"),
    ([0.5, 0, 0, 0.4, 0], KernelError, r"^start sums to 0.9; it must sum to 1 \(tolerance 1e-08\)$"),
    ([np.inf, 0, 0, 0, 0], KernelError, "^start sums to inf; it must sum to 1"),
    ([0, 0, 0, 0, 0], KernelError, "^start sums to 0; it must sum to 1"),
    ([0.9, 0, 0, 0, 0], KernelError, "^start sums to 0.9; it must sum to 1"),
]


def test_what_is_no_start_is_refused(subtests):
    for start, error, message in NO_STARTS:
        with subtests.test(str(start)), pytest.raises(error, match=message):
            space(start)


def test_what_is_no_horizon_is_refused(subtests):
    for horizon in [0, -1, 1.5, True, "x", None, 10**6 + 1]:
        with (
            subtests.test(horizon=horizon),
            pytest.raises(ShapeError, match=r"horizon is .*; it must be a number of steps, 1 to 1,000,000"),
        ):
            space(0, horizon)


def test_what_asks_for_a_space_can_be_asked_with_a_space():
    start_space = space(0)
    assert start_space.space is start_space
    assert start_space.sizes == (3, 5, 1)
