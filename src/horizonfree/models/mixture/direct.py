"""The uniform gap over U itself, for few unknowns: no curvature, no sum of worst cases.

    kappa(theta) = max over pi of E_{theta_hat, pi} sum_{h<H} KL(P_theta_hat || P_theta)(s_h, a_h)

is convex in theta, so over any polytope that contains U it is largest at a vertex: one dynamic programme per vertex.
The polytope (polytope.py) is cut where kappa is largest (outer approximation of a convex maximisation: Tuy 1983,
Hoffman 1981). Every polytope on the way gives a bound, and kappa where the way from theta_hat to a vertex leaves U says
how much of it some parameter of U attains.

The hinge (hinge.py) is convex in theta too, and gives a smaller gap; a programme of it costs about ten of kappa. So
the last polytope is kept, and cut further only where the hinge asks for it. docs/certificates.md has the proofs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Leaf, leaf, to_device, x64
from horizonfree.guarantees.trajectories import Steps, bad_sets, gap, largest_hit, largest_sum
from horizonfree.mdp.space import Space
from horizonfree.models.mixture.ellipsoid import Ellipsoid
from horizonfree.models.mixture.hinge import Hinge, gaps, hinge
from horizonfree.models.mixture.polytope import MARGIN, Polytope, Separation, cube
from horizonfree.models.mixture.rows import at_slots
from horizonfree.models.mixture.valid import ValidSet

MOST_UNKNOWNS = 5  # unknown directions: vertices grow too fast beyond
PROGRAMMES = 10_000  # dynamic programmes to spend
HINGES = 4_000  # programmes of the hinge to spend
AT_ONCE = 128  # programmes per compiled call
FEW = 16  # programmes of the hinge before we ask again whether more are needed
CUTS = 16  # of the polytope between two calls
CLOSE = 0.005  # stop when parameters of U attain kappa, or the gap by the hinge, up to this share
NOTHING_LEFT = 1 - 1e-9  # pairs of which so much was left out are never followed

Points = Float[np.ndarray, "m q"]
Kappas = Callable[[Points], Float[np.ndarray, " m"]]
Curves = dict[bytes, Float[np.ndarray, " N"]]  # of the hinge, by the bytes of the point


@dataclass(frozen=True)
class Direct:
    """The uniform gap eps, by kappa and hit or by the hinge, whichever is smaller: `hinge` is the gap by the latter.

    Some parameter of U has the divergence `attained`, at most kappa. Over some parameters of U the gap by the hinge is
    `hinge_attained`: no polytope around U gives much less.
    """

    eps: float
    kappa: float
    hit: float
    attained: float
    hinge: float
    hinge_attained: float
    programmes: int
    hinges: int


@x64
def direct(
    space: Space,
    valid: ValidSet,
    counts: Int[np.ndarray, " R"],
    ball: Ellipsoid,
    step: Steps,
    is_out: Bool[Leaf, " R"],
    *,
    programmes: int = PROGRAMMES,
    hinges: int = HINGES,
) -> Direct:
    """The uniform gap over U itself, for the best of a few bad sets, none first; `counts` are those of the ball's bet.

    `is_out` are the rows that `step` leaves out.
    Takes at most about `programmes` dynamic programmes per bad set, and `hinges` of the hinge for the best of them.
    """
    space, valid, ball, step, is_out = to_device((space, valid, ball, step, is_out))
    free = np.asarray(valid.free)
    Z = np.asarray(ball.z)[free] / np.asarray(ball.p)[free, None]
    below, above = (np.maximum(np.asarray(x)[free], MARGIN) for x in (ball.below, ball.above))
    U = Separation(Z, np.asarray(counts)[free], below, above, max(float(ball.slack), MARGIN))
    none = np.asarray(step.leak)[None] > NOTHING_LEFT
    best = Direct(np.inf, np.inf, 1.0, 0.0, np.inf, np.inf, 0, 0)
    for stop in np.unique(np.concatenate([none, none | np.asarray(bad_sets(step))]), axis=0):
        hit = float(_hit(space, step, jnp.asarray(stop)))
        if 2 * hit >= best.eps:
            continue
        matters = _matters(space, valid, is_out, jnp.asarray(stop))
        kappas = _in_blocks(partial(_kappas, space, valid, ball, step, jnp.asarray(stop), matters))
        polytope, attained, used = largest(U, kappas, programmes)
        kappa = max(float(polytope.kappa.max()), 0.0)
        eps = float(gap(*(leaf(np.asarray(x)) for x in (2 * hit, kappa, kappa))))
        if eps < best.eps:
            best = Direct(eps, kappa, hit, attained, np.inf, np.inf, used, 0)
            last = polytope, kappas, stop, np.asarray(matters)
    if not (0 < best.kappa < np.inf and 2 * best.hit < 1):
        return best
    polytope, kappas, stop, kept = last
    comparison = hinge(space, valid, ball, step, stop, kept, best.kappa)
    upper, lower, used = smallest(U, polytope, kappas, comparison, best.hit, hinges)
    eps = min(best.eps, upper)
    return Direct(eps, best.kappa, best.hit, best.attained, upper, lower, best.programmes, used)


def largest(U: Separation, kappas: Kappas, programmes: int) -> tuple[Polytope, float, int]:
    """A polytope around U on which kappa is nearly as small as on U, the largest kappa found in U, and the number of
    programmes.

    Infinite where a row that matters may have no probability and nothing keeps U away from there.
    """
    polytope, attained, used = cube(U.Z.shape[1]), 0.0, 0
    while True:
        used += _fill(polytope, kappas)
        upper = max(float(polytope.kappa.max()), 0.0)
        if upper <= attained * (1 + CLOSE) or used >= (programmes if upper < np.inf else programmes / 4):
            return polytope, attained, used
        worst = np.argsort(-polytope.kappa)[:CUTS]
        after, points = U.cut_off(polytope, worst[polytope.kappa[worst] > attained])
        if after is polytope:
            return polytope, attained, used
        attained = max(attained, float(kappas(points).max()))
        polytope, used = after, used + len(points)


def smallest(
    U: Separation, polytope: Polytope, kappas: Kappas, comparison: Hinge, hit: float, programmes: int
) -> tuple[float, float, int]:
    """The gap by the hinge, what it is for the parameters of U that were met, and the number of its programmes."""
    known: Curves = {}
    y, best, used = comparison.y, np.inf, 0
    inside = np.maximum(y, 0.0)  # for theta in U, J is nowhere less
    while True:
        _fill(polytope, kappas)
        upper = gaps(y, _above(polytope, comparison, known, inside, hit, programmes - used), hit)
        b = int(upper.argmin())
        best, lower = min(best, float(upper[b])), float(gaps(y, inside, hit).min())
        height = np.array([known[x][b] if x in known else -np.inf for x in _names(polytope)])
        worst = np.argsort(-height)[:CUTS]
        worst = worst[height[worst] > inside[b]]
        if best <= lower * (1 + CLOSE) or len(known) + used >= programmes or not len(worst):
            return best, lower, len(known) + used
        after, points = U.cut_off(polytope, worst)
        inside = np.maximum(inside, comparison.curves(points).max(0))
        if after is polytope:
            return best, float(gaps(y, inside, hit).min()), len(known) + used + len(points)
        polytope, used = after, used + len(points)


def _above(
    polytope: Polytope,
    comparison: Hinge,
    known: Curves,
    first: Float[np.ndarray, " N"],
    hit: float,
    programmes: int,
) -> Float[np.ndarray, " N"]:
    """J over the polytope, and at least `first`; what was computed is added to `known`.

    Vertices come in the order of their kappa. Those that are left when no more are needed, or when as many are known
    as there are programmes, are bounded by their kappa.
    """
    y, names = comparison.y, _names(polytope)
    upper = np.asarray(np.max([first, *(known[x] for x in names if x in known)], axis=0))
    queue = np.array([i for i in np.argsort(-polytope.kappa) if names[i] not in known], int)
    for block in np.split(queue, range(FEW, len(queue), FEW)) if len(queue) else []:
        rest = comparison.at_most(float(polytope.kappa[block[0]]))
        b = gaps(y, upper, hit).argmin()
        if rest[b] <= upper[b] or len(known) >= programmes:
            return np.asarray(np.maximum(upper, rest))
        curves = comparison.curves(polytope.vertices[block])
        known.update(zip((names[i] for i in block), curves))
        upper = np.asarray(np.maximum(upper, curves.max(0)))
    return upper


def _names(polytope: Polytope) -> list[bytes]:
    """Of the vertices: cuts do not change the numbers of those that stay."""
    return [v.tobytes() for v in polytope.vertices]


def _fill(polytope: Polytope, kappas: Kappas) -> int:
    """Compute kappa where it is missing; how often."""
    is_new = np.isnan(polytope.kappa)
    if is_new.any():
        polytope.kappa[is_new] = kappas(polytope.vertices[is_new])
    return int(is_new.sum())


_hit = eqx.filter_jit(largest_hit)


@eqx.filter_jit
def _matters(
    space: Space, valid: ValidSet, is_out: Bool[Array, " R"], stop: Bool[Array, "S A"]
) -> Bool[Array, " R"]:
    """Free rows that are kept and that a reachable pair outside the bad set has."""
    R = valid.rows.shape[0]
    pairs = space.reachable[:, None] & ~stop
    is_met = jnp.zeros(R, bool).at[jnp.where(pairs[..., None], valid.row_of, R)].set(True, mode="drop")
    return valid.free & ~is_out & is_met


def _in_blocks(compiled: Callable[[Float[Array, "B q"]], Float[Array, " B"]]) -> Kappas:
    """For any number of points: AT_ONCE per compiled call."""

    def kappas(u: Points) -> Float[np.ndarray, " m"]:
        blocks = np.zeros((-(-len(u) // AT_ONCE) * AT_ONCE, u.shape[1]))
        blocks[: len(u)] = u
        found = [np.asarray(compiled(jnp.asarray(x))) for x in blocks.reshape(-1, AT_ONCE, u.shape[1])]
        return np.concatenate(found)[: len(u)]

    return kappas


@eqx.filter_jit
def _kappas(
    space: Space,
    valid: ValidSet,
    ball: Ellipsoid,
    step: Steps,
    stop: Bool[Array, "S A"],
    matters: Bool[Array, " R"],
    u: Float[Array, "B q"],
) -> Float[Array, " B"]:
    """kappa at each u; infinite where p_theta is not positive on some row that matters."""
    p = jnp.where(matters, ball.p, 1.0)
    pairs = space.reachable[:, None] & ~stop

    def one(u: Float[Array, " q"]) -> Float[Array, ""]:
        x = jnp.where(matters, ball.z @ u / p, 0.0)
        is_finite = (x > -1).all()
        inside = at_slots(-p * jnp.log1p(jnp.where(is_finite, x, 0.0)), valid.row_of).sum(-1)
        cost = jnp.where(pairs, inside / (1 - step.leak) - jnp.log1p(-step.leak), 0.0)
        return jnp.where(is_finite, largest_sum(space, step, cost, stop), jnp.inf)

    return jax.vmap(one)(u)
