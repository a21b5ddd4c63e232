"""The dynamic programme of optimal designs in C against its definition in JAX."""

from typing import NamedTuple

import jax
import numpy as np
import pytest

import horizonfree as hf
from horizonfree._x64 import to_device
from horizonfree.models.mixture import learner as designs
from horizonfree.models.mixture.learner import best_in_c, best_in_jax, design
from horizonfree.native import ffi

pytestmark = pytest.mark.usefixtures("x64")
in_c, in_jax, compiled = jax.jit(best_in_c), jax.jit(best_in_jax), jax.jit(design)


@pytest.mark.parametrize("seed", range(3))
def test_both_find_the_design(seed, monkeypatch):
    """A drawn start, virtual rows, counts of any size, steps enough to leave actions out; and nothing to learn."""
    rng = np.random.default_rng(seed)
    kernels = rng.dirichlet(np.ones(6), (3, 30, 2))
    table = np.zeros((3, 30, 2, 30))
    for s, a in np.ndindex(30, 2):
        table[:, s, a, rng.choice(30, 6, replace=False)] = kernels[:, s, a]
    known = hf.Mixture.from_kernels(table, horizon=40, start=rng.dirichlet(np.ones(30))).model
    one = hf.Mixture.from_kernels(table[:1], horizon=40).model
    for model in (known, one):
        valid = model.valid
        counts, theta = rng.integers(0, 10**seed, len(valid.rows), np.int32), np.asarray(valid.center)
        arguments = to_device((model.space, valid, counts, theta))
        expected = compiled(*arguments)
        with monkeypatch.context() as patch:
            patch.setattr(designs, "MIN_NATIVE_WORK", 0)
            policy, promise = jax.jit(lambda *x: design(*x))(*arguments)
        np.testing.assert_array_equal(policy, expected[0])
        np.testing.assert_allclose(promise, expected[1], rtol=1e-12)
    assert known.valid.virtual.any()
    assert promise == 0


class Lists(NamedTuple):
    """What both look at of a space."""

    succ: np.ndarray
    reachable: np.ndarray


def random_lists(rng, S, A, n, H, R):
    """Any lists and rows: also of one state, and rows that are no probabilities where no episode comes to."""
    succ = rng.integers(S, size=(S, A, n)).astype(np.int32)
    prob = np.zeros((1, S, A, S))
    prob[..., 0] = 1
    space = hf.Mixture.from_kernels(prob, horizon=H).model.space
    reachable = rng.uniform(size=S) < 0.8
    space = space.__class__(succ, succ >= 0, reachable, None, H, 0, False)
    row_of = rng.integers(R + 1, size=succ.shape).astype(np.int32)  # R: no row
    return to_device((space, row_of, rng.uniform(-0.1, 1, R), rng.uniform(size=R) ** 3))


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (7, 1, 2, 30, 3), (40, 3, 2, 60, 9), (25, 4, 5, 3, 200)])
def test_both_find_the_same_for_any_rows(sizes):
    rng = np.random.default_rng(1)
    for _ in range(5):
        arguments = random_lists(rng, *sizes)
        (policy, V), (expected, wanted) = in_c(*arguments), in_jax(*arguments)
        np.testing.assert_allclose(V, wanted, rtol=1e-11, atol=1e-12)
        np.testing.assert_array_equal(policy, expected)


def test_no_action_is_left_out_that_could_be_best():
    """Two ways whose values cross late: one pays from the start, the other more, after some steps."""
    S = 12
    kernels = np.zeros((1, S, 2, S))
    kernels[0, np.arange(S), 0, np.r_[1:S, S - 1]] = 1  # onwards
    kernels[0, np.arange(S), 1, np.arange(S)] = 1  # or stay
    space = hf.Mixture.from_kernels(kernels, horizon=40).model.space
    gain = np.zeros((S, 2))
    gain[:, 1], gain[-1] = np.linspace(1, 0.1, S), 2.0
    V, literal = np.zeros(S), np.empty((40, S), np.int32)
    for h in range(39, -1, -1):
        Q = np.stack([V[np.r_[1:S, S - 1]], V], 1) + gain
        literal[h], V = Q.argmax(1), Q.max(1)
    row_of = np.full(space.succ.shape, 2 * S, np.int32)  # a row for each pair
    row_of[..., 0] = np.arange(2 * S).reshape(S, 2)
    policy, found = in_c(*to_device((space, row_of, np.ones(2 * S), gain.ravel())))
    np.testing.assert_allclose(found, V, rtol=1e-12)
    np.testing.assert_array_equal(policy, literal)
    assert literal[0, 0] == 0
    assert literal[-2, 0] == 1


def test_runs_of_large_problems_have_the_numbers_of_the_definition(monkeypatch):
    """Rows of padding, states out of reach, and ties between moves that all hit a wall."""
    problem = hf.make("zoned-grid", size=4, zones=2, horizon=5)
    runs = []
    for work in (designs.MIN_NATIVE_WORK, 0):
        monkeypatch.setattr(designs, "MIN_NATIVE_WORK", work)
        jax.clear_caches()
        runs.append(hf.explore(problem, "optimal-design", episodes=40, seed=0, progress=False))
    jax.clear_caches()
    first, other = runs
    np.testing.assert_array_equal(first.progress.state.policy, other.progress.state.policy)
    np.testing.assert_array_equal(first.evidence.counts, other.evidence.counts)
    np.testing.assert_allclose(first.records["information"], other.records["information"], rtol=1e-12)


def test_small_problems_and_dense_ones_are_designed_in_jax(monkeypatch):
    monkeypatch.setattr(ffi, "call", None)
    for problem in (
        hf.make("zoned-grid", size=4, zones=2, horizon=5),
        hf.make("river-swim", states=4, horizon=3),
    ):
        model = problem.model
        counts = np.zeros(len(model.valid.rows), np.int32)
        jax.eval_shape(design, model.space, model.valid, counts, np.asarray(model.valid.center))
