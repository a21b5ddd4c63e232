"""What one reward can lose: bounds on V*_theta - V^pi_theta for every theta in the ellipsoid, in one backward pass.

P_theta = p + z'u with ||u|| <= 1 is linear in u, so a policy's values expand around theta_hat exactly:

    V_theta = V + J'u + u'B u + remainder,   |remainder| <= R
    Q_theta = Q + gQ'u + u'bQ u + sum_s' (z'u)(u'B u) + P_theta (remainder)
    gQ = sum z V + sum p J,   bQ = sym(sum z J') + sum p B;   J, B, R are gQ, bQ, rQ at the policy's action

and its regret obeys V*_theta - V^pi_theta = max_a [A_theta(s,a) + P_theta (V*_theta - V^pi_theta)]. The regret is built
of *advantages*, whose uncertainty ||gQ(s,a) - J(s)|| + ||bQ(s,a) - B(s)|| is far smaller than that of the values.

The same pass gives the optimistic value minus the pessimistic value of pi, pi's own divergence from theta_hat, which
sharpens the uniform bound, and an interval for the true value of pi. Expansions of two policies, subtracted, bound the
difference of their values: what they have in common cancels. docs/certificates.md has the proofs.

A policy is a table of actions [H, S], or of their probabilities [H, S, A].
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from horizonfree.guarantees.trajectories import gap
from horizonfree.mdp.space import Space
from horizonfree.models.interface import Bounds, Policy
from horizonfree.models.mixture.confidence import MixtureConfidence
from horizonfree.models.mixture.ellipsoid import opnorm
from horizonfree.models.mixture.rows import norm
from horizonfree.models.mixture.steps import Compared, tilts
from horizonfree.models.mixture.valid import ValidSet

SECOND_ORDER = 12  # the largest q with B; beyond it q^3 numbers per pair cost more than they bring, and B = 0
OPTIMAL = 1e-12  # a policy that falls short of the best action under theta_hat by no more is optimal but for rounding
UNROLLED = 16  # successors up to which a sum is faster written out than as small matrices

Choice = Int[Array, " S"] | Float[Array, "S A"]  # a policy at one step


class Values(eqx.Module):
    """What is carried back from step to step, for each state."""

    V_star: Float[Array, " S"]  # the best value under theta_hat
    kappa: Float[Array, " S"]  # divergence of the policy
    hit: Float[Array, " S"]  # probability that the policy leaves the comparison
    V: Float[Array, " S"]  # of the policy under theta_hat
    R: Float[Array, " S"]  # remainder of the expansion
    D: Float[Array, " S"]  # regret of the policy
    upper: Float[Array, " S"]  # best value of any theta and policy
    lower: Float[Array, " S"]  # smallest value of the policy
    higher: Float[Array, " S"]  # largest value of the policy
    J: Float[Array, "S q"]
    B: Float[Array, "S e e"]  # e = q, or 0 without second order


class Means(eqx.Module):
    """sum_s' p f of everything carried, per (s,a)."""

    V_star: Float[Array, "S A"]
    kappa: Float[Array, "S A"]
    hit: Float[Array, "S A"]
    V: Float[Array, "S A"]
    R: Float[Array, "S A"]
    D: Float[Array, "S A"]
    upper: Float[Array, "S A"]
    lower: Float[Array, "S A"]
    higher: Float[Array, "S A"]
    J: Float[Array, "S A q"]
    B: Float[Array, "S A e e"]


class Slopes(eqx.Module):
    """sum_s' z f of what depends on theta: by how much P_theta f changes along u. J and B with second order only."""

    V: Float[Array, "S A q"]
    R: Float[Array, "S A q"]
    D: Float[Array, "S A q"]
    upper: Float[Array, "S A q"]
    lower: Float[Array, "S A q"]
    higher: Float[Array, "S A q"]
    J: Float[Array, "S A e q"]
    B: Float[Array, "S A ee q"]


