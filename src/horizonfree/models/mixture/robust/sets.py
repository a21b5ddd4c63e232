"""Where theta_star lies, if the laws are within their radii: three sets, and an ellipsoid around what they share.

The e-processes of Theorem R1 get 0.8 of delta, row frequencies (R2) 0.1 and half-spaces (R3) 0.1. Starting from R2's
bounds of the rows, each round takes

    W' from the bounds (penalty.py)  ->  the library's ellipsoid of slack W'  ->  bounds of rows by half-spaces in it
    ->  the smallest ellipsoid around it and these bounds  ->  bounds of rows,

each of which is valid by itself. Nothing that is chosen depends on the radii, so along zeta = c (a declared shape) the
sets hold for all c at once; `SharedData` is computed once for all of them.

Half-spaces and bounds of rows become an ellipsoid, and back. A ball ||u|| <= 1, Delta = T u, and a half-space n'u <= c:
the largest of w'u over both is, with n of length 1,

    ||w||                                       where w'n <= c ||w|| (the half-space does not cut there)
    (w'n) c + ||w - (w'n) n|| sqrt(1 - c^2)     else;                                 the set is empty where c < -1.

Bounds |z_r'u| <= w_r and the ball give, for all weights omega >= 0 that sum to 1,
omega_0 |u|^2 + sum omega_r (z_r'u)^2 / w_r^2 <= 1: an ellipsoid. Titterington's updates look for the weights with the
smallest volume.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.models.mixture.ellipsoid import Ellipsoid, ellipsoid
from horizonfree.models.mixture.evidence import STARTS, MixtureEvidence, Record, predictors
from horizonfree.models.mixture.likelihood import Fit, coordinates, maximum_likelihood
from horizonfree.models.mixture.robust.frequencies import (
    Frequencies,
    PairKinds,
    frequencies,
    kinds_of,
    least_multiple,
)
from horizonfree.models.mixture.robust.half_spaces import Blocks, HalfSpaces, directions, half_spaces
from horizonfree.models.mixture.robust.penalty import BOX_SHARE, penalised
from horizonfree.models.mixture.valid import ValidSet

MAX_ROUNDS = 8
CONVERGENCE_SHARE = 1e-3  # rounds end where no bound becomes smaller by this share
BETS, ROWS, SPACES = 0.8, 0.1, 0.1  # of delta
WEIGHT_UPDATES = 60  # of the weights
MIN_WIDTH = 1e-12  # bounds are not taken to be smaller


class Rows(NamedTuple):
    """Rows in coordinates; p is 1 where it is not needed and would be 0."""

    z: Float[np.ndarray, "R q"]
    p_center: Float[np.ndarray, " R"]
    free: Bool[np.ndarray, " R"]

    def p(self, y: Float[np.ndarray, "*k q"]) -> Float[np.ndarray, "*k R"]:
        """Probabilities of the rows; 1 for rows that are zero on all of Theta, which are in no slot."""
        p = self.p_center + y @ self.z.T
        return np.where(self.free | (p > 0), p, 1.0)


class EProcessData(NamedTuple):
    """The e-process that is used: its start, maximum of the likelihood, slack, counts, and its share of delta.

    Then its blocks: predictors `y`, probabilities `p` of the rows, counts of rows and visits of pairs; and the counts
    of rows before it.
    """

    start: int
    fit: Fit
    slack: float
    counts: Int[np.ndarray, " R"]
    share: float
    y: Float[np.ndarray, "T q"]
    p: Float[np.ndarray, "T R"]
    rows: Int[np.ndarray, "T R"]
    visits: Int[np.ndarray, "T S A"]
    before: Int[np.ndarray, " R"]


class SharedData(NamedTuple):
    """The valid set, its rows, row frequencies, and the e-process.

    `least`: the smallest multiple of radii in these proportions (the bytes of `Frequencies.shape`).
    """

    valid: ValidSet
    rows: Rows
    classes: Frequencies
    least: Callable[[bytes], float]
    bet: EProcessData


def shared_data(valid: ValidSet, evidence: MixtureEvidence, record: Record, delta: float) -> SharedData:
    """All of it."""
    rows, classes = _rows(valid), _classes(valid, evidence, record, delta)

    @cache
    def least(shape: bytes) -> float:
        return least_multiple(classes._replace(zeta=np.frombuffer(shape)), rows.p_center, rows.z)

    return SharedData(valid, rows, classes, least, _best_e_process(valid, rows, evidence, record, delta))


def zeta_low(valid: ValidSet, evidence: MixtureEvidence, delta: float) -> float:
    """The smallest radius, the same for all pairs, that the data do not refute; 0 where there is no record."""
    if evidence.record is None:
        return 0.0
    rows = _rows(valid)
    return least_multiple(_classes(valid, evidence, evidence.record, delta), rows.p_center, rows.z)


def _rows(valid: ValidSet) -> Rows:
    coords = coordinates(valid)
    return Rows(coords.z.T, coords.p_center, np.asarray(valid.free))


def _classes(valid: ValidSet, evidence: MixtureEvidence, record: Record, delta: float) -> Frequencies:
    """Row frequencies of all episodes, for radii that are alike."""
    row_of, visits = np.asarray(valid.row_of), np.asarray(record.visits).sum(0)
    kinds = kinds_of(valid, np.ones(row_of.shape[:2]))
    return frequencies(kinds, row_of, np.asarray(evidence.counts), visits, ROWS * delta)


def _best_e_process(
    valid: ValidSet, rows: Rows, evidence: MixtureEvidence, record: Record, delta: float
) -> EProcessData:
    """The e-process with the smallest slack per transition; it begins with the first block after its declared start.

    Predictors, maximum likelihood and slack are all over the parameters of `valid`. The fit starts from the last
    predictor, which lies inside them. The run's own predictor need not: `valid` may be smaller than the run's set, as
    with laws that may lead anywhere.
    """
    seen = np.asarray(record.rows) * np.asarray(valid.positive)
    coords = coordinates(valid)
    thetas = predictors(valid, seen)
    y = np.stack([coords.basis.T @ (theta - coords.center) for theta in thetas])
    p = rows.p(y)
    first = np.searchsorted(STARTS, np.asarray(evidence.starts))  # J
    first = np.minimum(first, len(STARTS) - 1)
    counts = np.stack([seen[b:].sum(0) for b in first]).astype(np.int32)
    fits = [maximum_likelihood(valid, x, thetas[-1]) for x in counts]
    with np.errstate(divide="ignore"):
        logs = np.where(seen > 0, seen * np.log(p), 0.0).sum(1)
    loss = -np.array([logs[b:].sum() for b in first])
    weights = np.asarray(evidence.weights)
    slack = loss - np.log(BETS * delta * weights) - np.array([x.loss - x.gap for x in fits])
    j = int(np.argmin(np.maximum(slack, 1.0) / np.maximum(counts.sum(1), 0.1)))
    b = int(first[j])
    share = SPACES * delta * float(weights[j])
    blocks = y[b:], p[b:], seen[b:], np.asarray(record.visits)[b:]
    return EProcessData(int(STARTS[b]), fits[j], float(slack[j]), counts[j], share, *blocks, seen[:b].sum(0))


def reach(
    white: Float[np.ndarray, "R q"], normal: Float[np.ndarray, "K q"], level: Float[np.ndarray, " K"]
) -> Float[np.ndarray, " R"]:
    """The largest w'u of each row w over the unit ball and each half-space, the best of these; nan where empty."""
    length = np.linalg.norm(normal, axis=1)
    is_one = length > 0
    if (level[~is_one] < 0).any():
        return np.full(len(white), np.nan)
    n, c = normal[is_one] / length[is_one, None], level[is_one] / length[is_one]
    size = np.linalg.norm(white, axis=1)
    cuts = c < 1
    if (c < -1).any():
        return np.full(len(white), np.nan)
    if not cuts.any():
        return np.asarray(size)
    n, c = n[cuts], c[cuts]
    along = white @ n.T
    across = np.sqrt(np.maximum(size[:, None] ** 2 - along**2, 0.0))
    cut = np.where(along > c * size[:, None], along * c + across * np.sqrt(1 - c**2), size[:, None])
    least: np.ndarray = np.minimum(size, cut.min(1))
    return least


