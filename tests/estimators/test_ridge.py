"""Ridge: identities of weighted least squares, and the accuracy of the running root after a million rows."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from horizonfree.estimators.ridge import REFRESH_ROWS, Ridge, in_blocks
from tests.reference.jitted import jitted

pytestmark = pytest.mark.usefixtures("x64")
init, extend, update, norm_inv = map(eqx.filter_jit, (Ridge.init, Ridge.extend, Ridge.update, Ridge.norm_inv))


def rows(seed, T, d, batch=()):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((T, *batch, d)) / np.sqrt(d)
    return x, rng.random((T, *batch)), rng.uniform(0.1, 10, (T, *batch))


def scan(step, ridge, rows, refresh_rows=REFRESH_ROWS):
    """A scan of step(ridge, row) -> (ridge, output) in blocks, with a refresh after each."""

    def block(ridge, rows):
        ridge, output = jax.lax.scan(step, ridge, rows)
        return ridge.refresh(), output

    return in_blocks(block, ridge, rows, refresh_rows)


def add(ridge, row):
    return ridge.update(*row), None


def one_by_one(ridge, x, y, weight, **options):
    return jitted(lambda ridge, *rows: scan(add, ridge, rows, **options)[0], ridge, x, y, weight)


FIELDS = ("Sigma", "Sigma_inv", "b", "theta", "log_det")
fields = eqx.filter_jit(lambda ridge: {name: getattr(ridge, name) for name in FIELDS})


def drift(ridge):
    """|| W Sigma W' - I ||: zero when W' W is the inverse of Sigma; relative, and the same in every basis."""
    d = ridge.Sigma.shape[-1]
    error = ridge.W @ ridge.Sigma @ jnp.swapaxes(ridge.W, -1, -2) - jnp.eye(d)
    return jnp.linalg.norm(error, axis=(-2, -1)).max()


def assert_same(first, second, tolerance):
    first, second = fields(first), fields(second)
    for field in FIELDS:
        np.testing.assert_allclose(first[field], second[field], rtol=tolerance, atol=tolerance, err_msg=field)


def test_no_rows_is_a_multiple_of_the_identity():
    ridge = init(0.25, 3, (2,))
    np.testing.assert_array_equal(ridge.Sigma, np.broadcast_to(np.eye(3) / 4, (2, 3, 3)))
    np.testing.assert_allclose(ridge.Sigma_inv, np.broadcast_to(np.eye(3) * 4, (2, 3, 3)))
    np.testing.assert_array_equal(ridge.theta, np.zeros((2, 3)))
    np.testing.assert_allclose(ridge.log_det, 3 * np.log([0.25, 0.25]))
    np.testing.assert_allclose(norm_inv(ridge, np.array([3.0, 0.0, 4.0])), [10.0, 10.0])


@pytest.mark.parametrize("seed", range(3))
def test_rows_one_by_one_solve_the_normal_equations(seed):
    T, d, lam = 40, 4, 0.3
    x, y, weight = rows(seed, T, d)
    ridge = one_by_one(init(lam, d), x, y, weight)
    A = np.vstack([np.sqrt(weight)[:, None] * x, np.sqrt(lam) * np.eye(d)])
    target = np.concatenate([np.sqrt(weight) * y, np.zeros(d)])
    np.testing.assert_allclose(ridge.theta, np.linalg.lstsq(A, target, rcond=None)[0], rtol=1e-11)
    np.testing.assert_allclose(ridge.Sigma, A.T @ A, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(ridge.Sigma, ridge.Sigma.T)
    np.testing.assert_allclose(ridge.log_det, np.linalg.slogdet(A.T @ A)[1], rtol=1e-13)


def test_one_row_without_any_refresh():
    """The rank-one formulas themselves: a single update, before Cholesky has seen it."""
    x, y, weight = rows(0, 20, 5)
    ridge = extend(init(0.5, 5), x[1:], y[1:], weight[1:])
    updated = update(ridge, x[0], y[0], weight[0])
    np.testing.assert_allclose(updated.Sigma_inv, np.linalg.inv(updated.Sigma), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(updated.log_det, np.linalg.slogdet(updated.Sigma)[1], rtol=1e-13)


def test_a_weight_is_a_row_repeated_and_zero_is_no_row():
    x, y, _ = rows(1, 1, 3)
    start = init(1.0, 3)
    repeated = one_by_one(start, np.repeat(x, 5, 0), np.repeat(y, 5), np.ones(5))
    assert_same(update(start, x[0], y[0], np.array(5.0)), repeated, 1e-13)
    assert_same(update(start, x[0], y[0], np.array(0.0)), start, 0.0)


def test_one_hot_rows_count():
    """||e_i||^2 = 1/(n_i + lam), theta_i = sum of targets/(n_i + lam)."""
    lam, counts = 0.5, [0, 1, 7]
    x = np.repeat(np.eye(3), counts, axis=0)
    ridge = one_by_one(init(lam, 3), x, np.ones(8), np.ones(8))
    np.testing.assert_allclose(norm_inv(ridge, np.eye(3)[:, None, :])[:, 0] ** -2, np.array(counts) + lam)
    np.testing.assert_allclose(ridge.theta, np.array(counts) / (np.array(counts) + lam), atol=1e-15)


def test_all_rows_at_once_equal_rows_one_by_one():
    x, y, weight = rows(2, 30, 4, (2, 3))
    start = init(0.7, 4, (2, 3))
    assert_same(extend(start, x, y, weight), one_by_one(start, x, y, weight), 1e-11)


def test_where_the_refreshes_fall_does_not_matter():
    x, y, weight = rows(3, 25, 4, (2,))
    start = init(0.7, 4, (2,))
    without_refresh = one_by_one(start, x, y, weight, refresh_rows=1000)
    for refresh_rows in (1, 5, 7, 24, 25):
        assert_same(one_by_one(start, x, y, weight, refresh_rows=refresh_rows), without_refresh, 1e-12)


def test_scan_returns_the_outputs_in_order():
    x, y, weight = rows(4, 23, 3)

    def step(ridge, row):
        return ridge.update(*row), (ridge.norm_inv(row[0]), row[1])

    def outputs(*rows, **options):
        return scan(step, Ridge.init(1.0, 3), rows, **options)[1]

    norm, target = jitted(lambda *rows: outputs(*rows, refresh_rows=5), x, y, weight)
    expected, _ = jitted(outputs, x, y, weight)
    np.testing.assert_array_equal(target, y)
    np.testing.assert_allclose(norm, expected, rtol=1e-12)


def test_a_batch_is_its_members_and_vmap_over_seeds_is_a_loop():
    x, y, weight = rows(5, 12, 3, (4,))
    lam = np.array([0.1, 1.0, 2.0, 30.0])

    def fit_member(lam, *rows):
        return scan(add, Ridge.init(lam, 3), rows)[0]

    seeds = jitted(jax.vmap(fit_member, (0, 1, 1, 1)), lam, x, y, weight)
    for i in range(4):
        member = one_by_one(init(lam[i], 3), x[:, i], y[:, i], weight[:, i])
        assert_same(jax.tree.map(lambda leaf, i=i: leaf[i], seeds), member, 1e-12)
    batch = one_by_one(init(1.0, 3, (4,)), x, y, weight)
    member = one_by_one(init(1.0, 3), x[:, 1], y[:, 1], weight[:, 1])
    assert_same(jax.tree.map(lambda leaf: leaf[1], batch), member, 1e-12)


def test_norms_only_shrink_and_the_determinant_only_grows():
    x, y, weight = rows(6, 50, 4)
    probe = rows(7, 30, 4)[0]

    def step(ridge, row):
        updated = ridge.update(*row)
        return updated, (updated.norm_inv(probe), updated.log_det)

    norms, log_dets = jitted(lambda *rows: scan(step, Ridge.init(0.1, 4), rows)[1], x, y, weight)
    assert (np.diff(norms, axis=0) <= 1e-13).all()
    assert (np.diff(log_dets) > 0).all()


def test_rescaling_features_and_ridge_changes_no_norm_and_no_prediction():
    x, y, weight = rows(8, 20, 3)
    c = 7.0
    first = extend(init(0.4, 3), x, y, weight)
    scaled = extend(init(0.4 * c**2, 3), c * x, y, weight)
    np.testing.assert_allclose(norm_inv(scaled, c * x), norm_inv(first, x), rtol=1e-12)
    np.testing.assert_allclose(c * x @ fields(scaled)["theta"], x @ fields(first)["theta"], rtol=1e-11)


def test_one_heavy_row_destroys_nothing():
    """Growth g = 1 + w ||x||^2 = 1e12, exact answer ||x||^2/g.

    The root loses about 1e-16 * sqrt(g) = 1e-10 of it, Sherman-Morrison on the inverse 1e-16 * g = 1e-4.
    """
    for x in rows(9, 20, 4)[0]:
        weight = 1e12 / (x @ x)
        exact = (x @ x) / (1 + weight * (x @ x))
        ridge = update(init(1.0, 4), x, np.array(0.0), weight)
        np.testing.assert_allclose(norm_inv(ridge, x) ** 2, exact, rtol=1e-8)
        across = np.array([x[1], -x[0], x[3], -x[2]])
        np.testing.assert_allclose(norm_inv(ridge, across) ** 2, across @ across, rtol=1e-13)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_million_rows_of_wildly_different_weight(seed):
    """Weights from 1e-6 to 1e6, directions up to 1000 times rarer than others in a basis of no special position.

    The largest drift from Sigma at any of the million steps, hence just before a refresh too, stays below 1e-8.
    """
    T, d = 10**6, 5
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    x = rng.standard_normal((T, d)) * np.logspace(0, -3, d) @ basis
    weight = 10 ** rng.uniform(-6, 6, T)
    weight[0] = 1e6  # the worst moment for a heavy row: nothing else is known yet

    def step(ridge, row):
        updated = ridge.update(*row)
        return updated, drift(updated)

    ridge, drifts = jax.jit(lambda *rows: scan(step, Ridge.init(1.0, d), rows))(x, weight * 0 + 1, weight)
    assert drifts.max() < 1e-8
    assert np.linalg.cond(ridge.Sigma) > 1e5  # the test is as hard as it says
    np.testing.assert_allclose(ridge.log_det, np.linalg.slogdet(ridge.Sigma)[1], rtol=1e-12)
    exact = np.eye(d) + np.einsum("ti,tj->ij", weight[:, None] * x, x)
    np.testing.assert_allclose(ridge.Sigma, exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())


def test_a_numerically_singular_sum_keeps_the_running_root():
    """One direction 1e18 times heavier than the rest: Cholesky fails on Sigma, the root still knows the inverse."""
    x = np.array([1.0, 1.0, 1.0]) / np.sqrt(3)
    ridge = jitted(Ridge.refresh, update(init(1e-6, 3), x, np.array(1.0), np.array(1e12)))
    assert np.isfinite(ridge.W).all()
    assert np.isfinite(ridge.log_det)
    across = np.array([1.0, -1.0, 0.0])
    np.testing.assert_allclose(norm_inv(ridge, across), np.sqrt(2) * 1e3, rtol=1e-6)