class World(eqx.Module):
    """The ellipsoid on successor lists: P_theta = p + z'u; and the divergence of one step, over all policies."""

    p: Float[Array, "S A n"]
    z: Float[Array, "S A n q"]
    space: Space
    compared: Compared

    def sums(self, after: Values) -> tuple[Means, Slopes]:
        """Means and slopes of what comes after each (s,a): one product for all of them."""
        S, A, n, q = self.z.shape
        e = after.B.shape[1]
        carried = [after.V_star, after.kappa, after.hit]
        tilted = [after.V, after.R, after.D, after.upper, after.lower, after.higher]
        scalars = jnp.stack([*carried, *tilted], axis=1)
        flat = jnp.concatenate([scalars, after.J, after.B.reshape(S, -1)], axis=1)
        first = len(carried)
        last = flat.shape[1] if e else first + len(tilted)
        if self.space.is_dense:
            pf = jnp.einsum("san,nm->sam", self.p, flat)
            zf = jnp.einsum("sanq,nm->samq", self.z, flat[:, first:last])
        else:
            at_slot = flat[self.space.succ]
            pf = jnp.einsum("san,sanm->sam", self.p, at_slot)
            f = at_slot[..., first:last]
            if n <= UNROLLED:
                zf = jnp.asarray(sum(self.z[:, :, j, None, :] * f[:, :, j, :, None] for j in range(n)))
            else:
                zf = jnp.einsum("sanq,sanm->samq", self.z, f)
        k, t = scalars.shape[1], len(tilted)
        J, B = pf[..., k : k + q], pf[..., k + q :].reshape(S, A, e, e)
        means = Means(*jnp.moveaxis(pf[..., :k], -1, 0), J, B)  # type: ignore[call-arg]
        slopes = Slopes(*jnp.moveaxis(zf[:, :, :t], 2, 0), zf[:, :, t : t + e], zf[:, :, t + e :])  # type: ignore[call-arg]
        return means, slopes

    def back(
        self, after: Values, inputs: tuple[Bool[Array, ""], Float[Array, "S A"], Choice]
    ) -> tuple[Values, Float[Array, ""]]:
        """One step back, and by how much the policy falls short of the best action under theta_hat, at most."""
        is_last, r, pi = inputs
        mean, slope = self.sums(after)
        Q, gQ = r + mean.V, slope.V + mean.J
        bQ, rQ = self.expansion(after, mean, slope, gQ)

        def at_pi(x: Array) -> Array:
            return x[jnp.arange(len(pi)), pi] if pi.ndim == 1 else jnp.einsum("sa,sa...->s...", pi, x)

        V, J, B, R = at_pi(Q), at_pi(gQ), at_pi(bQ), at_pi(rQ)
        unsure = norm(gQ - J[:, None])
        if bQ.shape[-1]:
            unsure = unsure + opnorm(bQ - B[:, None])
        advantage = jnp.minimum(1.0, Q - V[:, None] + unsure + rQ + R[:, None])
        is_own = jnp.arange(Q.shape[1]) == pi[:, None] if pi.ndim == 1 else pi == 1
        advantage = jnp.where(is_own, 0.0, advantage)
        D = (advantage + jnp.minimum(1.0, mean.D + norm(slope.D))).max(-1)
        step, stop = self.compared.step, self.compared.divergence.stop
        kappa = jnp.where(stop, 0.0, step.cost + mean.kappa / (1 - step.leak))
        hit = jnp.where(stop, 1.0, step.leak + mean.hit)
        Q_star = r + mean.V_star
        V_star = Q_star.max(-1)
        shortfall = jnp.where(self.space.reachable, V_star - at_pi(Q_star), 0.0).max()
        now = Values(
            V_star=V_star,
            kappa=jnp.where(is_last, 0.0, at_pi(kappa)),  # the last transition touches no reward
            hit=jnp.where(is_last, 0.0, at_pi(hit)),
            V=V,
            R=R,
            D=jnp.clip(D, 0.0, 1.0),
            upper=jnp.minimum(1.0, r + mean.upper + norm(slope.upper)).max(-1),
            lower=jnp.maximum(0.0, at_pi(r + mean.lower - norm(slope.lower))),
            higher=jnp.minimum(1.0, at_pi(r + mean.higher + norm(slope.higher))),
            J=J,
            B=B,
        )
        return now, shortfall

    def expansion(
        self, after: Values, mean: Means, slope: Slopes, gQ: Float[Array, "S A q"]
    ) -> tuple[Float[Array, "S A e e"], Float[Array, "S A"]]:
        """The quadratic term bQ of Q_theta, and a bound rQ on its remainder."""
        most = 1 + norm(gQ)  # of a remainder, as values lie in [0,1]
        bQ = mean.B
        if bQ.shape[-1]:
            bQ = (slope.J + slope.J.swapaxes(-1, -2)) / 2 + mean.B
            rest = jnp.sqrt((slope.B**2).sum((-2, -1)))  # of the cubic form
            most = most + jnp.sqrt((bQ**2).sum((-2, -1)))
        else:
            # u'(sum z J')u = sum (z'u)((J - mean J)'u), since the z of one pair sum to zero
            J_slot = after.J if self.space.is_dense else after.J[self.space.succ]
            rest = (norm(self.z) * norm(J_slot - mean.J[:, :, None])).sum(-1)
        return bQ, jnp.minimum(rest + mean.R + norm(slope.R), most)


