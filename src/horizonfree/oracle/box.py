"""The largest norm over a box: max of ||F f||_2 over f in [0,1]^n, with a maximiser and a certified bound.

With Sigma^{-1} = L L' and F = L' phi(s,a)' [d, n] this is max_f ||phi_f(s,a)||_{Sigma^{-1}}, the quantity that
UCRL-RFE explores by (Zhang, Zhou, Gu 2021, eq. 4.2) and that bounds every bonus of HF-UCRL-RFE++. The norm is
convex, so some vertex f in {0,1}^n is best; finding it is hard in general, hence two routes:

- n <= MAX_VECTORIZED_SUCCESSORS: all 2^n vertices of all pairs (s,a) at once; n <= MAX_ENUMERATED_SUCCESSORS: pair by
  pair, to save memory. Exact.
- larger n: local ascent f <- 1[F'F f > 0], which never lowers the norm, from the best of 2m+1 starts; and an upper
  bound.

The maximum over f in [0,1]^n of ||F f|| - kappa Var_p(f) is found by branch and bound. On a cell with centre c, -Var_p
is below its tangent at c (it is concave), so the objective is below a convex function, whose maximum over the cell is
at a vertex. A cell that cannot beat the best point attained by more than `slack` is closed; the others are halved where
p_i width_i^2, the error of the tangent, is largest.

Along f + c the variance stays and the norm is convex in c, so the maximum is at an end of such a line: where an
entry is 0 or 1. Only those 2 n faces are searched. (Where probabilities are known to sum to one, F 1 is nearly 0,
and inside the cube there would be lines of best points, which no halving ends soon.)

native/penalised.c is an implementation in C, about four times as fast.
"""

import ctypes
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from horizonfree._arrays import Array
from horizonfree.models.base import length
from horizonfree.models.mixture.learner import MAX_UNROLLED_TERMS
from horizonfree.native import library
from horizonfree.planning.traced import nearly_best, significant

MAX_VECTORIZED_SUCCESSORS = 8  # up to this n, all 2^n vertices of all pairs are computed together
MAX_ENUMERATED_SUCCESSORS = 12  # up to this n, all 2^n vertices are computed, pair by pair
ASCENT_STEPS = 20  # of the local ascent for larger n


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def norm(x: Float[Array, "..."], axis: int = -1) -> Float[Array, "..."]:
    """Euclidean norm along one axis; its slope at 0 is 0."""
    if axis == 0 and 0 < len(x) <= MAX_UNROLLED_TERMS:
        return jnp.sqrt(sum(y * y for y in x))
    return jnp.sqrt((x * x).sum(axis))


