"""What a policy can lose for one reward, for every kernel P of the balls U, in one backward pass.

Values under the centre p_hat are V, Q; under P, V_P and Q_P. For vectors J, one per pair over its successors, J.u
stands for sum over pairs and successors of (p - p_hat) J; |J.u| <= ||J|| := sum over pairs of chi(J of the pair),
chi(v) = sqrt(eps sum w v^2) (balls.py). Suppose |V_P - V - J.u| <= R, lo <= V_P <= upi at the next step. Then

    Q_P - Q - g.u = sum p_hat x (V_P' - V') + sum_elsewhere p (V_P' - c) + sum p_hat (V_P' - V' - J'.u)
    g = sum p_hat J' + [block of (s,a): V' - c],     c = mean_w V',     p = p_hat (1 + x) on the centre

where the first two terms together are at most `local`, by either of two ways to centre V_P' - V', and the last at most
sum p_hat R'. At the policy's actions J = g, R = local + sum p_hat R', on average. Advantages need only the *difference*
g - J, and the same remainders R' occur in both. The regret obeys V* - V^pi = max_a [A_P + P (V* - V^pi)]; D bounds it.

The blocks are kept multiplied by sqrt(eps w), so that chi is a norm. docs/tabular.md has the proofs.
Written for NumPy and for JAX alike.
"""

import numpy as np

from horizonfree._arrays import Array, Leaf, add, backward, leaf, library, mapped, node, taken
from horizonfree._shapes import Float, Int
from horizonfree.errors import ShapeError
from horizonfree.mdp.lift import Lift
from horizonfree.mdp.space import Kernel, Space
from horizonfree.models.norms import length
from horizonfree.models.norms import mean as mean_of
from horizonfree.models.tabular.balls import Balls
from horizonfree.models.tabular.uniform import Uniform, uniform
from horizonfree.models.world import Bounds, Policy, apart, probabilities

MOST_NUMBERS = (
    2**23
)  # in the gradients of all pairs: beyond that, blocks are left out and intervals alone remain


@node
class Values:
    """What is carried back from step to step, for each state."""

    V_star: Float[Array, " S"]  # the best value under the centre
    V: Float[Array, " S"]  # of the policy under the centre
    up: Float[Array, " S"]  # the best value of any P and policy
    upi: Float[Array, " S"]  # the largest value of the policy
    lo: Float[Array, " S"]  # the smallest value of the policy
    D: Float[Array, " S"]  # the regret of the policy
    R: Float[Array, " S"]  # remainder of the expansion
    J: Float[Array, "S X C"]


@node
class Means:
    """What a step back needs of the successors of every pair."""

    V_star: Float[Array, "S A"]  # p_hat V_star
    V: Float[Array, "S A"]  # p_hat V
    up: Float[Array, "S A"]  # the largest P up, and so on
    upi: Float[Array, "S A"]
    lo: Float[Array, "S A"]  # the smallest P lo
    D: Float[Array, "S A"]
    g: Float[Array, "S A X C"]
    local: Float[Array, "S A"]


