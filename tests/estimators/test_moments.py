"""HOME: the literal algorithm, its bounds, its reductions, and the theorem that theta_star stays in the balls."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horizonfree import Mixture
from horizonfree.errors import OptionError, ShapeError
from horizonfree.estimators import moments, radius
from horizonfree.estimators.moments import home, powers
from horizonfree.estimators.radius import Sizes
from horizonfree.estimators.ridge import Ridge
from horizonfree.theory import bounds as theory
from tests.reference import home as reference

compiled = jax.jit(moments.regress)  # for many episodes
regress, init = eqx.filter_jit(moments.regress), eqx.filter_jit(Ridge.init)
extend, update, norm_inv = (eqx.filter_jit(x) for x in (Ridge.extend, Ridge.update, Ridge.norm_inv))
solve_theta = eqx.filter_jit(lambda ridge: ridge.theta)


def draw(rng, M, d, spread=2.0):
    """Inputs of one step, from nearly no data to much of it."""

    def matrices():
        x = rng.standard_normal((M, 2 * d, d)) * 10 ** rng.uniform(-spread, spread, (M, 1, 1))
        return 0.5 * np.eye(d) + np.einsum("mti,mtj->mij", x, x)

    phi = rng.standard_normal((M, d)) / np.sqrt(d)
    return phi, rng.standard_normal((M, d)), matrices(), matrices()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), M=st.integers(1, 6), beta=st.sampled_from([0.0, 0.1, 1.0, 800.0]))
def test_home_is_algorithm_2_line_by_line(seed, M, beta):
    inputs = draw(np.random.default_rng(seed), M, 3)
    expected = reference.home(*inputs, beta, 0.3, 0.7)
    np.testing.assert_allclose(home(*inputs, beta, 0.3, 0.7), expected, rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), M=st.integers(1, 6), beta=st.sampled_from([0.1, 800.0]))
def test_sigma_bar_lies_between_its_bounds(seed, M, beta):
    """alpha^2 <= sigma_bar^2 <= max{3, gamma^2 ||phi||_2/sqrt(lam)}: Var <= 1 and E <= 2."""
    alpha, gamma, lam = 0.3, 0.7, 0.5
    phi, theta, Sigma, Sigma_dot = draw(np.random.default_rng(seed), M, 3)
    sigma_bar_sq = home(phi, theta, Sigma, Sigma_dot, beta, alpha, gamma)
    ceiling = np.maximum(3, gamma**2 * np.linalg.norm(phi, axis=1) / np.sqrt(lam))
    assert (sigma_bar_sq >= alpha**2).all()
    assert (sigma_bar_sq <= ceiling).all()
    assert sigma_bar_sq[-1] >= 1


def test_before_any_data_the_variance_bound_is_two():
    """theta = 0, so Var = 0; with the paper's radius 789 and ||phi|| = 0.5 both parts of E are capped at 1."""
    d, H, B, M = 4, 10, 2.0, 3
    alpha, gamma, lam = radius.parameters(Sizes(d, H, B))
    beta = theory.beta(1, d, H, B, 0.1)
    phi = np.full((M, d), 0.25)
    Sigma = np.broadcast_to(lam * np.eye(d), (M, d, d))
    assert beta == pytest.approx(789.0794, abs=5e-5)
    np.testing.assert_array_equal(
        home(phi, np.zeros((M, d)), Sigma, Sigma, beta, alpha, gamma), [2.0, 2.0, 1.0]
    )


def test_a_step_without_uncertainty_has_the_floor_as_weight():
    """Deterministic transitions, theta_star known, beta = 0: mean_{m+1} = mean_m^2, so Var = 0 and alpha rules."""
    V = 0.8
    phi = np.array([[V], [V**2], [V**4]])
    sigma_bar_sq = home(phi, np.ones((3, 1)), np.ones((3, 1, 1)), np.ones((3, 1, 1)), 0.0, 0.1, 0.0)
    np.testing.assert_allclose(sigma_bar_sq, [0.01, 0.01, 1.0], atol=1e-15)


def test_the_variance_is_that_of_the_powers(x64):
    """With theta_star and beta = 0, Var_m is the variance of V^{2^m}(s') under P, order by order."""
    rng = np.random.default_rng(0)
    p, V, M = rng.dirichlet(np.ones(5)), rng.random(5), 4
    means = powers(V, M) @ p
    bound = moments.variance_bound(means, jnp.zeros(M), 0.0)
    for m in range(M - 1):
        W = V ** (2**m)
        assert float(bound[m]) == pytest.approx(p @ W**2 - (p @ W) ** 2, rel=1e-12)