@norm.defjvp
def _slope(axis: int, at: tuple[Array], along: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = at, along
    size = norm(x, axis)
    is_zero = size == 0
    slope = (dx * x + x * dx).sum(axis) * (0.5 / jnp.where(is_zero, 1.0, size))
    return size, jnp.where(is_zero, 0.0, slope)


class BoxMax(eqx.Module):
    """The best maximiser, its norm, and a bound that no f in the box exceeds (equal to it when exact)."""

    f: Bool[Array, "*batch n"]
    lower: Float[Array, "*batch"]
    upper: Float[Array, "*batch"]


def box_max(F: Float[Array, "*batch m n"]) -> BoxMax:
    """max over f in [0,1]^n of ||F f||_2; traceable, batched."""
    batch, n = F.shape[:-2], F.shape[-1]
    if n > MAX_ENUMERATED_SUCCESSORS:
        return _climb(F)
    if n <= MAX_VECTORIZED_SUCCESSORS:
        return _enumerate(F)
    result = jax.lax.map(_enumerate, F.reshape(-1, *F.shape[-2:]))
    return BoxMax(result.f.reshape(*batch, n), result.lower.reshape(batch), result.upper.reshape(batch))


def _enumerate(F: Float[Array, "*batch m n"]) -> BoxMax:
    n = F.shape[-1]
    size = norm(subset_sums(jnp.moveaxis(F, -1, 0)), axis=-1)
    best = nearly_best(size, 0).argmax(axis=0)
    f = (best[..., None] >> jnp.arange(n)) & 1 == 1
    return BoxMax(f, size.max(axis=0), size.max(axis=0))


def subset_sums(x: Float[Array, "n *rest"]) -> Float[Array, "N *rest"]:
    """All N = 2^n sums of subsets of the rows of x; bit i of the index says whether row i is in."""
    sums = jnp.zeros_like(x[:1])
    for row in x:
        sums = jnp.concatenate([sums, sums + row])
    return sums


def coordinate_bound(F: Float[Array, "*batch m n"]) -> Float[Array, "*batch"]:
    """||F f||^2 <= sum_i max(sum of positive parts of row i, sum of negative parts)^2; exact when F >= 0."""
    pos, neg = jnp.maximum(F, 0).sum(-1), jnp.maximum(-F, 0).sum(-1)
    return norm(jnp.maximum(pos, neg), axis=-1)


def spectral_bound(F: Float[Array, "*batch m n"]) -> Float[Array, "*batch"]:
    """A bound by one eigenvalue, from f = (1 + x)/2 with x in {-1,1}^n.

    F f = sum_i y_i g_i with y in {-1,1}^{n+1}, g_0 = F 1/2, g_i = F_i/2. For any D > 0, Cauchy-Schwarz gives
    (w'F f)^2 = (sum_i y_i w'g_i)^2 <= (sum_i D_i) w'(sum_i g_i g_i'/D_i) w for every w, so
    ||F f||^2 <= tr(D) lambda_max(sum_i g_i g_i'/D_i).
    D_i = ||g_i|| is used: exact for rank one, and never above (sum_i ||g_i||)^2.
    """
    g = jnp.concatenate([F.sum(-1, keepdims=True), F], axis=-1) / 2
    D = norm(g, axis=-2)
    scaled = g / jnp.where(D > 0, D, 1.0)[..., None, :]
    top = jnp.linalg.eigvalsh(scaled @ jnp.swapaxes(g, -1, -2))[..., -1]
    return jnp.sqrt(D.sum(-1) * jnp.maximum(top, 0))


def _climb(F: Float[Array, "*batch m n"]) -> BoxMax:
    # The best sign pattern of a row maximises one coordinate of F f exactly: within sqrt(m) of the optimum already.
    starts = jnp.concatenate([F > 0, F < 0, jnp.ones_like(F[..., :1, :], dtype=bool)], axis=-2)
    value = norm(starts.astype(F.dtype) @ jnp.swapaxes(F, -1, -2), axis=-1)
    best = nearly_best(value, -1).argmax(axis=-1)[..., None, None]
    f = jnp.take_along_axis(starts, best, axis=-2)[..., 0, :]

    def climb(_: Array, f: Array) -> Array:
        y = (F * f[..., None, :]).sum(-1)
        return significant((F * y[..., None]).sum(-2), -1) > 0

    f = jax.lax.fori_loop(0, ASCENT_STEPS, climb, f)
    lower = norm((F * f[..., None, :]).sum(-1), axis=-1)
    upper = jnp.minimum(coordinate_bound(F), spectral_bound(F))
    return BoxMax(f, lower, jnp.maximum(upper, lower))


ABSOLUTE_SLACK = 1e-15  # smallest bound


def branch_and_bound(
    F: Float[np.ndarray, "X m n"], p: Float[np.ndarray, "X n"], kappa: float, slack: float, max_nodes: int
) -> Float[np.ndarray, " X"]:
    """Upper bounds of the maxima, one per row, with at most so many cells at a time."""
    loaded, (X, m, n) = library.load(), F.shape
    max_nodes = max(max_nodes, 2 * n)
    if loaded is None:
        return np.array([row_bound(*row, kappa, slack, max_nodes) for row in zip(F, p)])
    F, p = np.ascontiguousarray(F, np.float64), np.ascontiguousarray(p, np.float64)
    out, scratch = np.empty(X), np.empty(4 * max_nodes * n + m + n)
    integer, real, pointer = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
    function = loaded[0].horizonfree_penalised
    function.argtypes = [*[integer] * 3, *[pointer] * 2, *[real] * 3, integer, *[pointer] * 2]
    function.restype = None
    arrays = F.ctypes.data, p.ctypes.data
    function(X, m, n, *arrays, kappa, slack, ABSOLUTE_SLACK, max_nodes, out.ctypes.data, scratch.ctypes.data)
    return out


def row_bound(
    F: Float[np.ndarray, "m n"], p: Float[np.ndarray, " n"], kappa: float, slack: float, max_nodes: int
) -> float:
    """The definition in NumPy: cells in order of size; once no more fit into memory, open cells keep their bounds."""
    n = len(p)
    vertices = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(np.float64)
    lows, widths = np.zeros((2 * n, n)), np.ones((2 * n, n))
    lows[np.arange(n, 2 * n), np.arange(n)] = 1.0
    widths[np.arange(2 * n), np.arange(2 * n) % n] = 0.0
    lower, bound = 0.0, 0.0  # f = 0 gives 0
    while len(lows):
        halves: list[tuple[np.ndarray, np.ndarray]] = []
        for low, width in zip(lows, widths):
            value, above = _cell(F, p, kappa, low, width, vertices)
            lower = max(lower, value)
            if above <= (1 + slack) * lower + ABSOLUTE_SLACK:
                continue
            if len(halves) + 2 > max_nodes:
                bound = max(bound, above)
                continue
            half = width.copy()
            split = int(np.argmax(p * width**2))
            half[split] /= 2
            upper = low.copy()
            upper[split] += half[split]
            halves += [(low, half), (upper, half)]
        lows, widths = (np.array(x).reshape(-1, n) for x in (zip(*halves) if halves else ((), ())))
    return max(bound, (1 + slack) * lower + ABSOLUTE_SLACK)


def _cell(
    F: np.ndarray, p: np.ndarray, kappa: float, low: np.ndarray, width: np.ndarray, vertices: np.ndarray
) -> tuple[float, float]:
    """The best value at a vertex, and an upper bound over the cell."""
    c, f = low + width / 2, low + vertices * width
    slope = 2 * p * (c - p @ c)  # of Var_p at c
    size = length(f @ F.T)
    value = size - kappa * (f**2 @ p - (f @ p) ** 2)
    above = size - kappa * (p @ c**2 - (p @ c) ** 2 + (f - c) @ slope)  # Var(f) >= Var(c) + <slope, f - c>
    return float(value.max()), float(above.max())
