"""Maximum likelihood over Theta: the fit proves its own optimality; checked against every point we can find."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horizonfree import Mixture
from horizonfree._x64 import to_device, to_numpy
from horizonfree.models.mixture import learner, likelihood
from horizonfree.models.mixture.likelihood import KT_PSEUDO_COUNT, log_loss, maximum_likelihood, pseudo_counts
from tests.reference import small
from tests.reference.jitted import jitted

VALID = {name: make().model.valid for name, make in small.PROBLEMS.items()}
_predict = jax.jit(learner.predict)


def fit(valid, counts, start=None):
    return maximum_likelihood(valid, np.asarray(counts), valid.center if start is None else np.asarray(start))


def next_predictions(valid, counts, thetas, atol=1e-12):
    """By the traced predictor, after a comparison with the one in NumPy."""
    with jax.enable_x64(True):
        traced = to_numpy(_predict(*to_device((valid, np.asarray(counts, np.int32), np.asarray(thetas)))))
    np.testing.assert_allclose(
        valid.rows @ likelihood.predict(valid, counts, np.asarray(thetas)).T,
        valid.rows @ traced.T,
        rtol=0,
        atol=atol,
    )
    return traced


def both(theta):
    return np.stack([theta, theta])


def loss(valid, counts, theta):
    p = valid.rows @ theta
    with np.errstate(divide="ignore"):
        return -sum(n * np.log(max(p_r, 0.0)) for n, p_r in zip(counts, p) if n > 0)


def random_counts(valid, seed):
    """Counts of free rows that range from none to many, some rows never seen."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(0, 4)
    counts = rng.poisson(scale * rng.dirichlet(0.3 * np.ones(len(valid.rows))))
    return np.where(valid.free, counts, 0)


@pytest.mark.parametrize("name", VALID)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_no_point_of_theta_beats_the_fit_by_more_than_its_gap(name, seed):
    valid, rng = VALID[name], np.random.default_rng(seed)
    counts = random_counts(valid, seed)
    found = fit(valid, counts, small.inside(valid, rng, 1, spread=0.99)[0])  # any start
    assert valid.contains(found.theta, 1e-9)
    assert found.loss == pytest.approx(loss(valid, counts, found.theta), abs=1e-6)
    assert 0 <= found.gap <= 1e-2
    others = small.inside(valid, rng, 50)
    towards = found.theta + 10.0 ** rng.uniform(-4, 0, (50, 1)) * (others - found.theta)
    for theta in (*others, *towards):
        assert loss(valid, counts, theta) >= found.loss - found.gap - 1e-9


@pytest.mark.parametrize("name", VALID)
def test_multipliers_bound_the_slope_towards_every_valid_parameter(name):
    """- grad L'Delta <= gap - sum lam p_theta, the inequality on which all certificates rest."""
    valid = VALID[name]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        counts = random_counts(valid, seed)
        found = fit(valid, counts)
        assert (found.lam >= 0).all()
        slope = -(np.where(valid.free, counts, 0) / np.where(valid.free, found.p, 1.0)) @ valid.rows
        for theta in small.inside(valid, rng, 30):
            p_theta = valid.rows @ theta
            assert (
                -slope @ (theta - found.theta)
                <= found.gap - found.lam @ np.where(valid.free, p_theta, 0) + 1e-7
            )


def test_a_tabular_fit_is_the_empirical_distribution():
    valid = VALID["tabular"]
    counts = np.random.default_rng(0).integers(0, 50, len(valid.rows))
    found = fit(valid, counts)
    for rows in np.unique(valid.row_of.reshape(-1, valid.row_of.shape[2]), axis=0):
        np.testing.assert_allclose(found.p[rows], counts[rows] / counts[rows].sum(), atol=2e-5)


