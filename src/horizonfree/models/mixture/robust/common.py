"""What all radii have in common: all that the evidence says before one is declared, computed once."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.models.mixture.evidence import MixtureEvidence
from horizonfree.models.mixture.likelihood import Fit, coordinates, maximum_likelihood
from horizonfree.models.mixture.record import STARTS, Record, predictors
from horizonfree.models.mixture.robust.frequencies import Frequencies, frequencies, least_multiple
from horizonfree.models.mixture.robust.kinds import kinds_of
from horizonfree.models.mixture.valid import ValidSet

BETS, ROWS, SPACES = 0.8, 0.1, 0.1  # of delta


class Rows(NamedTuple):
    """Rows in coordinates; p is 1 where it is not needed and would be 0."""

    z: Float[np.ndarray, "R q"]
    p_center: Float[np.ndarray, " R"]
    free: Bool[np.ndarray, " R"]

    def p(self, y: Float[np.ndarray, "*k q"]) -> Float[np.ndarray, "*k R"]:
        """Probabilities of the rows; 1 for rows that are zero on all of Theta, which are in no slot."""
        p = self.p_center + y @ self.z.T
        return np.where(self.free | (p > 0), p, 1.0)


class Chosen(NamedTuple):
    """The bet that is used: its start, maximum of the likelihood, slack, counts, and its share of delta.

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


class Common(NamedTuple):
    """The valid set, its rows, row frequencies, and the bet.

    `least`: the smallest multiple of radii in these proportions (the bytes of `Frequencies.shape`).
    """

    valid: ValidSet
    rows: Rows
    classes: Frequencies
    least: Callable[[bytes], float]
    bet: Chosen


def common(valid: ValidSet, evidence: MixtureEvidence, record: Record, delta: float) -> Common:
    """All of it."""
    rows, classes = _rows(valid), _classes(valid, evidence, record, delta)

    @cache
    def least(shape: bytes) -> float:
        return least_multiple(classes._replace(zeta=np.frombuffer(shape)), rows.p_center, rows.z)

    return Common(valid, rows, classes, least, _chosen(valid, rows, evidence, record, delta))


def zeta_low(valid: ValidSet, evidence: MixtureEvidence, delta: float) -> float:
    """The smallest radius, the same for all pairs, that the data do not refute; 0 where there is no record."""
    if evidence.record is None:
        return 0.0
    rows = _rows(valid)
    return least_multiple(_classes(valid, evidence, evidence.record, delta), rows.p_center, rows.z)


def _rows(valid: ValidSet) -> Rows:
    at = coordinates(valid)
    return Rows(at.z.T, at.p_center, np.asarray(valid.free))


def _classes(valid: ValidSet, evidence: MixtureEvidence, record: Record, delta: float) -> Frequencies:
    """Row frequencies of all episodes, for radii that are alike."""
    row_of, visits = np.asarray(valid.row_of), np.asarray(record.visits).sum(0)
    kinds = kinds_of(valid, np.ones(row_of.shape[:2]))
    return frequencies(kinds, row_of, np.asarray(evidence.counts), visits, ROWS * delta)


def _chosen(valid: ValidSet, rows: Rows, evidence: MixtureEvidence, record: Record, delta: float) -> Chosen:
    """The bet with the smallest slack per transition; it begins with the first block after its declared start.

    Predictors, maximum likelihood and slack are all over the parameters of `valid`. The fit starts from the last
    predictor, which lies inside them. The run's own predictor need not: `valid` may be smaller than the run's set, as
    with laws that may lead anywhere.
    """
    seen = np.asarray(record.rows) * np.asarray(valid.positive)
    at = coordinates(valid)
    thetas = predictors(valid, seen)
    y = np.stack([at.y(theta) for theta in thetas])
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
    return Chosen(int(STARTS[b]), fits[j], float(slack[j]), counts[j], share, *blocks, seen[:b].sum(0))
