"""Where theta_star lies, if the laws are within their radii: three sets, and an ellipsoid around what they share.

The bets of Theorem R1 get 0.8 of delta, row frequencies (R2) 0.1 and half-spaces (R3) 0.1. Starting from R2's bounds of
the rows, each round takes

    W' from the bounds (penalty.py)  ->  the library's ellipsoid of slack W'  ->  bounds of rows by half-spaces in it
    ->  the smallest ellipsoid around it and these bounds  ->  bounds of rows,

each of which is valid by itself. Nothing that is chosen depends on the radii, so along zeta = c (a declared shape) the
sets hold for all c at once.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree.models.mixture.ellipsoid import Ellipsoid, ellipsoid
from horizonfree.models.mixture.likelihood import Fit
from horizonfree.models.mixture.robust.boxed import reach, smallest_ellipsoid
from horizonfree.models.mixture.robust.common import Common
from horizonfree.models.mixture.robust.frequencies import Frequencies
from horizonfree.models.mixture.robust.half_spaces import Blocks, HalfSpaces, directions, half_spaces
from horizonfree.models.mixture.robust.kinds import Kinds, kinds_of
from horizonfree.models.mixture.robust.penalty import SHARE, penalised

ROUNDS = 8
SETTLED = 1e-3  # rounds end where no bound becomes smaller by this share


class Bet(NamedTuple):
    """The bet that is used: its start, slack and counts, the same for all radii; its blocks and half-spaces."""

    start: int
    slack: float
    counts: Int[np.ndarray, " R"]
    blocks: Blocks
    spaces: HalfSpaces


class Sets(NamedTuple):
    """What is known of theta_star: an ellipsoid with bounds of rows, W', and zeta_low; `is_empty`: no theta is left."""

    ball: Ellipsoid
    slack: float
    zeta_low: float
    is_empty: bool
    bet: Bet


@np.errstate(all="ignore")  # infinite slacks
def confidence_sets(
    shared: Common, zeta: Float[np.ndarray, "S A"], *, anywhere: bool, by_kl: bool = False
) -> Sets:
    """The sets for these radii; inside the 64-bit scope, NumPy in and out.

    by_kl: the radii are those of divergences, KL(P_theta || Q) <= 2 zeta^2, which half-spaces make use of.
    """
    kinds = kinds_of(shared.valid, zeta)
    classes = shared.classes.within(kinds)
    low = shared.least(classes.shape.tobytes())
    bet = _bet(shared, kinds, anywhere=anywhere, by_kl=by_kl)
    found, slack, is_empty = _tightened(shared, kinds, classes, bet)
    return Sets(found, slack, low, is_empty or low > float(zeta.max()), bet)


def _bet(shared: Common, kinds: Kinds, *, anywhere: bool, by_kl: bool) -> Bet:
    """The bet for these kinds of pairs."""
    bet, valid, z = shared.bet, shared.valid, shared.rows.z
    blocks = Blocks(bet.y, bet.p, bet.rows, kinds.total(bet.visits))
    q = z.shape[1]
    spaces = HalfSpaces(np.zeros((0, q)), np.zeros(0))
    if q and bet.before.any():
        y0 = np.asarray(valid.basis).T @ (np.asarray(bet.fit.theta) - np.asarray(valid.center))
        v = directions(z, bet.p[0], bet.before, kinds.rows.size, bet.share)
        spaces = half_spaces(kinds, blocks, z, v, y0, bet.share, anywhere=anywhere, by_kl=by_kl)
    return Bet(bet.start, bet.slack, bet.counts, blocks, spaces)


