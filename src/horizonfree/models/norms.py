"""Norms of vectors and small matrices: NumPy in, NumPy out, or traced."""

from jaxtyping import Float

from horizonfree._arrays import Array, library


def length(x: Float[Array, "..."], axis: int = -1) -> Float[Array, "..."]:
    """Euclidean norm along one axis."""
    return library(x).sqrt((x * x).sum(axis))


def opnorm(M: Float[Array, "*b q q"]) -> Float[Array, "*b"]:
    """An upper bound on the largest |eigenvalue| of symmetric matrices: tr(M^16)^(1/16), at most q^(1/16) times it."""
    xp = library(M)
    if M.shape[-1] == 0:
        return xp.zeros(M.shape[:-2])
    scale = abs(M).max(axis=(-2, -1))
    power = M / xp.where(scale > 0, scale, 1.0)[..., None, None]
    for _ in range(3):
        power = power @ power
    return scale * xp.sqrt((power**2).sum(axis=(-2, -1))) ** (1 / 8)
