"""The class of mixtures: storage, features, kernels, norms, refusals."""

import itertools

import jax
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from horizonfree import Mixture
from horizonfree.errors import FeatureError, KernelError, ShapeError, SimulationError
from horizonfree.models.mixture import features
from horizonfree.models.registry import diagnostics_of
from tests.reference.episodes import full_features


def random_features(seed: int, S: int = 5, A: int = 2, d: int = 3, successors: int = 2) -> np.ndarray:
    """Signed features on sparse supports whose kernel under theta = (1, ..., 1) is stochastic."""
    rng = np.random.default_rng(seed)
    phi = np.zeros((S, A, S, d))
    for s, a in itertools.product(range(S), range(A)):
        support = rng.choice(S, size=rng.integers(1, successors + 1), replace=False)
        p = rng.dirichlet(np.ones(len(support)))
        part = rng.normal(size=(len(support), d))
        part += ((p - part.sum(1)) / d)[:, None]
        phi[s, a, support] = part
    return phi


def dense_phi(model) -> np.ndarray:
    return full_features(model) * model.unit


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_padded_lists_hold_exactly_the_dense_features(seed, successors):
    phi = random_features(seed, successors=successors)
    problem = Mixture.from_features(phi, horizon=3, bound=2.0, theta=np.ones(3))
    np.testing.assert_allclose(dense_phi(problem.model), phi, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(problem.kernel().dense(), phi.sum(-1), atol=1e-14)
    assert problem.space.is_dense == (problem.space.succ.shape[2] == 5)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(-3, 3), st.floats(-3, 3))
def test_phi_V_is_linear_in_V_and_batches(seed, x, y):
    rng = np.random.default_rng(seed)
    model = Mixture.from_features(random_features(seed), horizon=3, bound=2.0).model
    V, U = rng.random((2, 5))
    with jax.enable_x64(True):
        batch = np.asarray(model.phi_V(np.stack([V, U, x * V + y * U])))
        np.testing.assert_allclose(batch[2], x * batch[0] + y * batch[1], atol=1e-12)
        np.testing.assert_allclose(batch[0], np.asarray(model.phi_V(V)), atol=1e-15)
    expected = np.einsum("sapd,p->sad", dense_phi(model) / model.unit, V)
    np.testing.assert_allclose(batch[0], expected, atol=1e-13)


@pytest.mark.parametrize("successors", [2, 5])
def test_sparse_forms_give_the_same_lists_as_the_dense_array(successors):
    phi = random_features(1, successors=successors)
    s, a, s_next, i = np.nonzero(phi)
    coordinates = (s, a, s_next, i, phi[s, a, s_next, i])
    scipy_form = sp.coo_array((coordinates[4], coordinates[:4]), shape=phi.shape)
    reference = features.from_features(phi)
    for form in (coordinates, scipy_form):
        succ, packed, is_dense = features.from_features(form)
        np.testing.assert_array_equal(succ, reference[0])
        np.testing.assert_array_equal(packed, reference[1])
        assert is_dense == reference[2]


def test_kernels_as_arrays_lists_and_sparse_matrices_agree():
    rng = np.random.default_rng(0)
    kernels = (
        np.where(rng.random((3, 6, 2, 6)) < 0.3, rng.random((3, 6, 2, 6)), 0) + 1e-3 * np.eye(6)[:, None]
    )
    kernels /= kernels.sum(-1, keepdims=True)
    w = [0.2, 0.5, 0.3]
    dense = Mixture.from_kernels(kernels, horizon=3, weights=w)
    sparse = Mixture.from_kernels([sp.csr_array(k.reshape(12, 6)) for k in kernels], horizon=3, weights=w)
    np.testing.assert_array_equal(dense.model.phi, sparse.model.phi)
    np.testing.assert_array_equal(dense.space.succ, sparse.space.succ)
    np.testing.assert_allclose(dense.kernel().dense(), np.tensordot(w, kernels, 1), atol=1e-14)
    # phi_i = P_i / sqrt(d), theta = sqrt(d) w, B = sqrt(d)
    assert dense.model.bound == pytest.approx(np.sqrt(3))
    np.testing.assert_allclose(dense.truth, np.sqrt(3) * np.array(w))


def brute_force_norm(phi: np.ndarray) -> float:
    """max over (s,a) and vertices V of [0,1]^S of ||phi_V||_2; a convex function peaks at a vertex."""
    vertices = np.array(list(itertools.product([0.0, 1.0], repeat=phi.shape[2])))
    return np.sqrt((np.einsum("sapd,vp->vsad", phi, vertices) ** 2).sum(-1)).max()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_after_normalisation_no_value_function_has_a_feature_longer_than_one(seed):
    model = Mixture.from_features(random_features(seed), horizon=3, bound=2.0).model
    assert brute_force_norm(dense_phi(model) / model.unit) <= 1 + 1e-12
    assert model.bound == pytest.approx(2.0 * model.unit)