def smallest_ellipsoid(
    white: Float[np.ndarray, "R q"], width: Float[np.ndarray, " R"], *, has_ball: bool
) -> Float[np.ndarray, "q q"]:
    """M with u'M u <= 1 for every u with |white u| <= width, of norm at most 1 where has_ball."""
    q = white.shape[1]
    v = white / np.maximum(width, MIN_WIDTH)[:, None]
    v = v[(v != 0).any(-1)]
    ball, weight = (0.5, np.full(len(v), 0.5 / len(v))) if has_ball else (0.0, np.full(len(v), 1 / len(v)))
    one = np.eye(q)
    M: np.ndarray = ball * one + (v.T * weight) @ v
    for _ in range(WEIGHT_UPDATES):
        inverse = np.linalg.inv(M)
        ball *= inverse.trace() / q
        weight = weight * ((v @ inverse) * v).sum(1) / q
        total = ball + weight.sum()
        ball, weight = ball / total, weight / total
        M = ball * one + (v.T * weight) @ v
    return M


class EProcess(NamedTuple):
    """The e-process that is used: its start, slack and counts, the same for all radii; its blocks and half-spaces."""

    start: int
    slack: float
    counts: Int[np.ndarray, " R"]
    blocks: Blocks
    spaces: HalfSpaces


