"""How far a row of the estimate can be from the truth, for one bet.

V0 is the Gram matrix of the episodes before the bet, V1 and C1 are the sums since. With G the mean of phi phi' over all
pairs, R = rho ratio V0 + lam G, fixed when the bet starts, x = phi(s,a) in the span of V1, and L a level (below),

    Mhat = V1^+ C1,      n(x) = ||V1^+ x||_{R+V1},      beta(L) = sqrt((log det(I + R^-1 V1) / 2 + L) / 2)
    |x'(Mhat - mu) V| <= c beta(L) n(x)           for V with max V - min V <= c

- of fixed functions V, at level L = log(their number / delta), or of all V at once, at L = (S-1) log 2 + log(1/delta),
as what is bounded is linear in V and does not see constants, so that only the 2^(S-1) vertices of the cube matter.

P~ is x'Mhat without what is negative, made to sum to one, and e(s,a) what that changes; a pair outside of the span is
`is_bad`: nothing is known of it. X(s,a) is a vector with |X| = n. So |(P~ - P) V| <= c (beta n + e). docs/linear.md has
the proof, and that the coordinates in which V1 is inverted do not matter: they are those of `features.whitening`, in
which G is I/(SA). So features in other units, each in its own, give the same bounds.
"""

import math

import jax.numpy as jnp
from jaxtyping import Float

from horizonfree._arrays import Array
from horizonfree._x64 import Number
from horizonfree.models.linear.estimate import Fit as Fit

RHO, LAM = 0.25, 1.0
RATIO = 9.0  # of the episodes in a bet to those before it, as R expects them
SPAN = 1e-9  # how far from the span of V1 a feature may be
KEPT = 1e-9  # smaller eigenvalues of V1, as a share of the largest, count as zero
NOISE = 1e-13  # by which entries of short sums may err, as a share
UNIT = 2.0**-53  # by which one more addition may


def fit(
    phi: Float[Array, "S A d"],
    white: Float[Array, "d d"],
    V0: Float[Array, "d d"],
    V1: Float[Array, "d d"],
    C1: Float[Array, "d S"],
    terms: Number,
    ratio: Number = RATIO,
) -> Fit:
    """The estimate of the data since a bet started; `terms`: how many were added one by one; traceable."""
    S, A, _ = phi.shape
    x, V = phi @ white, white.T @ V1 @ white
    R, root = prior(phi, white, V0, V1, ratio)
    size, U = jnp.linalg.eigh((V + V.T) / 2)
    is_kept = size > KEPT * jnp.maximum(size[-1], 1e-300)
    g = ((x @ U) * jnp.where(is_kept, 1 / jnp.where(is_kept, size, 1.0), 0.0)) @ U.T
    outside = jnp.linalg.norm(x - ((x @ U) * is_kept) @ U.T, axis=-1)
    is_bad = outside > SPAN
    raw = jnp.where(is_bad[..., None], 1 / S, g @ (white.T @ C1))
    prob = jnp.maximum(raw, 0.0)
    prob = prob / prob.sum(-1, keepdims=True)
    moved = jnp.maximum(jnp.maximum(raw - prob, 0.0).sum(-1), jnp.maximum(prob - raw, 0.0).sum(-1))
    # ||mu V|| <= sqrt(SA): what the sums, as computed, and the span leave open
    share = jnp.maximum(NOISE, UNIT * terms)
    noise = share * ((jnp.abs(white).T @ jnp.sqrt(jnp.diag(V0 + V1))) ** 2).sum()
    blur = math.sqrt(S * A) * (outside + noise * jnp.linalg.norm(g, axis=-1))
    return Fit(
        raw=raw,
        prob=prob,
        X=jnp.where(is_bad[..., None], 0.0, g @ root),
        e=jnp.where(is_bad, 0.0, moved + blur),
        is_bad=is_bad,
        logdet=_logdet(root) - _logdet(jnp.linalg.cholesky((R + R.T) / 2)),
    )


def prior(
    phi: Float[Array, "S A d"],
    white: Float[Array, "d d"],
    V0: Float[Array, "d d"],
    V1: Float[Array, "d d"],
    ratio: Number = RATIO,
) -> tuple[Float[Array, "d d"], Float[Array, "d d"]]:
    """R and the Cholesky factor of R + V1, in white coordinates; traceable."""
    S, A, d = phi.shape
    R, V = RHO * ratio * white.T @ V0 @ white + LAM / (S * A) * jnp.eye(d), white.T @ V1 @ white
    return R, jnp.linalg.cholesky((R + R.T + V + V.T) / 2)


def _logdet(root: Float[Array, "d d"]) -> Float[Array, ""]:
    """Of a matrix, by its Cholesky factor."""
    return 2 * jnp.log(jnp.diagonal(root)).sum()


def level_of_all(num_states: int, delta: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """L for every V at once."""
    return (num_states - 1) * math.log(2) - jnp.log(delta)


def level_of_some(number: int, delta: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """L for so many functions that are fixed beforehand."""
    return math.log(max(number, 1)) - jnp.log(delta)
