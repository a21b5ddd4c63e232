"""One backward step of the pseudo value that reward-free algorithms maximise.

    V_h    = r_h + <phi_{V_{h+1}}, theta>
    u_h    = min{c, beta ||phi_{V_{h+1}}||}
    Vhat_h = u_h + 2 beta ||phi_{Vhat_{h+1}}||_hat + <phi_{Vhat_{h+1}}, theta>,   then capped at c

(HF-UCRL-RFE++, arXiv 2303.10165, section 4, with c = 1; Chen et al. 2022 with c = H.) A norm of phi_v is ||F v||_2.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Float

from horizonfree._arrays import Array
from horizonfree._x64 import Number
from horizonfree.oracle.box import norm


class Tables(NamedTuple):
    """P_theta on successors, and F, F_hat of the two norms, of some pairs (s,a), in one of the layouts below."""

    p: Float[Array, "..."]
    F: Float[Array, "..."]
    F_hat: Float[Array, "..."]


class Layout(NamedTuple):
    """Axes: `row` of F, over which the norm is taken, and `next`, the successors, in F and in p."""

    row: int
    next_in_F: int
    next_in_p: int


STATES_LAST = Layout(0, 1, 0)  # F [m, n, A, S], p [n, A, S]: the innermost loops run over states
PAIRS_FIRST = Layout(-2, -1, -1)  # F [..., d, n], p [..., n]


def cap(x: Float[Array, "..."], most: float, leak: float) -> Float[Array, "..."]:
    """min(x, most), or with a small slope above it: `leak`, for searches only."""
    return jnp.minimum(x, most) + leak * jnp.maximum(x - most, 0) if leak else jnp.minimum(x, most)


def width(F: Float[Array, "..."], v: Float[Array, "..."], layout: Layout) -> Float[Array, "..."]:
    """The norm ||F v||_2."""
    Fv = (F * jnp.expand_dims(v, layout.row)).sum(layout.next_in_F)
    return norm(Fv, 0 if layout.row == 0 else -1)


class Pieces(NamedTuple):
    """The terms of one step back, before they are added and capped."""

    V: Float[Array, "..."]  # <phi_V, theta>
    u: Float[Array, "..."]
    bonus: Float[Array, "..."]  # 2 beta ||phi_Vhat||_hat
    V_hat: Float[Array, "..."]  # <phi_Vhat, theta>


def optimism(
    tables: Tables, z: Float[Array, "..."], beta: Number, layout: Layout
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """2 beta ||phi_z||_hat and <phi_z, theta>; their sum is convex in z, not monotone."""
    return 2 * beta * width(tables.F_hat, z, layout), (tables.p * z).sum(layout.next_in_p)


def pseudo_step(
    tables: Tables,
    v: Float[Array, "..."],
    z: Float[Array, "..."],
    beta: Number,
    most: float,
    leak: float,
    layout: Layout,
) -> Pieces:
    """The terms of a step, from V and Vhat at the successors of some pairs; most: the cap c."""
    u = cap(beta * width(tables.F, v, layout), most, leak)
    return Pieces((tables.p * v).sum(layout.next_in_p), u, *optimism(tables, z, beta, layout))
