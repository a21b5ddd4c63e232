"""What one reward can lose: bounds on V*_theta - V^pi_theta for every theta in the ellipsoid, in one backward pass.

P_theta = p + z'u with ||u|| <= 1 is linear in u, so a policy's values expand around theta_hat exactly:

    V_theta = V + J'u + u'B u + remainder,   |remainder| <= R
    Q_theta = Q + gQ'u + u'bQ u + sum_s' (z'u)(u'B u) + P_theta (remainder)
    gQ = sum z V + sum p J,   bQ = sym(sum z J') + sum p B;   J, B, R are gQ, bQ, rQ at the policy's action

and its regret obeys V*_theta - V^pi_theta = max_a [A_theta(s,a) + P_theta (V*_theta - V^pi_theta)]. The regret is built
of *advantages*, whose uncertainty ||gQ(s,a) - J(s)|| + ||bQ(s,a) - B(s)|| is far smaller than that of the values.

The same pass gives the optimistic value minus the pessimistic value of pi, and pi's own divergence from theta_hat,
which sharpens the uniform bound. docs/certificates.md has the proofs.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from horizonfree.divergence import Divergence, Steps, gap
from horizonfree.ellipsoid import Ellipsoid, opnorm
from horizonfree.mixture import AnyArray, Known
from horizonfree.rows import at_slots
from horizonfree.valid import ValidSet

SECOND_ORDER = 12  # the largest q with B; beyond it q^3 numbers per pair cost more than they bring, and B = 0
UNROLLED = 16  # successors up to which a sum is faster written out than as small matrices
TILTED = 5  # of the scalars carried back, the last five are also summed against z


class RewardBounds(eqx.Module):
    """A policy, its value and the best value under theta_hat, and three ways to bound what it loses under theta."""

    policy: Int[Array, "H S"]
    value: Float[Array, ""]
    best: Float[Array, ""]
    tangent: Float[Array, ""]
    interval: Float[Array, ""]
    uniform: Float[Array, ""]


class Values(eqx.Module):
    """What is carried back from step to step, for each state; or the sums of all that over next states, per (s,a)."""

    V_star: Float[Array, "*S"]  # the best value under theta_hat
    kappa: Float[Array, "*S"]  # divergence of the policy
    hit: Float[Array, "*S"]  # probability that the policy leaves the comparison
    V: Float[Array, "*S"]  # of the policy under theta_hat
    R: Float[Array, "*S"]  # remainder of the expansion
    D: Float[Array, "*S"]  # regret of the policy
    upper: Float[Array, "*S"]  # best value of any theta and policy
    lower: Float[Array, "*S"]  # smallest value of the policy
    J: Float[Array, "*S q"]
    B: Float[Array, "*S q q"]


def reward_bounds(
    known: Known,
    valid: ValidSet,
    ball: Ellipsoid,
    step: Steps,
    worst: Divergence,
    reward: Float[AnyArray, "H S A"],
    policy: Int[AnyArray, "H S"] | None = None,
) -> RewardBounds:
    """The bounds of one reward; without a policy, those of the best policy under theta_hat; traceable.

    `worst` holds the divergence over all policies, to which that of the policy itself is joined.
    """
    S, A, H, q = known.num_states, known.num_actions, known.horizon, ball.z.shape[1]
    has_B = q <= SECOND_ORDER
    p = jnp.asarray(step.kernel.prob)
    z = at_slots(ball.z, jnp.asarray(valid.row_of)) * jnp.asarray(valid.reachable)[:, None, None, None]
    succ, states = jnp.asarray(known.succ), jnp.arange(S)
    chosen = None if policy is None else jnp.asarray(policy)

    def sums(after: Values) -> tuple[Values, Array]:
        """sum_s' p f of everything carried, and sum_s' z f of the last columns, q as its last axis."""
        leaves = jax.tree.leaves(after)
        flat = jnp.concatenate([f.reshape(S, -1) for f in leaves], axis=1)
        tilted = slice(8 - TILTED, None if has_B else 8)
        if known.is_dense:
            pf, zf = jnp.einsum("san,nm->sam", p, flat), jnp.einsum("sanq,nm->samq", z, flat[:, tilted])
        else:
            after_slot = flat[succ]
            pf = jnp.einsum("san,sanm->sam", p, after_slot)
            f = after_slot[..., tilted]
            if z.shape[2] <= UNROLLED:
                zf = jnp.asarray(sum(z[:, :, j, None, :] * f[:, :, j, :, None] for j in range(z.shape[2])))
            else:
                zf = jnp.einsum("sanq,sanm->samq", z, f)
        cuts = [sum(f[0].size for f in leaves[:i]) for i in range(1, len(leaves))]
        return Values(*[x.reshape(S, A, *f.shape[1:]) for x, f in zip(jnp.split(pf, cuts, 2), leaves)]), zf

    def back(after: Values, inputs: tuple[Array, Array, Array | None]) -> tuple[Values, Array]:
        is_last, r, action = inputs
        pf, zf = sums(after)
        zV, tilts = zf[:, :, 0], norm(zf[:, :, 1:TILTED])
        Q = r + pf.V
        pi = jnp.argmax(Q, axis=-1) if action is None else action

        def at_pi(x: Array) -> Array:
            return x[states, pi]

        V, gQ = at_pi(Q), zV + pf.J
        J = at_pi(gQ)
        most = 1 + norm(gQ)  # of a remainder, as values lie in [0,1]
        unsure = norm(gQ - J[:, None])
        if has_B:
            zJ, zB = zf[:, :, TILTED : TILTED + q], zf[:, :, TILTED + q :]
            bQ = (zJ + zJ.swapaxes(-1, -2)) / 2 + pf.B
            B = at_pi(bQ)
            rest = jnp.sqrt((zB**2).sum((-2, -1)))  # of the cubic form
            most = most + jnp.sqrt((bQ**2).sum((-2, -1)))
            unsure = unsure + opnorm(bQ - B[:, None])
        else:
            B = after.B
            # u'(sum z J')u = sum (z'u)((J - mean J)'u), since the z of one pair sum to zero
            J_slot = after.J if known.is_dense else after.J[succ]
            rest = (norm(z) * norm(J_slot - pf.J[:, :, None])).sum(-1)
        rQ = jnp.minimum(rest + pf.R + tilts[..., 0], most)
        R = at_pi(rQ)
        advantage = jnp.minimum(1.0, Q - V[:, None] + unsure + rQ + R[:, None])
        advantage = jnp.where(jnp.arange(A) == pi[:, None], 0.0, advantage)
        D = (advantage + jnp.minimum(1.0, pf.D + tilts[..., 1])).max(-1)
        kappa = jnp.where(worst.stop, 0.0, step.cost + pf.kappa / (1 - step.leak))
        hit = jnp.where(worst.stop, 1.0, step.leak + pf.hit)
        values = Values(
            V_star=(r + pf.V_star).max(-1),
            kappa=jnp.where(is_last, 0.0, at_pi(kappa)),  # the last transition touches no reward
            hit=jnp.where(is_last, 0.0, at_pi(hit)),
            V=V,
            R=R,
            D=jnp.clip(D, 0.0, 1.0),
            upper=jnp.minimum(1.0, r + pf.upper + tilts[..., 2]).max(-1),
            lower=jnp.maximum(0.0, at_pi(r + pf.lower - tilts[..., 3])),
            J=J,
            B=B,
        )
        return values, pi

    o = jnp.zeros(S)
    end = Values(o, o, o, o, o, o, o, o, jnp.zeros((S, q)), jnp.zeros((S, q, q) if has_B else (S, 0, 0)))
    first, taken = jax.lax.scan(
        back, end, (jnp.arange(H) == H - 1, jnp.asarray(reward), chosen), reverse=True
    )
    at: Values = jax.tree.map(lambda x: x[known.start], first)
    return RewardBounds(
        policy=taken.astype(jnp.int32),
        value=at.V,
        best=at.V_star,
        tangent=at.D,
        interval=at.upper - at.lower,
        uniform=gap(at.V_star - at.V + at.hit + worst.hit, worst.kappa, at.kappa),
    )


def norm(x: Float[Array, "*b q"]) -> Float[Array, "*b"]:
    """Euclidean norm over the last axis."""
    return jnp.sqrt((x**2).sum(-1))