def test_the_norm_bound_is_exact_for_non_negative_features():
    phi = np.abs(random_features(3))
    packed = features.from_features(phi)[1]
    assert features.norm_bound(packed) == pytest.approx(brute_force_norm(phi), rel=1e-12)


def test_features_that_meet_the_norm_rule_are_left_as_they_are():
    phi = random_features(4) / 100
    model = Mixture.from_features(phi, horizon=3, bound=1e3, theta=100 * np.ones(3)).model
    assert model.unit == 1.0
    np.testing.assert_array_equal(dense_phi(model), phi)


def test_a_tabular_problem_has_one_coordinate_per_possible_transition():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(4), size=(4, 2))
    P[:, :, 3] = 0
    P /= P.sum(-1, keepdims=True)
    full = Mixture.from_tabular(P, horizon=3)
    with_support = Mixture.from_tabular(P, horizon=3, support=P > 0)
    only_support = Mixture.from_tabular(None, horizon=3, support=P > 0)
    assert full.model.dim == 32
    assert with_support.model.dim == 24
    assert only_support.truth is None
    for problem in (full, with_support):
        np.testing.assert_allclose(problem.kernel().dense(), P, atol=1e-15)
        assert np.linalg.norm(problem.truth) <= problem.model.bound
        assert brute_force_norm(dense_phi(problem.model) / problem.model.unit) <= 1 + 1e-12


@pytest.mark.parametrize("is_dense", [True, False])
def test_numbers_in_numbers_out_in_double_precision(is_dense):
    """Outside any scope of JAX too; and a wrong number of states is refused rather than looked up."""
    P = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 4, 2))
    if not is_dense:
        P = np.broadcast_to(np.eye(9)[:, None], (2, 9, 2, 9))
    problem = Mixture.from_kernels(P, horizon=2, weights=[0.25, 0.75])
    model, kernel, S = problem.model, problem.kernel(), P.shape[1]
    assert problem.space.is_dense == is_dense
    V = np.random.default_rng(1).random((3, S))
    phi_V = model.phi_V(V)
    assert isinstance(phi_V, np.ndarray)
    assert phi_V.dtype == np.float64
    np.testing.assert_allclose(phi_V @ problem.truth, np.einsum("sat,bt->bsa", kernel.dense(), V), atol=1e-14)
    np.testing.assert_allclose(kernel.expect(V[0]), kernel.dense() @ V[0], atol=1e-14)
    for call in (model.phi_V, kernel.expect):
        with pytest.raises(
            ShapeError, match=rf"V has shape \(10,\); it must be .* last axis must be the {S} states"
        ):
            call(np.ones(10))
    with pytest.raises(ShapeError, match=r"theta has shape \(3,\); it must be \(2,\)"):
        model.kernel(np.ones(3))


def test_coordinates_may_have_states_actions_and_features_that_nothing_names():
    coordinates = ([0, 1], [0, 0], [0, 1], [0, 0], [1.0, 1.0])
    problem = Mixture.from_features(coordinates, horizon=2, bound=2.0, shape=(2, 1, 3), theta=[1.0, 0.5, 0])
    assert (problem.num_states, problem.num_actions, problem.model.dim) == (2, 1, 3)


def test_the_model_holds_nothing_of_the_truth():
    phi = random_features(0)
    with_truth = Mixture.from_features(phi, horizon=3, bound=2.0, theta=np.ones(3))
    without = Mixture.from_features(phi, horizon=3, bound=2.0)
    for x, y in zip(jax.tree.leaves(with_truth.model), jax.tree.leaves(without.model)):
        np.testing.assert_array_equal(x, y)
    with pytest.raises(SimulationError, match="known=problem"):
        without.kernel()


def test_parameters_are_given_and_said_in_the_units_of_the_features():
    """Inside, phi is divided by its unit and theta multiplied; a parameter that misses one by rounding is mended."""
    model = Mixture.from_features(10 * random_features(0), horizon=3, bound=2.0).model
    theta = np.full(3, 0.1)
    inside = model.parameter(theta, "x")
    np.testing.assert_allclose(inside, theta * model.unit)
    np.testing.assert_allclose(diagnostics_of(model).in_units(inside), theta)
    rounded = model.parameter(theta + 1e-10, "x")
    assert np.abs(model.kernel(rounded).prob.sum(-1) - 1).max() <= 1e-12
    with pytest.raises(KernelError, match=r"P_theta of x: row \(s=0, a=0\) sums to 2"):
        model.parameter(2 * theta, "x")
    with pytest.raises(ShapeError, match=r"x has shape \(2,\); it must be \(3,\), one entry per feature"):
        model.parameter(theta[:2], "x")


def test_features_too_large_for_memory_are_refused_before_they_are_allocated(monkeypatch):
    monkeypatch.setattr(features, "MAX_BYTES", 100)
    with pytest.raises(FeatureError, match="GiB"):
        Mixture.from_features(random_features(0), horizon=3, bound=2.0)
