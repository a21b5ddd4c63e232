"""A bound on the suboptimality of a plan, by the likelihood ratio of whole trajectories.

Theorem N in docs/further-proofs.md has the proof.

Let P and P_star be kernels with P_star(.|s,a) = P(.|s,a) + 2 beta F'v, ||v|| <= 1, at every pair. By Neyman and
Pearson, E_star X - lam E X is largest for the X in [0, 1] that is 1 where dP_star/dP > lam. That maximum over X,
policies and P_star obeys, with k transitions left and q = P_star(.|s,a), p = P(.|s,a),

    j_0(s, lam) = (1 - lam)^+,   j_k(s, lam) = max over a, q of sum_s' q(s') j_{k-1}(s', lam p(s')/q(s')).

The total reward is such an X, and a plan that is optimal in P loses at most the minimum N over lam of
lam - 1 + 2 j_{H-1}(s_1, lam).

The sum is convex in P_star, so the vertices of a polytope around the ball of v bound it. j is convex and falls in lam:
chords between the points of a grid bound it, the chord from j = 1 at lam = 0 before the first, the last value after the
last. The points are even in log lam, so that lam P(s')/P_star(s') is as many points away for all of them.
"""

import numpy as np
from jaxtyping import Float

from horizonfree._x64 import x64
from horizonfree.oracle.objective import Prepared

GRID_POINTS = 401  # values of lam; odd, so that lam = 1 is one of them
GRID_DEVIATIONS = 4.0  # half-width of the grid, in standard deviations of the log-likelihood ratio
MAX_RANK = 3  # unknown directions of one pair; with more, the polytopes have too many vertices
MAX_WORK = 1e10  # additions, about half a minute; if there are more, the bound is 1
POLYGON_SIDES = 24  # of the polygon around the unit disc
ZERO = 1e-12  # singular values below this, or this share of the largest, are zero
MARGIN = 1e-9  # balls are enlarged by this share, for rounding


@x64
def likelihood_ratio_bound(prepared: Prepared, beta: float) -> float:
    """A bound on the suboptimality of a plan that is optimal in P_theta; 1 is vacuous.

    It holds for every reward of total at most 1.

    Needs P_theta and P_star to be kernels. It is 1 where a pair has more than MAX_RANK unknown directions, or where
    the work would exceed MAX_WORK. Runs on the host.
    """
    space = prepared.space
    # Rows of unreachable states need not be probabilities (likelihood.py).
    reachable = np.asarray(space.reachable)[:, None, None]
    p = np.where(reachable, np.maximum(np.asarray(prepared.p).transpose(2, 1, 0), 0.0), 0.0)
    tilts = np.where(reachable[..., None], np.asarray(prepared.F_tilde).transpose(3, 2, 1, 0), 0.0)
    if not np.isfinite(p).all() or not np.isfinite(tilts).all():  # no ellipsoid
        return 1.0
    transitions = space.horizon - 1
    stars = extremes(p, 2 * beta * tilts)
    if stars is None or stars.size * GRID_POINTS * transitions > MAX_WORK:
        return 1.0
    succ = np.asarray(prepared.succ).transpose(2, 1, 0)
    log_lam = grid(p, tilts, 2 * beta, succ, transitions)
    j = programme(p, stars, succ, log_lam, transitions)
    return float(min(1.0, (np.expm1(log_lam) + 2 * space.at_start(j.T)).min()))


def extremes(
    p: Float[np.ndarray, "S A n"], tilts: Float[np.ndarray, "S A n m"]
) -> Float[np.ndarray, "V S A n"] | None:
    """Probabilities whose hull contains every row of P_star; None if a pair is above MAX_RANK.

    They are p + tilts v at the vertices v of a polytope around the unit ball, negative entries set to 0, or, where one
    direction is unknown, the ends of a segment, inside which all entries are at least 0.
    """
    _, size, basis = np.linalg.svd(tilts, full_matrices=False)
    rank = (size > ZERO * np.minimum(size.max(-1, keepdims=True), 1.0)).sum(-1)
    max_rank = int(rank.max())
    if max_rank > MAX_RANK:
        return None
    # Tilts times directions: entries that are zero stay zero, which left singular vectors would not give.
    axes = (1 + MARGIN) * (tilts @ np.swapaxes(basis, -1, -2))[..., :max_rank]
    is_segment = (rank == 1)[..., None]
    axes = np.where(is_segment[..., None] & (np.arange(max_rank) > 0), 0.0, axes)
    v = ball_vertices(max_rank)[:, None, None]
    v = np.where(is_segment, np.clip(v, -1, 1), v)
    step = np.einsum("sanr,vsar->vsan", axes, v)
    error = ZERO * size.max(-1)[..., None] + 1e-15  # of rounding; entries below 0 are set to 0 in the end
    scales = np.where(step < 0, (p + error) / np.where(step < 0, -step, 1.0), np.inf)
    max_scale = scales.min(-1, keepdims=True)  # the largest multiple of step that keeps p + step >= 0
    step = np.where(is_segment, np.minimum(max_scale, 1.0), 1.0) * step
    return np.asarray(np.maximum(p + step, 0.0))


