"""What a plan for one reward can lose in any system whose laws are within their radii: Theorem R6.

V, J, B, R and adv are those of the tangent pass (tangent.py), err = ||J|| + ||B|| + R. With the span of f over the
successors of a pair, and vs a bound on the span of V_theta',

    vs     = min(1, max(V' + err')) - max(0, min(V' - err'))
    Qup(f) = min(max f, p f + ||sum z f|| + zeta span f)                       >= Q f for every law Q that is allowed
    E(s)   = min(1, [zeta vs + Qup(E')](s, pi))                                |V^pi_Q - V^pi_theta|
    D(s)   = max_a [adv + zeta vs + min(1, Qup(D'))], in [0, 1]                V*_Q - V^pi_theta
    G(s)   = min(D + E, max(Qup(G')(s, pi), max over other a of [adv + zeta vs + Qup(E') + E(s) + min(1, Qup(G'))]))
    up(s)  = max_a min(1, r + Qup(up'))
    lo(s)  = max(0, r + [max(min lo', p lo' - ||sum z lo'|| - zeta span lo')](s, pi))

V* is the best value over all policies, with memory, in that system, and its laws may depend on the whole past: all
right sides are functions of the state. Where a law may lead anywhere, spans are over all states.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array, Leaf, backward, node, static
from horizonfree.errors import OptionError
from horizonfree.mdp.lift import Lift
from horizonfree.mdp.space import Space
from horizonfree.models.mixture.tangent import OPTIMAL, SECOND_ORDER, Values, World
from horizonfree.models.norms import length, opnorm
from horizonfree.models.world import Bounds, Policy, apart


class Losses(NamedTuple):
    """E, D, G, up, lo of each state."""

    E: Float[Array, " S"]
    D: Float[Array, " S"]
    G: Float[Array, " S"]
    up: Float[Array, " S"]
    lo: Float[Array, " S"]


@node
class RobustWorld:
    """The laws that are allowed around the estimate: a tangent pass, which slots are successors, and the radii."""

    world: World
    is_slot: Bool[Leaf, "S A n"]
    zeta: Float[Leaf, "S A"]
    anywhere: bool = static()

    @property
    def space(self) -> Space:
        """Where it lives."""
        return self.world.space

    def check(self) -> None:
        """It is not kept in files."""

    def lifted(self, lift: Lift) -> World:
        """Laws that depend on the whole past may lead from one state to others with any payment."""
        raise OptionError(
            "transition= is not of the form g(s, a) + f(s'), and this class is a little wrong, by samples or by "
            "misspecification=; pay what is expected, or for states and actions"
        )

    def ends(self, f: Float[Array, "S *k"]) -> tuple[Float[Array, "S A *k"], Float[Array, "S A *k"]]:
        """The smallest and the largest of functions over what can follow each pair."""
        S, A, _ = self.is_slot.shape
        if self.anywhere:
            shape = (S, A, *f.shape[1:])
            return np.broadcast_to(f.min(0), shape), np.broadcast_to(f.max(0), shape)
        at_slot, is_slot = f[self.world.space.succ], self.is_slot
        if f.ndim > 1:
            is_slot = is_slot[..., None]
        return (
            np.where(is_slot, at_slot, np.inf).min(2),
            np.where(is_slot, at_slot, -np.inf).max(2),
        )

    def reach(self, f: Float[Array, "S k"]) -> tuple[Float[Array, "S A k"], Float[Array, "S A k"]]:
        """Below and above every Q f."""
        least, most = self.ends(f)
        at_slot = f[self.world.space.succ]
        mean = np.einsum("san,sank->sak", self.world.p, at_slot)
        spread = length(np.einsum("sanq,sank->sakq", self.world.z, at_slot))
        spread = spread + self.zeta[..., None] * (most - least)
        return np.maximum(least, mean - spread), np.minimum(most, mean + spread)

    def bounds(self, reward: Float[Array, "H S A"], policy: Policy) -> Bounds:
        """The bounds of one plan for one reward; the world's eps is that of every plan that is optimal in the estimate.

        Plans are tables of actions.
        """
        if policy.ndim == 3:
            raise OptionError(
                "within a misspecification, plans are certified whose actions are certain: [H, S]"
            )
        world, space, q = self.world, self.space, self.world.z.shape[-1]
        S, H, e = space.num_states, len(reward), q if q <= SECOND_ORDER else 0

        def back(after: tuple[Values, Losses], x: tuple[Array, ...]) -> tuple[tuple[Values, Losses], Array]:
            values, losses = after
            is_last, r, pi = x
            now, shortfall = world.back(values, (is_last, r, pi))
            return (now, _losses(self, values, losses, r, pi)), shortfall

        o = np.zeros(S)
        end = Values(o, o, o, o, o, o, o, o, o, np.zeros((S, q)), np.zeros((S, e, e)))
        inputs = np.arange(H) == H - 1, np.asarray(reward), np.asarray(policy)
        (values, losses), shortfall = backward(back, (end, Losses(o, o, o, o, o)), inputs)
        at = Losses(*(space.at_start(x) for x in losses))
        radius = space.at_start(_error(values) + losses.E)
        V = space.at_start(values.V)
        low = np.maximum(at.lo, V - radius)
        uniform = np.where(shortfall.max() <= OPTIMAL, world.eps, np.nan)
        gaps = {"uniform": uniform, "interval": at.up - low, "tangent": at.G}
        return Bounds(V, low, np.minimum(at.up, V + radius), gaps)

    def difference(
        self, reward: Float[Array, "H S A"], policies: tuple[Policy, Policy]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """By their own intervals."""
        return apart(self, reward, policies)


def _error(values: Values) -> Float[Array, " S"]:
    """By how much the value of the policy under theta can be off that under theta_hat."""
    return length(values.J) + opnorm(values.B) + values.R


def _losses(
    around: RobustWorld, values: Values, losses: Losses, r: Float[Array, "S A"], pi: Int[Array, " S"]
) -> Losses:
    """One step back."""
    world, states = around.world, np.arange(len(pi))
    _, adv = world.advantages(values, world.sums(values), r, pi)
    error = _error(values)
    least, _ = around.ends(values.V - error)
    _, most = around.ends(values.V + error)
    moved = around.zeta * (np.minimum(most, 1.0) - np.maximum(least, 0.0))
    below, above = around.reach(np.stack(losses, axis=1))
    E_up, D_up, G_up, up_up = (above[..., i] for i in range(4))
    E = np.minimum(1.0, (moved + E_up)[states, pi])
    D = np.clip((adv + moved + np.minimum(1.0, D_up)).max(-1), 0.0, 1.0)
    other = adv + moved + E_up + E[:, None] + np.minimum(1.0, G_up)
    is_own = np.arange(r.shape[1]) == pi[:, None]
    apart = np.where(is_own, -np.inf, other).max(-1)
    G = np.clip(np.maximum(G_up[states, pi], apart), 0.0, 1.0)
    return Losses(
        E=E,
        D=D,
        G=np.minimum(D + E, G),
        up=np.minimum(1.0, r + up_up).max(-1),
        lo=np.maximum(0.0, (r + below[..., 4])[states, pi]),
    )
