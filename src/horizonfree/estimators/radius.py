"""Confidence radii: bounds on the distance of a ridge estimate from theta_star, one function per theorem.

Every radius is the noise part of a self-normalised martingale inequality, of Bernstein's kind where rows are weighed
by variances and of Hoeffding's kind where they are not, plus the bias sqrt(lam) B of the ridge. The functions
`scaled_*` at the end give radii of no theorem, for exploration without guarantee.

Papers: [APS] Abbasi-Yadkori, Pal, Szepesvari 2011 (NeurIPS); [ZGS] Zhou, Gu, Szepesvari 2021 (UCRL-VTR+, COLT);
[ZZG] Zhang, Zhou, Gu 2021 (UCRL-RFE, NeurIPS); [ZG] Zhou, Gu 2022 (HF-UCRL-VTR+); [paper] J. Zhang, W. Zhang, Gu 2023
(HF-UCRL-RFE++, arXiv 2303.10165).

Departures from the print, each with its reason in docs/theory.md:
1. max{0, log} in the Bernstein inequality of [ZG]: printed without it, the radius is NaN when d > e^2 H.
2. M = max{2, ceil(log2(7KH))}: printed without rounding, but M is a count.
3. delta / (4M) per event when M is given: the main theorem of [paper] leaves out this union bound.
4. The radius of the second moments of UCRL-RFE+ carries H^4 inside its logarithm, as its own proof needs.

All functions are traceable in every number (the episode, delta, B, the scales) and run in 64 bits.
"""

from typing import NamedTuple

import jax.numpy as jnp

from horizonfree._validation import check_probability, require
from horizonfree._x64 import Number, x64
from horizonfree.errors import OptionError
from horizonfree.estimators import radius_hf
from horizonfree.estimators.radius_hf import Parameters as Parameters
from horizonfree.estimators.radius_hf import Scalar
from horizonfree.estimators.radius_hf import Sizes as Sizes
from horizonfree.estimators.radius_hf import moment_orders as moment_orders
from horizonfree.estimators.radius_hf import parameters as parameters
from horizonfree.estimators.radius_hf import per_event as per_event
from horizonfree.models.mixture.model import MixtureModel

MAX_SCALE = 1e100  # squares of radii stay finite
MIN_FLOOR = 1e-100  # and so do those of weights


def model_sizes(model: MixtureModel) -> Sizes:
    """The sizes of a mixture model."""
    return Sizes(model.dim, model.space.horizon, model.bound)


class Radii(NamedTuple):
    """Radii of the variance-weighted algorithms: first moment (hat), its crude twin (check), second moment (tilde)."""

    hat: Scalar
    check: Scalar
    tilde: Scalar


def check_options(constants: str, scale: float, bias_scale: float, delta: float) -> None:
    """Check the options of a radius."""
    require(constants in ("paper", "scaled"), "constants", constants, "'paper' or 'scaled'")
    for name, value in {"scale": scale, "bias_scale": bias_scale}.items():
        require(0 <= value <= MAX_SCALE, name, value, f"a number from 0 to {MAX_SCALE:g}")
    check_probability(delta, "delta")


def check_weights(constants: str, alpha: float | None, gamma: float | None) -> None:
    """Check the options alpha and gamma of sigma_bar; None stands for the theorem's."""
    if alpha is not None:
        require(
            MIN_FLOOR <= alpha <= MAX_SCALE, "alpha", alpha, f"a number from {MIN_FLOOR:g} to {MAX_SCALE:g}"
        )
    if gamma is not None:
        require(0 <= gamma <= MAX_SCALE, "gamma", gamma, f"a number from 0 to {MAX_SCALE:g}")
    if gamma is not None and constants == "paper" and gamma < MIN_FLOOR:
        raise OptionError(
            f"gamma is {gamma}; the theorem's radius contains 1/gamma^2, so it must be at least {MIN_FLOOR:g}, "
            "or constants='scaled'"
        )


@x64
def bernstein_2021(
    t: Number, *, d: int, L: Number, lam: Number, sigma: Number, R: Number, delta: Number
) -> Scalar:
    """Bound on ||sum x eta|| in the inverse norm after t terms, |eta| <= R, Var eta <= sigma^2, ||x|| <= L.

    8 sigma sqrt(d log(1 + t L^2/(d lam)) tau) + 4 R tau,   tau = log(4 t^2/delta)   ([ZGS], Bernstein inequality)
    """
    t = jnp.asarray(t, float)
    tau = jnp.log(4 / jnp.asarray(delta)) + 2 * jnp.log(t)
    return 8 * sigma * jnp.sqrt(d * jnp.log1p(t * L**2 / (d * lam)) * tau) + 4 * R * tau


@x64
def beta_hf(
    k: Number, sizes: Sizes, delta: Number, *, M: int | None = None, weights: Parameters | None = None
) -> Scalar:
    """`radius_hf.beta_hf` in JAX."""
    return radius_hf.beta_hf(k, sizes, delta, M=M, weights=weights, xp=jnp)


