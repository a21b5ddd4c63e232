"""Norms of vectors and small matrices, and sums of products: NumPy in, NumPy out, or traced.

XLA is fast where sums of products are written out, for it keeps nothing in between; NumPy where they are products of
matrices.
"""

import numpy as np

from horizonfree._arrays import Array, library
from horizonfree._shapes import Float

UNROLLED = 16  # terms up to which XLA is faster with a sum written out


def length(x: Float[Array, "..."], axis: int = -1) -> Float[Array, "..."]:
    """Euclidean norm along one axis."""
    xp = library(x)
    if xp is np and axis == -1:
        return np.sqrt(np.einsum("...i,...i->...", x, x))
    if axis == 0 and 0 < len(x) <= UNROLLED:
        return xp.sqrt(sum(y * y for y in x))
    return xp.sqrt((x * x).sum(axis))


def size(M: Float[Array, "*b m q"]) -> Float[Array, "*b"]:
    """Euclidean norm of the entries of each matrix."""
    if library(M) is np:
        return length(M.reshape(*M.shape[:-2], -1))
    return library(M).sqrt((M**2).sum((-2, -1)))


def mean(p: Float[Array, "S A n"], x: Float[Array, "S A n *m"]) -> Float[Array, "S A *m"]:
    """sum_n p x of every pair (s,a)."""
    if library(p, x) is np:
        return (p[:, :, None] @ x.reshape(*p.shape, -1)).reshape(*p.shape[:2], *x.shape[3:])
    return library(p, x).einsum("san,san...->sa...", p, x)


def outer(x: Float[Array, "S A n m"], z: Float[Array, "S A n q"]) -> Float[Array, "S A m q"]:
    """sum_n x z' of every pair (s,a)."""
    n, xp = z.shape[2], library(x, z)
    if xp is np:
        return x.swapaxes(-1, -2) @ z
    if n <= UNROLLED:
        return xp.asarray(sum(z[:, :, j, None, :] * x[:, :, j, :, None] for j in range(n)))
    return xp.einsum("sanq,sanm->samq", z, x)


def opnorm(M: Float[Array, "*b q q"]) -> Float[Array, "*b"]:
    """An upper bound on the largest |eigenvalue| of symmetric matrices: tr(M^16)^(1/16), at most q^(1/16) times it."""
    xp = library(M)
    if M.shape[-1] == 0:
        return xp.zeros(M.shape[:-2])
    scale = abs(M).reshape(*M.shape[:-2], -1).max(-1) if xp is np else abs(M).max(axis=(-2, -1))
    power = M / xp.where(scale > 0, scale, 1.0)[..., None, None]
    for _ in range(3):
        power = power @ power
    found = size(power)
    for _ in range(3):  # a power of 1/8 takes longer
        found = xp.sqrt(found)
    return scale * found
