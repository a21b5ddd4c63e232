"""How far one transition of theta_hat can be from that of any theta in the ellipsoid: what the gap lemma needs.

KL(P_theta_hat || P_theta)(s,a) = sum_s' p psi(x), x the relative change of each probability, and row by row

    psi(x) <= k(-a_r) x^2      (`by_square`: squares of several rows share the directions of the ellipsoid)
    psi(x) <= max(psi(b_r), psi(-a_r))      (`by_itself`)

Where theta_hat gives next to nothing (p_r tiny) and theta may give zero, the row is `left_out` of theta_hat's
transitions: that costs its mass p_r in the value of a policy (`leak`), and the KL gains the mass that theta may have
there.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from horizonfree.guarantees.trajectories import Steps
from horizonfree.mdp.space import Space
from horizonfree.models.mixture.ellipsoid import Ellipsoid, curvature, opnorm, psi
from horizonfree.models.mixture.rows import at_slots
from horizonfree.models.mixture.valid import ValidSet

CLEARLY = 0.95  # a row is bounded by itself only where that is clearly better: squares of several rows share directions
ALL_BUT_EXCLUDED = 1e-3  # a row below this that theta may set to zero is left out


def steps(space: Space, valid: ValidSet, ball: Ellipsoid) -> Steps:
    """theta_hat's kernel and the bounds for each (s,a); traceable. Unreachable states cost nothing."""
    p = jnp.where(valid.free, ball.p, 1.0)
    k = curvature(-ball.below)
    square = k / p * (ball.z**2).sum(-1)
    box = p * jnp.maximum(psi(ball.above), ball.below**2 * k)

    is_open = ball.below >= 1  # theta may give it zero, and k is infinite
    is_left_out = left_out(valid, ball)
    is_by_itself = valid.free & ~is_left_out & ((box < CLEARLY * square) | is_open)
    is_by_square = valid.free & ~is_left_out & ~is_by_itself
    vector = jnp.where(is_by_square[:, None], jnp.sqrt(k / p)[:, None] * ball.z, 0.0)
    extra = jnp.where(is_left_out, p * ball.above, jnp.where(is_by_itself, box, 0.0))

    leak = at_slots(jnp.where(is_left_out, p, 0.0), valid.row_of).sum(-1)
    inside = opnorm(_gram(at_slots(vector, valid.row_of))) + at_slots(extra, valid.row_of).sum(-1)
    cost = inside / (1 - leak) - jnp.log1p(-leak)
    reachable = space.reachable[:, None]
    kernel = space.kernel(at_slots(ball.p, valid.row_of) * reachable[..., None])
    return Steps(kernel, jnp.where(reachable, cost, 0.0), jnp.where(reachable, leak, 0.0))


def _gram(B: Float[Array, "S A n q"]) -> Float[Array, "S A m m"]:
    """B'B or BB' of every pair, whichever is smaller: their largest eigenvalue is the same."""
    n, q = B.shape[2:]
    return jnp.einsum("sani,sanj->saij", B, B) if q <= n else jnp.einsum("sanq,samq->sanm", B, B)


def left_out(valid: ValidSet, ball: Ellipsoid) -> Bool[Array, " R"]:
    """Rows that theta_hat all but excludes and theta may exclude; traceable."""
    return valid.free & (ball.below >= 1) & (ball.p < ALL_BUT_EXCLUDED)
