"""What a policy can lose for one reward, for every kernel P of the balls U, in one backward pass.

Values under the centre p_hat are V, Q; under P, V_P and Q_P. For vectors J, one per pair over its successors, J.u
stands for sum over pairs and successors of (p - p_hat) J; |J.u| <= ||J|| := sum over pairs of chi(J of the pair),
chi(v) = sqrt(eps sum w v^2) (balls.py). Suppose |V_P - V - J.u| <= R, lo <= V_P <= upi at the next step. Then

    Q_P - Q - g.u = sum p_hat x (V_P' - V') + sum_elsewhere p (V_P' - c) + sum p_hat (V_P' - V' - J'.u)
    g = sum p_hat J' + [block of (s,a): V' - c],     c = mean_w V',     p = p_hat (1 + x) on the centre

where the first two terms together are at most `local`, by either of two ways to centre V_P' - V', and the last at most
sum p_hat R'. At the policy's actions J = g, R = local + sum p_hat R', on average. Advantages need only the *difference*
g - J, and the same remainders R' occur in both. The regret obeys V* - V^pi = max_a [A_P + P (V* - V^pi)]; D bounds it.
Remainders of all steps add up in that. They do not in V*_P <= V + J.u + B, where B adds what each row changes in the
next J.u; so the regret is at most B + R, too.

The blocks are multiplied by sqrt(eps w), so that chi is a norm. A pair that the policy never takes has a block in its
own g alone, of which only the norm is needed. docs/tabular.md has the proofs.
"""

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.mdp.policies import is_allowed
from horizonfree.mdp.space import Space
from horizonfree.models.base import Policy, probabilities
from horizonfree.models.tabular.balls import Balls

MAX_GRADIENT_SIZE = 2**23  # numbers in the gradients of all pairs; with more, only intervals are computed
BLOCK_SIZE = 2**16  # numbers per vectorised call: about as many as fit into the cache of a core


@dataclass(frozen=True, eq=False)
class Values:
    """What is carried back from step to step, for each state. J has blocks for the pairs that the policy takes."""

    V_star: Float[np.ndarray, " S"]  # the best value under the centre
    V: Float[np.ndarray, " S"]  # of the policy under the centre
    up: Float[np.ndarray, " S"]  # the best value of any P and policy
    upi: Float[np.ndarray, " S"]  # the largest value of the policy
    lo: Float[np.ndarray, " S"]  # the smallest value of the policy
    D: Float[np.ndarray, " S"]  # the regret of the policy
    R: Float[np.ndarray, " S"]  # remainder of the expansion
    B: Float[np.ndarray, " S"]  # the best value of P is at most V + J.u + B
    J: Float[np.ndarray, "S C X"]


@dataclass(frozen=True, eq=False)
class Means:
    """Means and bounds over the successors of every pair, from the `Values` of the next step."""

    V_star: Float[np.ndarray, "S A"]  # p_hat V_star
    V: Float[np.ndarray, "S A"]  # p_hat V
    up: Float[np.ndarray, "S A"]  # the largest P up, and so on
    upi: Float[np.ndarray, "S A"]
    lo: Float[np.ndarray, "S A"]  # the smallest P lo
    D: Float[np.ndarray, "S A"]
    g: Float[np.ndarray, "S A C X"]
    alone: Float[np.ndarray, "S A"]  # the norm of the block that g lacks: of pairs that are never taken
    local: Float[np.ndarray, "S A"]
    B: Float[np.ndarray, "S A"]  # the largest P B, and by how much Q*_P differs from Q + g.u + P B


@dataclass(frozen=True, eq=False)
class Blocks:
    """The pairs (s,a) that have a block in J, and those whose block is in their own g `alone`."""

    s: Int[np.ndarray, " X"]
    a: Int[np.ndarray, " X"]
    is_alone: Bool[np.ndarray, "S A"]


