"""The simulator samples the kernel it was given."""

import jax
import numpy as np
import pytest
from scipy.stats import binom

from horizonfree import Mixture, simulate
from horizonfree.errors import OptionError, ShapeError
from horizonfree.planning.traced import Sampler

H, S, A = 5, 4, 2


@pytest.fixture(scope="module")
def problem():
    kernels = np.random.default_rng(0).dirichlet(np.ones(S) * 0.5, size=(2, S, A))
    kernels[:, 1, 0] = [0.0, 0.0, 1.0, 0.0]  # a sure transition between two impossible ones
    return Mixture.from_kernels(kernels, horizon=H, weights=[0.3, 0.7])


def test_frequencies_match_the_kernel(problem):
    """Each of S*A*S cells is tested at 1e-6/(S*A*S) two-sided: false alarm <= 1e-6."""
    policy = np.full((H, S, A), 1 / A)
    batch = simulate(problem, policy, episodes=20_000, seed=1)
    P = problem.kernel().dense()
    s, a, after = batch.s[:, :-1].ravel(), batch.a.ravel(), batch.s[:, 1:].ravel()
    counts = np.zeros((S, A, S), int)
    np.add.at(counts, (s, a, after), 1)
    n = counts.sum(-1, keepdims=True)
    level = 1e-6 / (2 * S * A * S)
    assert (counts >= binom.ppf(level, n, P)).all()
    assert (counts <= binom.isf(level, n, P)).all()
    assert counts[1, 0, 2] == n[1, 0, 0] > 0  # probability one means always
    actions = np.bincount(a, minlength=A)
    assert binom.ppf(5e-7, len(a), 1 / A) <= actions[0] <= binom.isf(5e-7, len(a), 1 / A)


def test_slots_name_the_successor_that_was_taken(problem):
    batch = simulate(problem, np.full((H, S, A), 1 / A), episodes=50)
    succ = np.asarray(problem.space.succ)
    np.testing.assert_array_equal(succ[batch.s[:, :-1], batch.a, batch.j], batch.s[:, 1:])
    assert (batch.s[:, 0] == problem.start).all()


def starting(start):
    kernels = np.random.default_rng(0).dirichlet(np.ones(S), size=(1, S, A))
    return Mixture.from_kernels(kernels, horizon=H, start=start, weights=[1.0])


def test_first_states_have_the_frequencies_of_their_distribution():
    """Each of S frequencies is tested at 5e-7/S, each of S*S of what follows at 5e-7/S^2: false alarm <= 1e-6."""
    initial, episodes = np.array([0.2, 0.0, 0.75, 0.05]), 20_000
    problem = starting(initial)
    batch = simulate(problem, np.zeros((H, S), int), episodes=episodes, seed=2)
    counts = np.bincount(batch.s[:, 0], minlength=S)
    level = 1e-6 / (4 * S)
    assert (counts >= binom.ppf(level, episodes, initial)).all()
    assert (counts <= binom.isf(level, episodes, initial)).all()
    assert counts[1] == 0
    # drawn from numbers of its own: what comes next does not depend on how the start was drawn
    after, level = np.zeros((S, S), int), 1e-6 / (4 * S * S)
    np.add.at(after, (batch.s[:, 0], batch.s[:, 1]), 1)
    P = problem.kernel().dense()[:, 0]
    assert (after >= binom.ppf(level, counts[:, None], P))[counts > 0].all()
    assert (after <= binom.isf(level, counts[:, None], P))[counts > 0].all()


def test_a_distribution_that_is_sure_of_a_state_gives_the_episodes_of_that_state():
    policy = np.full((H, S, A), 1 / A)
    sure, fixed = (simulate(starting(start), policy, episodes=50, seed=4) for start in (np.eye(S)[2], 2))
    for x, y in zip(jax.tree.leaves(sure), jax.tree.leaves(fixed)):
        np.testing.assert_array_equal(x, y)
    assert (fixed.s[:, 0] == 2).all()


def test_a_one_hot_policy_gives_the_episodes_of_its_integer_table(problem):
    table = np.random.default_rng(0).integers(A, size=(H, S))
    by_table = simulate(problem, table, episodes=100, seed=3)
    by_probability = simulate(problem, np.eye(A)[table], episodes=100, seed=3)
    for x, y in zip(jax.tree.leaves(by_table), jax.tree.leaves(by_probability)):
        np.testing.assert_array_equal(x, y)


def test_a_seed_fixes_the_episodes_and_another_seed_changes_them(problem):
    policy = np.zeros((H, S), int)
    first, again, other = (simulate(problem, policy, episodes=200, seed=s).s for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_transitions_of_probability_zero_never_happen():
    """Ten times 0.1 adds up to less than 1 in floating point; no uniform number may fall between."""
    row = np.array([0.1] * 10 + [0.0])
    assert np.cumsum(row)[-1] < 1
    P = np.broadcast_to(row, (11, 1, 11))
    kernel = Mixture.from_kernels([P, np.full((11, 1, 11), 1 / 11)], horizon=50, weights=[1.0, 0.0]).kernel()
    with jax.enable_x64(True):
        cumulative = np.asarray(Sampler.of(kernel).cumulative)
    assert (cumulative[:, 0, 9:] == 1).all()
    assert (cumulative[:, 0, :9] < 1).all()


def test_numbers_of_episodes_that_cannot_be_are_refused(problem, subtests):
    for value in [-1, 0, 1.5, None, "a", True, 10**12]:
        words = r"episodes is .*; it must be a whole number from 1 to"
        with subtests.test(value=value), pytest.raises(OptionError, match=words):
            simulate(problem, np.zeros((H, S), int), episodes=value)


def test_seeds_that_cannot_be_are_refused(problem, subtests):
    for value in [-1, 1.5, None, "a", 2**63]:
        with (
            subtests.test(value=value),
            pytest.raises(OptionError, match=r"seed is .*; it must be a whole number from 0 to 2\^63 - 1"),
        ):
            simulate(problem, np.zeros((H, S), int), seed=value)


def test_only_problems_are_simulated(problem):
    with pytest.raises(ShapeError, match="the problem is a MixtureModel; it must be a Problem"):
        simulate(problem.model, np.zeros((H, S), int))


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.zeros((H, S + 1), int), r"policy has shape \(5, 5\)"),
        (np.zeros((H, S)), "type float64"),
        (np.full((H, S), A), rf"policy\[h=0, s=0\] is {A}; an action is 0 to {A - 1}"),
        (np.full((H, S, A), 0.4), r"policy\[h=0, s=0\] is \[0.4 0.4\]"),
    ],
)
def test_bad_policies_are_refused(problem, policy, message):
    with pytest.raises(ShapeError, match=message):
        simulate(problem, policy)


def test_using_the_library_changes_no_global_setting(problem):
    simulate(problem, np.zeros((H, S), int))
    assert not jax.config.jax_enable_x64
