"""How far one transition of theta_hat can be from that of any theta in the ellipsoid: what the gap lemma needs.

With x the relative change of each probability, two distances of the transitions at (s,a) are sums over rows:

    KL(P_theta_hat || P_theta) = sum_s' p psi(x)                psi(x) = x - log(1 + x)
    1 - sum_s' sqrt(P_theta_hat P_theta) = sum_s' p eta(x)      eta(x) = (sqrt(1 + x) - 1)^2 / 2      (Hellinger)

(both because sum p x = 0). psi(x)/x^2 and eta(x)/x^2 decrease, so with f one of the two, row by row,

    f(x) <= k(-a_r) x^2,  k(x) = f(x)/x^2      (`by_square`: squares of several rows share directions of the ellipsoid)
    f(x) <= max(f(b_r), f(-a_r))               (`by_itself`)

psi is infinite where theta may give zero (a_r = 1). Such rows are `left_out` of theta_hat's transitions where p_r is
below a threshold: that costs their mass in the value of a policy (`leak`), and the KL gains the mass that theta may
have there. eta is finite, and no row is left out.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.guarantees.divergence import (
    Divergence,
    RowDivergence,
    curvature,
    divergence,
    psi,
)
from horizonfree.mdp.space import Space
from horizonfree.models.base import length, opnorm
from horizonfree.models.mixture.ellipsoid import Ellipsoid
from horizonfree.models.mixture.valid import ValidSet

# A row is bounded by itself only where that is clearly better: squares of several rows share directions.
CLEAR_SHARE = 0.95
# Probabilities below which rows that theta may set to zero are left out; the best of these is used.
THRESHOLDS = 1e-3, 1e-2, 1e-1
MAX_MASS_LEFT_OUT = 1 - 1e-9  # a pair of whose mass this much is left out has nothing to be compared


class DivergenceBound(NamedTuple):
    """One choice of rows left out: the steps without them, and how far trajectories can be apart."""

    step: RowDivergence
    divergence: Divergence
    is_out: Bool[np.ndarray, " R"]


def compare(space: Space, valid: ValidSet, ball: Ellipsoid) -> DivergenceBound:
    """The steps with the smallest uniform gap over the thresholds. The same rows are not tried twice."""
    best: DivergenceBound | None = None
    last: Bool[np.ndarray, " R"] | None = None
    for below in THRESHOLDS:
        is_out = left_out(valid, ball, below)
        if last is not None and np.array_equal(is_out, last):
            continue
        last = is_out
        step = steps(space, valid, ball, is_out)
        result = divergence(space, step)
        if result.eps < (np.inf if best is None else best.divergence.eps):
            best = DivergenceBound(step, result, is_out)
    if best is not None:
        return best
    # nothing is compared anywhere
    reachable = np.broadcast_to(space.reachable[:, None], space.sizes[1:])
    step = RowDivergence(step.kernel, np.where(reachable, np.inf, 0.0), np.where(reachable, 1.0, 0.0))
    nowhere = Divergence(np.inf, 1.0, np.ones(space.sizes[1:], bool), np.inf)
    return DivergenceBound(step, nowhere, np.zeros_like(valid.free))


def at_slots(x: Float[np.ndarray, "R *q"], row_of: Int[np.ndarray, "S A n"]) -> Float[np.ndarray, "S A n *q"]:
    """Each slot's entry of an array over rows; zero for padding."""
    result: np.ndarray = np.concatenate([x, np.zeros_like(x[:1])])[row_of]
    return result


def tilts(space: Space, valid: ValidSet, ball: Ellipsoid) -> Float[np.ndarray, "S A n q"]:
    """z on the successor lists, P_theta = p + z'u; nothing at unreachable states."""
    return np.asarray(at_slots(ball.z, valid.row_of) * space.reachable[:, None, None, None])


def left_out(valid: ValidSet, ball: Ellipsoid, below: float) -> Bool[np.ndarray, " R"]:
    """Rows to which theta_hat gives less than `below` and theta may give nothing."""
    is_out: np.ndarray = valid.free & (ball.below >= 1) & (ball.p < below)
    return is_out


def steps(space: Space, valid: ValidSet, ball: Ellipsoid, is_out: Bool[np.ndarray, " R"]) -> RowDivergence:
    """theta_hat's kernel and the KL of each (s,a) without the rows left out.

    Unreachable states cost nothing. Where next to nothing is kept the cost is infinite.
    """
    p = np.where(valid.free, ball.p, 1.0)
    k = curvature(-ball.below)
    box = p * np.maximum(psi(ball.above), ball.below**2 * k)
    inside = _inside(valid, ball, p, k, box, valid.free & ~is_out)
    # mass that theta may have on the rows left out: row by row, and together in the ellipsoid
    alone = at_slots(np.where(is_out, p * ball.above, 0.0), valid.row_of).sum(-1)
    together = length(at_slots(np.where(is_out[:, None], ball.z, 0.0), valid.row_of).sum(-2))

    kernel = space.kernel(at_slots(ball.p, valid.row_of) * space.reachable[:, None, None])
    mass = at_slots(np.where(is_out, p, 0.0), valid.row_of).sum(-1)
    reachable = np.broadcast_to(space.reachable[:, None], mass.shape)
    is_compared = reachable & (mass < MAX_MASS_LEFT_OUT)
    leak = np.where(is_compared, mass, 0.0)
    cost = (inside + np.minimum(alone, together)) / (1 - leak) - np.log1p(-leak)
    cost = np.where(is_compared, cost, np.where(reachable, np.inf, 0.0))
    return RowDivergence(kernel, cost, np.where(is_compared, leak, np.where(reachable, 1.0, 0.0)))


def hellinger(space: Space, valid: ValidSet, ball: Ellipsoid) -> Float[np.ndarray, "S A"]:
    """At least 1 - sum_s' sqrt(P_theta_hat P_theta) for every theta of the ellipsoid."""
    p = np.where(valid.free, ball.p, 1.0)
    k = 1 / (2 * (1 + np.sqrt(np.maximum(1 - ball.below, 0.0))) ** 2)
    above = ball.above**2 / (2 * (1 + np.sqrt(1 + ball.above)) ** 2)
    box = p * np.maximum(above, ball.below**2 * k)
    inside = _inside(valid, ball, p, k, box, valid.free)
    return np.where(space.reachable[:, None], np.minimum(inside, 1.0), 0.0)


def _inside(
    valid: ValidSet,
    ball: Ellipsoid,
    p: Float[np.ndarray, " R"],
    k: Float[np.ndarray, " R"],
    box: Float[np.ndarray, " R"],
    is_kept: Bool[np.ndarray, " R"],
) -> Float[np.ndarray, "S A"]:
    """sum of p f(x) over the rows kept of each (s,a), at most, from the curvature k(-a) and each row's own bound."""
    is_by_itself = is_kept & ((box < CLEAR_SHARE * k / p * (ball.z**2).sum(-1)) | ~np.isfinite(k))
    is_by_square = is_kept & ~is_by_itself
    vector = np.where(is_by_square[:, None], np.sqrt(k / p)[:, None] * ball.z, 0.0)
    alone = at_slots(np.where(is_by_itself, box, 0.0), valid.row_of).sum(-1)
    B = at_slots(vector, valid.row_of)
    n, q = B.shape[2:]
    # B'B or BB' of every pair, whichever is smaller: their largest eigenvalue is the same
    gram = np.einsum("sani,sanj->saij", B, B) if q <= n else np.einsum("sanq,samq->sanm", B, B)
    return np.asarray(opnorm(gram) + alone)