@x64
def beta_vtr(k: Number, sizes: Sizes, delta: Number) -> Scalar:
    """Radius of unweighted regression on values in [0, 1] (UCRL-VTR) at episode k, one model for all steps.

    beta_k = 1/2 sqrt(d log(1 + kH/(d lam)) + 2 log(1/delta)) + sqrt(lam) B,   lam = d/B^2   ([APS], Theorem 2)

    V(s') - <phi_V, theta_star> has mean 0 and stays in an interval of length 1, so it is 1/2-sub-Gaussian.
    """
    lam = parameters(sizes).lam
    growth = sizes.d * jnp.log1p(sizes.H * jnp.asarray(k, float) / (sizes.d * lam))
    noise = 0.5 * jnp.sqrt(growth - 2 * jnp.log(jnp.asarray(delta)))
    return noise + jnp.sqrt(lam) * sizes.B


@x64
def radii_vtr_plus(k: Number, sizes: Sizes, delta: Number, *, pool_steps: bool = False) -> Radii:
    """Radii of UCRL-VTR+ at episode k, one regression per step, lam = 1/B^2.   ([ZGS], confidence set)

    hat and check: rows phi/sigma with sigma^2 >= H^2/d, so ||x||, |eta| <= sqrt(d); variance of eta <= 1, for check
    only <= d. tilde: unweighted rows of squares, all bounded by H^2. Each of the three fails
    with probability delta / H per step, so all of them hold at all steps with probability 1 - 3 delta.

    pool_steps: kH rows count for one regression, and each radius has all of delta.
    """
    H = sizes.H
    if pool_steps:
        return _radii(k * H, sizes, jnp.asarray(delta * H) / H)
    return _radii(k, sizes, jnp.asarray(delta) / H)


@x64
def beta_rfe(K: Number, sizes: Sizes, delta: Number) -> Scalar:
    """Radius of UCRL-RFE for a budget of K episodes, lam = 1/B^2.   ([ZZG], first theorem)

    beta = H sqrt(d log(3 (1 + K H^3 B^2)/delta)) + 1
    """
    d, H, B = sizes
    rows = jnp.asarray(K, float) * H**3 * jnp.asarray(B) ** 2
    return H * jnp.sqrt(d * jnp.log(3 * (1 + rows) / delta)) + 1.0


@x64
def radii_rfe_plus(K: Number, sizes: Sizes, delta: Number) -> tuple[Radii, Scalar]:
    """Radii of UCRL-RFE+ for a budget of K episodes, lam = 1/B^2: three to explore with, and beta to plan with.

    As UCRL-VTR+ with KH rows shared by all steps and delta / 12 per regression; beta as UCRL-RFE with delta / 4.
    ([ZZG], second theorem; departure 4)
    """
    explore = _radii(sizes.H * jnp.asarray(K, float), sizes, jnp.asarray(delta) / 12)
    return explore, beta_rfe(K, sizes, jnp.asarray(delta) / 4)


def _radii(t: Number, sizes: Sizes, delta: Number) -> Radii:
    """The three variance-weighted radii after t rows; the bias sqrt(lam) B is 1."""
    d, H, B = sizes

    def radius(L: float, sigma: float, R: float) -> Scalar:
        return bernstein_2021(t, d=d, L=L, lam=jnp.asarray(B) ** -2.0, sigma=sigma, R=R, delta=delta) + 1.0

    root = d**0.5
    return Radii(radius(root, 1.0, root), radius(root, root, root), radius(H**2, H**2, H**2))


def scaled_moments(sizes: Sizes, scale: Number, bias_scale: Number) -> Scalar:
    """In place of `beta_hf` and `beta_vtr`: a constant noise part, and a share of the bias sqrt(lam) B."""
    return jnp.asarray(scale + bias_scale * jnp.sqrt(parameters(sizes).lam) * sizes.B)


def scaled_rfe(sizes: Sizes, scale: Number, bias_scale: Number) -> Scalar:
    """In place of `beta_rfe`: `scale` times H, the largest standard deviation of an unweighted row, plus bias_scale."""
    return jnp.asarray(scale * sizes.H + bias_scale)


def scaled_variances(sizes: Sizes, scale: Number, bias_scale: Number) -> Radii:
    """In place of `radii_vtr_plus`: `scale` times the largest standard deviation of a row's noise, plus bias_scale.

    Weighted by sigma^2 the noise of V has standard deviation 1 if the variance bound holds and sqrt(d) if only
    sigma^2 >= H^2/d does; that of V^2, unweighted, is at most H^2. The theorems' bias sqrt(lam) B is 1.
    """
    d, H, _ = sizes
    return Radii(*(jnp.asarray(scale * sigma + bias_scale) for sigma in (1.0, d**0.5, float(H**2))))
