"""Radii: numbers worked out by hand, the proofs' reductions between them, and what the departures change."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError
from horizonfree.estimators import radius, radius_hf
from horizonfree.estimators.radius import Sizes


@pytest.mark.parametrize(
    ("k", "d", "H", "B", "delta", "expected"),
    [
        (1, 1, 1, 1.0, 0.1, 198.0445),
        (1, 4, 10, 2.0, 0.1, 789.0794),
        (1000, 4, 10, 2.0, 0.1, 1854.5113),
        (10_000, 2, 100, 1.5, 0.05, 1919.0101),
    ],
)
def test_beta_has_the_values_of_the_printed_formula(k, d, H, B, delta, expected):
    assert float(radius.beta_hf(k, Sizes(d, H, B), delta)) == pytest.approx(expected, abs=5e-5)


def test_beta_at_unit_sizes_is_the_sum_of_its_three_parts():
    tau = np.log(320)
    parts = 12 * np.sqrt(np.log(2) * tau), 30 * tau, 1.0
    assert parts == pytest.approx((23.9949, 173.0496, 1.0), abs=5e-5)
    assert float(radius.beta_hf(1, Sizes(1, 1, 1.0), 0.1)) == pytest.approx(sum(parts), rel=1e-14)


@pytest.mark.parametrize(("d", "B"), [(1, 0.3), (4, 2.0), (9, 50.0)])
def test_the_bias_is_the_root_of_d(d, B):
    """sqrt(lam) B = sqrt(d) for every B, since lam = d/B^2."""
    sizes = Sizes(d, 5, B)
    alpha, gamma, lam = radius.parameters(sizes)
    noise = radius_hf.bernstein_2022(
        35, d=d, L=1 / alpha, lam=lam, sigma=1, R=1 / alpha, eps=gamma**-2, peak=gamma**-2, delta=0.1
    )
    assert float(radius.beta_hf(7, sizes, 0.1)) - noise == pytest.approx(np.sqrt(d), rel=1e-10)


def test_more_features_than_steps_do_not_break_the_radius():
    """As printed, log(gamma^2/alpha) + 1 = -0.04 at d = 8, H = 1 and its logarithm is NaN."""
    assert np.log(8**-0.5) + 1 < 0
    at_8 = float(radius.beta_hf(1, Sizes(8, 1, 2.0), 0.1))
    assert np.isfinite(at_8)
    assert at_8 > float(radius.beta_hf(1, Sizes(1, 1, 2.0), 0.1))


def test_with_all_orders_named_delta_is_divided_among_four_events_per_order():
    M = 13
    beta_all = float(radius.beta_hf(10, Sizes(4, 10, 2.0), 0.1, M=M))
    assert beta_all == float(radius.beta_hf(10, Sizes(4, 10, 2.0), 0.1 / 52))
    assert beta_all > float(radius.beta_hf(10, Sizes(4, 10, 2.0), 0.1))


@pytest.mark.parametrize(("K", "H", "M"), [(1, 1, 3), (100, 10, 13), (1000, 20, 18)])
def test_moment_orders(K, H, M):
    assert radius.moment_orders(K, H) == M == int(np.ceil(np.log2(7 * K * H)))


def test_beta_grows_with_the_episode_and_with_confidence():
    betas = np.array([float(radius.beta_hf(k, Sizes(4, 10, 2.0), 0.1)) for k in (1, 2, 10, 1000, 10**6)])
    assert (np.diff(betas) > 0).all()
    assert float(radius.beta_hf(5, Sizes(4, 10, 2.0), 0.01)) > float(
        radius.beta_hf(5, Sizes(4, 10, 2.0), 0.1)
    )


def test_radii_are_traceable_and_immune_to_integer_overflow(x64):
    """k^2 H^2 exceeds every 32-bit integer here; int32 episodes, jit and vmap give what floats give."""
    k = np.array([1, 50_000, 2_000_000], np.int32)
    traced = jax.jit(jax.vmap(lambda k, B: radius.beta_hf(k, Sizes(4, 100, B), 0.1), (0, None)))(k, 2.0)
    expected = [float(radius.beta_hf(float(x), Sizes(4, 100, 2.0), 0.1)) for x in k]
    np.testing.assert_allclose(traced, expected, rtol=1e-13)


def test_radii_have_64_bits_without_any_setting():
    assert radius.beta_hf(3, Sizes(4, 10, 2.0), 0.1).dtype == jnp.dtype("float64")
    assert radius.beta_rfe(3, Sizes(4, 10, 2.0), 0.1).dtype == jnp.dtype("float64")


def test_ucrl_vtr():
    expected = 0.5 * np.sqrt(4 * np.log(1 + 5 * 10 * 4 / 16) + 2 * np.log(10)) + 2
    assert float(radius.beta_vtr(5, Sizes(4, 10, 2.0), 0.1)) == pytest.approx(expected, rel=1e-14)


def test_ucrl_vtr_covers_the_truth():
    """Ridge on rows x in [0, 1]^d/sqrt(d) with targets Bernoulli(<x, theta_star>): theta_star stays in every ball.

    Each of 300 runs fails with probability at most 1e-9, so a false alarm has probability at most 3e-7. A fifth of the
    noise and no bias must not be enough, or this would show nothing.
    """
    runs, K, d = 300, 200, 3
    rng = np.random.default_rng(0)
    theta_star = np.sqrt(d) * np.array([0.2, 0.3, 0.5])
    B = float(np.linalg.norm(theta_star))
    x = rng.random((runs, K, d)) / np.sqrt(d)
    y = rng.random((runs, K)) < x @ theta_star
    Sigma = d / B**2 * np.eye(d) + np.cumsum(x[..., :, None] * x[..., None, :], axis=1)
    b = np.cumsum(x * y[..., None], axis=1)
    error = np.linalg.solve(Sigma, b[..., None])[..., 0] - theta_star
    distance = np.sqrt(np.einsum("rki,rkij,rkj->rk", error, Sigma, error))
    k = np.arange(1, K + 1)
    assert (distance <= np.array([float(radius.beta_vtr(n, Sizes(d, 1, B), 1e-9)) for n in k])).all()
    small = [0.2 * (float(radius.beta_vtr(n, Sizes(d, 1, B), 1e-9)) - np.sqrt(d)) for n in k]
    assert (distance > np.array(small)).any()


def test_ucrl_vtr_plus():
    radii = [float(x) for x in radius.radii_vtr_plus(1, Sizes(4, 10, 1.0), 0.1)]
    assert radii == pytest.approx((81.5378, 114.144, 13352.6084), abs=5e-4)


def test_ucrl_vtr_plus_as_printed():
    """The three radii written out as in the paper equal the one Bernstein inequality they come from."""
    k, d, H, B, delta = 17, 3, 7, 1.7, 0.03
    lam, tau = B**-2, np.log(4 * k**2 * H / delta)
    hat = 8 * np.sqrt(d * np.log(1 + k / lam) * tau) + 4 * np.sqrt(d) * tau + 1
    check = 8 * d * np.sqrt(np.log(1 + k / lam) * tau) + 4 * np.sqrt(d) * tau + 1
    tilde = 8 * np.sqrt(d * H**4 * np.log(1 + k * H**4 / (d * lam)) * tau) + 4 * H**2 * tau + 1
    radii = [float(x) for x in radius.radii_vtr_plus(k, Sizes(d, H, B), delta)]
    assert radii == pytest.approx((hat, check, tilde), rel=1e-13)


def test_ucrl_rfe():
    assert float(radius.beta_rfe(1000, Sizes(4, 10, 1.0), 0.1)) == pytest.approx(83.98604, abs=5e-6)


def test_ucrl_rfe_plus():
    radii, beta = radius.radii_rfe_plus(1000, Sizes(4, 10, 1.0), 0.1)
    assert float(radii.hat) == pytest.approx(438.56816, abs=5e-6)
    assert float(radii.check) == pytest.approx(679.38058, abs=5e-6)
    assert float(beta) == pytest.approx(87.26240, abs=5e-6)


def test_ucrl_rfe_plus_second_moment_is_larger_than_printed():
    """Printed: log(1 + KHB^2) under the root. Its rows have norm up to H^2, so the proof needs log(1 + KH^5B^2/d)."""
    K, d, H, B, delta = 1000, 4, 10, 1.0, 0.1
    tau = np.log(48 * K**2 * H**2 / delta)
    printed_radius = 8 * H**2 * np.sqrt(d * np.log(1 + K * H * B**2) * tau) + 4 * H**2 * tau + 1
    needed_radius = 8 * H**2 * np.sqrt(d * np.log(1 + K * H**5 * B**2 / d) * tau) + 4 * H**2 * tau + 1
    assert printed_radius == pytest.approx(33920.02898, abs=5e-5)
    tilde = float(radius.radii_rfe_plus(K, Sizes(d, H, B), delta)[0].tilde)
    assert tilde == pytest.approx(needed_radius, rel=1e-13)
    assert tilde > printed_radius


def test_one_regression_for_all_steps_counts_their_rows_and_has_all_of_delta():
    pooled_radii = [float(x) for x in radius.radii_vtr_plus(5, Sizes(3, 7, 1.7), 0.03, pool_steps=True)]
    step_radii = [float(x) for x in radius.radii_vtr_plus(35, Sizes(3, 7, 1.7), 0.03 * 7)]
    assert pooled_radii == pytest.approx(step_radii, rel=1e-13)


def test_scaled_radii_are_a_share_of_the_noise_and_one_of_the_bias(x64):
    """The largest standard deviations of the rows are 1, H, and (1, sqrt(d), H^2); the biases sqrt(d), 1, and 1."""
    sizes = Sizes(4, 10, 2.0)
    assert float(radius.scaled_moments(sizes, 0.3, 0.0)) == 0.3
    assert float(radius.scaled_moments(sizes, 0.0, 1.0)) == pytest.approx(2.0)
    assert float(radius.scaled_moments(sizes, 0.3, 0.5)) == pytest.approx(0.3 + 0.5 * 2.0)
    assert float(radius.scaled_rfe(sizes, 0.3, 0.0)) == pytest.approx(3.0)
    assert float(radius.scaled_rfe(sizes, 0.3, 0.5)) == pytest.approx(3.5)
    assert [float(x) for x in radius.scaled_variances(sizes, 0.3, 0.0)] == pytest.approx([0.3, 0.6, 30.0])
    assert [float(x) for x in radius.scaled_variances(sizes, 0.3, 0.5)] == pytest.approx([0.8, 1.1, 30.5])


def test_scaled_radii_depend_on_no_bound_of_the_parameter(x64):
    for B in (0.3, 2.0, 50.0):
        assert float(radius.scaled_moments(Sizes(9, 10, B), 0.2, 0.5)) == pytest.approx(0.2 + 0.5 * 3)
    scaled = jax.jit(jax.vmap(lambda scale: radius.scaled_variances(Sizes(9, 10, 1.0), scale, 1.0)))
    np.testing.assert_allclose(scaled(np.array([0.0, 1.0])).tilde, [1.0, 101.0])


def test_the_sizes_of_a_model_are_its_own():
    model = hf.make("river-swim", states=4, horizon=7).model
    assert radius.model_sizes(model) == Sizes(model.dim, 7, model.bound)


def test_bernstein_2022_covers_a_martingale():
    """||sum x eta|| <= radius at all t, in 200 runs of bounded noise with random directions.

    Chance of a false alarm: each run fails with probability at most delta = 1e-9, so at most 2e-7 in all.
    """
    runs, T, d, lam, R = 200, 400, 3, 1.0, 1.0
    rng = np.random.default_rng(0)
    x = rng.standard_normal((runs, T, d))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=-1, keepdims=True))
    eta = rng.choice([-R, R], (runs, T))
    Z = lam * np.eye(d) + np.cumsum(x[..., :, None] * x[..., None, :], axis=1)
    S = np.cumsum(x * eta[..., None], axis=1)
    norm = np.sqrt(np.einsum("rti,rti->rt", S, np.linalg.solve(Z, S[..., None])[..., 0]))
    t = np.arange(1, T + 1)
    bounds = {
        "2022": [
            radius_hf.bernstein_2022(n, d=d, L=1.0, lam=lam, sigma=R, R=R, eps=R, peak=R, delta=1e-9)
            for n in t
        ],
        "2021": [radius.bernstein_2021(n, d=d, L=1.0, lam=lam, sigma=R, R=R, delta=1e-9) for n in t],
    }
    for bound in bounds.values():
        assert (norm <= np.array([float(b) for b in bound])).all()
    assert norm.max() > 1.0  # the noise is there


def test_a_scale_that_makes_no_radius_is_refused(subtests):
    for name, value in itertools.product(["scale", "bias_scale"], [-1.0, 1e101, float("inf"), float("nan")]):
        options = {"scale": 1.0, "bias_scale": 1.0, "delta": 0.1} | {name: value}
        message = f"^{name} is .*; it must be a number from .* to 1e.100"
        with subtests.test(name, value=value), pytest.raises(OptionError, match=message):
            radius.check_options("scaled", **options)


def test_the_largest_scales_leave_every_row_finite():
    run = hf.explore(
        hf.make("river-swim", states=4, horizon=4),
        "hf-ucrl-rfe++",
        episodes=3,
        progress=False,
        scale=radius.MAX_SCALE,
        bias_scale=radius.MAX_SCALE,
    )
    assert all(np.isfinite(row).all() for row in run.records.values())
