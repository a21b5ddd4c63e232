"""How far one transition of theta_hat can be from any law within the radius of any theta in the ellipsoid: Theorem R5.

A law is Q = p (1 + x + e/p), x the relative change to theta, sum e = 0, sum |e| <= 2 zeta. With a' = a + zeta/p,

    KL(p || Q) = sum p psi(x + e/p) <= (sqrt c + sqrt d)^2,      c >= sum k(-a') p x^2 over the ellipsoid and the rows,
    d = zeta^2 (sum of the two largest k(-a')/p)      (convex in e: largest where zeta moves from one slot to another)

by the triangle inequality in the norm with weights k p. Successors with a' >= 1 are left out where p is below a
threshold: the KL then gains the mass that Q may have there, at most sum p b (or ||sum z||) + zeta. Elsewhere such a
pair is one at which the comparison stops.
"""

import numpy as np
from jaxtyping import Bool, Float

from horizonfree.guarantees.psi import curvature
from horizonfree.guarantees.trajectories import Divergence, RowDivergence, divergence
from horizonfree.mdp.space import Space
from horizonfree.models.mixture.ellipsoid import Ellipsoid
from horizonfree.models.mixture.steps import ALL_OUT, THRESHOLDS, at_slots
from horizonfree.models.mixture.valid import ValidSet
from horizonfree.models.norms import length, opnorm

FULL = 1 - 1e-6  # a share by which a probability may fall that counts as all of it


def successors(valid: ValidSet) -> Bool[np.ndarray, "S A n"]:
    """Slots whose row is possible under some parameter."""
    return np.append(valid.positive, False)[valid.row_of]


def compare_within(
    space: Space, valid: ValidSet, ball: Ellipsoid, zeta: Float[np.ndarray, "S A"]
) -> tuple[RowDivergence, Divergence]:
    """The steps with the smallest uniform gap over the thresholds."""

    found = []
    for below in (0.0, *THRESHOLDS):
        step = steps_within(space, valid, ball, zeta, below)
        found.append((step, divergence(space, step)))
    return min(found, key=lambda pair: pair[1].eps)


def steps_within(
    space: Space,
    valid: ValidSet,
    ball: Ellipsoid,
    zeta: Float[np.ndarray, "S A"],
    below: float,
) -> RowDivergence:
    """theta_hat's kernel and the KL of each (s,a), without successors that are less likely than `below`."""
    is_slot = successors(valid)
    prob = at_slots(ball.p, valid.row_of)
    p = np.where(is_slot, prob, 1.0)
    a, b = at_slots(ball.below, valid.row_of), at_slots(ball.above, valid.row_of)
    z = at_slots(np.where(valid.free[:, None], ball.z, 0.0), valid.row_of)
    radius = zeta[..., None]
    reach = a + radius / p
    is_out = is_slot & (reach >= FULL) & (p < below)
    is_kept = is_slot & ~is_out
    is_bad = (is_kept & (reach >= FULL)).any(-1)
    k = np.where(is_kept, curvature(-np.minimum(reach, FULL)), 0.0)
    by_zeta = (zeta**2) * _two_largest(k / p) * (is_slot.sum(-1) > 1)
    inside = (np.sqrt(_by_theta(z, k, p, a, b)) + np.sqrt(by_zeta)) ** 2
    alone = np.where(is_out, p * b, 0.0).sum(-1)
    together = length(np.where(is_out[..., None], z, 0.0).sum(-2))
    gained = np.minimum(alone, together) + zeta * is_out.any(-1)
    mass = np.where(is_out, p, 0.0).sum(-1)
    is_compared = ~is_bad & (mass < ALL_OUT)
    leak = np.where(is_compared, mass, 0.0)
    cost = np.where(is_compared, (inside + gained) / (1 - leak) - np.log1p(-leak), np.inf)
    reachable = space.reachable[:, None]
    return RowDivergence(
        space.kernel(np.where(is_slot, prob, 0.0) * reachable[..., None]),
        np.where(reachable, cost, 0.0),
        np.where(reachable, np.where(is_compared, leak, 1.0), 0.0),
    )


def _by_theta(
    z: Float[np.ndarray, "S A n q"],
    k: Float[np.ndarray, "S A n"],
    p: Float[np.ndarray, "S A n"],
    a: Float[np.ndarray, "S A n"],
    b: Float[np.ndarray, "S A n"],
) -> Float[np.ndarray, "S A"]:
    """sum k p x^2 at most: all rows together in the ellipsoid, each by itself, or each as is better for it."""
    squares = k / p * (z**2).sum(-1)
    alone = k * p * np.maximum(a, b) ** 2
    is_alone = alone < squares

    def together(kept: np.ndarray) -> np.ndarray:
        B = np.sqrt(np.where(kept, k / p, 0.0))[..., None] * z
        n, q = B.shape[2:]
        return opnorm(B.swapaxes(-1, -2) @ B if q <= n else B @ B.swapaxes(-1, -2))

    both = together(~is_alone) + np.where(is_alone, alone, 0.0).sum(-1)
    return np.minimum(np.minimum(together(k > 0), alone.sum(-1)), both)


def _two_largest(x: Float[np.ndarray, "S A n"]) -> Float[np.ndarray, "S A"]:
    found: np.ndarray = np.sort(x)[..., -2:].sum(-1)
    return found