def _tightened(shared: Common, kinds: Kinds, classes: Frequencies, bet: Bet) -> tuple[Ellipsoid, float, bool]:
    """The ellipsoid after some rounds, the last W', and whether nothing is left."""
    z, free, fit = shared.rows.z, shared.rows.free, shared.bet.fit
    p = np.where(free, np.asarray(fit.p), shared.rows.p(np.zeros(z.shape[1])))
    low, high = classes.row_bounds(len(p))
    below, above = np.where(free, 1 - low / p, 0.0), np.where(free, high / p - 1, 0.0)
    white, slack = z, math.inf
    if not z.shape[1]:
        return _ball(fit, p, white, below * 0, above * 0, bet.slack), bet.slack, False
    box = _gram(z[free], 1 / np.maximum(p, 1 - p)[free] ** 2 / free.sum())
    for _ in range(ROUNDS):
        if (below + above < -1e-9).any():
            return _ball(fit, p, white, below, above, slack), slack, True
        below, above = np.maximum(below, 0.0), np.maximum(above, 0.0)
        before = below + above
        F = _gram(z, bet.counts * _curvature(above) / p**2) + SHARE * box
        slack = penalised(kinds, bet.blocks, z, p, below, above, F, bet.slack)
        if slack < 0:
            return _ball(fit, p, white, below, above, bet.slack), slack, True
        found = ellipsoid(shared.valid, shared.bet.counts, fit, slack)
        if math.isfinite(slack) and np.isfinite(found.z).all():
            white = np.asarray(found.z)
            below = np.where(free, np.minimum(below, found.below), 0.0)
            above = np.where(free, np.minimum(above, found.above), 0.0)
        else:
            white = _whitened(z, smallest_ellipsoid(z, p * np.maximum(below, above), has_ball=False))
        white, below, above = _cut(white, z, p, below, above, bet.spaces)
        if np.isnan(below).any():
            return _ball(fit, p, z, np.ones_like(p), above, slack), slack, True
        if (before - below - above <= SETTLED * before).all():
            break
    return _ball(fit, p, white, np.maximum(below, 0.0), np.maximum(above, 0.0), slack), slack, False


def _cut(
    white: Float[np.ndarray, "R q"],
    z: Float[np.ndarray, "R q"],
    p: Float[np.ndarray, " R"],
    below: Float[np.ndarray, " R"],
    above: Float[np.ndarray, " R"],
    spaces: HalfSpaces,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ellipsoid and the bounds of rows, after half-spaces and the smallest ellipsoid around both."""
    is_free = (z != 0).any(-1)
    T = np.linalg.lstsq(z, white, rcond=None)[0]
    normal = spaces.normal @ T
    above = np.where(is_free, np.minimum(above, reach(white, normal, spaces.level) / p), 0.0)
    below = np.where(is_free, np.minimum(below, reach(-white, normal, spaces.level) / p), 0.0)
    if np.isnan(above).any() or np.isnan(below).any():
        return white, np.full_like(below, np.nan), above
    width = p * np.maximum(np.maximum(below, above), 0.0)
    white = _whitened(white, smallest_ellipsoid(white[is_free], width[is_free], has_ball=True))
    size = np.linalg.norm(white, axis=1) / p
    return white, np.minimum(below, size), np.minimum(above, size)


def _whitened(z: Float[np.ndarray, "R q"], M: Float[np.ndarray, "q q"]) -> Float[np.ndarray, "R q"]:
    """Rows in coordinates in which u'M u is the square of the norm."""
    white: np.ndarray = np.linalg.solve(np.linalg.cholesky(M), z.T).T
    return white


def _gram(z: np.ndarray, weight: np.ndarray) -> Float[np.ndarray, "q q"]:
    gram: np.ndarray = (z * weight[:, None]).T @ z
    return gram


def _curvature(x: Float[np.ndarray, " R"]) -> Float[np.ndarray, " R"]:
    """k(x) from below: 1/2 - x/3 is below it for x >= 0, and so is (x - log(1 + x))/x^2 for larger x."""
    safe = np.maximum(x, 1e-3)
    return np.where(x < 1e-3, 0.5 - x / 3, (safe - np.log1p(safe)) / safe**2)


def _ball(
    fit: Fit, p: np.ndarray, z: np.ndarray, below: np.ndarray, above: np.ndarray, slack: float
) -> Ellipsoid:
    return Ellipsoid(fit.theta, p, z, below, above, slack)
