"""KL balls around the estimated transition probabilities of all state-action pairs, and maxima over them.

The ball of a pair is {p : KL(p_hat || p) <= eps}. Its centre p_hat is stored on a short list of successors.

The largest mean of a function v over a ball KL(p_hat || p) <= eps is bounded from above, to any tolerance. For every
lam that is at least as large as all values that p may reach,

    p.v <= lam - exp( sum p_hat log(lam - v) - eps )          (Jensen)

and the smallest right side is the maximum. It is convex in lam; at its minimum, g(lam) = sum p_hat log(lam - v)
+ log sum p_hat/(lam - v) = eps, unless lam is at the top already. Newton on log g, as a function of log(lam - the
largest v that p_hat reaches), takes a few steps. Each lam is a valid bound, and the least of them is the result.
With vbar = p_hat.v and t = lam - vbar it is vbar - t expm1( sum p_hat log1p(-(v - vbar)/t) - eps ), which loses no
digits.

The balls are also projected on every entry, for intervals of single transition probabilities. If KL(c || p) <= eps,
every entry has kl(c_i, p_i) <= eps, the divergence of coins (data processing), and a p that moves the other entries in
proportion attains it. Successors outside the centre have at most the leak 1 - exp(-eps) of the mass.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.guarantees.divergence import curvature, psi_inverse
from horizonfree.mdp.events import Lift
from horizonfree.mdp.space import Space

NEWTON_STEPS = 5  # values of lam that are tried; the fifth is exact to 12 digits
MIN_SHARE_ABOVE = 1e-12  # smallest lam - (largest v that p_hat reaches), as a share of top - vbar
MAX_LOG_STEP = 6.0  # largest Newton step of log(lam - largest v that p_hat reaches)
BLOCK_SIZE = 2**12  # balls per vectorised call: about as many as fit into the cache of a core


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # in Newton steps, which are clipped
def highest_mean(
    prob: Float[np.ndarray, "*n C"],
    eps: Float[np.ndarray, "*n"],
    v: Float[np.ndarray, "*n C"],
    top: Float[np.ndarray, "*n"],
) -> Float[np.ndarray, "*n"]:
    """max p.v over the ball around prob, if v <= top on all states that p may reach; top if eps is infinite."""
    vbar = np.einsum("...c,...c->...", prob, v)
    reach = top - vbar
    is_known = np.isfinite(eps)
    needs_search = (reach > 0) & (eps > 0) & is_known
    columns = (
        prob[needs_search].T,
        eps[needs_search],
        (v[needs_search] - vbar[needs_search, None]).T,
        reach[needs_search],
    )
    above = np.zeros_like(reach)
    above[needs_search] = np.concatenate(
        [
            _max_above_mean(*(x[..., i : i + BLOCK_SIZE] for x in columns))
            for i in range(0, max(1, len(columns[-1])), BLOCK_SIZE)
        ]
    )
    return np.where(is_known, vbar + above, top)


def _max_above_mean(
    prob: Float[np.ndarray, "C m"],
    eps: Float[np.ndarray, " m"],
    d: Float[np.ndarray, "C m"],
    reach: Float[np.ndarray, " m"],
) -> Float[np.ndarray, " m"]:
    """max p.v - vbar over each ball. d = v - vbar on the successors of the centre; elsewhere it is at most `reach`."""
    prob, d = np.ascontiguousarray(prob), np.where(prob > 0, d, 0.0)
    pole = d.max(0)  # log(lam - v) needs t > pole
    min_x = np.maximum(reach - pole, MIN_SHARE_ABOVE * reach)
    # Where eps is small, t is about sqrt(variance / (2 eps)).
    x = np.maximum(np.sqrt((prob * d**2).sum(0) / (2 * eps)) * np.exp(-eps), min_x)
    above = reach
    for _ in range(NEWTON_STEPS):
        t = pole + x  # x = lam - the largest v of p_hat
        log_mean = (prob * np.log1p(-d / t)).sum(0)
        above = np.minimum(above, -t * np.expm1(log_mean - eps))
        inverse = 1 / (x + (pole - d))
        weighted = prob * inverse
        sum_inverse, sum_inverse_sq = weighted.sum(0), (weighted * inverse).sum(0)
        g = np.maximum(log_mean + np.log(t * sum_inverse), 1e-300)
        fall = x * np.maximum(sum_inverse_sq / sum_inverse - sum_inverse, 1e-300)  # -dg / dlog x
        step = np.clip(np.log(g / eps) * g / fall, -MAX_LOG_STEP, MAX_LOG_STEP)
        x = np.maximum(x * np.exp(step), min_x)
    return above


@dataclass(frozen=True, eq=False)
class Balls:
    """KL(prob || p)(s,a) <= eps(s,a) for every pair: 0 where the row is known, infinite where nothing is.

    `succ` and `prob` list the successors of the centre. `is_open`: p may have mass outside them, on any state where it
    `is_anywhere`, else on the lists of the space. `copies`, for lifted states: which copy of all states (of
    that many) follows a pair.
    """

    succ: Int[np.ndarray, "S A C"]
    prob: Float[np.ndarray, "S A C"]
    eps: Float[np.ndarray, "S A"]
    is_open: Bool[np.ndarray, "S A"]
    is_anywhere: bool
    copies: Int[np.ndarray, "S A"] | None = None
    copy_size: int = 0

    def lifted(self, lift: Lift) -> "Balls":
        """On lifted states: every pair has the ball of the one that it lifts."""
        succ, prob, eps, is_open = (
            lift.lists(self.succ),
            *(lift.of(x) for x in (self.prob, self.eps, self.is_open)),
        )
        return Balls(succ, prob, eps, is_open, self.is_anywhere, lift.copies(), len(lift.first))

    @property
    def is_unknown(self) -> Bool[np.ndarray, "S A"]:
        """The pairs of which nothing is known: the radius of their ball is infinite."""
        return np.asarray(~np.isfinite(self.eps))

    @property
    def leak(self) -> Float[np.ndarray, "S A"]:
        """rho, the most mass that p has outside the centre: KL(prob || p) >= -log(1 - mass)."""
        return np.where(self.is_open, -np.expm1(-self.eps), 0.0)

    def weights(self) -> Float[np.ndarray, "S A C"]:
        """w_i = p_hat_i / k(b_i), b_i the most that x_i = p_i/p_hat_i - 1 can be: sum p_hat_i^2 x_i^2 / w_i <= eps.

        So |sum (p - p_hat)_i v_i| <= sqrt(eps sum w_i v_i^2) over the centre, for every v. Zero where nothing is
        known.
        """
        is_used = (self.prob > 0) & ~self.is_unknown[..., None]
        p = np.where(is_used, self.prob, 1.0)
        b = np.minimum(psi_inverse(np.where(is_used, self.eps[..., None] / p, 0.0)), 1 / p - 1)
        return np.where(is_used, p / curvature(b), 0.0)

    def highest(
        self, v: Float[np.ndarray, "k S"], largest: Float[np.ndarray, "k S A"]
    ) -> Float[np.ndarray, "k S A"]:
        """max of p.v over each ball, for k functions v of the states; largest: the result of `largest` for v."""
        prob, eps = (np.broadcast_to(x, (len(v), *x.shape)) for x in (self.prob, self.eps))
        return highest_mean(prob, eps, v[:, self.succ], largest)

    def largest(self, space: Space, v: Float[np.ndarray, "k S"]) -> Float[np.ndarray, "k S A"]:
        """The largest value among the possible successors of each pair."""
        if self.is_anywhere:
            centre = np.where(self.prob > 0, v[:, self.succ], -np.inf).max(-1)
            top = v.max(-1)[:, None, None]
            if self.copies is not None:
                top = v.reshape(len(v), -1, self.copy_size).max(-1)[:, self.copies]
            return np.asarray(np.where(self.is_open, top, centre))
        at_slot = v[:, None, None, :] if space.is_dense else v[:, space.succ]
        return np.asarray(np.where(space.support, at_slot, -np.inf).max(-1))


BISECTIONS = 60  # of [0, 1]: more than the 53 bits of a double
ROUNDING = 1e-12  # the ends of intervals are moved outwards by this


def entry_intervals(
    space: Space, balls: Balls, pairs: Int[np.ndarray, "X 2"]
) -> tuple[Float[np.ndarray, "S A n"], Float[np.ndarray, "S A n"]]:
    """The lower and upper end of each transition probability on the successor lists; 0 in slots of padding.

    pairs: the state-action pairs that are learnt from data.
    """
    support, centre = np.asarray(space.support), on_lists(space, balls)
    eps = balls.eps[..., None]
    radius = np.broadcast_to(np.where(np.isfinite(eps), eps, 0.0), centre.shape)
    low, high = coin_interval(centre, radius)
    high = np.where(centre > 0, high, balls.leak[..., None])
    is_learnt = np.zeros(support.shape[:2], bool)
    is_learnt[*pairs.T] = True
    is_learnt |= balls.eps > 0  # forbidden actions have the ball of what is done for them
    nothing_known = np.where(is_learnt, balls.is_unknown, support.sum(-1) > 1)[..., None]
    exact = ~is_learnt[..., None] & ~nothing_known
    low = np.where(exact, centre, np.where(nothing_known, 0.0, low - ROUNDING))
    high = np.where(exact, centre, np.where(nothing_known, 1.0, high + ROUNDING))
    return np.where(support, np.clip(low, 0, 1), 0.0), np.where(support, np.clip(high, 0, 1), 0.0)


def coin_interval(
    c: Float[np.ndarray, "*n"], eps: Float[np.ndarray, "*n"]
) -> tuple[Float[np.ndarray, "*n"], Float[np.ndarray, "*n"]]:
    """The smallest and largest p with kl(c, p) <= eps, by bisection, rounded away from c."""
    inside_low, outside_low = c.copy(), np.zeros_like(c)
    inside_high, outside_high = c.copy(), np.ones_like(c)
    for _ in range(BISECTIONS):
        for inside, outside in ((inside_low, outside_low), (inside_high, outside_high)):
            middle = (inside + outside) / 2
            is_inside = _coin_divergence(c, middle) <= eps
            inside[is_inside], outside[~is_inside] = middle[is_inside], middle[~is_inside]
    is_sure = eps <= 0
    return np.where(is_sure, c, outside_low), np.where(is_sure, c, outside_high)


@np.errstate(divide="ignore", invalid="ignore")
def _coin_divergence(c: np.ndarray, p: np.ndarray) -> np.ndarray:
    """kl(c, p) = c log(c/p) + (1 - c) log((1 - c)/(1 - p))."""
    first = np.where(c > 0, c * np.log(c / p), 0.0)
    second = np.where(c < 1, (1 - c) * np.log((1 - c) / (1 - p)), 0.0)
    return np.asarray(first + second)


def on_lists(space: Space, balls: Balls) -> Float[np.ndarray, "S A n"]:
    """The centres on the successor lists of the space."""
    S, A, n = space.succ.shape
    s, a, c = np.nonzero(balls.prob > 0)
    is_slot: Bool[np.ndarray, "m n"] = np.asarray(space.support)[s, a] & (
        np.asarray(space.succ)[s, a] == balls.succ[s, a, c][:, None]
    )
    result = np.zeros((S, A, n))
    result[s, a, is_slot.argmax(1)] = balls.prob[s, a, c]
    return result
