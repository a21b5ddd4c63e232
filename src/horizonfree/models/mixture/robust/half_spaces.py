"""Half-spaces that hold theta_star, the sharpest of the three sets: Theorem R3.

At the start of an e-process directions v_k are fixed, those in which the rows are hardest to know, and for each later
block, with predictor y_t and its probabilities p_t, g = v'z/p_t on the rows, cut off at +-1. With

    E_Q e^g <= u(y_star) for all laws Q within their radii, u concave (below)

exp(sum g - sum log u(y_star)) is a supermartingale. By Ville, and as log u is concave, for all k and at any point y0,
with probability 1 - delta,

    - h'(y_star - y0) <= log(K / delta) + sum log u(y0) - sum g,          h = sum of grad u / u at y0.

g is any function that is fixed before the block, so it may be cut off.

u bounds the largest mean of f over the laws near that of a parameter. Rows are p(y) = p + z'(y - y_t). With f > 0 on
the successors of a pair,

    TV(Q, P_y) <= zeta:       Q f <= u(y) = P_y f + zeta span f
    KL(P_y || Q) <= eps:      Q f <= u(y) = nu - exp(P_y log(nu - f) - eps),      for every nu > max f.

The second: let Q' be Q times nu - f, made a law. P log(Q'/Q) = KL(P||Q) - KL(P||Q') <= eps, and the left side is
P log(nu - f) - log Q(nu - f). P_y log(nu - f) is linear in y and -exp is concave, so u is concave for every nu. At the
best one u is P f + sqrt(2 eps Var_P f) + O(eps), and sqrt(eps/2) = zeta: never more than the first, and much less where
f differs on unlikely successors only.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.models.mixture.robust.frequencies import PairKinds

MAX_DIRECTIONS = 256  # directions of one sign; those with the largest cost are kept
MAX_WORK = 10**6  # slots times directions: fewer directions where kinds are many
PLANNED_GROWTH = 4.0  # an e-process from episode m on is made for about 4 m episodes
MAX_EXPONENT = 1.0  # |g|
BLOCK_SIZE = 4 * 10**6  # numbers at a time
MIN_SHARE_ABOVE = 0.05  # nu is at least this share of the span above max f
NU_FACTORS = (0.7, 1.0, 1.4)  # of sqrt(Var f / 2 eps), by which nu is best above the mean for small eps
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
    least = top - mean + MIN_SHARE_ABOVE * (top - bottom) + TINY
    u, slope = top, np.zeros((*top.shape, pairs.z.shape[-1]))
    for factor in NU_FACTORS:
        ahead = np.maximum(factor * np.minimum(best, FARTHEST), least)  # nu - P f
        logs = np.log1p(-off / ahead[..., None])
        power = (pairs.p * logs).sum(-1) - eps
        result = mean - ahead * np.expm1(power)
        rise = -(ahead * np.exp(power))[..., None] * np.einsum("kxn,xnq->kxq", logs, pairs.z)
        is_less = result < u
        u, slope = np.where(is_less, result, u), np.where(is_less[..., None], rise, slope)
    return Normaliser(np.log(u), slope / u[..., None])


class HalfSpaces(NamedTuple):
    """normal_k'(y - y0) <= level_k for all k."""

    normal: Float[np.ndarray, "K q"]
    level: Float[np.ndarray, " K"]


class Blocks(NamedTuple):
    """The blocks of an e-process: predictors `y`, probabilities `p` of the rows, counts of rows, visits of kinds."""

    y: Float[np.ndarray, "T q"]
    p: Float[np.ndarray, "T R"]
    rows: Int[np.ndarray, "T R"]
    visits: Int[np.ndarray, "T X"]


def directions(
    z: Float[np.ndarray, "R q"],
    p: Float[np.ndarray, " R"],
    before: Int[np.ndarray, " R"],
    slots: int,
    delta: float,
) -> Float[np.ndarray, "K q"]:
    """+- v of the rows, from the counts before the e-process and its first predictor p; of all rows, or the
    costliest.
    """
    is_free = (z != 0).any(-1)
    z, p, before = z[is_free], p[is_free], before[is_free]
    box = (z / np.maximum(p, 1 - p)[:, None]).T @ (z / np.maximum(p, 1 - p)[:, None]) / len(z)
    information = PLANNED_GROWTH * (z * (before / p**2)[:, None]).T @ z + box
    along = np.linalg.solve(information, z.T).T
    size = np.sqrt((along * z).sum(-1))
    count = min(len(z), MAX_DIRECTIONS, max(2 * z.shape[1], MAX_WORK // max(slots, 1)))
    kept = np.sort(np.argsort(-(size**2) / p, kind="stable")[:count])
    v = math.sqrt(2 * math.log(2 * count / delta)) * along[kept] / size[kept, None]
    return np.concatenate([v, -v])


def half_spaces(
    kinds: PairKinds,
    blocks: Blocks,
    z: Float[np.ndarray, "R q"],
    v: Float[np.ndarray, "K q"],
    y0: Float[np.ndarray, " q"],
    delta: float,
    *,
    anywhere: bool,
    by_kl: bool = False,
) -> HalfSpaces:
    """The half-spaces of directions v, seen from y0. by_kl: radii are those of divergences 2 zeta^2."""
    K, q = v.shape
    per_kind = K * kinds.rows.shape[1] * (q + 1)
    level, h = np.full(K, math.log(K / delta)), np.zeros((K, q))
    for t in range(len(blocks.y)):
        seen = np.flatnonzero(blocks.visits[t] > 0)
        if not len(seen):
            continue
        g = np.clip(v @ z.T / blocks.p[t], -MAX_EXPONENT, MAX_EXPONENT)  # K R; rows that are known have z = 0
        level -= g @ blocks.rows[t]
        p0 = blocks.p[t] + z @ (y0 - blocks.y[t])
        for part in np.array_split(seen, max(1, len(seen) * per_kind // BLOCK_SIZE)):
            n = blocks.visits[t][part]
            u = normaliser(kinds, part, g, z, p0, anywhere=anywhere, by_kl=by_kl)
            level += u.log @ n
            h += np.einsum("kxq,x->kq", u.slope, n)
    return HalfSpaces(-h, level)


def normaliser(
    kinds: PairKinds,
    part: Int[np.ndarray, " x"],
    g: Float[np.ndarray, "K R"],
    z: Float[np.ndarray, "R q"],
    p0: Float[np.ndarray, " R"],
    *,
    anywhere: bool,
    by_kl: bool,
) -> Normaliser:
    """u of e^g at y0, where rows have probabilities p0, for some kinds of pairs."""
    rows, zeta = kinds.rows[part], kinds.zeta[part]
    p_at, z_at = (np.concatenate([x, np.zeros_like(x[:1])])[rows] for x in (p0, z))
    pairs = Pairs(p_at, z_at, kinds.is_slot[part])
    f = np.exp(np.concatenate([g, np.zeros_like(g[:, :1])], axis=1))[:, rows]
    if by_kl:
        return by_divergence(pairs, f, np.where(zeta < 1, 2 * zeta**2, np.inf), anywhere=anywhere)
    return by_variation(pairs, f, zeta, anywhere=anywhere)