@dataclass(frozen=True, eq=False)
class Expansion:
    """The balls, their weights w as shares (`mean`) and as sqrt(eps w) (`chi`), and the pairs that have a block.

    `centring` takes a function of the successors to its mean under p_hat and its differences from mean_w; empty without
    blocks. Entries of the lists of one state have the same number in `same` where they name the same successor.
    """

    space: Space
    balls: Balls
    mean: Float[np.ndarray, "S A C"]
    chi: Float[np.ndarray, "S A C"]
    centring: Float[np.ndarray, "S A C1 C"]
    same: Int[np.ndarray, "S A C"]
    pairs: Int[np.ndarray, "X 2"]

    @classmethod
    def of(cls, space: Space, balls: Balls, pairs: Int[np.ndarray, "X 2"]) -> "Expansion":
        """Prepared for any reward; pairs have blocks where all of these fit into memory."""
        S, A, C = balls.succ.shape
        if S * A * C * len(pairs) * C > MAX_GRADIENT_SIZE:
            pairs = pairs[:0]
        w = balls.weights()
        total = w.sum(-1, keepdims=True)
        mean = np.where(total > 0, w / np.where(total > 0, total, 1.0), balls.prob)
        eps = np.where(balls.is_unknown, 0.0, balls.eps)
        centring = np.zeros((S, A, 0, C))
        if len(pairs):
            centring = np.concatenate([balls.prob[:, :, None], np.eye(C) - mean[:, :, None]], axis=2)
        names = balls.succ + S * np.arange(S)[:, None, None]
        same = np.unique(names, return_inverse=True)[1].reshape(S, A, C)
        return cls(space, balls, mean, np.sqrt(eps[..., None] * w), centring, same, pairs)

    def at_first_step(self, reward: Float[np.ndarray, "H S A"], policy: Policy) -> Values:
        """The bounds at the first step, by backward induction."""
        S, A, C = self.chi.shape
        pi = probabilities(policy, A)
        left = np.cumsum(reward.max((1, 2))[::-1])[::-1]
        caps = np.minimum(1.0, np.append(left, 0.0))  # the largest totals from each step on
        blocks = self.blocks(pi)
        zeros = np.zeros(S)
        values = Values(
            V_star=zeros,
            V=zeros,
            up=zeros,
            upi=zeros,
            lo=zeros,
            D=zeros,
            R=zeros,
            B=zeros,
            J=np.zeros((S, C, len(blocks.s))),
        )
        for h in reversed(range(len(reward))):
            values = self.back(values, blocks, reward[h], pi[h], (caps[h], caps[h + 1]))
        return values

    def difference(
        self, reward: Float[np.ndarray, "H S A"], policies: tuple[Policy, Policy]
    ) -> tuple[float, float]:
        """The value of the first policy minus that of the second under the centre, and by how much P may change it.

        |V^a_P - V^b_P - (V^a - V^b)| <= ||J^a - J^b|| + R^a + R^b at the start: Corollary 6a.
        """
        S, A, C = self.chi.shape
        value, error, J = 0.0, 0.0, np.zeros((C, S * A))
        for sign, policy in zip((1.0, -1.0), policies):
            first, blocks = self.at_first_step(reward, policy), self.blocks(probabilities(policy, A))
            value += sign * float(self.space.at_start(first.V))
            error += float(self.space.at_start(first.R))
            slopes = self.space.at_start(np.moveaxis(first.J, 0, -1))
            J[:, blocks.s * A + blocks.a] += sign * slopes  # blocks of both policies, by pair
        return value, error + float(norm(J[None])[0])

    def blocks(self, pi: Float[np.ndarray, "H S A"]) -> Blocks:
        """The blocks of the pairs that a policy takes, and the pairs that it never takes."""
        is_pair = np.zeros(self.chi.shape[:2], bool)
        is_pair[*self.pairs.T] = True
        is_taken = (pi > 0).any(0)
        s, a = np.nonzero(is_pair & is_taken)
        return Blocks(s, a, is_pair & ~is_taken)

    def spread(self, v: Float[np.ndarray, "S A C"]) -> Float[np.ndarray, "S A"]:
        """chi(v): by how much sum (p - p_hat) v over the centre can differ from 0."""
        x = self.chi * v
        return np.asarray(np.sqrt(np.einsum("sac,sac->sa", x, x)))

    def means(self, after: Values, blocks: Blocks, caps: tuple[float, float]) -> Means:
        """`Means` from the values of the next step; caps: the largest totals from this step on, and after it."""
        succ, prob, is_unknown = self.balls.succ, self.balls.prob, self.balls.is_unknown
        at = {x.name: getattr(after, x.name)[succ] for x in fields(after) if x.name != "J"}
        c = average(self.mean, at["V"])
        own = self.chi * (at["V"] - c[..., None])
        own_norm = np.sqrt(np.einsum("sac,sac->sa", own, own))
        g, apart = self.gradients(after.J)
        g[blocks.s, blocks.a, :, np.arange(len(blocks.s))] += own[blocks.s, blocks.a]
        g[is_unknown] = 0.0
        # `largest` and `most` have the rows up, upi, D, -lo, B, in this order.
        v = np.stack([after.up, after.upi, after.D, -after.lo, after.B])
        largest = self.balls.largest(self.space, v)
        trivial = np.array([1.0, 1.0, 1.0, 0.0, 0.0]) * caps[1]
        most = np.where(is_unknown, trivial[:, None, None], self.balls.highest(v, largest))
        by_slopes = self.spread(apart)
        local = self.local(at, c, by_slopes, largest[1], -largest[3])
        beyond = np.where(is_unknown, 0.0, self.balls.leak)
        beyond = beyond * (largest[0] + largest[3] + average(self.mean, at["B"]))
        B = most[4] + by_slopes + beyond
        if not len(self.pairs):  # without blocks, `local` and B include the norms of the blocks
            local, B = local + own_norm, B + own_norm
        return Means(
            V_star=average(prob, at["V_star"]),
            V=average(prob, at["V"]),
            up=most[0],
            upi=most[1],
            lo=-most[3],
            D=most[2],
            g=g,
            alone=np.where(blocks.is_alone & ~is_unknown, own_norm, 0.0),
            local=np.where(is_unknown, caps[0], np.minimum(local, 2 * caps[1])),
            B=B,
        )

    def gradients(
        self, J: Float[np.ndarray, "S C X"]
    ) -> tuple[Float[np.ndarray, "S A C X"], Float[np.ndarray, "S A C"]]:
        """sum p_hat J, and ||J - mean_w J|| at each successor."""
        (S, A, C), X = self.chi.shape, J.shape[2]
        g, apart = np.zeros((S, A, C, X)), np.zeros((S, A, C))
        if not X:
            return g, apart
        size = max(1, BLOCK_SIZE // (A * C * C * X))
        for first in range(0, S, size):
            part = slice(first, first + size)
            succ = self.balls.succ[part]
            product = self.centring[part] @ J[succ].reshape(*succ.shape, C * X)
            product = product.reshape(len(succ), A, C + 1, C, X)
            g[part], apart[part] = product[:, :, 0], norm(product[:, :, 1:])
        return g, apart

    def local(
        self,
        at: dict[str, Float[np.ndarray, "S A C"]],
        c: Float[np.ndarray, "S A"],
        by_slopes: Float[np.ndarray, "S A"],
        highest: Float[np.ndarray, "S A"],
        lowest: Float[np.ndarray, "S A"],
    ) -> Float[np.ndarray, "S A"]:
        """By how much Q_P may differ from Q + g.u + sum p_hat (V_P' - V' - J'.u).

        by_slopes: chi(||J' - mean_w J'||); highest, lowest: of upi and lo among the possible successors.
        """
        leak = np.where(self.balls.is_unknown, 0.0, self.balls.leak)
        # V_P' - V' centred at the mean of J'.u,
        R_mean = average(self.mean, at["R"])
        by_slopes = by_slopes + self.spread(at["R"]) + leak * (highest - lowest + R_mean)
        # or at the middle of its interval.
        middle = average(self.mean, (at["upi"] + at["lo"]) / 2 - at["V"])
        offset = at["V"] + middle[..., None]
        change = np.maximum(np.abs(at["upi"] - offset), np.abs(at["lo"] - offset))
        level = c + middle
        by_range = self.spread(change) + leak * np.maximum(highest - level, level - lowest)
        return np.asarray(np.minimum(by_slopes, by_range))

    def back(
        self,
        after: Values,
        blocks: Blocks,
        r: Float[np.ndarray, "S A"],
        pi: Float[np.ndarray, "S A"],
        caps: tuple[float, float],
    ) -> Values:
        """One step back; caps: the largest totals from here and from the next step on."""
        mean, cap, is_choice = self.means(after, blocks, caps), caps[0], is_allowed(self.space)
        Q = r + mean.V
        V = (pi * Q).sum(-1)
        J = np.einsum("sa,sacx->scx", pi, mean.g)
        J_norm = norm(J)
        onward, unshared = self.remainders(after.R, pi)
        R = np.minimum((pi * mean.local).sum(-1) + onward, cap + J_norm)
        upper, lower = np.minimum(r + mean.upi, cap), np.maximum(r + mean.lo, 0.0)
        lo = np.maximum((pi * lower).sum(-1), V - J_norm - R)
        upi = np.minimum((pi * upper).sum(-1), V + J_norm + R)
        # What an allowed action can gain on the policy, by the range of values or by tangents.
        others = (pi * mean.local).sum(-1, keepdims=True) - pi * mean.local
        slopes = norm(mean.g - J[:, None]) + mean.alone
        by_slopes = Q - V[:, None] + slopes + (1 - pi) * mean.local + others + unshared
        advantage = np.minimum(upper - lo[:, None], by_slopes)
        best = np.minimum(r + mean.up, cap)
        gain = np.minimum(advantage + mean.D, best - lo[:, None])
        D = np.where(is_choice, gain, 0.0).max(-1, initial=0.0)
        # The best value by tangents; V*_P - V_P and V_P - V - J.u bound each other.
        above = np.where(self.balls.is_unknown, np.inf, Q - V[:, None] + slopes + mean.B)
        gain = np.minimum(above, best - V[:, None] + J_norm[:, None])
        B = np.where(is_choice, gain, 0.0).max(-1, initial=0.0)
        B = np.minimum(B, D + R)
        D = np.minimum(D, B + R)
        up = np.minimum(np.minimum(best.max(-1), upi + D), V + J_norm + B)
        D = np.minimum(D, np.minimum(up - lo, cap))
        return Values((r + mean.V_star).max(-1), V, up, upi, lo, D, R, B, J)

    def remainders(
        self, R: Float[np.ndarray, " S"], pi: Float[np.ndarray, "S A"]
    ) -> tuple[Float[np.ndarray, " S"], Float[np.ndarray, "S A"]]:
        """sum p_hat(s,pi) R, and sum |p_hat(s,a) - p_hat(s,pi)| R: the part that both rows share cancels.

        Rows of which nothing is known count as zero: `local` covers them in full.
        """
        prob, at = np.where(self.balls.is_unknown[..., None], 0.0, self.balls.prob), R[self.balls.succ]
        own = np.bincount(self.same.ravel(), (pi[..., None] * prob).ravel())[self.same]
        onward = (pi * average(prob, at)).sum(-1)
        return onward, onward[:, None] + average(prob - 2 * np.minimum(prob, own), at)


def average(p: Float[np.ndarray, "S A C"], x: Float[np.ndarray, "S A C"]) -> Float[np.ndarray, "S A"]:
    """sum p x of every pair."""
    return np.asarray(np.einsum("sac,sac->sa", p, x))


def norm(J: Float[np.ndarray, "*n C X"]) -> Float[np.ndarray, "*n"]:
    """||J||, of blocks that are multiplied by sqrt(eps w)."""
    return np.asarray(np.sqrt(np.einsum("...cx,...cx->...x", J, J)).sum(-1))