class ParameterSets(NamedTuple):
    """What is known of theta_star: an ellipsoid with bounds of rows, W', and zeta_low; `is_empty`: no theta is left."""

    ball: Ellipsoid
    slack: float
    zeta_low: float
    is_empty: bool
    bet: EProcess


@np.errstate(all="ignore")  # infinite slacks
def confidence_sets(
    shared: SharedData, zeta: Float[np.ndarray, "S A"], *, anywhere: bool, by_kl: bool = False
) -> ParameterSets:
    """The sets for these radii; inside the 64-bit scope, NumPy in and out.

    by_kl: the radii are those of divergences, KL(P_theta || Q) <= 2 zeta^2, which half-spaces make use of.
    """
    kinds = kinds_of(shared.valid, zeta)
    classes = shared.classes.within(kinds)
    low = shared.least(classes.shape.tobytes())
    bet = _e_process(shared, kinds, anywhere=anywhere, by_kl=by_kl)
    result, slack, is_empty = _tightened(shared, kinds, classes, bet)
    return ParameterSets(result, slack, low, is_empty or low > float(zeta.max()), bet)


def _e_process(shared: SharedData, kinds: PairKinds, *, anywhere: bool, by_kl: bool) -> EProcess:
    """The e-process for these kinds of pairs."""
    bet, valid, z = shared.bet, shared.valid, shared.rows.z
    blocks = Blocks(bet.y, bet.p, bet.rows, kinds.total(bet.visits))
    q = z.shape[1]
    spaces = HalfSpaces(np.zeros((0, q)), np.zeros(0))
    if q and bet.before.any():
        y0 = np.asarray(valid.basis).T @ (np.asarray(bet.fit.theta) - np.asarray(valid.center))
        v = directions(z, bet.p[0], bet.before, kinds.rows.size, bet.share)
        spaces = half_spaces(kinds, blocks, z, v, y0, bet.share, anywhere=anywhere, by_kl=by_kl)
    return EProcess(bet.start, bet.slack, bet.counts, blocks, spaces)


def _tightened(
    shared: SharedData, kinds: PairKinds, classes: Frequencies, bet: EProcess
) -> tuple[Ellipsoid, float, bool]:
    """The ellipsoid after some rounds, the last W', and whether nothing is left."""
    z, free, fit = shared.rows.z, shared.rows.free, shared.bet.fit
    p = np.where(free, np.asarray(fit.p), shared.rows.p(np.zeros(z.shape[1])))
    low, high = classes.row_bounds(len(p))
    below, above = np.where(free, 1 - low / p, 0.0), np.where(free, high / p - 1, 0.0)
    white, slack = z, math.inf
    if not z.shape[1]:
        return _ball(fit, p, white, below * 0, above * 0, bet.slack), bet.slack, False
    box = _gram(z[free], 1 / np.maximum(p, 1 - p)[free] ** 2 / free.sum())
    for _ in range(MAX_ROUNDS):
        if (below + above < -1e-9).any():
            return _ball(fit, p, white, below, above, slack), slack, True
        below, above = np.maximum(below, 0.0), np.maximum(above, 0.0)
        before = below + above
        F = _gram(z, bet.counts * _curvature(above) / p**2) + BOX_SHARE * box
        slack = penalised(kinds, bet.blocks, z, p, below, above, F, bet.slack)
        if slack < 0:
            return _ball(fit, p, white, below, above, bet.slack), slack, True
        result = ellipsoid(shared.valid, shared.bet.counts, fit, slack)
        if math.isfinite(slack) and np.isfinite(result.z).all():
            white = np.asarray(result.z)
            below = np.where(free, np.minimum(below, result.below), 0.0)
            above = np.where(free, np.minimum(above, result.above), 0.0)
        else:
            white = _whitened(z, smallest_ellipsoid(z, p * np.maximum(below, above), has_ball=False))
        white, below, above = _cut(white, z, p, below, above, bet.spaces)
        if np.isnan(below).any():
            return _ball(fit, p, z, np.ones_like(p), above, slack), slack, True
        if (before - below - above <= CONVERGENCE_SHARE * before).all():
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
