"""The largest mean of a function over a ball KL(p_hat || p) <= eps, from above and at any tolerance.

For every lam that is at least as large as all values that p may reach,

    p.v <= lam - exp( sum p_hat log(lam - v) - eps )          (Jensen)

and the smallest right side is the maximum. It is convex in lam; where it is least,
g(lam) = sum p_hat log(lam - v) + log sum p_hat/(lam - v) = eps, unless lam is at the top already. Newton on log g, as
a function of log(lam - the largest v that p_hat reaches), takes a few steps. Each lam is a valid bound, and the least
of them is the result. With vbar = p_hat.v and t = lam - vbar it is
vbar - t expm1( sum p_hat log1p(-(v - vbar)/t) - eps ), which loses no digits.
"""

import numpy as np
from jaxtyping import Float

NEWTON_STEPS = 5  # lams that are tried: exact to 12 digits by then
MIN_SHARE_ABOVE = 1e-12  # lam stays so far above the top, as a share of the way there
MAX_LOG_STEP = 6.0  # step of log(lam - ..)
BLOCK_SIZE = 2**12  # balls that are computed side by side: about as many as fit into the cache of a core


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # of steps that are cut off at LONGEST
def highest_mean(
    prob: Float[np.ndarray, "*n C"],
    eps: Float[np.ndarray, "*n"],
    v: Float[np.ndarray, "*n C"],
    top: Float[np.ndarray, "*n"],
) -> Float[np.ndarray, "*n"]:
    """max p.v over the ball around prob, for p wherever v <= top; top itself where eps is infinite."""
    vbar = np.einsum("...c,...c->...", prob, v)
    reach = top - vbar
    is_known = np.isfinite(eps)
    is_open = (reach > 0) & (eps > 0) & is_known
    rows = prob[is_open].T, eps[is_open], (v[is_open] - vbar[is_open, None]).T, reach[is_open]
    above = np.zeros_like(reach)
    above[is_open] = np.concatenate(
        [
            _above(*(x[..., i : i + BLOCK_SIZE] for x in rows))
            for i in range(0, max(1, len(rows[-1])), BLOCK_SIZE)
        ]
    )
    return np.where(is_known, vbar + above, top)


def _above(
    prob: Float[np.ndarray, "C m"],
    eps: Float[np.ndarray, " m"],
    d: Float[np.ndarray, "C m"],
    reach: Float[np.ndarray, " m"],
) -> Float[np.ndarray, " m"]:
    """The largest mean above that of prob: d = v - vbar at the centre, and at most `reach` elsewhere."""
    prob, d = np.ascontiguousarray(prob), np.where(prob > 0, d, 0.0)
    pole = d.max(0)
    least = np.maximum(reach - pole, MIN_SHARE_ABOVE * reach)
    # Where eps is small, t is about sqrt(variance / (2 eps)).
    x = np.maximum(np.sqrt((prob * d**2).sum(0) / (2 * eps)) * np.exp(-eps), least)
    above = reach
    for _ in range(NEWTON_STEPS):
        t = pole + x  # x = lam - the largest v of p_hat
        log_mean = (prob * np.log1p(-d / t)).sum(0)
        above = np.minimum(above, -t * np.expm1(log_mean - eps))
        inverse = 1 / (x + (pole - d))
        weighted = prob * inverse
        once, twice = weighted.sum(0), (weighted * inverse).sum(0)
        g = np.maximum(log_mean + np.log(t * once), 1e-300)
        fall = x * np.maximum(twice / once - once, 1e-300)  # -dg / dlog x
        step = np.clip(np.log(g / eps) * g / fall, -MAX_LOG_STEP, MAX_LOG_STEP)
        x = np.maximum(x * np.exp(step), least)
    return above
