"""Whether a linear MDP with these features can be right: frequencies of a pair against its row of the estimate.

After N visits of a pair its frequencies f obey, for all pairs and at all times, with probability 1 - delta/2,

    TV(f, P) <= sqrt(N + 1) / N * sqrt((log(1 + N) / 2 + (S-1) log 2 + log(2 S A / delta)) / 2),

the lemma of widths.py with one feature that is 1, R = 1, for every V at once. The estimate is within its own width of
P, with probability 1 - delta/2. Where the two contradict each other, the class is wrong, but with probability delta.
"""

import math

import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree.models.linear.widths import Fit, level_of_all


def contradictions(
    fit: Fit, beta: Float[Array, ""], counts: Int[Array, "S A S"], delta: Float[Array, ""]
) -> Bool[Array, "S A"]:
    """Pairs whose frequencies the estimate cannot explain; beta: of all V at delta/2, for the bet; traceable."""
    S, A, _ = counts.shape
    N = counts.sum(-1)
    some = jnp.maximum(N, 1).astype(jnp.float64)
    apart = jnp.abs(counts / some[..., None] - fit.prob).sum(-1) / 2
    L = level_of_all(S, delta / 2) + math.log(S * A)
    radius = jnp.sqrt(some + 1) / some * jnp.sqrt((jnp.log1p(some) / 2 + L) / 2)
    return (N > 0) & (apart > fit.width(beta) + radius)
