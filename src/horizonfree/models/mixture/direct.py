"""The largest divergence of trajectories over U itself, for few unknowns: no curvature, no sum of worst cases.

    kappa(theta) = max over pi of E_{theta_hat, pi} sum_{h<H} KL(P_theta_hat || P_theta)(s_h, a_h)

is convex in theta, so over any polytope that contains U it is largest at a vertex: one dynamic programme per vertex.
In the coordinates u of the ellipsoid, p_theta = p + z u, the polytope starts as the cube around the unit ball and is
cut where kappa is largest (outer approximation of a convex maximisation: Tuy 1983, Hoffman 1981). On the way from
theta_hat to the worst vertex v, where it leaves U, at u_b, the plane that separates v from U is one of

    f(u_b) + grad f(u_b)'(u - u_b) <= f(u) <= W,   f(u) = L(theta) - L(theta_hat) = - sum_r N_r log(1 + z_r'u / p_r),
    -below_r <= z_r'u / p_r <= above_r.

The first holds for any u_b, as f is convex: no rounding in u_b matters. Every polytope on the way gives a bound, and
kappa(u_b) says how much of it some parameter of U attains. docs/certificates.md has the proof.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from horizonfree._x64 import to_device, x64
from horizonfree.guarantees.trajectories import Steps, bad_sets, gap, largest_hit, largest_sum
from horizonfree.mdp.space import Space
from horizonfree.models.mixture.ellipsoid import Ellipsoid
from horizonfree.models.mixture.rows import at_slots
from horizonfree.models.mixture.steps import left_out
from horizonfree.models.mixture.valid import ValidSet

MOST_UNKNOWNS = 5  # unknown directions: vertices grow too fast beyond
PROGRAMMES = 10_000  # dynamic programmes to spend
AT_ONCE = 128  # of them per compiled call
CUTS = 16  # of the polytope between two calls
CLOSE = 0.005  # stop when a parameter of U attains kappa up to this share
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


@dataclass(frozen=True)
class Direct:
    """The uniform gap eps of kappa and hit; some parameter of U has the divergence `attained`, at most kappa."""

    eps: float
    kappa: float
    hit: float
    attained: float
    programmes: int


@x64
def direct(
    space: Space,
    valid: ValidSet,
    counts: Int[np.ndarray, " R"],
    ball: Ellipsoid,
    step: Steps,
    *,
    programmes: int = PROGRAMMES,
) -> Direct:
    """The uniform gap over U itself, for the best of a few bad sets, none first; `counts` are those of the ball's bet.

    Takes at most about `programmes` dynamic programmes per bad set.
    """
    space, valid, ball, step = to_device((space, valid, ball, step))
    free = np.asarray(valid.free)
    Z = np.asarray(ball.z)[free] / np.asarray(ball.p)[free, None]
    below, above = (np.maximum(np.asarray(x)[free], MARGIN) for x in (ball.below, ball.above))
    U = Separation(Z, np.asarray(counts)[free], below, above, max(float(ball.slack), MARGIN))
    best = Direct(np.inf, np.inf, 1.0, 0.0, 0)
    for stop in np.unique(np.concatenate([np.zeros((1, *step.cost.shape), bool), bad_sets(step)]), axis=0):
        hit = float(_hit(space, step, jnp.asarray(stop)))
        if 2 * hit >= best.eps:
            continue
        kappas = partial(_kappas, space, valid, ball, step, jnp.asarray(stop))
        kappa, attained, used = largest(U, kappas, programmes)
        eps = float(gap(jnp.asarray(2 * hit), jnp.asarray(kappa), jnp.asarray(kappa)))
        if eps < best.eps:
            best = Direct(eps, kappa, hit, attained, used)
    return best


def largest(
    U: Separation, kappas: Callable[[Float[Array, "B q"]], Float[Array, " B"]], programmes: int
) -> tuple[float, float, int]:
    """The largest kappa over U from above, the largest one found in U, and the number of programmes.

    Infinite where a row that matters may have no probability and nothing keeps U away from there.
    """
    used = 0

    def compute(u: Float[np.ndarray, "m q"]) -> Float[np.ndarray, " m"]:
        nonlocal used
        used += len(u)
        blocks = np.zeros((-(-len(u) // AT_ONCE) * AT_ONCE, u.shape[1]))
        blocks[: len(u)] = u
        found = [np.asarray(kappas(jnp.asarray(x))) for x in blocks.reshape(-1, AT_ONCE, u.shape[1])]
        return np.concatenate(found)[: len(u)]

    polytope, attained = cube(U.Z.shape[1]), 0.0
    while True:
        is_new = np.isnan(polytope.kappa)
        if is_new.any():
            polytope.kappa[is_new] = compute(polytope.vertices[is_new])
        upper = max(float(polytope.kappa.max()), 0.0)
        if upper <= attained * (1 + CLOSE) or used >= (programmes if upper < np.inf else programmes / 4):
            break
        worst = np.argsort(-polytope.kappa)[:CUTS]
        worst = worst[polytope.kappa[worst] > attained]
        v = polytope.vertices[worst]
        by_loss, by_rows = U.leave(v)
        leaves = np.minimum(by_loss, by_rows)
        is_outside = leaves < 1 - 10 * MARGIN
        if not is_outside[0]:
            break  # the worst vertex belongs to all that is known of U
        attained = max(attained, float(compute(leaves[:, None] * v).max()))
        rows_first = np.isinf(polytope.kappa[worst]) & (by_rows < 1 - 10 * MARGIN)
        by_loss = np.where(rows_first, 1.0, by_loss)  # bounds of rows are the shortest way to finite kappa
        for i in range(len(v)):
            if is_outside[i]:
                a, b = U.plane(v[i], by_loss[i], by_rows[i])
                polytope = cut(polytope, a, b)
                is_outside &= v @ a <= b  # the others are gone as well
    return upper, attained, used


_hit = eqx.filter_jit(largest_hit)


@eqx.filter_jit
def _kappas(
    space: Space,
    valid: ValidSet,
    ball: Ellipsoid,
    step: Steps,
    stop: Bool[Array, "S A"],
    u: Float[Array, "B q"],
) -> Float[Array, " B"]:
    """kappa at each u; infinite where p_theta is not positive on some row that matters."""
    row_of, R = valid.row_of, valid.rows.shape[0]
    pairs = space.reachable[:, None] & ~stop
    is_met = jnp.zeros(R, bool).at[jnp.where(pairs[..., None], row_of, R)].set(True, mode="drop")
    matters = valid.free & ~left_out(valid, ball) & is_met
    p = jnp.where(matters, ball.p, 1.0)

    def one(u: Float[Array, " q"]) -> Float[Array, ""]:
        x = jnp.where(matters, ball.z @ u / p, 0.0)
        is_finite = (x > -1).all()
        inside = at_slots(-p * jnp.log1p(jnp.where(is_finite, x, 0.0)), row_of).sum(-1)
        cost = jnp.where(pairs, inside / (1 - step.leak) - jnp.log1p(-step.leak), 0.0)
        return jnp.where(is_finite, largest_sum(space, step, cost, stop), jnp.inf)

    return jax.vmap(one)(u)
