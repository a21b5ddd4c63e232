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

A policy is a table of actions [H, S], or of their probabilities [H, S, A]. Written for NumPy and for JAX alike.
"""

from typing import Any

import numpy as np

from horizonfree._arrays import Array, Leaf, backward, in_tiles, leaf, library, mapped, node, taken
from horizonfree._shapes import Bool, Float, Int
from horizonfree.guarantees.gap import gap
from horizonfree.mdp.lift import Lift
from horizonfree.mdp.space import Space
from horizonfree.models.norms import length, opnorm, outer, size
from horizonfree.models.norms import mean as mean_of
from horizonfree.models.world import Bounds, Policy

TILE = 256  # states that are computed at a time: what is kept of them fits into a core's own cache
SECOND_ORDER = 12  # the largest q with B; beyond it q^3 numbers per pair cost more than they bring, and B = 0
OPTIMAL = 1e-12  # a policy that falls short of the best action under theta_hat by no more is optimal but for rounding

Choice = Int[Array, " S"] | Float[Array, "S A"]  # a policy at one step


@node
class Values:
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


@node
class Means:
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


@node
class Slopes:
    """sum_s' z f of what depends on theta: by how much P_theta f changes along u. J and B with second order only."""

    V: Float[Array, "S A q"]
    R: Float[Array, "S A q"]
    D: Float[Array, "S A q"]
    upper: Float[Array, "S A q"]
    lower: Float[Array, "S A q"]
    higher: Float[Array, "S A q"]
    J: Float[Array, "S A e q"]
    B: Float[Array, "S A ee q"]