def test_an_optimum_on_the_boundary_is_reached_with_its_multiplier():
    """One pair with two successors, N times the first: p = (1, 0), and the multiplier of p_2 >= 0 is N."""
    problem = Mixture.from_tabular(np.array([[[0.5, 0.5]], [[0.0, 1.0]]]), horizon=2)
    valid, N = problem.model.valid, 40
    first = valid.row_of[0, 0, 0]
    counts = np.where(np.arange(len(valid.rows)) == first, N, 0)
    found = fit(valid, counts)
    second = valid.row_of[0, 0, 1]
    assert found.p[first] == pytest.approx(1, abs=1e-5)
    assert found.p[second] == pytest.approx(0, abs=1e-5)
    assert found.lam[second] == pytest.approx(N, rel=1e-3)
    assert found.loss == pytest.approx(0, abs=1e-3)


def test_kernels_that_coincide_do_no_harm():
    P, Q = np.random.default_rng(3).dirichlet(np.ones(3), size=(2, 3, 2))
    once, twice = (Mixture.from_kernels(k, horizon=4).model.valid for k in ([P, Q], [P, Q, Q]))
    rng = np.random.default_rng(0)
    slot_counts = rng.integers(0, 30, once.row_of.shape)
    fits = []
    for valid in (once, twice):
        counts = np.zeros(len(valid.rows), int)
        np.add.at(counts, valid.row_of, slot_counts)
        fits.append(fit(valid, counts))
    assert fits[0].loss == pytest.approx(fits[1].loss, abs=1e-4)
    np.testing.assert_allclose(fits[0].p[once.row_of], fits[1].p[twice.row_of], atol=1e-5)


def test_rows_of_unreachable_states_do_not_restrict_the_fit():
    """Kernels 0 and 1 differ in state 2 alone, which is never reached; the weight of kernel 2 is all that counts."""
    kernels = np.zeros((3, 3, 1, 3))
    kernels[:2, 0, 0, 0] = kernels[2, 0, 0, 1] = kernels[:, 1, 0, 1] = 1.0
    kernels[0, 2, 0, 0] = kernels[1, 2, 0, 1] = kernels[2, 2, 0, 2] = 1.0
    valid = Mixture.from_kernels(kernels, horizon=3).model.valid
    assert valid.num_free == 1
    stay, leave = valid.row_of[0, 0, 0], valid.row_of[0, 0, 1]
    counts = np.zeros(len(valid.rows), int)
    counts[[stay, leave]] = 1, 9
    found = fit(valid, counts)
    assert found.p[stay] == pytest.approx(0.1, abs=1e-5)


def test_with_nothing_to_learn_the_fit_is_the_centre():
    valid = Mixture.from_kernels(
        np.random.default_rng(0).dirichlet(np.ones(3), size=(1, 3, 2)), horizon=3
    ).model.valid
    counts = np.full(len(valid.rows), 5)
    found = fit(valid, counts)
    assert found.gap == 0
    assert found.loss == pytest.approx(loss(valid, counts, valid.center))
    np.testing.assert_array_equal(next_predictions(valid, counts, both(valid.center)), both(valid.center))


@pytest.mark.parametrize("name", VALID)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_prediction_is_strictly_inside_theta_whatever_the_counts_and_the_start(name, seed):
    valid, rng = VALID[name], np.random.default_rng(seed)
    start = small.inside(valid, rng, 1, spread=1 - 1e-6)[0]
    for theta in next_predictions(valid, 1000 * random_counts(valid, seed), both(start), atol=1e-9):
        p = valid.rows @ theta
        assert (p[valid.free] > 0).all()
        assert valid.contains(theta, 1e-9)


@pytest.mark.parametrize("name", VALID)
def test_predictions_settle_where_the_regularised_likelihood_is_stationary(name):
    valid = VALID[name]
    counts = random_counts(valid, 1)
    thetas = both(valid.center)
    for _ in range(10):
        thetas = next_predictions(valid, counts, thetas)
    R, q = int(valid.free.sum()), valid.num_free
    for pseudo, theta in zip((KT_PSEUDO_COUNT, min(KT_PSEUDO_COUNT, q / (2 * R))), thetas):
        c = np.where(valid.free, counts + pseudo, 0)
        terms = (c / np.where(valid.free, valid.rows @ theta, 1.0))[:, None] * (valid.rows @ valid.basis)
        assert np.abs(terms.sum(0)).max() <= 1e-9 * np.abs(terms).sum()


