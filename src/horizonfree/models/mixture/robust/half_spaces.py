"""Half-spaces that hold theta_star, the sharpest of the three sets: Theorem R3.

At the start of a bet directions v_k are fixed, those in which the rows are hardest to know, and for each later block,
with predictor y_t and its probabilities p_t, g = v'z/p_t on the rows, cut off at +-1. With

    u(y) = sum_s' (p_t + z'(y - y_t)) e^g + zeta span e^g = A + B'(y - y_t) + zeta C,

exp(sum g - sum log u(y_star)) is a supermartingale: E_Q e^g <= P_theta e^g + zeta span e^g. By Ville, and as the
logarithm is concave, for all k and at any point y0, with probability 1 - delta,

    - h'(y_star - y0) <= log(K / delta) + sum log u(y0) - sum g,          h = sum B / u(y0).

g is any function that is fixed before the block, so it may be cut off.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree.models.mixture.robust.kinds import Kinds

MOST = (
    256  # directions of one sign: rows beyond this many are passed over, those with the largest cost are kept
)
WORK = 10**6  # slots times directions: fewer directions where kinds are many
AHEAD = 4.0  # a bet from episode m on is made for about 4 m episodes
LARGEST = 1.0  # |g|
CHUNK = 4 * 10**6  # numbers at a time


class HalfSpaces(NamedTuple):
    """normal_k'(y - y0) <= level_k for all k."""

    normal: Float[np.ndarray, "K q"]
    level: Float[np.ndarray, " K"]


class Blocks(NamedTuple):
    """The blocks of a bet: predictors `y`, probabilities `p` of the rows, counts of rows, visits of kinds."""

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
    """+- v of the rows, from the counts before the bet and its first predictor p; of all rows, or the costliest."""
    is_free = (z != 0).any(-1)
    z, p, before = z[is_free], p[is_free], before[is_free]
    box = (z / np.maximum(p, 1 - p)[:, None]).T @ (z / np.maximum(p, 1 - p)[:, None]) / len(z)
    information = AHEAD * (z * (before / p**2)[:, None]).T @ z + box
    along = np.linalg.solve(information, z.T).T
    size = np.sqrt((along * z).sum(-1))
    count = min(len(z), MOST, max(2 * z.shape[1], WORK // max(slots, 1)))
    kept = np.sort(np.argsort(-(size**2) / p, kind="stable")[:count])
    v = math.sqrt(2 * math.log(2 * count / delta)) * along[kept] / size[kept, None]
    return np.concatenate([v, -v])


def half_spaces(
    kinds: Kinds,
    blocks: Blocks,
    z: Float[np.ndarray, "R q"],
    v: Float[np.ndarray, "K q"],
    y0: Float[np.ndarray, " q"],
    delta: float,
    *,
    anywhere: bool,
) -> HalfSpaces:
    """The half-spaces of directions v, seen from y0."""
    K, q = v.shape
    per_kind = K * kinds.rows.shape[1] * (q + 1)
    level, h = np.full(K, math.log(K / delta)), np.zeros((K, q))
    for t in range(len(blocks.y)):
        seen = np.flatnonzero(blocks.visits[t] > 0)
        if not len(seen):
            continue
        g = np.clip(v @ z.T / blocks.p[t], -LARGEST, LARGEST)  # K R; rows that are known have z = 0
        level -= g @ blocks.rows[t]
        for part in np.array_split(seen, max(1, len(seen) * per_kind // CHUNK)):
            n = blocks.visits[t][part]
            log_u, slope = _normaliser(kinds, part, g, z, blocks.p[t], blocks.y[t], y0, anywhere)
            level += log_u @ n
            h += np.einsum("kxq,x->kq", slope, n)
    return HalfSpaces(-h, level)


def _normaliser(
    kinds: Kinds,
    part: Int[np.ndarray, " x"],
    g: Float[np.ndarray, "K R"],
    z: Float[np.ndarray, "R q"],
    p: Float[np.ndarray, " R"],
    y: Float[np.ndarray, " q"],
    y0: Float[np.ndarray, " q"],
    anywhere: bool,
) -> tuple[Float[np.ndarray, "K x"], Float[np.ndarray, "K x q"]]:
    """log u(y0) and B/u(y0) of some kinds of pairs."""
    rows, is_slot = kinds.rows[part], kinds.is_slot[part]
    z_at = np.concatenate([z, np.zeros_like(z[:1])])[rows]
    p_at = np.append(p, 0.0)[rows]
    e = np.exp(np.concatenate([g, np.zeros_like(g[:, :1])], axis=1))[:, rows]  # K x n
    A = (e * p_at).sum(-1)
    B = np.einsum("kxn,xnq->kxq", e, z_at)
    top = np.where(is_slot, e, -np.inf).max(-1)
    bottom = np.where(is_slot, e, np.inf).min(-1)
    if anywhere:  # g = 0 at a state that is no successor
        top, bottom = np.maximum(top, 1.0), np.minimum(bottom, 1.0)
    u = A + B @ (y0 - y) + kinds.zeta[part] * (top - bottom)
    return np.log(u), B / u[..., None]
