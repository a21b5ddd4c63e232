"""The radius of HF-UCRL-RFE++ and its parameters, for NumPy and JAX.

`theory` computes it with NumPy, the explorers with JAX (radius.py, where the papers and the departures are): `xp` is
the namespace of the arrays.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from horizonfree._arrays import Array, Number

Scalar = Float[Array, ""]


class Sizes(NamedTuple):
    """The dimension d, the horizon H, and the bound B on the norm of the parameter: all radii depend on them."""

    d: int
    H: int
    B: Number


class Parameters(NamedTuple):
    """Constants of HF-UCRL-RFE++: floor alpha, weight gamma of the own uncertainty, ridge lam."""

    alpha: float
    gamma: float
    lam: Number


def parameters(sizes: Sizes) -> Parameters:
    """alpha = H^{-1/2}, gamma = d^{-1/4}, lam = d / B^2.   ([paper], main theorem)"""
    d, H, B = sizes
    return Parameters(H**-0.5, d**-0.25, d / B**2)


def moment_orders(K: int, H: int) -> int:
    """M = max{2, ceil(log2(7KH))}, the number of moments HOME estimates.   ([paper], main theorem; departure 2)"""
    return max(2, (7 * K * H - 1).bit_length())


def per_event(delta: Number, M: int) -> Number:
    """The failure probability of one of the 4M events, M orders in two families, regression and martingale each."""
    return delta / (4 * M)


def bernstein_2022(
    t: Number,
    *,
    d: int,
    L: Number,
    lam: Number,
    sigma: Number,
    R: Number,
    eps: Number,
    peak: Number,
    delta: Number,
    xp: Any = np,
) -> Scalar:
    """`radius.bernstein_2021` with R outside the logarithm replaced by peak >= |eta| min{1, ||x||} (inverse norm).

    12 sigma sqrt(d log(1 + t L^2/(d lam)) tau) + 24 tau peak + 6 tau eps,
    tau = log(32 (max{0, log(R/eps)} + 1) t^2/delta)                        ([ZG], Theorem 4.3; departure 1)
    """
    t = xp.asarray(t, float)
    levels = xp.maximum(0.0, xp.log(R / xp.asarray(eps))) + 1
    tau = xp.log(32 * levels / delta) + 2 * xp.log(t)
    eta = xp.log1p(t * L**2 / (d * lam))
    return 12 * sigma * xp.sqrt(d * eta * tau) + 24 * tau * peak + 6 * tau * eps


def beta_hf(
    k: Number,
    sizes: Sizes,
    delta: Number,
    *,
    M: int | None = None,
    weights: Parameters | None = None,
    xp: Any = np,
) -> Scalar:
    """Radius beta_k of HF-UCRL-RFE++ at episode k.   ([paper], main theorem)

    beta_k = 12 sqrt(d eta tau) + 30 tau/gamma^2 + sqrt(lam) B,   eta = log(1 + kH/(alpha^2 d lam)),
    tau = log(32 (max{0, log(gamma^2/alpha)} + 1) k^2 H^2/delta).

    It is the inequality of [ZG] for kH rows x = phi/sigma_bar: HOME keeps sigma_bar >= alpha, so ||x|| and |eta| are
    at most 1/alpha, and sigma_bar^2 >= gamma^2 ||phi||, so |eta| ||x|| <= 1/gamma^2. With M, delta is the failure
    probability of the whole algorithm, divided among its 4M events; without, that of one event, as printed. weights:
    alpha, gamma and lam other than the theorem's, for which the inequality holds as well.
    """
    alpha, gamma, lam = parameters(sizes) if weights is None else weights
    noise = bernstein_2022(
        sizes.H * xp.asarray(k, float),
        d=sizes.d,
        L=1 / alpha,
        lam=lam,
        sigma=1.0,
        R=1 / alpha,
        eps=gamma**-2,
        peak=gamma**-2,
        delta=delta if M is None else per_event(delta, M),
        xp=xp,
    )
    return noise + xp.sqrt(lam) * sizes.B
