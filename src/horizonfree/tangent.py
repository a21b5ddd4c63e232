"""What one reward can lose: bounds on V*_theta - V^pi_theta for every theta in the ellipsoid, in one backward pass.

P_theta = p + z u with ||u|| <= 1 is linear in u, so a policy's values expand around theta_hat exactly:

    Q_theta = Q + gQ'u + u'(sum z J')u + P_theta (remainder),      gQ = sum z V + sum p J

with J_h(s) = gQ(s, pi) and a remainder bounded by R. The regret of pi is built of *advantages*, whose first-order
uncertainty gQ(s,a) - J(s) is far smaller than that of the values (tangent). The same pass gives the optimistic value
minus the pessimistic value of pi, and pi's own divergence from theta_hat, which sharpens the uniform bound.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from horizonfree.divergence import Steps
from horizonfree.ellipsoid import Ellipsoid, opnorm
from horizonfree.mixture import Known
from horizonfree.rows import at_slots
from horizonfree.valid import ValidSet

NAMES = (
    "V",
    "V_star",
    "R",
    "D",
    "upper",
    "lower",
    "kappa",
    "hit",
)  # scalar columns; J takes the q after them


class RewardBounds(eqx.Module):
    """A policy, its value and the best value under theta_hat, and three ways to bound what it loses under theta."""

    policy: Int[Array, "H S"]
    value: Float[Array, ""]
    best: Float[Array, ""]
    tangent: Float[Array, ""]
    interval: Float[Array, ""]
    kappa: Float[Array, ""]
    hit: Float[Array, ""]


def reward_bounds(
    known: Known,
    valid: ValidSet,
    ball: Ellipsoid,
    step: Steps,
    stop: Bool[Array, "S A"],
    reward: Float[Array, "H S A"],
    policy: Int[Array, "H S"] | None = None,
) -> RewardBounds:
    """The bounds of one reward; without a policy, that of the best policy under theta_hat; traceable."""
    S, q, H = known.num_states, ball.z.shape[1], known.horizon
    z = at_slots(ball.z, jnp.asarray(valid.row_of)) * jnp.asarray(valid.reachable)[:, None, None, None]
    weights = jnp.concatenate([jnp.asarray(step.kernel.prob)[..., None], z], axis=-1)
    succ = jnp.asarray(known.succ)
    cost = jnp.where(stop, 0.0, step.cost)
    states = jnp.arange(S)

    def back(F: Array, inputs: tuple[Array, Array, Array | None]) -> tuple[Array, Array]:
        h, r, chosen = inputs
        if known.is_dense:
            mean = jnp.einsum("sanx,nm->samx", weights, F)
        else:
            mean = jnp.einsum("sanx,sanm->samx", weights, F[succ])
        p = dict(zip(NAMES, jnp.moveaxis(mean[..., : len(NAMES), 0], -1, 0)))  # sum_s' p f
        zf = dict(zip(NAMES, jnp.moveaxis(mean[..., : len(NAMES), 1:], -2, 0)))  # sum_s' z f
        pJ, zJ = mean[..., len(NAMES) :, 0], mean[..., len(NAMES) :, 1:]

        def size(name: str) -> Array:
            return jnp.linalg.norm(zf[name], axis=-1)

        Q = r + p["V"]
        pi = jnp.argmax(Q, axis=-1) if chosen is None else chosen

        def at_pi(x: Array) -> Array:
            return x[states, pi]

        V = at_pi(Q)
        gQ = zf["V"] + pJ
        J = at_pi(gQ)
        curve = opnorm((zJ + zJ.swapaxes(-1, -2)) / 2) if q else 0.0
        rQ = jnp.minimum(curve + p["R"] + size("R"), 1 + jnp.linalg.norm(gQ, axis=-1))
        R = at_pi(rQ)
        first_order = jnp.linalg.norm(gQ - J[:, None], axis=-1)
        advantage = jnp.minimum(1.0, Q - V[:, None] + first_order + rQ + R[:, None])
        advantage = jnp.where(jnp.arange(r.shape[1]) == pi[:, None], 0.0, advantage)
        D = (advantage + jnp.minimum(1.0, p["D"] + size("D"))).max(-1)
        columns = {
            "V": V,
            "V_star": (r + p["V_star"]).max(-1),
            "R": R,
            "D": jnp.clip(D, 0.0, 1.0),
            "upper": jnp.minimum(1.0, r + p["upper"] + size("upper")).max(-1),
            "lower": jnp.maximum(0.0, at_pi(r + p["lower"] - size("lower"))),
            # the last transition touches no reward
            "kappa": at_pi(jnp.where(stop, 0.0, cost + p["kappa"])) * (h < H - 1),
            "hit": at_pi(jnp.where(stop, 1.0, step.leak + p["hit"])) * (h < H - 1),
        }
        return jnp.concatenate([jnp.stack([columns[name] for name in NAMES], -1), J], -1), pi

    F, policy = jax.lax.scan(
        back, jnp.zeros((S, len(NAMES) + q)), (jnp.arange(H), reward, policy), reverse=True
    )
    first = dict(zip(NAMES, F[known.start]))
    return RewardBounds(
        policy=policy.astype(jnp.int32),
        value=first["V"],
        best=first["V_star"],
        tangent=first["D"],
        interval=first["upper"] - first["lower"],
        kappa=first["kappa"],
        hit=jnp.minimum(first["hit"], 1.0),
    )
