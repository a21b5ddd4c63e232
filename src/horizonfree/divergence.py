"""How far apart the trajectories of theta_hat and of any theta in the ellipsoid can be, whatever the policy.

    KL(trajectories) = E_{theta_hat, pi} sum_{h<H} KL(P_theta_hat || P_theta)(s_h, a_h)

(the last transition touches no reward), so a bound c(s,a) on each KL and one dynamic programme bound it for all
policies at once. KL(s,a) = sum_s' p psi(x), and psi(x) <= k(-a_r) x^2 or <= max(psi(b_r), psi(-a_r)) row by row.

Where theta_hat gives next to nothing (p_r tiny) and theta may give zero, the row is left out of theta_hat's
transitions: that costs its mass p_r in the value of a policy (`leak`), and the KL gains the mass that theta may have
there. Pairs (s,a) whose c is too large are a bad set at which the comparison stops: that costs the probability of
getting there (`hit`).
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from horizonfree.ellipsoid import Ellipsoid, curvature, opnorm, psi
from horizonfree.mixture import Kernel, Known
from horizonfree.rows import at_slots
from horizonfree.valid import ValidSet

CLEARLY = 0.95  # a row is bounded by itself only where that is clearly better: squares of several rows share directions
TINY = 1e-3  # a row below this that theta may set to zero is left out
STOPS = (math.inf, 3.0, 0.3, 0.03)  # pairs with a larger c are stopped at; the best of these is kept


class Steps(eqx.Module):
    """One transition: theta_hat's kernel, the KL it can cost at most, the mass left out.

    Without the rows left out, theta_hat's transitions are at most kernel / (1 - leak).
    """

    kernel: Kernel
    cost: Float[Array, "S A"]
    leak: Float[Array, "S A"]


class Divergence(eqx.Module):
    """The largest KL over all policies and the largest probability of leaving the comparison; eps follows from both."""

    kappa: Float[Array, ""]
    hit: Float[Array, ""]
    stop: Bool[Array, "S A"]
    eps: Float[Array, ""]


def steps(known: Known, valid: ValidSet, ball: Ellipsoid) -> Steps:
    """theta_hat's kernel and the bounds for each (s,a); traceable. Unreachable states cost nothing."""
    free = jnp.asarray(valid.free)
    p = jnp.where(free, ball.p, 1.0)
    is_open, is_out = ball.below >= 1, left_out(valid, ball)  # theta may give an open row zero
    k = curvature(-ball.below)
    square = k / p * (ball.z**2).sum(-1)
    box = p * jnp.maximum(psi(ball.above), ball.below**2 * k)
    is_box = free & ~is_out & ((box < CLEARLY * square) | is_open)
    vector = jnp.where((free & ~is_out & ~is_box)[:, None], jnp.sqrt(k / p)[:, None] * ball.z, 0.0)
    extra = jnp.where(is_out, p * ball.above, jnp.where(is_box, box, 0.0))

    row_of = jnp.asarray(valid.row_of)
    reachable = jnp.asarray(valid.reachable)[:, None]
    B = at_slots(vector, row_of)
    n, q = B.shape[2:]
    Gram = jnp.einsum("sani,sanj->saij", B, B) if q <= n else jnp.einsum("sanq,samq->sanm", B, B)
    leak = at_slots(jnp.where(is_out, p, 0.0), row_of).sum(-1)
    inside = opnorm(Gram) + at_slots(extra, row_of).sum(-1)
    cost = inside / (1 - leak) - jnp.log1p(-leak)
    kernel = Kernel(known.succ, at_slots(ball.p, row_of) * reachable[..., None], known.is_dense)
    return Steps(kernel, jnp.where(reachable, cost, 0.0), jnp.where(reachable, leak, 0.0))


def left_out(valid: ValidSet, ball: Ellipsoid) -> Bool[Array, " R"]:
    """Rows that theta_hat all but excludes and theta may exclude; traceable."""
    return jnp.asarray(valid.free) & (ball.below >= 1) & (ball.p < TINY)


def largest_sum(
    known: Known, step: Steps, cost: Float[Array, "S A"], stop: Bool[Array, "S A"]
) -> Float[Array, ""]:
    """max over pi of E sum_{h<H} cost before the bad set, without the rows left out, from above; traceable."""

    def back(after: Array, _: None) -> tuple[Array, None]:
        return jnp.where(stop, 0.0, cost + step.kernel.expect(after) / (1 - step.leak)).max(-1), None

    return jax.lax.scan(back, jnp.zeros(known.num_states), length=known.horizon - 1)[0][known.start]


def largest_hit(known: Known, step: Steps, stop: Bool[Array, "S A"]) -> Float[Array, ""]:
    """max over pi of the probability under theta_hat of the bad set or of a row left out, from above; traceable."""

    def back(after: Array, _: None) -> tuple[Array, None]:
        return jnp.where(stop, 1.0, step.leak + step.kernel.expect(after)).max(-1), None

    hit = jax.lax.scan(back, jnp.zeros(known.num_states), length=known.horizon - 1)[0][known.start]
    return jnp.minimum(hit, 1.0)


def bad_sets(step: Steps) -> Bool[Array, "4 S A"]:
    """Nested sets of pairs of which too little is known; traceable."""
    return (step.cost > jnp.asarray(STOPS)[:, None, None]) | ~jnp.isfinite(step.cost)


def divergence(known: Known, step: Steps) -> Divergence:
    """The uniform gap: kappa and hit over all policies, for the best of a few bad sets; traceable."""

    def stopped(stop: Array) -> Divergence:
        kappa = largest_sum(known, step, jnp.where(stop, 0.0, step.cost), stop)
        hit = largest_hit(known, step, stop)
        return Divergence(kappa, hit, stop, gap(2 * hit, kappa, kappa))

    found = jax.vmap(stopped)(bad_sets(step))
    best = jnp.argmin(found.eps)
    least: Divergence = jax.tree.map(lambda x: x[best], found)
    return least


def gap(regret: Float[Array, ""], kappa: Float[Array, ""], kappa_plan: Float[Array, ""]) -> Float[Array, ""]:
    """How much the best policy can gain on a plan whose regret under (nearly) theta_hat is at most `regret`.

    Two values v_best <= v_plan + regret under theta_hat, w_best and w_plan under theta, kl(v_best, w_best) <= kappa,
    kl(v_plan, w_plan) <= kappa_plan. Pinsker:  w_best - w_plan <= regret + sqrt(kappa/2) + sqrt(kappa_plan/2).
    Hellinger, after moving one of v to the other:  <= 2 regret + sqrt(1 - exp(-kappa - kappa_plan)).  Not capped at 1.
    """
    pinsker = regret + jnp.sqrt(kappa / 2) + jnp.sqrt(kappa_plan / 2)
    return jnp.minimum(pinsker, 2 * regret + jnp.sqrt(-jnp.expm1(-kappa - kappa_plan)))
