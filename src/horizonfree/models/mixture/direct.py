"""The uniform gap over the confidence set U itself, for few unknowns, without an ellipsoid around it.

    kappa(theta) = max over pi of E_{theta_hat, pi} sum_{h<H} KL(P_theta_hat || P_theta)(s_h, a_h)

is convex in theta, so over any polytope that contains U it is largest at a vertex: one dynamic programme per vertex.
The polytope is cut where kappa is largest (outer approximation of a convex maximisation: Tuy 1983,
Hoffman 1981). Every polytope on the way gives a bound, and kappa where the way from theta_hat to a vertex leaves U says
how much of it some parameter of U attains.

The hinge (hinge.py) is convex in theta too, and gives a smaller gap; a programme of it costs about ten of kappa. So
the last polytope is reused, and cut further only where the hinge is largest. docs/certificates.md has the proofs.

Polytopes are given by their vertices. In the coordinates u of the ellipsoid, p_theta = p + z u, the polytope starts as
the cube around the unit ball. A vertex v outside U is cut off where the way from theta_hat to v leaves U, at u_b. The
plane that separates the two is one of

    f(u_b) + grad f(u_b)'(u - u_b) <= f(u) <= W,   f(u) = L(theta) - L(theta_hat) = - sum_r N_r log(1 + z_r'u / p_r),
    -below_r <= z_r'u / p_r <= above_r.

The first holds for any u_b, as f is convex: no rounding in u_b matters.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.guarantees.divergence import RowDivergence, bad_sets, gap, largest_hit
from horizonfree.mdp.space import Space
from horizonfree.models.mixture.ellipsoid import Ellipsoid, at_slots
from horizonfree.models.mixture.hinge import Hinge, gaps, hinge
from horizonfree.models.mixture.valid import ValidSet

MAX_UNKNOWNS = 5  # unknown directions: vertices grow too fast beyond
MAX_PROGRAMMES = 10_000  # dynamic programmes to spend
MAX_HINGES = 4_000  # programmes of the hinge to spend
POINTS_PER_BLOCK = 128  # programmes side by side
HINGES_PER_ROUND = 16  # programmes of the hinge between two tests whether more are needed
CUTS_PER_ROUND = 16  # of the polytope between two calls
# Stop when parameters of U attain kappa, or the gap by the hinge, up to this share.
RELATIVE_TOLERANCE = 0.005
MAX_LEAK = 1 - 1e-9  # pairs of which so much was left out are never followed
BISECTIONS = 40  # to find where a segment leaves U
PLANE_MARGIN = 1e-9  # by which planes are moved outwards, of their distance from theta_hat: rounding


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
        for _ in range(BISECTIONS):
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
        return a, b * (1 + PLANE_MARGIN)

    def cut_off(
        self, polytope: Polytope, worst: Int[np.ndarray, " c"]
    ) -> tuple[Polytope, Float[np.ndarray, "c q"]]:
        """The polytope without these vertices, and where the ways to them leave U.

        The argument itself if the first of them cannot be cut off.
        """
        v = polytope.vertices[worst]
        by_loss, by_rows = self.leave(v)
        leaves = np.minimum(by_loss, by_rows)
        is_outside = leaves < 1 - 10 * PLANE_MARGIN
        if not is_outside[0]:
            return polytope, leaves[:, None] * v
        rows_first = np.isinf(polytope.kappa[worst]) & (by_rows < 1 - 10 * PLANE_MARGIN)
        by_loss = np.where(rows_first, 1.0, by_loss)  # bounds of rows are the shortest way to finite kappa
        for i in range(len(v)):
            if is_outside[i]:
                a, b = self.plane(v[i], by_loss[i], by_rows[i])
                polytope = cut(polytope, a, b)
                is_outside &= v @ a <= b  # the others are gone as well
        return polytope, leaves[:, None] * v


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


@dataclass(frozen=True)
class ByKappa:
    """The first stage: `result` is the gap by kappa and hit, for the bad set `stop`; `matters` are its rows outside it.

    `least`: the second stage proves no smaller gap, since some parameter of U attains that much. `comparison` has the
    programmes of the second stage; None where there is none, as kappa is zero or infinite.
    """

    result: Direct
    least: float
    polytope: Polytope
    stop: Bool[np.ndarray, "S A"]
    matters: Bool[np.ndarray, " R"]
    comparison: Hinge | None = None


@dataclass(frozen=True, eq=False)
class Likelihood:
    """U of one e-process: the ball around it, the `counts` of its rows, and one transition of its estimate.

    `is_out` are the rows that `step` leaves out.
    """

    space: Space
    valid: ValidSet
    counts: Int[np.ndarray, " R"]
    ball: Ellipsoid
    step: RowDivergence
    is_out: Bool[np.ndarray, " R"]

    def separation(self) -> Separation:
        """U seen from theta_hat."""
        free, ball = np.asarray(self.valid.free), self.ball
        below, above = (np.maximum(x[free], PLANE_MARGIN) for x in (ball.below, ball.above))
        Z = ball.z[free] / ball.p[free, None]
        return Separation(Z, np.asarray(self.counts)[free], below, above, max(ball.slack, PLANE_MARGIN))

    def kappas(self, stop: Bool[np.ndarray, "S A"], matters: Bool[np.ndarray, " R"]) -> Kappas:
        """kappa at points u, with a bad set; some points at a time, so that numbers stay in the cache."""

        def kappas(u: Points) -> Float[np.ndarray, " m"]:
            blocks = (u[i : i + POINTS_PER_BLOCK] for i in range(0, len(u), POINTS_PER_BLOCK))
            return np.concatenate([self._kappas(block, stop, matters) for block in blocks])

        return kappas

    def _kappas(
        self, u: Points, stop: Bool[np.ndarray, "S A"], matters: Bool[np.ndarray, " R"]
    ) -> Float[np.ndarray, " m"]:
        """kappa at each u; infinite where p_theta is not positive on some row that matters."""
        space, leak = self.space, self.step.leak
        p = np.where(matters, self.ball.p, 1.0)
        x = np.where(matters, u @ self.ball.z.T / p, 0.0)
        is_finite = np.asarray((x > -1).all(-1))
        kl = -p * np.log1p(np.where(is_finite[:, None], x, 0.0))
        inside = at_slots(kl.T, self.valid.row_of).sum(2)  # S A m
        cost = inside / (1 - leak)[..., None] - np.log1p(-leak)[..., None]
        cost = np.where((space.reachable[:, None] & ~stop)[..., None], cost, 0.0)
        if space.horizon < 2:
            return np.where(is_finite, 0.0, np.inf)
        # `divergence.largest_sum` of all costs together
        prob, Q = self.step.kernel.prob * np.where(stop, 0.0, 1 / (1 - leak))[..., None], cost
        for _ in range(space.horizon - 2):
            V = Q.max(1)
            Q = cost + (prob @ V if space.is_dense else (prob[:, :, None] @ V[space.succ])[:, :, 0])
        return np.where(is_finite, space.at_start(Q.max(1).T), np.inf)

    @np.errstate(all="ignore")
    def by_kappa(self, programmes: int = MAX_PROGRAMMES) -> ByKappa:
        """For the best of a few bad sets, none first; at most about so many dynamic programmes for each."""
        space, step, U = self.space, self.step, self.separation()
        q, none = U.Z.shape[1], step.leak[None] > MAX_LEAK
        best = Direct(np.inf, np.inf, 1.0, 0.0, np.inf, np.inf, 0, 0)
        first, point = ByKappa(best, np.inf, cube(q), none[0], self.is_out), np.zeros(q)
        for stop in np.unique(np.concatenate([none, none | bad_sets(step)]), axis=0):
            hit = largest_hit(space, step, stop)
            if 2 * hit >= best.eps:
                continue
            matters = _matters(space, self.valid, self.is_out, stop)
            polytope, worst, attained, used = largest(U, self.kappas(stop, matters), programmes)
            kappa = max(float(polytope.kappa.max()), 0.0)
            eps = float(gap(*(np.asarray(x) for x in (2 * hit, kappa, kappa))))
            if eps < best.eps:
                best, point = Direct(eps, kappa, hit, attained, np.inf, np.inf, used, 0), worst
                first = ByKappa(best, eps, polytope, stop, matters)
        if not (0 < best.kappa < np.inf and 2 * best.hit < 1):
            return first
        comparison = hinge(space, self.valid, self.ball, step, first.stop, first.matters, best.kappa)
        inside = np.maximum(np.maximum(comparison.y, 0.0), comparison.curves(point[None])[0])
        least = min(best.eps, float(gaps(comparison.y, inside, best.hit).min()))
        return replace(first, least=least, comparison=comparison)

    @np.errstate(all="ignore")
    def by_hinge(self, first: ByKappa, hinges: int = MAX_HINGES) -> Direct:
        """The second stage, with at most about so many programmes of the hinge."""
        best = first.result
        if first.comparison is None:
            return best
        kappas = self.kappas(first.stop, first.matters)
        upper, lower, used = smallest(
            self.separation(), first.polytope, kappas, first.comparison, best.hit, hinges
        )
        eps = min(best.eps, upper)
        return Direct(eps, best.kappa, best.hit, best.attained, upper, lower, best.programmes, used)


def largest(
    U: Separation, kappas: Kappas, programmes: int
) -> tuple[Polytope, Float[np.ndarray, " q"], float, int]:
    """A polytope around U on which kappa is nearly as small as on U, the point of U with the largest kappa found, that
    kappa, and the number of programmes.

    Infinite where a row that matters may have no probability and nothing keeps U away from there.
    """
    q = U.Z.shape[1]
    polytope, point, attained, used = cube(q), np.zeros(q), 0.0, 0
    while True:
        used += _fill(polytope, kappas)
        upper = max(float(polytope.kappa.max()), 0.0)
        if upper <= attained * (1 + RELATIVE_TOLERANCE) or used >= (
            programmes if upper < np.inf else programmes / 4
        ):
            return polytope, point, attained, used
        worst = np.argsort(-polytope.kappa)[:CUTS_PER_ROUND]
        after, points = U.cut_off(polytope, worst[polytope.kappa[worst] > attained])
        if after is polytope:
            return polytope, point, attained, used
        kappa = kappas(points)
        if kappa.max() > attained:
            point, attained = points[kappa.argmax()], float(kappa.max())
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
        worst = np.argsort(-height)[:CUTS_PER_ROUND]
        worst = worst[height[worst] > inside[b]]
        if best <= lower * (1 + RELATIVE_TOLERANCE) or len(known) + used >= programmes or not len(worst):
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
    for block in np.split(queue, range(HINGES_PER_ROUND, len(queue), HINGES_PER_ROUND)) if len(queue) else []:
        rest = comparison.at_most(float(polytope.kappa[block[0]]))
        b = gaps(y, upper, hit).argmin()
        if rest[b] <= upper[b] or len(known) >= programmes:
            return np.asarray(np.maximum(upper, rest))
        curves = comparison.curves(polytope.vertices[block])
        known.update(zip((names[i] for i in block), curves))
        upper = np.asarray(np.maximum(upper, curves.max(0)))
    return upper


def _names(polytope: Polytope) -> list[bytes]:
    """Keys of the vertices; cuts do not change those of the remaining ones."""
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
