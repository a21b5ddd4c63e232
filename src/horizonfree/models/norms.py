"""Norms of vectors and small matrices."""

import numpy as np
from jaxtyping import Float

from horizonfree._arrays import Array, library

UNROLLED = 16  # terms up to which XLA is faster with a sum written out


def length(x: Float[Array, "..."], axis: int = -1) -> Float[Array, "..."]:
    """Euclidean norm along one axis; NumPy in, NumPy out, or traced."""
    xp = library(x)
    if xp is np and axis == -1:
        return np.sqrt(np.einsum("...i,...i->...", x, x))
    if axis == 0 and 0 < len(x) <= UNROLLED:
        return xp.sqrt(sum(y * y for y in x))
    return xp.sqrt((x * x).sum(axis))


def opnorm(M: Float[np.ndarray, "*b q q"]) -> Float[Array, "*b"]:
    """An upper bound on the largest |eigenvalue| of symmetric matrices: tr(M^16)^(1/16), at most q^(1/16) times it."""
    if M.shape[-1] == 0:
        return np.zeros(M.shape[:-2])
    scale = abs(M).reshape(*M.shape[:-2], -1).max(-1)
    power = M / np.where(scale > 0, scale, 1.0)[..., None, None]
    for _ in range(3):
        power = power @ power
    found = length(power.reshape(*M.shape[:-2], -1))
    for _ in range(3):  # a power of 1/8 takes longer
        found = np.sqrt(found)
    largest: Array = scale * found
    return largest
