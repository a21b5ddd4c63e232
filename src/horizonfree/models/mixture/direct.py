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

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.guarantees.trajectories import RowDivergence, bad_sets, gap, largest_hit
from horizonfree.mdp.space import Space
from horizonfree.models.mixture.ellipsoid import Ellipsoid
from horizonfree.models.mixture.hinge import Hinge, gaps, hinge
from horizonfree.models.mixture.polytope import MARGIN, Polytope, Separation, cube
from horizonfree.models.mixture.steps import at_slots
from horizonfree.models.mixture.valid import ValidSet

MAX_UNKNOWNS = 5  # unknown directions: vertices grow too fast beyond
PROGRAMMES = 10_000  # dynamic programmes to spend
HINGES = 4_000  # programmes of the hinge to spend
AT_ONCE = 128  # programmes side by side
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


@np.errstate(all="ignore")
def direct(
    space: Space,
    valid: ValidSet,
    counts: Int[np.ndarray, " R"],
    ball: Ellipsoid,
    step: RowDivergence,
    is_out: Bool[np.ndarray, " R"],
    *,
    programmes: int = PROGRAMMES,
    hinges: int = HINGES,
) -> Direct:
    """The uniform gap over U itself, for the best of a few bad sets, none first; `counts` are those of the ball's bet.

    `is_out` are the rows that `step` leaves out.
    Takes at most about `programmes` dynamic programmes per bad set, and `hinges` of the hinge for the best of them.
    """
    free = np.asarray(valid.free)
    Z = ball.z[free] / ball.p[free, None]
    below, above = (np.maximum(x[free], MARGIN) for x in (ball.below, ball.above))
    U = Separation(Z, np.asarray(counts)[free], below, above, max(ball.slack, MARGIN))
    none = step.leak[None] > NOTHING_LEFT
    best = Direct(np.inf, np.inf, 1.0, 0.0, np.inf, np.inf, 0, 0)
    for stop in np.unique(np.concatenate([none, none | bad_sets(step)]), axis=0):
        hit = largest_hit(space, step, stop)
        if 2 * hit >= best.eps:
            continue
        matters = _matters(space, valid, is_out, stop)
        kappas = _in_blocks(partial(_kappas, space, valid, ball, step, stop, matters))
        polytope, attained, used = largest(U, kappas, programmes)
        kappa = max(float(polytope.kappa.max()), 0.0)
        eps = float(gap(*(np.asarray(x) for x in (2 * hit, kappa, kappa))))
        if eps < best.eps:
            best = Direct(eps, kappa, hit, attained, np.inf, np.inf, used, 0)
            last = polytope, kappas, stop, matters
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


def _matters(
    space: Space, valid: ValidSet, is_out: Bool[np.ndarray, " R"], stop: Bool[np.ndarray, "S A"]
) -> Bool[np.ndarray, " R"]:
    """Free rows that are kept and that a reachable pair outside the bad set has."""
    pairs = space.reachable[:, None] & ~stop
    is_met = np.zeros(len(valid.rows) + 1, bool)  # the last stands for padding
    is_met[np.asarray(valid.row_of)[pairs]] = True
    matters: np.ndarray = valid.free & ~is_out & is_met[:-1]
    return matters


def _in_blocks(kappas: Kappas) -> Kappas:
    """AT_ONCE points at a time: what is computed in between stays in the cache."""

    def blocks(u: Points) -> Float[np.ndarray, " m"]:
        return np.concatenate([kappas(u[i : i + AT_ONCE]) for i in range(0, len(u), AT_ONCE)])

    return blocks


def _kappas(
    space: Space,
    valid: ValidSet,
    ball: Ellipsoid,
    step: RowDivergence,
    stop: Bool[np.ndarray, "S A"],
    matters: Bool[np.ndarray, " R"],
    u: Points,
) -> Float[np.ndarray, " m"]:
    """kappa at each u; infinite where p_theta is not positive on some row that matters."""
    p = np.where(matters, ball.p, 1.0)
    pairs = space.reachable[:, None] & ~stop
    x = np.where(matters, u @ ball.z.T / p, 0.0)
    is_finite = np.asarray((x > -1).all(-1))
    kl = -p * np.log1p(np.where(is_finite[:, None], x, 0.0))
    inside = at_slots(kl.T, valid.row_of).sum(2)  # S A m
    cost = np.where(
        pairs[..., None], inside / (1 - step.leak)[..., None] - np.log1p(-step.leak)[..., None], 0.0
    )
    return np.where(is_finite, _largest_sums(space, step, cost, stop), np.inf)


def _largest_sums(
    space: Space, step: RowDivergence, cost: Float[np.ndarray, "S A m"], stop: Bool[np.ndarray, "S A"]
) -> Float[np.ndarray, " m"]:
    """`trajectories.largest_sum` of many costs at once."""
    if space.horizon < 2:
        return np.zeros(cost.shape[-1])
    prob = step.kernel.prob * np.where(stop, 0.0, 1 / (1 - step.leak))[..., None]
    Q = cost
    for _ in range(space.horizon - 2):
        V = Q.max(1)
        if space.is_dense:
            Q = cost + prob @ V
        else:
            Q = cost + (prob[:, :, None] @ V[space.succ])[:, :, 0]
    return space.at_start(Q.max(1).T)