def test_the_second_predictor_adds_as_many_pseudo_counts_as_half_of_the_unknowns(x64):
    valid = VALID["dense"]
    first, second = pseudo_counts(valid)
    np.testing.assert_allclose(learner.pseudo_counts(to_device(valid)), (first, second), rtol=1e-12)
    assert first == 0.5
    assert second * valid.free.sum() == pytest.approx(valid.num_free / 2)


def test_log_loss_ignores_rows_never_seen_and_is_infinite_for_impossible_ones():
    assert log_loss(np.array([0, 2]), np.array([0.0, 0.5])) == pytest.approx(2 * np.log(2))
    assert log_loss(np.array([1, 2]), np.array([0.0, 0.5])) == np.inf


@pytest.mark.parametrize("least", [2.0, 0.9, 0.6, 0.2, 0.05])
def test_with_many_rows_the_longest_step_is_tried_first_and_the_best_is_found(monkeypatch, least):
    """f(t) = - c_1 log(1 + 0.9 t) - c_2 log(1 - 0.9 t) is least at t = (c_1 - c_2) / 0.9 (c_1 + c_2)."""
    monkeypatch.setattr(learner, "MAX_DENSE_ROWS", 0)
    c, x = np.array([1 + 0.9 * least, 1 - 0.9 * min(least, 1.0)]), np.array([0.9, -0.9])
    t = 0.5 ** np.arange(8.0)
    change = [-(c * np.log1p(step * x)).sum() for step in t]
    with jax.enable_x64(True):
        traced = to_numpy(learner._best_step(*map(jnp.asarray, (c, x, t))))
    for found in (traced, likelihood._best_step(c, x, t)):
        assert (
            found[0]
            == t[int(np.argmin(change))]
            == {2.0: 1, 0.9: 1, 0.6: 0.5, 0.2: 0.25, 0.05: 0.0625}[least]
        )
        assert found[1] == pytest.approx(min(change), rel=1e-12)


def test_a_newton_step_that_takes_little_from_every_row_is_no_worse_than_half_of_it():
    """Of a Newton step sum c x = sum c x^2: any changes x, scaled so."""
    rng, gains = np.random.default_rng(3), []
    while len(gains) < 2000:
        size = rng.integers(2, 30)
        c, x = rng.gamma(0.3, size=size), rng.uniform(-1, rng.choice([0.3, 1, 30]), size)
        x[rng.uniform(size=size) < 0.3] = -1.0
        x *= (c * x).sum() / (c * x**2).sum()
        if learner.SAFE_DECREASE >= -x.min() > 0:
            change = [-(c * np.log1p(t * x)).sum() for t in (0.5, 1.0)]
            assert change[1] <= change[0] < 0
            gains.append((change[0] - change[1]) / (c * x**2).sum())
    assert min(gains) > 0.03  # as the proof says


@pytest.mark.parametrize("name", sorted(VALID))
def test_with_many_rows_steps_are_the_same(monkeypatch, x64, name):
    valid, rng = to_device(VALID[name]), np.random.default_rng(4)
    for scale in (0, 3, 300):
        counts = jnp.asarray(rng.poisson(scale, len(valid.rows)) * np.asarray(valid.positive), jnp.int32)
        start = jnp.tile(valid.center, (2, 1))
        found = []
        for many in (0, 10**9):
            monkeypatch.setattr(learner, "MAX_DENSE_ROWS", many)
            found.append(np.asarray(jitted(learner.predict, valid, counts, start)))
        np.testing.assert_allclose(*found, rtol=0, atol=1e-13)