@node
class World:
    """The ellipsoid on successor lists: P_theta = p + z'u; and the divergence of trajectories over all policies.

    cost, leak, stop: of one step, as in guarantees/trajectories.py; kappa, hit: the most of any policy. `eps`: the gap
    of the confidence: what a plan loses that is optimal under theta_hat from everywhere.
    """

    space: Space
    p: Float[Leaf, "S A n"]
    z: Float[Leaf, "S A n q"]
    cost: Float[Leaf, "S A"]
    leak: Float[Leaf, "S A"]
    stop: Bool[Leaf, "S A"]
    kappa: Float[Leaf, ""]
    hit: Float[Leaf, ""]
    eps: Float[Leaf, ""]

    def check(self) -> None:
        """Nothing but the space leads anywhere."""

    def lifted(self, lift: Lift) -> "World":
        """The same rows. kappa and hit, maxima over all policies, depend on the rows alone and stay valid.

        `eps` does not: the choice theorem charges nothing where two actions have the same law, and a lifted state
        remembers which of them was paid. Without it `bounds` uses Lemma 5 with kappa and hit.
        """
        rows = (lift.of(x) for x in (self.p, self.z, self.cost, self.leak, self.stop))
        infinite = leaf(np.asarray(np.inf))
        return World(lift.space, *rows, self.kappa, self.hit, infinite)  # type: ignore[call-arg]

    def sums(self, after: Values) -> tuple[Means, Slopes]:
        """Means and slopes of what comes after each (s,a): one product for all of them."""
        (S, A, _, q), xp = self.z.shape, library(self.z, after.V)  # S: of whom a step back is asked
        e = after.B.shape[1]
        carried = [after.V_star, after.kappa, after.hit]
        tilted = [after.V, after.R, after.D, after.upper, after.lower, after.higher]
        scalars = xp.stack([*carried, *tilted], axis=1)
        flat = xp.concatenate([scalars, after.J, after.B.reshape(len(scalars), -1)], axis=1)
        first = len(carried)
        last = flat.shape[1] if e else first + len(tilted)
        if self.space.is_dense:
            pf = xp.einsum("san,nm->sam", self.p, flat, optimize=True)
            zf = xp.einsum("sanq,nm->samq", self.z, flat[:, first:last], optimize=True)
        else:
            at_slot = flat[self.space.succ]
            pf, zf = mean_of(self.p, at_slot), outer(at_slot[..., first:last], self.z)
        k, t = scalars.shape[1], len(tilted)
        J, B = pf[..., k : k + q], pf[..., k + q :].reshape(S, A, e, e)
        means = Means(*xp.moveaxis(pf[..., :k], -1, 0), J, B)  # type: ignore[call-arg]
        slopes = Slopes(*xp.moveaxis(zf[:, :, :t], 2, 0), zf[:, :, t : t + e], zf[:, :, t + e :])  # type: ignore[call-arg]
        return means, slopes

    def back(
        self, after: Values, inputs: tuple[Bool[Array, ""], Float[Array, "S A"], Choice]
    ) -> tuple[Values, Float[Array, ""]]:
        """One step back, and by how much the policy falls short of the best action under theta_hat, at most."""
        is_last, r, pi = inputs
        space = self.space
        own = space.succ, space.support, space.reachable, self.p, self.z, self.cost, self.leak, self.stop

        def some(rows: tuple[Array, ...]) -> tuple[Values, Float[Array, " S"]]:
            *own, r, pi = rows
            return self.of_states(*own).before(after, is_last, r, pi)

        now, shortfall = in_tiles(some, (*own, r, pi), TILE)
        return now, shortfall.max()

    def of_states(
        self,
        succ: Array,
        support: Array,
        reachable: Array,
        p: Array,
        z: Array,
        cost: Array,
        leak: Array,
        stop: Array,
    ) -> "World":
        """The rows of some states, which lead to all."""
        lists = Space(succ, support, reachable, None, self.space.horizon, None, self.space.is_dense)
        return World(lists, p, z, cost, leak, stop, self.kappa, self.hit, self.eps)

    def before(
        self, after: Values, is_last: Bool[Array, ""], r: Float[Array, "S A"], pi: Choice
    ) -> tuple[Values, Float[Array, " S"]]:
        """The same of each of the states of this world."""
        xp = library(self.z, r)
        mean, slope = self.sums(after)
        (V, J, B, R), advantage = self.advantages(after, (mean, slope), r, pi)
        D = (advantage + xp.minimum(1.0, mean.D + length(slope.D))).max(-1)
        kappa = xp.where(self.stop, 0.0, self.cost + mean.kappa / (1 - self.leak))
        hit = xp.where(self.stop, 1.0, self.leak + mean.hit)
        Q_star = r + mean.V_star
        V_star = Q_star.max(-1)
        shortfall = xp.where(self.space.reachable, V_star - chosen(Q_star, pi), 0.0)
        now = Values(
            V_star=V_star,
            kappa=xp.where(is_last, 0.0, chosen(kappa, pi)),  # the last transition touches no reward
            hit=xp.where(is_last, 0.0, chosen(hit, pi)),
            V=V,
            R=R,
            D=xp.clip(D, 0.0, 1.0),
            upper=xp.minimum(1.0, r + mean.upper + length(slope.upper)).max(-1),
            lower=xp.maximum(0.0, chosen(r + mean.lower - length(slope.lower), pi)),
            higher=xp.minimum(1.0, chosen(r + mean.higher + length(slope.higher), pi)),
            J=J,
            B=B,
        )
        return now, shortfall

    def advantages(
        self, after: Values, sums: tuple[Means, Slopes], r: Float[Array, "S A"], pi: Choice
    ) -> tuple[tuple[Array, Array, Array, Array], Float[Array, "S A"]]:
        """V, J, B, R of the policy, and at most by how much each action is better than its own."""
        (mean, slope), xp = sums, library(self.z, r)
        Q, gQ = r + mean.V, slope.V + mean.J
        bQ, rQ = self.expansion(after, mean, slope, gQ)
        V, J, B, R = (chosen(x, pi) for x in (Q, gQ, bQ, rQ))
        unsure = length(gQ - J[:, None])
        if bQ.shape[-1]:
            unsure = unsure + opnorm(bQ - B[:, None])
        advantage = xp.minimum(1.0, Q - V[:, None] + unsure + rQ + R[:, None])
        is_own = xp.arange(Q.shape[1]) == pi[:, None] if pi.ndim == 1 else pi == 1
        return (V, J, B, R), xp.where(is_own, 0.0, advantage)

    def expansion(
        self, after: Values, mean: Means, slope: Slopes, gQ: Float[Array, "S A q"]
    ) -> tuple[Float[Array, "S A e e"], Float[Array, "S A"]]:
        """The quadratic term bQ of Q_theta, and a bound rQ on its remainder."""
        xp = library(self.z, gQ)
        most = 1 + length(gQ)  # of a remainder, as values lie in [0,1]
        bQ = mean.B
        if bQ.shape[-1]:
            bQ = (slope.J + slope.J.swapaxes(-1, -2)) / 2 + mean.B
            rest = size(slope.B)  # of the cubic form
            most = most + size(bQ)
        else:
            # u'(sum z J')u = sum (z'u)((J - mean J)'u), since the z of one pair sum to zero
            J_slot = after.J if self.space.is_dense else after.J[self.space.succ]
            rest = (length(self.z) * length(J_slot - mean.J[:, :, None])).sum(-1)
        return bQ, xp.minimum(rest + mean.R + length(slope.R), most)

    def bounds(self, reward: Float[Array, "H S A"], policy: Policy) -> Bounds:
        """The bounds of one policy for one reward.

        A plan that is optimal under theta_hat from everywhere has the gap of the confidence, too.
        """
        return self.bounds_at(*self.at_start(reward, policy))

    def bounds_at(self, at: Values, shortfall: Float[Array, ""]) -> Bounds:
        """The same of what a pass has found at the start."""
        xp = library(self.z, at.V)
        uniform = gap(at.V_star - at.V + at.hit + self.hit, self.kappa, at.kappa)
        uniform = xp.where(shortfall <= OPTIMAL, xp.fmin(uniform, self.eps), uniform)
        low, high = _interval(at)
        return Bounds(at.V, low, high, {"uniform": uniform, "interval": at.upper - low, "tangent": at.D})

    def difference(
        self, reward: Float[Array, "H S A"], policies: tuple[Policy, Policy]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """By the difference of their expansions: what both have in common cancels."""
        xp = library(self.z, reward)
        (a, _), (b, _) = (self.at_start(reward, policy) for policy in policies)
        (a_low, a_high), (b_low, b_high) = _interval(a), _interval(b)
        radius = length(a.J - b.J) + opnorm(a.B - b.B) + a.R + b.R
        low = xp.fmax(a_low - b_high, a.V - b.V - radius)
        return low, xp.fmin(a_high - b_low, a.V - b.V + radius)

    def at_start(self, reward: Float[Array, "H S A"], policy: Policy) -> tuple[Values, Float[Array, ""]]:
        """Everything at the start, and how far the policy is from optimal under theta_hat in any step and state."""
        xp, H, S, q = library(self.z, reward), len(reward), self.z.shape[0], self.z.shape[-1]
        end = nothing(S, q, xp)
        first, shortfall = backward(self.back, end, (xp.arange(H) == H - 1, reward, policy))
        at = mapped(lambda x: self.space.at_start(xp.moveaxis(x, 0, -1)), first)
        return at, shortfall.max()


def nothing(S: int, q: int, xp: Any) -> Values:
    """After the last step."""
    e = q if q <= SECOND_ORDER else 0
    o = xp.zeros(S)
    return Values(o, o, o, o, o, o, o, o, o, xp.zeros((S, q)), xp.zeros((S, e, e)))


def chosen(x: Float[Array, "S A *k"], pi: Choice) -> Float[Array, "S *k"]:
    """What is said of the actions that a policy takes."""
    xp = library(x, pi)
    return taken(x, (xp.arange(len(pi)), pi)) if pi.ndim == 1 else xp.einsum("sa,sa...->s...", pi, x)


def _interval(at: Values) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Where the value of the policy lies: by pessimism and optimism, by its expansion, by its divergence (Pinsker)."""
    xp = library(at.V)
    by_tangent = length(at.J) + opnorm(at.B) + at.R
    by_divergence = at.hit + xp.sqrt(at.kappa / 2)
    radius = xp.fmin(by_tangent, by_divergence)
    return xp.fmax(at.lower, at.V - radius), xp.fmin(at.higher, at.V + radius)
