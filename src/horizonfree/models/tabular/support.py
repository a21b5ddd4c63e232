"""The largest mean of a function over a ball KL(p_hat || p) <= eps, from above and at any tolerance.

For every lam that is at least as large as all values that p may reach,

    p.v <= lam - exp( sum p_hat log(lam - v) - eps )          (Jensen)

and the smallest right side is the maximum. It is convex in lam; where it is least,
g(lam) = sum p_hat log(lam - v) + log sum p_hat/(lam - v) = eps, unless lam is at the top already. Newton on log g, as
a function of log(lam - the largest v that p_hat reaches), takes a few steps. Each lam is a valid bound, the least is
kept. With vbar = p_hat.v and t = lam - vbar it is vbar - t expm1( sum p_hat log1p(-(v - vbar)/t) - eps ), which loses
no digits.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

NEWTON = 5  # lams that are tried: exact to 12 digits by then
NEAR = 1e-12  # lam stays so far above the top, as a share of the way there
LONGEST = 6.0  # step of log(lam - ..)


def highest_mean(
    prob: Float[Array, "*n C"], eps: Float[Array, "*n"], v: Float[Array, "*n C"], top: Float[Array, "*n"]
) -> Float[Array, "*n"]:
    """max p.v over the ball around prob, for p wherever v <= top; top itself where eps is infinite; traceable."""
    vbar = (prob * v).sum(-1)
    reach = top - vbar
    is_open = (reach > 0) & (eps > 0) & jnp.isfinite(eps)
    radius = jnp.where(is_open, eps, 1.0)
    d = jnp.where(is_open[..., None] & (prob > 0), v - vbar[..., None], 0.0)
    pole = d.max(-1)
    least = jnp.where(is_open, jnp.maximum(reach - pole, NEAR * reach), 1.0)

    def newton(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        x, best = carry
        t = pole + x  # x = lam - the largest v of p_hat
        log_mean = (prob * jnp.log1p(-d / t[..., None])).sum(-1)
        best = jnp.minimum(best, -t * jnp.expm1(log_mean - radius))
        inverse = 1 / (x[..., None] + (pole[..., None] - d))
        once, twice = (prob * inverse).sum(-1), (prob * inverse**2).sum(-1)
        g = jnp.maximum(log_mean + jnp.log(t * once), 1e-300)
        fall = x * jnp.maximum(twice / once - once, 1e-300)  # -dg / dlog x
        step = jnp.clip(jnp.log(g / radius) * g / fall, -LONGEST, LONGEST)
        return jnp.maximum(x * jnp.exp(step), least), best

    # Where eps is small, t is about sqrt(variance / (2 eps)).
    start = jnp.sqrt((prob * d**2).sum(-1) / (2 * radius)) * jnp.exp(-radius)
    carry = jnp.maximum(start, least), jnp.where(is_open, reach, 0.0)
    _, above = jax.lax.fori_loop(0, NEWTON, newton, carry)
    return jnp.where(jnp.isfinite(eps), vbar + above, top)
