"""Weighted ridge regression that grows row by row: Sigma = lam I + sum w x x', b = sum w y x, theta = Sigma^{-1} b.

The inverse is kept as a square root, W' W = Sigma^{-1}, so that ||x||_{Sigma^{-1}} = ||W x||_2. Adding a row is one
rank-one change of the root (Potter's square-root form of the Sherman-Morrison formula), with v = W x and growth
g = det(Sigma_new) / det(Sigma) = 1 + w ||v||^2:

    W <- W - w/(g + sqrt(g)) v (v' W),      log det Sigma <- log det Sigma + log g.

Why a root: it costs what Sherman-Morrison on the inverse costs, O(d^2), a norm can never be the root of a negative
number, and a row leaves a relative error of about u sqrt(g) in the inverse (u = 2^-53) instead of u g, so that one
very heavy row destroys nothing. Errors of earlier rows never grow: an update is exact for whatever matrix the root
stands for.

Refreshing. `refresh` computes root and log det anew by Cholesky from Sigma, which is the running sum up to rounding.
`in_blocks` does so after every REFRESH_ROWS rows and after the last, at steps fixed in advance: a test inside the loop
would, under vmap, cost a Cholesky factor at every row. An episode is one `scan`, so between episodes the state is
fresh. How far the root drifts from Sigma is measured by || W Sigma W' - I ||_2, about REFRESH * u * sqrt(cond) + u *
cond; the second term is Cholesky's own, the floor for every method that keeps Sigma.

Every field may have leading axes, `*batch`, and every method acts on all of them at once.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Float

from horizonfree._arrays import Array
from horizonfree._x64 import Leaf

REFRESH_ROWS = 512  # rows between two Cholesky factors


class Ridge(eqx.Module):
    """The state of a ridge regression, or of a batch of them."""

    Sigma: Float[Leaf, "*batch d d"]
    W: Float[Leaf, "*batch d d"]
    b: Float[Leaf, "*batch d"]
    log_det: Float[Leaf, "*batch"]

    @classmethod
    def init(cls, lam: ArrayLike, d: int, batch: tuple[int, ...] = ()) -> "Ridge":
        """No rows yet: Sigma = lam I."""
        lam = jnp.asarray(lam, float)
        eye = jnp.broadcast_to(jnp.eye(d), (*batch, d, d))
        log_det = jnp.broadcast_to(d * jnp.log(lam), batch)
        return cls(lam * eye, eye / jnp.sqrt(lam), jnp.zeros((*batch, d)), log_det)

    @property
    def theta(self) -> Float[Array, "*batch d"]:
        """Sigma^{-1} b."""
        return times(jnp.swapaxes(self.W, -1, -2), times(self.W, self.b))

    @property
    def Sigma_inv(self) -> Float[Array, "*batch d d"]:
        """W' W."""
        return jnp.swapaxes(self.W, -1, -2) @ self.W

    def norm_inv(self, x: Float[Array, "*rows d"]) -> Float[Array, "..."]:
        """||x||_{Sigma^{-1}}; leading axes of x and of the batch broadcast."""
        return jnp.sqrt((times(self.W, x) ** 2).sum(-1))

    def distance(self, theta: Float[Array, " d"]) -> Float[Array, "*batch"]:
        """||theta - theta_i||_{Sigma_i} of every regression: how far a parameter is from the centre of its ball."""
        diff = theta - self.theta
        return jnp.sqrt(jnp.einsum("...i,...ij,...j->...", diff, self.Sigma, diff))

    def update(
        self, x: Float[Array, "*batch d"], y: Float[Array, "*batch"], weight: Float[Array, "*batch"]
    ) -> "Ridge":
        """Add one row x with target y; weight 0 changes nothing."""
        W, growth = update_root(self.W, times(self.W, x), weight)
        return Ridge(
            self.Sigma + weight[..., None, None] * (x[..., :, None] * x[..., None, :]),
            W,
            self.b + (weight * y)[..., None] * x,
            self.log_det + jnp.log(growth),
        )

    def extend(
        self, x: Float[Array, "T *batch d"], y: Float[Array, "T *batch"], weight: Float[Array, "T *batch"]
    ) -> "Ridge":
        """Add T rows at once, without the matrices in between, and refresh."""
        Sigma = self.Sigma + jnp.einsum("t...,t...i,t...j->...ij", weight, x, x)
        b = self.b + jnp.einsum("t...,t...i->...i", weight * y, x)
        return Ridge(Sigma, self.W, b, self.log_det).refresh()

    def refresh(self) -> "Ridge":
        """Root and log det by Cholesky; unchanged where Sigma is numerically singular (cond > 1/u)."""
        W, log_det = inverse_root(self.Sigma)
        is_sound = jnp.isfinite(log_det)
        return Ridge(
            self.Sigma,
            jnp.where(is_sound[..., None, None], W, self.W),
            self.b,
            jnp.where(is_sound, log_det, self.log_det),
        )


def update_root(
    W: Float[Array, "*batch d d"], v: Float[Array, "*batch d"], weight: Float[Array, "*batch"]
) -> tuple[Float[Array, "*batch d d"], Float[Array, "*batch"]]:
    """The root after a row x with v = W x, and det(Sigma_new) / det(Sigma)."""
    growth = 1 + weight * (v**2).sum(-1)
    step = weight / (growth + jnp.sqrt(growth))
    vW = (v[..., :, None] * W).sum(-2)
    return W - step[..., None, None] * v[..., :, None] * vW[..., None, :], growth


def inverse_root(
    Sigma: Float[Array, "*batch d d"],
) -> tuple[Float[Array, "*batch d d"], Float[Array, "*batch"]]:
    """W = L^{-1} with L L' = Sigma, so that W' W = Sigma^{-1}, and log det Sigma; NaN where Sigma has no factor."""
    L = jnp.linalg.cholesky(Sigma)
    eye = jnp.broadcast_to(jnp.eye(L.shape[-1]), L.shape)
    W = jax.lax.linalg.triangular_solve(L, eye, left_side=True, lower=True)
    return W, 2 * jnp.log(jnp.diagonal(L, axis1=-2, axis2=-1)).sum(-1)


def in_blocks(
    block: Callable[[Ridge, Any], tuple[Ridge, Any]], ridge: Ridge, rows: Any, block_size: int = REFRESH_ROWS
) -> tuple[Ridge, Any]:
    """block(ridge, rows) -> (fresh ridge, outputs) for every so many rows, and for those that are left."""
    full, remainder = divmod(len(jax.tree.leaves(rows)[0]), block_size)
    outputs = []
    if full:
        blocks = jax.tree.map(lambda x: x[: full * block_size].reshape(full, block_size, *x.shape[1:]), rows)
        ridge, output = jax.lax.scan(block, ridge, blocks)
        outputs.append(jax.tree.map(lambda x: x.reshape(full * block_size, *x.shape[2:]), output))
    if remainder:
        ridge, output = block(ridge, jax.tree.map(lambda x: x[full * block_size :], rows))
        outputs.append(output)
    return ridge, jax.tree.map(lambda *parts: jnp.concatenate(parts), *outputs)


def times(A: Float[Array, "*batch d d"], x: Float[Array, "*rows d"]) -> Float[Array, "... d"]:
    """A x for small matrices, batched: a fused product beats a batched matrix call below d of about 30."""
    return (jnp.asarray(A) * jnp.asarray(x)[..., None, :]).sum(-1)