def reward_bounds(
    space: Space,
    valid: ValidSet,
    confidence: MixtureConfidence,
    reward: Float[Array, "H S A"],
    policy: Policy,
) -> Bounds:
    """The bounds of one policy for one reward; traceable.

    A plan that is optimal under theta_hat from everywhere has the gap of the confidence, too.
    """
    at, shortfall = _at_start(space, valid, confidence, reward, policy)
    worst = confidence.divergence
    uniform = gap(at.V_star - at.V + at.hit + worst.hit, worst.kappa, at.kappa)
    uniform = jnp.where(shortfall <= OPTIMAL, jnp.fmin(uniform, confidence.eps), uniform)
    low, high = _interval(at)
    return Bounds(at.V, low, high, {"uniform": uniform, "interval": at.upper - low, "tangent": at.D})


def reward_difference(
    space: Space,
    valid: ValidSet,
    confidence: MixtureConfidence,
    reward: Float[Array, "H S A"],
    policies: tuple[Policy, Policy],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Between which numbers the value of the first policy minus that of the second lies; traceable."""
    (a, _), (b, _) = (_at_start(space, valid, confidence, reward, policy) for policy in policies)
    (a_low, a_high), (b_low, b_high) = _interval(a), _interval(b)
    radius = norm(a.J - b.J) + opnorm(a.B - b.B) + a.R + b.R
    low = jnp.fmax(a_low - b_high, a.V - b.V - radius)
    return low, jnp.fmin(a_high - b_low, a.V - b.V + radius)


def _at_start(
    space: Space,
    valid: ValidSet,
    confidence: MixtureConfidence,
    reward: Float[Array, "H S A"],
    policy: Policy,
) -> tuple[Values, Float[Array, ""]]:
    """Everything at the start, and how far the policy is from optimal under theta_hat in any step and state."""
    S, H, q = space.num_states, space.horizon, confidence.ball.z.shape[1]
    e = q if q <= SECOND_ORDER else 0
    z = tilts(space, valid, confidence.ball)
    world = World(confidence.step.kernel.prob, z, space, confidence.compared)
    o = jnp.zeros(S)
    end = Values(o, o, o, o, o, o, o, o, o, jnp.zeros((S, q)), jnp.zeros((S, e, e)))
    first, shortfall = jax.lax.scan(
        lambda after, x: world.back(after, x), end, (jnp.arange(H) == H - 1, reward, policy), reverse=True
    )
    at: Values = jax.tree.map(lambda x: space.at_start(jnp.moveaxis(x, 0, -1)), first)
    return at, shortfall.max()


def _interval(at: Values) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Where the value of the policy lies: by pessimism and optimism, by its expansion, by its divergence (Pinsker)."""
    by_tangent = norm(at.J) + opnorm(at.B) + at.R
    by_divergence = at.hit + jnp.sqrt(at.kappa / 2)
    radius = jnp.fmin(by_tangent, by_divergence)
    return jnp.fmax(at.lower, at.V - radius), jnp.fmin(at.higher, at.V + radius)