def test_powers_square_and_clip(x64):
    V = np.array([[-0.1, 0.0, 0.5, 1.0, 1.5], [0.9, 0.2, 0.3, 0.4, 0.5]])
    result = powers(V, 4)
    assert result.shape == (2, 4, 5)
    for m in range(4):
        np.testing.assert_allclose(result[:, m], np.clip(V, 0, 1) ** (2**m), rtol=1e-14)


BAD_HOMES = [
    ({"phi": np.zeros(3)}, ShapeError, "phi has shape"),
    ({"theta": np.zeros((2, 4))}, ShapeError, "theta has shape"),
    ({"Sigma_dot": np.zeros((2, 3))}, ShapeError, "Sigma_dot has shape"),
    (
        {"Sigma": np.stack([np.eye(3), -np.eye(3)])},
        OptionError,
        r"Sigma\[m=1\] has smallest eigenvalue -1",
    ),
    ({"Sigma_dot": np.full((2, 3, 3), np.nan)}, ShapeError, r"Sigma_dot\[0, 0, 0\] is nan"),
]


def test_home_says_what_is_wrong(subtests):
    for change, error, message in BAD_HOMES:
        with subtests.test(message):
            inputs = dict(zip(("phi", "theta", "Sigma", "Sigma_dot"), draw(np.random.default_rng(0), 2, 3)))
            with pytest.raises(error, match=message):
                home(**(inputs | change), beta=1.0, alpha=0.5, gamma=0.5)


class RegressionData:
    """A random mixture and random episodes with random values in [0, 1] on it, V[H] = 0."""

    def __init__(self, seed, S=5, A=2, d=3, H=6):
        rng = np.random.default_rng(seed)
        self.rng, self.H, self.S, self.A, self.d = rng, H, S, A, d
        kernels = rng.dirichlet(np.ones(S), size=(d, S, A))
        self.problem = Mixture.from_kernels(kernels, horizon=H, weights=rng.dirichlet(np.ones(d)))
        self.model, self.theta_star = self.problem.model, self.problem.truth
        self.phi = np.asarray(self.model.phi)  # dense: [S, A, S, d]
        assert self.problem.space.is_dense
        self.P = self.problem.kernel().dense()

    def values(self):
        V = self.rng.random((2, self.H + 1, self.S)) ** self.rng.uniform(0.2, 3)
        V[:, self.H] = 0.0
        return V

    def episode(self):
        s, a = [0], self.rng.integers(self.A, size=self.H)
        for h in range(self.H):
            s.append(int(self.rng.choice(self.S, p=self.P[s[h], a[h]])))
        return np.array(s), a

    def rows(self, V, s, a, M):
        """phi [H, 2, M, d] and y [H, 2, M], as an explorer builds them."""
        return _rows(self.model, V, s, a, M)


@eqx.filter_jit
def _rows(model, V, s, a, M):
    V_next = powers(V[:, 1:], M)  # [2, H, M, S]
    steps = jnp.arange(len(a))
    return model.phi_V(V_next)[:, steps, :, s[:-1], a], V_next[:, steps, :, s[1:]]


@jax.jit
def _distances(ridge, theta_star):
    """||theta_star - theta|| in the norm of Sigma, every member of the batch."""
    error = theta_star - ridge.theta
    return jnp.sqrt(jnp.einsum("...i,...ij,...j->...", error, ridge.Sigma, error))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("M", [1, 2, 5])
def test_regress_is_algorithm_1_line_by_line(x64, seed, M):
    """Six episodes of both families, every matrix, vector and weight."""
    data = RegressionData(seed)
    beta, (alpha, gamma, lam) = 0.2, radius.parameters(Sizes(data.d, data.H, 2.0))
    ridge = init(lam, data.d, (2, M))
    hat, tilde = (reference.Family.init(M, data.d, lam) for _ in range(2))
    for _ in range(6):
        V, (s, a) = data.values(), data.episode()
        phi, y = data.rows(V, s, a, M)
        ridge, sigma_bar_sq = regress(ridge, phi, y, beta=beta, alpha=alpha, gamma=gamma)
        (hat, tilde), expected = reference.episode(hat, tilde, data.phi, V[0], V[1], s, a, beta, alpha, gamma)
        for f, family in enumerate((hat, tilde)):
            np.testing.assert_allclose(sigma_bar_sq[:, f], expected[f], rtol=1e-11)
            np.testing.assert_allclose(ridge.Sigma[f], family.Sigma, rtol=1e-11, atol=1e-13)
            np.testing.assert_allclose(ridge.b[f], family.b, rtol=1e-11, atol=1e-13)
            np.testing.assert_allclose(solve_theta(ridge)[f], family.theta(), rtol=1e-9, atol=1e-12)


