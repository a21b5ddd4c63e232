"""Polytopes around U, given by their vertices, and the planes that have U on one side.

In the coordinates u of the ellipsoid, p_theta = p + z u, the polytope starts as the cube around the unit ball. A vertex
v outside U is cut off where the way from theta_hat to v leaves U, at u_b. The plane that separates the two is one of

    f(u_b) + grad f(u_b)'(u - u_b) <= f(u) <= W,   f(u) = L(theta) - L(theta_hat) = - sum_r N_r log(1 + z_r'u / p_r),
    -below_r <= z_r'u / p_r <= above_r.

The first holds for any u_b, as f is convex: no rounding in u_b matters.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

HALVINGS = 40  # to find where a segment leaves U
MARGIN = 1e-9  # by which planes are moved outwards, of their distance from theta_hat: rounding


@dataclass(frozen=True)
class Polytope:
    """A simple polytope: vertices, the q faces that meet in each, and kappa there; `num_faces` faces so far."""

    vertices: Float[np.ndarray, "m q"]
    faces: Int[np.ndarray, "m q"]
    kappa: Float[np.ndarray, " m"]  # NaN where it has not been computed
    num_faces: int


def cube(q: int) -> Polytope:
    """[-1, 1]^q."""
    side = np.stack(np.meshgrid(*[[0, 1]] * q, indexing="ij"), -1).reshape(-1, q)
    return Polytope(2.0 * side - 1, 2 * np.arange(q) + side, np.full(len(side), np.nan), 2 * q)


def cut(polytope: Polytope, a: Float[np.ndarray, " q"], b: float) -> Polytope:
    """The part with a'u <= b. New vertices lie on the edges that the plane crosses: pairs with q - 1 common faces."""
    q, faces = len(a), polytope.faces
    height = polytope.vertices @ a - b
    is_out = height > 0
    if not is_out.any():
        return polytope
    common = np.isin(faces, faces[is_out]).sum(1)
    kept, gone = np.flatnonzero(~is_out & (common >= q - 1)), np.flatnonzero(is_out)
    is_shared = (faces[kept][:, None, :, None] == faces[gone][None, :, None, :]).any(-1)
    i, j = np.nonzero(is_shared.sum(-1) == q - 1)
    x, y = kept[i], gone[j]
    share = (-height[x] / (height[y] - height[x]))[:, None]
    vertices = (1 - share) * polytope.vertices[x] + share * polytope.vertices[y]
    edges = faces[x][is_shared[i, j]].reshape(len(x), q - 1)
    return Polytope(
        np.concatenate([polytope.vertices[~is_out], vertices]),
        np.concatenate([faces[~is_out], np.c_[edges, np.full(len(x), polytope.num_faces)]]),
        np.concatenate([polytope.kappa[~is_out], np.full(len(x), np.nan)]),
        polytope.num_faces + 1,
    )


@dataclass(frozen=True)
class Separation:
    """U seen from theta_hat: relative changes x = Z u of the free rows, their counts and bounds, and the slack W."""

    Z: Float[np.ndarray, "R q"]
    N: Int[np.ndarray, " R"]
    below: Float[np.ndarray, " R"]
    above: Float[np.ndarray, " R"]
    W: float

    def loss(self, x: Float[np.ndarray, "*m R"]) -> Float[np.ndarray, "*m"]:
        """f = L(theta) - L(theta_hat); infinite where a row that was seen has no probability."""
        seen = self.N > 0
        with np.errstate(divide="ignore"):
            return np.asarray(-(np.log1p(np.maximum(x[..., seen], -1.0)) @ self.N[seen]))

    def leave(self, v: Float[np.ndarray, "m q"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """The share of the way from theta_hat to each v at which L, and at which a bound of a row, is reached."""
        x = v @ self.Z.T
        by_rows = 1 / np.maximum(x / self.above, -x / self.below).max(1, initial=1e-300)
        inside, outside = np.zeros(len(v)), np.ones(len(v))
        inside = np.where(self.loss(x) <= self.W, 1.0, inside)
        for _ in range(HALVINGS):
            middle = (inside + outside) / 2
            is_in = self.loss(middle[:, None] * x) <= self.W
            inside, outside = np.where(is_in, middle, inside), np.where(is_in, outside, middle)
        return inside, by_rows

    def plane(self, v: Float[np.ndarray, " q"], by_loss: float, by_rows: float) -> tuple[np.ndarray, float]:
        """(a, b) with a'u <= b for all of U, through the point at which the way to v leaves it."""
        x = self.Z @ v
        if by_rows < by_loss:
            ratio = np.maximum(x / self.above, -x / self.below)
            r = int(ratio.argmax())
            a, b = (self.Z[r], self.above[r]) if x[r] > 0 else (-self.Z[r], self.below[r])
        else:
            x = by_loss * x
            a = -(self.N / (1 + np.where(self.N > 0, x, 0.0))) @ self.Z
            b = self.W - float(self.loss(x)) + by_loss * float(a @ v)
        return a, b * (1 + MARGIN)

    def cut_off(
        self, polytope: Polytope, worst: Int[np.ndarray, " c"]
    ) -> tuple[Polytope, Float[np.ndarray, "c q"]]:
        """The polytope without these vertices, and where the ways to them leave U.

        The same polytope if the first of them belongs to all that is known of U.
        """
        v = polytope.vertices[worst]
        by_loss, by_rows = self.leave(v)
        leaves = np.minimum(by_loss, by_rows)
        is_outside = leaves < 1 - 10 * MARGIN
        if not is_outside[0]:
            return polytope, leaves[:, None] * v
        rows_first = np.isinf(polytope.kappa[worst]) & (by_rows < 1 - 10 * MARGIN)
        by_loss = np.where(rows_first, 1.0, by_loss)  # bounds of rows are the shortest way to finite kappa
        for i in range(len(v)):
            if is_outside[i]:
                a, b = self.plane(v[i], by_loss[i], by_rows[i])
                polytope = cut(polytope, a, b)
                is_outside &= v @ a <= b  # the others are gone as well
        return polytope, leaves[:, None] * v
