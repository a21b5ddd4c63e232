"""The valid parameters: free directions, centre, refusals."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horizonfree import Mixture
from horizonfree.errors import FeatureError
from horizonfree.models.mixture import valid
from horizonfree.models.mixture.valid import NEGLIGIBLE_CHANGE
from tests.reference import memory
from tests.reference.odd_features import odd_features


def mixture_of(kernels, **options):
    return Mixture.from_kernels(kernels, horizon=options.pop("horizon", 6), **options)


def random_kernels(seed, d=3, S=4, A=2):
    return np.random.default_rng(seed).dirichlet(np.ones(S), size=(d, S, A))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_the_basis_is_orthonormal_keeps_row_sums_and_moves_probabilities(seed):
    valid = mixture_of(random_kernels(seed)).model.valid
    Z = valid.basis
    assert valid.num_free == 2  # three weights that sum to one
    np.testing.assert_allclose(Z.T @ Z, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(valid.sums @ Z, 0, atol=1e-12)
    assert np.linalg.norm(valid.rows @ Z, axis=0).min() > 1e-6
    assert valid.contains(valid.center)


def test_kernels_that_coincide_leave_fewer_directions_to_learn():
    P, Q, _ = random_kernels(0)
    assert mixture_of([P, Q]).model.valid.num_free == 1
    assert mixture_of([P, Q, Q]).model.valid.num_free == 1
    assert mixture_of([P, P]).model.valid.num_free == 0
    assert mixture_of([P]).model.valid.num_free == 0


def test_directions_that_change_unreachable_rows_only_do_not_count():
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 1] = P[2, 0, 2] = 1.0  # state 2 is never reached
    Q = P.copy()
    Q[2, 0] = [1.0, 0.0, 0.0]
    problem = mixture_of([P, Q])
    np.testing.assert_array_equal(problem.space.reachable, [True, True, False])
    assert problem.model.valid.num_free == 0
    assert problem.model.num_unknown == 0
    assert mixture_of([P, Q], start=2).model.valid.num_free == 1
    assert mixture_of([P, Q], start=[0.9, 0.0, 0.1]).model.valid.num_free == 1
    assert mixture_of([P, Q], start=[0.9, 0.1, 0.0]).model.valid.num_free == 0


def test_every_slot_names_its_own_row():
    model = mixture_of(random_kernels(1)).model
    valid = model.valid
    np.testing.assert_allclose(valid.rows[valid.row_of], model.phi, atol=1e-12)


def test_padding_has_a_row_number_of_its_own():
    P = np.zeros((5, 1, 5))
    P[:, 0, 0] = 1.0
    P[0, 0] = [0.5, 0.5, 0, 0, 0]
    valid = mixture_of([P]).model.valid
    assert (valid.row_of == len(valid.rows)).sum() == 4


def test_the_centre_has_the_largest_smallest_probability():
    valid = mixture_of(random_kernels(2)).model.valid
    scaled = valid.rows / valid.sizes[:, None]  # probabilities relative to the size of their features
    best = (scaled @ valid.center).min()
    rng = np.random.default_rng(0)
    for _ in range(200):
        theta = valid.center + 0.1 * valid.basis @ rng.normal(size=2)
        assert (scaled @ theta).min() <= best + 1e-9


def test_membership_follows_the_definition():
    problem = mixture_of(random_kernels(3), weights=[1.0, 0.0, 0.0])
    valid = problem.model.valid
    assert valid.contains(problem.truth)
    assert not valid.contains(1.01 * problem.truth)  # rows sum to 1.01
    for direction in (*valid.basis.T, *-valid.basis.T):  # Theta is bounded: some probability turns negative
        assert not valid.contains(problem.truth + 1e3 * direction)


def test_features_that_are_never_a_kernel_are_refused():
    phi = np.zeros((2, 1, 2, 1))
    phi[:, 0, 0, 0], phi[:, 0, 1, 0] = 2.0, -1.0  # sums to one, but one entry is negative for every theta
    with pytest.raises(FeatureError, match="no parameter makes these features a transition kernel"):
        Mixture.from_features(phi, horizon=3, bound=2.0)


def test_rows_that_are_zero_for_every_parameter_are_equalities():
    """theta = (x, y, z), rows x + y, z, -z: z is forced to 0, and x - y is free but changes nothing."""
    phi = np.zeros((3, 1, 3, 3))
    phi[:, 0, 0, :2], phi[:, 0, 1, 2], phi[:, 0, 2, 2] = 1.0, 1.0, -1.0
    valid = Mixture.from_features(phi, horizon=3, bound=2.0).model.valid
    assert abs(valid.center[2]) < 1e-12
    assert valid.contains(valid.center)
    assert valid.affine.shape[1] == 1
    assert valid.num_free == 0
    np.testing.assert_allclose(valid.affine[2], 0, atol=1e-12)


def test_forced_rows_leave_the_others_strictly_positive():
    phi = np.zeros((4, 1, 4, 4))
    phi[:, 0, 0, 0], phi[:, 0, 1, 1], phi[:, 0, 2, 2:], phi[:, 0, 3, 2:] = 1.0, 1.0, [1.0, 1.0], [-1.0, -1.0]
    valid = Mixture.from_features(phi, horizon=3, bound=2.0).model.valid
    p = np.sort(valid.rows @ valid.center)
    assert p[:2] == pytest.approx([0, 0], abs=1e-12)
    assert p[2] > 1e-3
    assert valid.num_free == 1


def test_rows_of_any_size_keep_their_own_directions():
    """A mixture of two distributions with tails down to 1e-14: nothing about it is forced, and q = 1."""
    tail = 10.0 ** -np.arange(0, 15, 2.0)
    p, q = tail / tail.sum(), tail * np.arange(1, 9) / (tail * np.arange(1, 9)).sum()
    kernels = [np.broadcast_to(row, (8, 1, 8)) for row in (p, q)]
    valid = Mixture.from_kernels(kernels, horizon=3, weights=[0.4, 0.6]).model.valid
    assert valid.num_free == 1
    assert valid.positive.all()
    assert (~valid.virtual).sum() == 8  # no two of them are one
    assert valid.contains(valid.center)
    assert (valid.rows @ valid.center > 0).all()


def test_rounded_kernels_keep_every_direction_and_the_truth(subtests):
    """Rows that miss 1 by rounding of the input are mended: taken literally they would tell parameters apart."""
    for seed in range(20):
        with subtests.test(seed=seed):
            kernels = np.random.default_rng(seed).dirichlet(np.ones(5), size=(3, 5, 2)).round(9)
            problem = Mixture.from_kernels(kernels, horizon=3, weights=[0.333333333] * 3)
            valid = problem.model.valid
            assert valid.num_free == 2
            assert valid.contains(problem.truth, tolerance=1e-12)
            np.testing.assert_allclose(problem.kernel().dense(), kernels.mean(axis=0), atol=1e-8)


def test_one_row_that_misses_one_does_not_certify_what_is_unknown():
    P = np.zeros((2, 3, 2, 3))
    P[:, 1, :, 1] = P[:, 2, :, 2] = 1
    P[:, 0, 0], P[:, 0, 1] = [[0, 0.1, 0.9], [0, 0.9, 0.1]], [0, 0.5, 0.5]
    P[1, 2, 0, 2] += 9e-9
    assert Mixture.from_kernels(P, horizon=2).model.valid.num_free == 1


def test_many_distinct_row_sums_need_no_square_matrix():
    """Every (s, a) has a row sum of its own: 4,000 of them, of which only the equations of d = 4 matter."""
    S, rng = 2000, np.random.default_rng(0)
    sums = np.c_[np.ones(2 * S), rng.standard_normal((2 * S, 3))]
    s, a = np.divmod(np.arange(2 * S), 2)
    coordinates = tuple(np.repeat(x, 4) for x in (s, a, s)) + (np.tile(np.arange(4), 2 * S), sums.ravel())
    with memory.peak_memory() as most:
        valid = Mixture.from_features(coordinates, horizon=2, bound=1.0, theta=[1.0, 0, 0, 0]).model.valid
        peak = most()
    assert valid.num_free == 0
    assert peak < 64 * 2**20  # a square matrix alone would take 122 MB


def gamble_table():
    """One gamble whose odds the second coordinate of theta sets."""
    phi = np.zeros((3, 2, 3, 2))
    phi[1, :, 1, 0] = phi[2, :, 2, 0] = 1
    phi[0, :, 1], phi[0, :, 2] = [[0.5, 0.5], [0.5, -0.5]], [[0.5, -0.5], [0.5, 0.5]]
    return phi


def gamble(unit=1.0, small=1.0):
    """The gamble with features in other units."""
    phi, scale = gamble_table(), unit * np.array([1, small])
    return Mixture.from_features(
        phi * scale, horizon=2, theta=np.array([1, -0.8]) / scale, bound=2 / scale.min()
    )


def test_units_of_the_features_change_nothing(subtests):
    for unit in [1e6, 1e-3, 1e-8, 1e-12]:
        with subtests.test(unit=unit):
            first, other = gamble().model.valid, gamble(unit).model.valid
            assert other.num_free == first.num_free == 1
            np.testing.assert_allclose(other.rows @ other.center, first.rows @ first.center, atol=1e-9)


def test_coordinates_in_small_units_keep_their_direction_or_are_refused():
    for small in (1e-3, 1e-6):
        assert gamble(small=small).model.valid.num_free == 1
    with pytest.raises(
        FeatureError, match="feature 1 is at most 5e-10 but feature 0 reaches 1; multiply the small ones"
    ):
        gamble(small=1e-9)


@pytest.mark.parametrize("digits", [3, 6, 9])
def test_rounded_kernels_given_as_features_are_refused(digits):
    kernels = np.moveaxis(np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 3, 2)).round(digits), 0, -1)
    with pytest.raises(FeatureError, match="too much for rounding, too little for a constraint"):
        Mixture.from_features(kernels, horizon=2, bound=2.0)


def test_a_row_that_can_hardly_be_positive_does_not_make_others_impossible():
    """The largest support is told by the programme itself, not by the size of probabilities at the centre."""
    c, al, be, ga, b2 = np.eye(5)
    e = 2.2e-5
    P = np.zeros((6, 3, 6, 5))
    P[1, :, 1] = P[2, :, 2] = c
    P[0, 0, 1], P[0, 0, 2], P[0, 1, 1], P[0, 1, 2] = al, c - al, c - al, al
    P[0, 2, 1] = P[0, 2, 2] = 0.5 * c
    P[3, :, 1], P[3, :, 2], P[3, 2, 1], P[3, 2, 2] = ga, c - ga, be, e * ga
    P[4, :, 1], P[4, :, 2], P[4, 2, 1], P[4, 2, 2] = c - be, be, b2, e * (c - be)
    P[5, :, 1], P[5, :, 2] = c - b2, b2
    problem = Mixture.from_features(P, horizon=2, bound=10.0, theta=[1, 0.9, 1 - e / 2, 0.5, 1 - e * e / 2])
    assert problem.model.valid.num_free == 1


def test_equal_actions_are_equal_or_different_or_refused(subtests):
    """Where they are accepted, the truth is the centre plus directions that can be learnt, to all digits that count."""
    for share, seed in itertools.product([1e-15, 1e-13, 1e-11, 1e-10, 1e-8, 1e-7, 1e-6], range(20)):
        with subtests.test(seed=seed, share=share):
            K = np.random.default_rng(seed).dirichlet(np.full(3, 0.6), size=(3, 3, 2))
            K[1] = K[0] + share * (K[1] - K[0])
            if 1e-12 < share < 1e-9:
                with pytest.raises(FeatureError, match="drowns in rounding"):
                    Mixture.from_kernels(K, horizon=3, weights=[0.2, 0.3, 0.5])
                continue
            problem = Mixture.from_kernels(K, horizon=3, weights=[0.2, 0.3, 0.5])
            valid = problem.model.valid
            assert valid.num_free == (2 if share > 1e-9 else 1)
            assert valid.contains(valid.center)
            assert (valid.rows @ valid.center > 0).all()
            off = problem.truth - valid.center
            off -= valid.basis @ (valid.basis.T @ off)
            assert np.abs(valid.rows @ off).max() <= 2 * NEGLIGIBLE_CHANGE


def test_what_is_known_is_known_to_all_digits_that_certificates_count():
    """Were they accepted: at most 2e-12 "is lost" of the first, 0.01 really; of the second 1e-7, and 0.011."""
    e = 3.178389283077883e-10
    P = np.zeros((2, 2, 2, 2))
    P[:, 1, :, 1] = 1
    P[:, 0, 0], P[0, 0, 1], P[1, 0, 1] = [0.96, 0.04], [0.95, 0.05], [0.95 - e, 0.05 + e]
    c, p = 5e-10, 1e-5
    phi = np.zeros((2, 2, 2, 2))
    phi[1, :, 1], phi[0, :, 0], phi[0, :, 1] = 1, 1 - p, p
    phi[0, 1, 1, 1] += c
    phi[0, 1, 0, 1] -= c
    for build in (
        lambda: Mixture.from_kernels(P, horizon=2),
        lambda: Mixture.from_features(phi, horizon=100, bound=900.0),
    ):
        with pytest.raises(FeatureError, match="drowns in rounding, yet it changes probabilities by up to"):
            build()


def test_features_whose_squares_vanish_count_as_zero():
    tail = np.array([[[1 - 1e-160, 1e-160]] * 2] * 2)
    problem = Mixture.from_kernels([tail, np.full((2, 2, 2), 0.5)], horizon=3)
    assert not problem.model.phi[..., 1, 0].any()
    assert problem.model.valid.num_free == 1


def test_directions_that_drown_in_rounding_but_reach_far_are_refused():
    """Among many rows a small coordinate, columns that are nearly alike, and rows that depend on theta weakly."""
    S, rng = 200, np.random.default_rng(0)
    many = np.zeros((S, 2, S, 2))
    many[1:, ..., 0] = rng.dirichlet(np.ones(S), size=(S - 1, 2))
    many[0, 0, 1] = many[0, 1, 2] = [0.5, 5.5e-8]
    many[0, 0, 2] = many[0, 1, 1] = [0.5, -5.5e-8]
    alike = gamble_table() @ np.array([[1, 1], [0, 2.0**-35]])
    weak, c = np.zeros((4, 2, 4, 2)), 1e-6
    weak[2, :, 2, 0] = weak[3, :, 3, 0] = weak[0, 1, 1, 0] = 1
    weak[0, 0, 2], weak[0, 0, 3] = [0.5, 0.5 * c], [0.5, -0.5 * c]
    weak[1, :, 2], weak[1, :, 3] = [0.5, 0.5 * 9e-4 * c], [0.5, -0.5 * 9e-4 * c]
    for features, bound in ((many, 1e8), (alike, 4 * 2.0**35), (weak, 2 / c)):
        with pytest.raises(FeatureError, match="drowns in rounding, yet it changes probabilities by up to"):
            Mixture.from_features(features, horizon=3, bound=bound)


def test_a_probability_too_small_to_be_told_from_zero_decides_nothing():
    """Counted as zero it would take with it a direction that changes other probabilities by 0.03."""
    rng = np.random.default_rng([77, 1352])
    S, A, d, _ = (int(rng.integers(*ends)) for ends in ((2, 6), (1, 4), (2, 9), (0, 5)))
    K = rng.gamma(rng.choice([0.1, 1]), size=(d, S, A, S))
    K = K * (rng.random(K.shape) < rng.choice([0.4, 1])) + 1e-13 * (rng.random() < 0.3)
    K[..., 0] += 1e-3
    phi = np.moveaxis(K / K.sum(-1, keepdims=True), 0, -1).copy()
    rng.dirichlet(np.full(d, 0.5))
    tiny, i = 10.0 ** rng.uniform(-13, -3), int(rng.integers(d))
    j = (i + 1) % d
    phi[0, 0], phi[0, 0, 0] = 0, 1
    phi[0, 0, 1, i], phi[0, 0, 2, i], phi[0, 0, 2, j] = 1, -1, tiny
    phi[0, 0, 0, j] -= tiny
    with pytest.raises(FeatureError, match="by so little that it cannot be told from 0"):
        Mixture.from_features(phi, horizon=2, bound=480.0)


@pytest.mark.parametrize("first", [*range(0, 500, 100), 1700])
def test_whatever_the_features_theta_is_represented_or_refused(first):
    """Where they are accepted, the centre is valid, positive where it can be, and the truth is within reach of it."""
    accepted = 0
    for seed in range(first, first + 100):
        phi, theta, bound = odd_features(seed)
        try:
            problem = Mixture.from_features(phi, horizon=3, bound=bound, theta=theta)
        except FeatureError:
            continue
        accepted, valid = accepted + 1, problem.model.valid
        assert valid.contains(valid.center, 1e-8), seed
        assert (valid.rows[valid.free] @ valid.center > 0).all(), seed
        off = problem.truth - valid.center
        off -= valid.basis @ (valid.basis.T @ off)
        reached = np.isin(np.arange(len(valid.rows)), valid.row_of[problem.space.reachable])
        assert np.abs(valid.rows[reached] @ off).max() <= 1e-9, seed
    assert accepted >= 50


def test_a_point_that_is_seen_to_be_the_farthest_inside_is_the_one_of_the_programme():
    """Of zones and of even mixtures no programme is asked; elsewhere it is."""
    zones = np.vstack(
        [np.eye(4), [[1.0, 1 / 3, 0.0, 0.0]], np.eye(4)[:1]]
    )  # a row that is larger, and one twice
    cases = [(zones, np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])), (np.eye(3), np.ones((1, 3)))]
    for rows, sums in cases:
        seen = valid._shortest_parameter(rows, sums)
        assert seen == pytest.approx(valid._max_min_row(rows, sums).x[:-1], abs=1e-9)
    skewed = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1]]), np.array([[1.0, 2.0]])
    unbound = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 0.0]])
    for rows, sums in (skewed, unbound):
        assert valid._shortest_parameter(rows, sums) is None
