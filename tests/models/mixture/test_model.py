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
        with pytest.raises(ShapeError, match=rf"V has shape \(10,\); its last axis must be the {S} states"):
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
    np.testing.assert_allclose(model.in_units(inside), theta)
    rounded = model.parameter(theta + 1e-10, "x")
    assert np.abs(model.kernel(rounded).prob.sum(-1) - 1).max() <= 1e-12
    with pytest.raises(KernelError, match=r"P_theta of x: row \(s=0, a=0\) sums to 2"):
        model.parameter(2 * theta, "x")
    with pytest.raises(ShapeError, match=r"x has shape \(2,\); it must have shape \(3,\)"):
        model.parameter(theta[:2], "x")


EYE = np.broadcast_to(np.eye(3)[:, None], (3, 2, 3))
BAD = {
    "a row that sums to 0.9": (
        lambda: Mixture.from_kernels([EYE * 0.9], horizon=2),
        KernelError,
        r"base kernel 0: row \(s=0, a=0\) sums to 0.9",
    ),
    "a negative probability": (
        lambda: Mixture.from_kernels([2 * EYE - np.roll(EYE, 1, 2)], horizon=2),
        KernelError,
        r"\(s=0, a=0\) -> 1 is -1",
    ),
    "NaN features": (
        lambda: Mixture.from_features(np.full((2, 1, 2, 1), np.nan), horizon=2, bound=1.0),
        FeatureError,
        r"phi\(s'=0 \| s=0, a=0\)\[0\] is nan",
    ),
    "a state without successors": (
        lambda: Mixture.from_features(np.zeros((2, 1, 2, 1)), horizon=2, bound=1.0),
        FeatureError,
        r"\(s=0, a=0\) has no successor",
    ),
    "rows that no parameter makes sum to one": (
        lambda: Mixture.from_features(
            EYE[..., None] * np.array([1, 1, 2])[:, None, None, None], horizon=2, bound=1.0
        ),
        FeatureError,
        r"no parameter makes every row of P_theta sum to 1: at \(s=0, a=0\) the best is 0.6",
    ),
    "a theta outside its bound": (
        lambda: Mixture.from_features(np.stack([EYE, EYE], -1), horizon=2, bound=0.8, theta=[1.0, 0.0]),
        FeatureError,
        r"\|\|theta\|\|_2 is 1, above bound=0.8",
    ),
    "a bound that no parameter keeps": (
        lambda: Mixture.from_features(EYE[..., None], horizon=2, bound=0.5),
        FeatureError,
        "bound is 0.5, but a parameter that makes every row sum to 1 has norm 1 or more",
    ),
    "a bound that is no number": (
        lambda: Mixture.from_features(EYE[..., None], horizon=2, bound="1"),
        FeatureError,
        "bound is '1'; B must be a positive number",
    ),
    "one sparse matrix instead of a list": (
        lambda: Mixture.from_kernels(sp.csr_array(np.eye(3)), horizon=2),
        ShapeError,
        "kernels is a csr_array; give a list of kernels",
    ),
    "kernels that are nothing": (
        lambda: Mixture.from_kernels(None, horizon=2),
        ShapeError,
        "kernels is a NoneType; give a list of kernels",
    ),
    "an empty sparse matrix": (
        lambda: Mixture.from_kernels([sp.csr_array((0, 3))], horizon=2),
        ShapeError,
        r"kernels\[0\] has shape \(0, 3\); a sparse kernel must be",
    ),
    "complex sparse kernels": (
        lambda: Mixture.from_kernels([sp.csr_array(np.eye(3, dtype=complex))], horizon=2),
        ShapeError,
        r"kernels\[0\] has type complex128",
    ),
    "coordinates beyond all memory": (
        lambda: Mixture.from_features(([10**12], [0], [0], [0], [1.0]), horizon=2, bound=1.0),
        FeatureError,
        "phi would take",
    ),
    "coordinates that are words": (
        lambda: Mixture.from_features((["x"], [0], [0], [0], [1.0]), horizon=2, bound=1.0),
        ShapeError,
        "coordinates of phi: s has type",
    ),
    "a shape that is too small": (
        lambda: Mixture.from_features(([0], [1], [0], [0], [1.0]), horizon=2, bound=1.0, shape=(1, 1, 1)),
        ShapeError,
        "A of shape is 1; it must be 2 or more",
    ),
    "a shape of an array": (
        lambda: Mixture.from_features(EYE[..., None], horizon=2, bound=1.0, shape=(3, 1, 1)),
        ShapeError,
        "shape= is for coordinates",
    ),
    "a support that is unclear": (
        lambda: Mixture.from_tabular(None, horizon=2, support=np.full((2, 1, 2), np.nan)),
        ShapeError,
        "it must say True or False",
    ),
    "row sums between rounding and a constraint": (
        lambda: Mixture.from_features(
            np.stack([EYE, EYE * (1 + 1e-8 * np.arange(3))[:, None, None]], -1), horizon=2, bound=1.0
        ),
        FeatureError,
        "too much for rounding, too little for a constraint on theta",
    ),
    "a theta that is no kernel": (
        lambda: Mixture.from_features(EYE[..., None], horizon=2, bound=1.0, theta=[0.5]),
        KernelError,
        r"P_theta of the given truth: row \(s=0, a=0\) sums to 0.5",
    ),
    "weights that sum to two": (
        lambda: Mixture.from_kernels([EYE, EYE], horizon=2, weights=[1, 1]),
        KernelError,
        "weights sum to 2",
    ),
    "weights of the wrong length": (
        lambda: Mixture.from_kernels([EYE], horizon=2, weights=[0.5, 0.5]),
        ShapeError,
        r"weights has shape \(2,\); it must have shape \(1,\)",
    ),
    "a kernel of the wrong shape": (
        lambda: Mixture.from_kernels([np.ones((3, 2))], horizon=2),
        ShapeError,
        r"kernels\[0\] has shape \(3, 2\)",
    ),
    "kernels that disagree in shape": (
        lambda: Mixture.from_kernels([EYE, EYE[:, :1]], horizon=2),
        ShapeError,
        r"kernels\[1\] has shape \(3, 1, 3\)",
    ),
    "features of the wrong shape": (
        lambda: Mixture.from_features(np.ones((3, 2, 3)), horizon=2, bound=1.0),
        ShapeError,
        r"must be \[S, A, S, d\]",
    ),
    "coordinates of unequal length": (
        lambda: Mixture.from_features(([0], [0, 1], [0], [0], [1.0]), horizon=2, bound=1.0),
        ShapeError,
        "coordinates of phi: a has shape",
    ),
    "no kernels at all": (lambda: Mixture.from_kernels([], horizon=2), ShapeError, "kernels is empty"),
    "words instead of numbers": (
        lambda: Mixture.from_features([["x"]], horizon=2, bound=1.0),
        ShapeError,
        "phi has type .*; it must hold real numbers",
    ),
    "a start that does not exist": (
        lambda: Mixture.from_kernels([EYE], horizon=2, start=3),
        ShapeError,
        "start is 3; it must be a state, 0 to 2, or a distribution over them",
    ),
    "a horizon of zero": (
        lambda: Mixture.from_kernels([EYE], horizon=0),
        ShapeError,
        "horizon is 0; it must be a number of steps, 1 to 1,000,000",
    ),
    "a bound of zero": (
        lambda: Mixture.from_features(EYE[..., None], horizon=2, bound=0.0),
        FeatureError,
        "bound is 0",
    ),
    "probability outside the declared support": (
        lambda: Mixture.from_tabular(EYE, horizon=2, support=np.roll(EYE, 1, 2) > 0),
        KernelError,
        r"P\(s'=0 \| s=0, a=0\) is 1 but support says it is impossible",
    ),
    "a tabular problem of nothing": (
        lambda: Mixture.from_tabular(None, horizon=2),
        ShapeError,
        "needs P, or support",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_its_place_value_and_remedy(case):
    build, error, message = BAD[case]
    with pytest.raises(error, match=message):
        build()


def test_features_too_large_for_memory_are_refused_before_they_are_allocated(monkeypatch):
    monkeypatch.setattr(features, "MAX_BYTES", 100)
    with pytest.raises(FeatureError, match="GiB"):
        Mixture.from_features(random_features(0), horizon=3, bound=2.0)
