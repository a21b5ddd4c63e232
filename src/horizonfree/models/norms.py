"""Norms of vectors and small matrices."""

import numpy as np
from jaxtyping import Float


def length(x: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n"]:
    """The Euclidean norm along the last axis."""
    return np.asarray(np.sqrt(np.einsum("...i,...i->...", x, x)))


def opnorm(M: Float[np.ndarray, "*b q q"]) -> Float[np.ndarray, "*b"]:
    """An upper bound on the largest |eigenvalue| of symmetric matrices: tr(M^16)^(1/16), at most q^(1/16) times it."""
    if M.shape[-1] == 0:
        return np.zeros(M.shape[:-2])
    scale = abs(M).reshape(*M.shape[:-2], -1).max(-1)
    power = M / np.where(scale > 0, scale, 1.0)[..., None, None]
    for _ in range(3):
        power = power @ power
    norm = length(power.reshape(*M.shape[:-2], -1))
    for _ in range(3):  # a power of 1/8 takes longer
        norm = np.sqrt(norm)
    return np.asarray(scale * norm)