@node
class World:
    """The balls, their weights w as shares (`mean`) and as sqrt(eps w) (`chi`), and the pairs that have a block.

    `every` is what plans lose for every reward.
    """

    space: Space
    balls: Balls
    mean: Float[Leaf, "S A C"]
    chi: Float[Leaf, "S A C"]
    pairs: Int[Leaf, "X 2"]
    every: Uniform

    @classmethod
    def of(cls, space: Space, balls: Balls, pairs: Int[Array, "X 2"]) -> "World":
        """Prepared for a pass; pairs have blocks where all of these fit into memory."""
        xp = library(balls.prob, balls.eps)
        S, A, C = balls.succ.shape
        if S * A * C * len(pairs) * C > MOST_NUMBERS:
            pairs = pairs[:0]
        every = uniform(space, Kernel(balls.succ, balls.prob, False), balls.eps)
        w = balls.weights()
        total = w.sum(-1, keepdims=True)
        eps = xp.where(balls.is_unknown, 0.0, balls.eps)
        mean = xp.where(total > 0, w / xp.where(total > 0, total, 1.0), balls.prob)
        return cls(space, balls, mean, xp.sqrt(eps[..., None] * w), pairs, every)

    def check(self) -> None:
        """Successors are states, and pairs are pairs."""
        succ, pairs, (S, A) = np.asarray(self.balls.succ), np.asarray(self.pairs), self.mean.shape[:2]
        if succ.min() < 0 or succ.max() >= S:
            raise ShapeError(f"successors go from {succ.min()} to {succ.max()}; there are {S} states")
        if (pairs < 0).any() or (pairs >= (S, A)).any():
            raise ShapeError(f"a pair is outside of {S} states and {A} actions")

    def lifted(self, lift: Lift) -> "World":
        """Every lifted pair with the ball of its own; that some are the same is not used."""
        own, s, a = self.balls, *np.nonzero(np.asarray(self.balls.eps)[lift.origin] > 0)
        rows = lift.lists(own.succ), lift.of(own.prob)
        balls = Balls(*rows, lift.of(own.eps), lift.of(own.is_open), own.is_anywhere)
        return World.of(lift.space, balls, leaf(np.stack([s, a], axis=1).astype(np.int32)))

    def spread(self, v: Float[Array, "S A C"]) -> Float[Array, "S A"]:
        """chi(v): by how much sum (p - p_hat) v over the centre can differ from 0."""
        return library(v).sqrt(((self.chi * v) ** 2).sum(-1))

    def means(self, after: Values, caps: Float[Array, " 2"]) -> Means:
        """Everything about the successors; caps: the largest totals from this step on, and after it."""
        xp = library(self.chi, after.V)
        succ, prob, is_unknown = self.balls.succ, self.balls.prob, self.balls.is_unknown
        at = mapped(lambda x: taken(x, succ), after)
        c = (self.mean * at.V).sum(-1)
        g = mean_of(prob, at.J)
        if len(self.pairs):
            s, a = self.pairs.T
            block = (self.chi * (at.V - c[..., None]))[s, a]
            g = add(g, (s, a, xp.arange(len(s))), block)
        most = self.balls.highest(self.space, xp.stack([after.up, after.upi, after.D, -after.lo]))
        anything = xp.asarray([1.0, 1.0, 1.0, 0.0]) * caps[1]
        most = xp.where(is_unknown, anything[:, None, None], most)
        return Means(
            V_star=(prob * at.V_star).sum(-1),
            V=(prob * at.V).sum(-1),
            up=most[0],
            upi=most[1],
            lo=-most[3],
            D=most[2],
            g=xp.where(is_unknown[..., None, None], 0.0, g),
            local=xp.where(is_unknown, caps[0], xp.minimum(self.local(after, at, c), 2 * caps[1])),
        )

    def local(self, after: Values, at: Values, c: Float[Array, "S A"]) -> Float[Array, "S A"]:
        """By how much Q_P may differ from Q + g.u + sum p_hat (V_P' - V' - J'.u)."""
        xp = library(self.chi, after.V)
        tops = self.balls.largest(self.space, xp.stack([after.upi, -after.lo]))
        highest, lowest = tops[0], -tops[1]
        leak = xp.where(self.balls.is_unknown, 0.0, self.balls.leak)
        # V_P' - V' centred at the mean of J'.u,
        J_mean = mean_of(self.mean, at.J)
        apart = norm(at.J - J_mean[:, :, None])
        R_mean = (self.mean * at.R).sum(-1)
        by_slopes = self.spread(apart) + self.spread(at.R) + leak * (highest - lowest + R_mean)
        # or at the middle of its interval.
        middle = (self.mean * ((at.upi + at.lo) / 2 - at.V)).sum(-1)[..., None]
        change = xp.maximum(xp.abs(at.upi - at.V - middle), xp.abs(at.lo - at.V - middle))
        level = c + middle[..., 0]
        by_range = self.spread(change) + leak * xp.maximum(highest - level, level - lowest)
        least = xp.minimum(by_slopes, by_range)
        # A pair without a block has what would be in it here.
        return least if len(self.pairs) else least + self.spread(at.V - c[..., None])

    def back(
        self, after: Values, inputs: tuple[Float[Array, "S A"], Float[Array, "S A"], Float[Array, " 2"]]
    ) -> tuple[Values, None]:
        """One step back; inputs: reward, policy, and the largest totals from here and from the next step on."""
        (r, pi, caps), xp = inputs, library(self.chi, inputs[0])
        mean, cap = self.means(after, caps), caps[0]
        Q = r + mean.V
        V = (pi * Q).sum(-1)
        J = (pi[..., None, None] * mean.g).sum(1)
        onward, apart = self.remainders(after.R, pi)
        R = xp.minimum((pi * mean.local).sum(-1) + onward, cap + norm(J))
        upper, lower = xp.minimum(r + mean.upi, cap), xp.maximum(r + mean.lo, 0.0)
        lo = xp.maximum((pi * lower).sum(-1), V - norm(J) - R)
        upi = xp.minimum((pi * upper).sum(-1), V + norm(J) + R)
        # What an action can gain on the policy, by the range of values or by tangents.
        others = (pi * mean.local).sum(-1, keepdims=True) - pi * mean.local
        by_slopes = Q - V[:, None] + norm(mean.g - J[:, None]) + (1 - pi) * mean.local + others + apart
        advantage = xp.minimum(upper - lo[:, None], by_slopes)
        D = xp.maximum(0.0, (advantage + mean.D).max(-1))
        up = xp.minimum(xp.minimum(cap, (r + mean.up).max(-1)), upi + D)
        D = xp.minimum(D, xp.minimum(up - lo, cap))
        return Values((r + mean.V_star).max(-1), V, up, upi, lo, D, R, J), None

    def remainders(
        self, R: Float[Array, " S"], pi: Float[Array, "S A"]
    ) -> tuple[Float[Array, " S"], Float[Array, "S A"]]:
        """sum p_hat(s,pi) R, and sum |p_hat(s,a) - p_hat(s,pi)| R: what both share cancels.

        Rows of which nothing is known count as zero: all of them is in `local`.
        """
        xp = library(self.chi, R)
        succ, s = self.balls.succ, xp.arange(len(pi))[:, None, None]
        prob = xp.where(self.balls.is_unknown[..., None], 0.0, self.balls.prob)
        own = add(xp.zeros((len(pi), len(pi))), (s, succ), pi[..., None] * prob)
        common = xp.minimum(prob, own[s, succ])
        onward = own @ R
        return onward, onward[:, None] + ((prob - 2 * common) * R[succ]).sum(-1)

    def bounds(self, reward: Float[Array, "H S A"], policy: Policy) -> Bounds:
        """The bounds of one policy for one reward."""
        xp, (S, A, C) = library(self.chi, reward), self.chi.shape
        left = xp.cumsum(reward.max((1, 2))[::-1])[::-1]
        caps = xp.minimum(1.0, xp.append(left, 0.0))
        o = xp.zeros(S)
        end = Values(o, o, o, o, o, o, o, xp.zeros((S, len(self.pairs), C)))
        steps = reward, probabilities(policy, A), xp.stack([caps[:-1], caps[1:]], axis=1)
        first, _ = backward(self.back, end, steps)
        names = "V_star", "V", "up", "upi", "lo", "D"
        at = {name: self.space.at_start(getattr(first, name)) for name in names}
        gaps = {
            "uniform": self.every.gap(xp.maximum(at["V_star"] - at["V"], 0.0)),
            "interval": at["up"] - at["lo"],
            "tangent": at["D"],
        }
        return Bounds(at["V"], at["lo"], at["upi"], gaps)

    def difference(
        self, reward: Float[Array, "H S A"], policies: tuple[Policy, Policy]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """By their own intervals."""
        return apart(self, reward, policies)


def norm(J: Float[Array, "*n X C"]) -> Float[Array, "*n"]:
    """||J||, of blocks that are multiplied by sqrt(eps w)."""
    return length(J).sum(-1)