def ball_vertices(rank: int) -> Float[np.ndarray, "V rank"]:
    """The vertices of a polytope around the unit ball of 0 to 3 dimensions."""
    if rank == 0:
        return np.zeros((1, 0))
    if rank == 1:
        return np.array([[1.0], [-1.0]])
    if rank == 2:
        angle = 2 * np.pi * np.arange(POLYGON_SIDES) / POLYGON_SIDES
        return np.asarray(np.c_[np.cos(angle), np.sin(angle)] / np.cos(np.pi / POLYGON_SIDES))
    from scipy.spatial import ConvexHull  # loads slowly

    golden = (1 + np.sqrt(5)) / 2
    corners = np.array([[0.0, x, y * golden] for x in (1, -1) for y in (1, -1)])
    points = np.concatenate([np.roll(corners, i, axis=1) for i in range(3)])  # of an icosahedron
    faces = points[ConvexHull(points).simplices]
    midpoints = np.unique(np.round((faces + np.roll(faces, 1, axis=1)).reshape(-1, 3), 9), axis=0)
    points = np.concatenate([points, midpoints])
    normals = points / np.linalg.norm(points, axis=1, keepdims=True)
    # A plane a'x = b of the hull of the normals is the vertex a / b of the polytope.
    planes = ConvexHull(normals).equations
    return np.asarray(planes[:, :-1] / -planes[:, -1:])


def grid(
    p: Float[np.ndarray, "S A n"],
    tilts: Float[np.ndarray, "S A n m"],
    radius: float,
    succ: np.ndarray,
    transitions: int,
) -> Float[np.ndarray, " L"]:
    """The grid of log lam, evenly spaced and symmetric about 0.

    Its half-width comes from the largest expected sum of chi^2 over a trajectory, where the chi^2 of a pair is its
    largest sum (P_star - P)^2 / P.
    """
    weight = np.where(p > 0, 1 / np.sqrt(np.where(p > 0, p, 1.0)), 0.0)
    chi = np.linalg.norm(radius * weight[..., None] * tilts, 2, axis=(-2, -1)) ** 2
    total = np.zeros(len(p))
    for _ in range(transitions):
        total = np.minimum(4.0, (chi + (p * total[succ]).sum(-1)).max(1))
    reach = GRID_DEVIATIONS * max(float(np.sqrt(total.max())), 1e-6)
    return reach * np.linspace(-1.0, 1.0, GRID_POINTS)


def programme(
    p: Float[np.ndarray, "S A n"],
    stars: Float[np.ndarray, "V S A n"],
    succ: np.ndarray,
    log_lam: Float[np.ndarray, " L"],
    transitions: int,
) -> Float[np.ndarray, "S L"]:
    """j(s, lam) from above, for rows P_star in the hull of `stars`."""
    L, S, n = len(log_lam), len(p), p.shape[-1]
    lam, step = np.exp(log_lam), log_lam[1] - log_lam[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.where(stars > 0, np.log(p / stars) / step, 0.0)  # in points, to the right
    is_far = shift < -L  # lam = 0 counts as so far to the left that j = 1
    near = np.where(is_far, 0, np.floor(np.clip(shift, -L, L))).astype(int)
    right = np.where(is_far, 0.0, np.expm1(np.clip(shift - near, 0, 1) * step) / np.expm1(step))
    before = np.exp(log_lam[0] + step * np.arange(-L, 0)) / lam[0]
    j = np.tile(np.maximum(1 - lam, 0.0), (S, 1))
    for _ in range(transitions):
        padded = np.concatenate([1 - before * (1 - j[:, :1]), j, np.repeat(j[:, -1:], L + 1, axis=1)], axis=1)
        shifted = np.lib.stride_tricks.sliding_window_view(padded, L + 1, axis=1)
        j = np.zeros((S, L))
        for star, at, far, part in zip(stars, near + L, is_far, right):
            total = np.zeros((*p.shape[:2], L))
            for i in range(n):
                window, share = shifted[succ[..., i], at[..., i]], part[..., i, None]
                chord = (1 - share) * window[..., :-1] + share * window[..., 1:]
                total += star[..., i, None] * np.where(far[..., i, None], 1.0, chord)
            np.maximum(j, total.max(1), out=j)
        j = np.minimum(j, 1.0)
    return j
