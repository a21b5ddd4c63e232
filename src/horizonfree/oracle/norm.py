"""The Euclidean norm with a slope at zero; traced."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Float

from horizonfree._arrays import Array
from horizonfree.models.norms import length


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def norm(x: Float[Array, "..."], axis: int = -1) -> Float[Array, "..."]:
    """Euclidean norm along one axis; its slope at 0 is 0."""
    return length(x, axis)


@norm.defjvp
def _slope(axis: int, at: tuple[Array], along: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = at, along
    size = norm(x, axis)
    is_zero = size == 0
    slope = (dx * x + x * dx).sum(axis) * (0.5 / jnp.where(is_zero, 1.0, size))
    return size, jnp.where(is_zero, 0.0, slope)