def test_one_order_without_own_uncertainty_is_unweighted_regression(x64):
    """M = 1, gamma = 0: sigma_bar = 1 at every step, value-targeted regression as in UCRL-VTR."""
    data = RegressionData(3)
    s, a = data.episode()
    phi, y = data.rows(data.values(), s, a, 1)
    start = init(1.0, data.d, (2, 1))
    ridge, sigma_bar_sq = regress(start, phi, y, beta=5.0, alpha=0.1, gamma=0.0)
    unweighted = extend(start, phi, y, np.ones_like(y))
    np.testing.assert_array_equal(sigma_bar_sq, 1.0)
    np.testing.assert_allclose(ridge.Sigma, unweighted.Sigma, rtol=1e-13)
    np.testing.assert_allclose(solve_theta(ridge), solve_theta(unweighted), rtol=1e-12)


def test_families_do_not_touch_each_other(x64):
    data = RegressionData(4)
    s, a = data.episode()
    phi, y = data.rows(data.values(), s, a, 3)
    options = {"beta": 0.3, "alpha": 0.3, "gamma": 0.7}
    joint, _ = regress(init(1.0, data.d, (2, 3)), phi, y, **options)
    separate, _ = regress(init(1.0, data.d, (3,)), phi[:, 1], y[:, 1], **options)
    np.testing.assert_allclose(joint.Sigma[1], separate.Sigma, rtol=1e-13)
    np.testing.assert_allclose(joint.b[1], separate.b, rtol=1e-13)


def test_theta_star_stays_in_every_ball_of_the_paper(x64):
    """||theta_star - theta_{k,m}|| <= beta_k in the norm of Sigma_dot_{k,m}, all k, m and both families.

    With delta = 1e-7 for the whole run, so a false alarm has probability at most 3e-7 in three runs. The same check
    with 1/2000 of the noise and no bias must fail, or it would show nothing.
    """
    K, delta = 40, 1e-7
    is_outside_small_ball = False
    for seed in range(3):
        data = RegressionData(seed)
        d, H, B = data.d, data.H, float(np.sqrt(data.d))
        M = radius.moment_orders(K, H)
        alpha, gamma, lam = radius.parameters(Sizes(d, H, B))
        ridge = init(lam, d, (2, M))
        for k in range(1, K + 1):
            distance = _distances(ridge, data.theta_star)
            beta_k = radius.beta_hf(k, Sizes(d, H, B), delta, M=M)
            assert (distance <= beta_k).all()
            small = 5e-4 * (beta_k - np.sqrt(lam) * B)
            is_outside_small_ball |= bool((distance > small).any())
            s, a = data.episode()
            phi, y = data.rows(data.values(), s, a, M)
            ridge, _ = compiled(ridge, phi, y, beta=beta_k, alpha=alpha, gamma=gamma)
    assert is_outside_small_ball


def test_the_peak_of_the_noise_is_what_the_radius_assumes(x64):
    """|eta| min{1, ||x||} <= 1/gamma^2 for x = phi/sigma_bar, norms in the matrix before the step."""
    data = RegressionData(6)
    gamma = 0.8
    s, a = data.episode()
    phi, y = data.rows(data.values(), s, a, 4)
    start = init(0.01, data.d, (2, 4))
    ridge = start
    _, sigma_bar_sq = regress(start, phi, y, beta=0.05, alpha=0.05, gamma=gamma)
    for h in range(data.H):
        noise = np.abs(y[h] - phi[h] @ data.theta_star)
        assert (noise * norm_inv(ridge, phi[h]) / sigma_bar_sq[h] <= 1 / gamma**2).all()
        ridge = update(ridge, phi[h], y[h], 1 / sigma_bar_sq[h])
