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

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from horizonfree._x64 import leaf, to_device, to_numpy, x64
from horizonfree.models.mixture.ellipsoid import Ellipsoid, ellipsoid
from horizonfree.models.mixture.evidence import Evidence
from horizonfree.models.mixture.likelihood import Fit, maximum_likelihood
from horizonfree.models.mixture.record import STARTS, Record, predictors
from horizonfree.models.mixture.robust.boxed import reach, smallest_ellipsoid
from horizonfree.models.mixture.robust.frequencies import Frequencies, frequencies, least_multiple
from horizonfree.models.mixture.robust.half_spaces import Blocks, HalfSpaces, directions, half_spaces
from horizonfree.models.mixture.robust.kinds import Kinds, kinds_of
from horizonfree.models.mixture.robust.penalty import SHARE, penalised
from horizonfree.models.mixture.rows import coordinates
from horizonfree.models.mixture.valid import ValidSet

BETS, ROWS, SPACES = 0.8, 0.1, 0.1  # of delta
ROUNDS = 8
SETTLED = 1e-3  # rounds end where no bound becomes smaller by this share


class Bet(NamedTuple):
    """The bet that is used, the same for all radii: its start, maximum of the likelihood, slack, counts and blocks."""

    start: int
    fit: Fit
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


class _Rows(NamedTuple):
    """Rows in coordinates; p is 1 where it is not needed and would be 0."""

    z: Float[np.ndarray, "R q"]
    p_center: Float[np.ndarray, " R"]
    free: np.ndarray

    def p(self, y: Float[np.ndarray, "*k q"]) -> Float[np.ndarray, "*k R"]:
        """Probabilities of the rows; 1 for rows that are zero on all of Theta, which are in no slot."""
        p = self.p_center + y @ self.z.T
        return np.where(self.free | (p > 0), p, 1.0)


@eqx.filter_jit
def _predictors(valid: ValidSet, rows: Int[Array, "T R"]) -> Float[Array, "T q"]:
    at = coordinates(valid)
    return jax.vmap(at.y)(predictors(valid, rows))


@eqx.filter_jit
def _fits(valid: ValidSet, counts: Int[Array, "J R"], start: Float[Array, " d"]) -> Fit:
    fits: Fit = jax.lax.map(lambda x: maximum_likelihood(valid, x, start), counts)
    return fits


@eqx.filter_jit
def _ellipsoid(valid: ValidSet, counts: Int[Array, " R"], fit: Fit, slack: Float[Array, ""]) -> Ellipsoid:
    return ellipsoid(valid, counts, fit, slack)


def confidence_sets(
    valid: ValidSet,
    evidence: Evidence,
    record: Record,
    delta: float,
    zeta: Float[np.ndarray, "S A"],
    *,
    anywhere: bool,
    by_kl: bool = False,
) -> Sets:
    """The sets of the evidence, for these radii; inside the 64-bit scope, NumPy in and out.

    by_kl: the radii are those of divergences, KL(P_theta || Q) <= 2 zeta^2, which half-spaces make use of.
    """
    kinds, on_device, rows = kinds_of(valid, zeta), to_device(valid), _rows(valid)
    seen = np.asarray(record.rows) * np.asarray(valid.positive)
    y = np.asarray(_predictors(on_device, to_device(seen.astype(np.int32))))
    by_block = Blocks(y, rows.p(y), seen, kinds.total(np.asarray(record.visits)))
    classes = _classes(valid, kinds, evidence, record, delta)
    low = least_multiple(classes, rows.p_center, rows.z)
    bet = _chosen(on_device, rows, kinds, by_block, evidence, delta, anywhere=anywhere, by_kl=by_kl)
    found, slack, is_empty = _tightened(on_device, rows, kinds, classes, bet)
    return Sets(found, slack, low, is_empty or low > float(zeta.max()), bet)


@x64
def zeta_low(valid: ValidSet, evidence: Evidence, delta: float) -> float:
    """The smallest radius, the same for all pairs, that the data do not refute; 0 where there is no record."""
    if evidence.record is None:
        return 0.0
    kinds, rows = kinds_of(valid, np.ones(valid.row_of.shape[:2])), _rows(valid)
    classes = _classes(valid, kinds, evidence, evidence.record, delta)
    return least_multiple(classes, rows.p_center, rows.z)


def _rows(valid: ValidSet) -> _Rows:
    at = to_numpy(coordinates(to_device(valid)))
    return _Rows(np.asarray(at.z).T, np.asarray(at.p_center), np.asarray(valid.free))


def _classes(valid: ValidSet, kinds: Kinds, evidence: Evidence, record: Record, delta: float) -> Frequencies:
    """Row frequencies of all episodes."""
    visits = np.asarray(record.visits).sum(0)
    return frequencies(kinds, np.asarray(valid.row_of), np.asarray(evidence.counts), visits, ROWS * delta)


def _chosen(
    valid: ValidSet,
    rows: _Rows,
    kinds: Kinds,
    by_block: Blocks,
    evidence: Evidence,
    delta: float,
    *,
    anywhere: bool,
    by_kl: bool,
) -> Bet:
    """The bet with the smallest slack per transition; it begins with the first block after its declared start."""
    first = np.searchsorted(STARTS, np.asarray(evidence.starts))  # J
    first = np.minimum(first, len(STARTS) - 1)
    counts = np.stack([by_block.rows[b:].sum(0) for b in first]).astype(np.int32)
    fits = to_numpy(_fits(valid, *to_device((counts, np.asarray(evidence.theta)))))
    with np.errstate(divide="ignore"):
        logs = np.where(by_block.rows > 0, by_block.rows * np.log(by_block.p), 0.0).sum(1)
    loss = -np.array([logs[b:].sum() for b in first])
    weights = np.asarray(evidence.weights)
    slack = loss - np.log(BETS * delta * weights) - fits.loss + fits.gap
    j = int(np.argmin(np.maximum(slack, 1.0) / np.maximum(counts.sum(1), 0.1)))
    blocks = Blocks(*(x[first[j] :] for x in by_block))
    fit: Fit = jax.tree.map(lambda x: x[j], fits)
    y0 = np.asarray(valid.basis).T @ (np.asarray(fit.theta) - np.asarray(valid.center))
    share = SPACES * delta * float(weights[j])
    q = rows.z.shape[1]
    spaces = HalfSpaces(np.zeros((0, q)), np.zeros(0))
    before = by_block.rows[: first[j]].sum(0)
    if q and before.any():
        v = directions(rows.z, by_block.p[first[j]], before, kinds.rows.size, share)
        spaces = half_spaces(kinds, blocks, rows.z, v, y0, share, anywhere=anywhere, by_kl=by_kl)
    return Bet(int(STARTS[first[j]]), fit, float(slack[j]), counts[j], blocks, spaces)


def _tightened(
    valid: ValidSet, rows: _Rows, kinds: Kinds, classes: Frequencies, bet: Bet
) -> tuple[Ellipsoid, float, bool]:
    """The ellipsoid after some rounds, the last W', and whether nothing is left."""
    z, free, fit = rows.z, rows.free, bet.fit
    p = np.where(free, np.asarray(fit.p), rows.p(np.zeros(z.shape[1])))
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
        if math.isnan(slack) or slack < 0:
            return _ball(fit, p, white, below, above, bet.slack), slack, True
        if math.isfinite(slack):
            found = to_numpy(_ellipsoid(valid, *to_device((bet.counts, fit, np.asarray(slack)))))
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
    return Ellipsoid(fit.theta, leaf(p), leaf(z), leaf(below), leaf(above), leaf(np.asarray(slack)))
