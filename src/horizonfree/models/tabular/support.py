"""The largest mean of a function over a ball KL(p_hat || p) <= eps, from above and at any tolerance.

For every lam that is at least as large as all values that p may reach,

    p.v <= lam - exp( sum p_hat log(lam - v) - eps )          (Jensen)

and the smallest right side is the maximum. It is convex in lam; where it is least,
g(lam) = sum p_hat log(lam - v) + log sum p_hat/(lam - v) = eps, unless lam is at the top already. Newton on log g, as
a function of log(lam - the largest v that p_hat reaches), takes a few steps. Each lam is a valid bound, the least is
kept. With vbar = p_hat.v and t = lam - vbar it is vbar - t expm1( sum p_hat log1p(-(v - vbar)/t) - eps ), which loses
no digits.
"""

from horizonfree._arrays import Array, library, repeat
from horizonfree._shapes import Float

NEWTON = 5  # lams that are tried: exact to 12 digits by then
NEAR = 1e-12  # lam stays so far above the top, as a share of the way there
LONGEST = 6.0  # step of log(lam - ..)


def highest_mean(
    prob: Float[Array, "*n C"], eps: Float[Array, "*n"], v: Float[Array, "*n C"], top: Float[Array, "*n"]
) -> Float[Array, "*n"]:
    """max p.v over the ball around prob, for p wherever v <= top; top itself where eps is infinite; NumPy or traced."""
    xp = library(prob, v)
    vbar = (prob * v).sum(-1)
    reach = top - vbar
    is_open = (reach > 0) & (eps > 0) & xp.isfinite(eps)
    radius = xp.where(is_open, eps, 1.0)
    d = xp.where(is_open[..., None] & (prob > 0), v - vbar[..., None], 0.0)
    pole = d.max(-1)
    least = xp.where(is_open, xp.maximum(reach - pole, NEAR * reach), 1.0)

    def newton(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        x, best = carry
        t = pole + x  # x = lam - the largest v of p_hat
        log_mean = (prob * xp.log1p(-d / t[..., None])).sum(-1)
        best = xp.minimum(best, -t * xp.expm1(log_mean - radius))
        inverse = 1 / (x[..., None] + (pole[..., None] - d))
        once, twice = (prob * inverse).sum(-1), (prob * inverse**2).sum(-1)
        g = xp.maximum(log_mean + xp.log(t * once), 1e-300)
        fall = x * xp.maximum(twice / once - once, 1e-300)  # -dg / dlog x
        step = xp.clip(xp.log(g / radius) * g / fall, -LONGEST, LONGEST)
        return xp.maximum(x * xp.exp(step), least), best

    # Where eps is small, t is about sqrt(variance / (2 eps)).
    start = xp.sqrt((prob * d**2).sum(-1) / (2 * radius)) * xp.exp(-radius)
    carry = xp.maximum(start, least), xp.where(is_open, reach, 0.0)
    _, above = repeat(NEWTON, newton, carry, v)
    return xp.where(xp.isfinite(eps), vbar + above, top)
