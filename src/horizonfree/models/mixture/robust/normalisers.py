"""The largest mean of f over the laws near that of a parameter, as a concave function of the parameter.

Rows are p(y) = p + z'(y - y_t). With f > 0 on the successors of a pair,

    TV(Q, P_y) <= zeta:       Q f <= u(y) = P_y f + zeta span f
    KL(P_y || Q) <= eps:      Q f <= u(y) = nu - exp(P_y log(nu - f) - eps),      for every nu > max f.

The second: let Q' be Q times nu - f, made a law. P log(Q'/Q) = KL(P||Q) - KL(P||Q') <= eps, and the left side is
P log(nu - f) - log Q(nu - f). P_y log(nu - f) is linear in y and -exp is concave, so u is concave for every nu. At the
best one u is P f + sqrt(2 eps Var_P f) + O(eps), and sqrt(eps/2) = zeta: never more than the first, and much less where
f differs on unlikely successors only.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

NARROW = 0.05  # nu is at least this share of the span above max f
FACTORS = (0.7, 1.0, 1.4)  # of sqrt(Var f / 2 eps), by which nu is best above the mean for small eps
FARTHEST, TINY = 1e12, 1e-12  # nu is not more than this above the mean, and not nearer to max f


class Pairs(NamedTuple):
    """Some kinds of pairs at y0: probabilities and slopes of their successors, and which slots are successors."""

    p: Float[np.ndarray, "x n"]
    z: Float[np.ndarray, "x n q"]
    is_slot: Bool[np.ndarray, "x n"]


class Normaliser(NamedTuple):
    """log u and grad u / u at y0, of K functions and some kinds of pairs."""

    log: Float[np.ndarray, "K x"]
    slope: Float[np.ndarray, "K x q"]


def extremes(
    pairs: Pairs, f: Float[np.ndarray, "K x n"], *, anywhere: bool
) -> tuple[Float[np.ndarray, "K x"], Float[np.ndarray, "K x"]]:
    """The largest and the smallest f of the states that may follow; 1 at a state that is no successor."""
    top = np.where(pairs.is_slot, f, -np.inf).max(-1)
    bottom = np.where(pairs.is_slot, f, np.inf).min(-1)
    return (np.maximum(top, 1.0), np.minimum(bottom, 1.0)) if anywhere else (top, bottom)


def by_variation(
    pairs: Pairs, f: Float[np.ndarray, "K x n"], zeta: Float[np.ndarray, " x"], *, anywhere: bool
) -> Normaliser:
    """u of laws within zeta in total variation."""
    top, bottom = extremes(pairs, f, anywhere=anywhere)
    u = (f * pairs.p).sum(-1) + zeta * (top - bottom)
    return Normaliser(np.log(u), np.einsum("kxn,xnq->kxq", f, pairs.z) / u[..., None])


def by_divergence(
    pairs: Pairs, f: Float[np.ndarray, "K x n"], eps: Float[np.ndarray, " x"], *, anywhere: bool
) -> Normaliser:
    """u of laws from which the parameter's has divergence eps at most; max f where eps is infinite."""
    top, bottom = extremes(pairs, f, anywhere=anywhere)
    mean = (f * pairs.p).sum(-1)
    off = np.where(pairs.is_slot, f - mean[..., None], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.nan_to_num(np.sqrt((pairs.p * off**2).sum(-1) / (2 * eps)), posinf=FARTHEST)
    least = top - mean + NARROW * (top - bottom) + TINY
    u, slope = top, np.zeros((*top.shape, pairs.z.shape[-1]))
    for factor in FACTORS:
        ahead = np.maximum(factor * np.minimum(best, FARTHEST), least)  # nu - P f
        logs = np.log1p(-off / ahead[..., None])
        power = (pairs.p * logs).sum(-1) - eps
        found = mean - ahead * np.expm1(power)
        rise = -(ahead * np.exp(power))[..., None] * np.einsum("kxn,xnq->kxq", logs, pairs.z)
        is_less = found < u
        u, slope = np.where(is_less, found, u), np.where(is_less[..., None], rise, slope)
    return Normaliser(np.log(u), slope / u[..., None])
