"""What reports show of a mixture: earlier moments, uncertainties, and the parameter with its intervals."""

import numpy as np
from jaxtyping import Bool, Float

from horizonfree.mdp.space import Space
from horizonfree.models.base import Diagnostics, Intervals
from horizonfree.models.misspecification import Misspecification
from horizonfree.models.mixture.confidence import MixtureConfidence
from horizonfree.models.mixture.ellipsoid import at_slots
from horizonfree.models.mixture.evidence import MixtureEvidence
from horizonfree.models.mixture.likelihood import coordinates, predict, pseudo_counts, whiten
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.models.mixture.robust.confidence import (
    RobustConfidence,
    asymptotic_gap,
    by_pinsker,
    check_support,
    lower_bound_text,
)
from horizonfree.models.mixture.robust.sets import zeta_low
from horizonfree.models.mixture.valid import EPS, ValidSet, extent
from horizonfree.planning.induction import best_total

MAX_ENTRIES_OF_PROGRAMMES = (
    100_000  # entries of the distinct features up to which linear programmes cut intervals
)
LSTSQ_TOLERANCE = 1e-12  # singular values below this share of the largest are left to the remainder
NEGLIGIBLE_REMAINDER = 1e-12  # smaller remainders of an interval are not reduced by linear programmes


class MixtureDiagnostics(Diagnostics):
    """Theta in the units of the features as given, and probabilities of its distinct rows."""

    model: MixtureModel

    def in_units(self, parameter: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """The parameter of the features as given."""
        return np.asarray(parameter) / self.model.unit

    def row_uncertainty(self, confidence: MixtureConfidence | RobustConfidence) -> Float[np.ndarray, " S"]:
        """The largest half width of a row."""
        return row_uncertainty(self.model.space, confidence.valid, confidence)

    def mean_uncertainty(self, confidence: MixtureConfidence | RobustConfidence) -> float:
        """Over the distinct free rows."""
        return mean_uncertainty(confidence.valid, confidence)

    def inefficiency(self, evidence: MixtureEvidence) -> float:
        """K T / q of optimal design (learner.py). Early values may be slightly below 1: pseudo-counts count as data."""
        model, valid = self.model, self.model.valid
        if valid.num_free == 0:
            return 0.0
        coords, theta = coordinates(valid), np.asarray(evidence.theta)
        p = np.where(valid.free, np.asarray(valid.rows) @ theta, 1.0)
        count = np.where(valid.virtual, 0.0, np.asarray(evidence.row_counts) + pseudo_counts(valid)[1])
        F = (coords.z * (count / p**2)) @ coords.z.T
        promise = (whiten(F, coords.z) ** 2).sum(0) / p
        gain = (
            at_slots(promise, np.asarray(valid.row_of)).sum(-1) * np.asarray(model.space.reachable)[:, None]
        )
        return int(evidence.episodes) * best_total(model.space, model.kernel(theta), gain) / valid.num_free

    def intervals(self, confidence: MixtureConfidence | RobustConfidence) -> Intervals:
        """Theta in the units of the features as given."""
        model = self.model
        limits = np.array([0.0, model.unit] if model.is_hull else [-np.inf, np.inf])
        result = intervals(confidence.valid, confidence, model.bound, limits)
        theta, low, high = (x / model.unit for x in result[:3])
        return Intervals(theta, low, high, result.is_learnable)

    def evidence_history(self, evidence: MixtureEvidence) -> list[MixtureEvidence]:
        """At the starts of the e-processes."""
        return evidence_history(self.model.valid, evidence)

    def remedy(self, evidence: MixtureEvidence, delta: float) -> str:
        """From which misspecification on the data allow the class, where they determine it."""
        if not evidence.has_history or evidence.impossible > 0:
            return ""
        low = lower_bound_text(zeta_low(self.model.valid, evidence, delta))
        return (
            f"; no single parameter is within {low} of all laws, and certificate(misspecification=zeta) says what "
            "holds if one is within zeta"
        )

    def asymptotic_gap(self, misspecification: Misspecification) -> float:
        """The bound that remains after infinitely many episodes, for the parameter in the middle of the class."""
        space, valid = self.model.space, self.model.valid
        check_support(space, misspecification)
        zeta, center = misspecification.radii(*space.sizes[1:]), np.asarray(valid.center)
        anywhere = misspecification.support == "anywhere"
        known = asymptotic_gap(space, valid, zeta, center, anywhere=anywhere)
        return min(known, by_pinsker(space, misspecification))


def evidence_history(valid: ValidSet, evidence: MixtureEvidence) -> list[MixtureEvidence]:
    """The evidence at the starts of the e-processes that lie in the past.

    Counts and losses of the e-processes only grow. Bet j counts from its start m_j on, so what e-process i had
    gathered at episode m_j is the difference of the two:

        N_i(m_j) = N_i - N_j,      Lq_i(m_j) = Lq_i - Lq_j          for m_i < m_j

    and the certificate of episode m_j is the one that would have been given then.
    """
    starts = np.asarray(evidence.starts)
    return [
        _evidence_at_start(valid, evidence, int(j))
        for j in np.flatnonzero((starts > 0) & (starts < int(evidence.episodes)))
    ]


def _evidence_at_start(valid: ValidSet, evidence: MixtureEvidence, j: int) -> MixtureEvidence:
    """The evidence at the start of e-process j. Counts per (s, a) of that moment are not kept: they are left at
    zero.
    """
    starts = np.asarray(evidence.starts)
    is_on = starts < starts[j]
    since, losses = np.asarray(evidence.since), np.asarray(evidence.losses)
    row_counts = np.asarray(evidence.row_counts) - since[j]
    return MixtureEvidence(
        counts=np.zeros(evidence.counts.shape, np.int32),
        row_counts=row_counts,
        since=np.where(is_on[:, None], since - since[j], 0),
        losses=np.where(is_on[:, None], losses - losses[j], 0.0),
        starts=evidence.starts,
        weights=evidence.weights,
        thetas=predict(valid, row_counts, np.asarray(evidence.thetas)),
        episodes=np.asarray(starts[j]),
        impossible=evidence.impossible,
    )


def row_uncertainty(
    space: Space, valid: ValidSet, confidence: MixtureConfidence | RobustConfidence
) -> Float[np.ndarray, " S"]:
    """How far a transition probability out of each state may be from its estimate; nan for unreachable states."""
    width = np.append(np.asarray(confidence.ball.width) * np.asarray(valid.free), 0.0)
    most = width[np.asarray(valid.row_of)].max(axis=(1, 2))
    return np.where(space.reachable, most, np.nan)


def mean_uncertainty(valid: ValidSet, confidence: MixtureConfidence | RobustConfidence) -> float:
    """How far an unknown transition probability may be from its estimate, on average over the distinct ones."""
    unknown = np.asarray(valid.free) & ~np.asarray(valid.virtual)
    return float(np.asarray(confidence.ball.width)[unknown].mean()) if unknown.any() else 0.0


def intervals(
    valid: ValidSet,
    confidence: MixtureConfidence | RobustConfidence,
    bound: float,
    limits: Float[np.ndarray, " 2"],
) -> Intervals:
    """Theta with the range of each entry over the confidence ellipsoid, as far as some kernel has such an entry.

    The ellipsoid is p = p_hat + z u, ||u|| <= 1, over the free rows X. Row sums, and rows that are zero on all of
    Theta, are equalities E. For any coefficients c, s write e_i = X'c + E's + rho. Every theta of the ellipsoid has

        |theta_i - theta_hat_i| = |c'z u + rho'(theta - theta_hat)| <= ||z'c|| + sum_j |rho_j| reach_j,

    reach_j the largest |theta_j - theta_hat_j| of a valid parameter. This holds for every c and s, so no decision about
    ranks matters: least squares make rho vanish where the rows determine the entry, and where they do not, rho is of
    the order of 1 and the interval is as wide as Theta.

    An entry that cannot be learnt, and every entry of a refuted class, is bounded by Theta and the `limits` alone.
    bound: on the norm of the parameter.
    """
    theta, is_learnable = np.asarray(confidence.theta), _is_learnable(valid)
    ends: dict[int, tuple[float, float]] = {}

    def range_of(j: int) -> tuple[float, float]:
        """Entry j over Theta, as wide as it can be."""
        if j not in ends:
            least, most = (
                extent(valid, j) if valid.rows.size <= MAX_ENTRIES_OF_PROGRAMMES else (-np.inf, np.inf)
            )
            ends[j] = max(least, limits[0]), min(most, limits[1])
        return ends[j]

    axes, rho, rounding = _axes(valid, confidence)
    reach = np.abs(theta) + min(bound, float(np.abs(limits).max()))
    for j in np.flatnonzero((np.abs(rho) * reach).max(axis=1) > NEGLIGIBLE_REMAINDER):
        least, most = range_of(int(j))
        reach[j] = min(reach[j], max(theta[j] - least, most - theta[j], 0.0))
    radius = np.linalg.norm(axes, axis=1) + np.abs(rho).T @ reach + rounding
    is_known = is_learnable & ~np.asarray(confidence.is_refuted) & np.isfinite(radius)
    radius = np.where(is_known, radius, np.inf)
    low, high = theta - radius, theta + radius
    for i in np.flatnonzero(~_is_inside(valid, theta, axes) | np.isinf(radius)):
        least, most = range_of(int(i))
        low[i], high[i] = max(low[i], least), min(high[i], most)
    return Intervals(theta, np.clip(low, *limits), np.clip(high, *limits), is_learnable)


def _axes(
    valid: ValidSet, confidence: MixtureConfidence | RobustConfidence
) -> tuple[Float[np.ndarray, "d q"], Float[np.ndarray, "d d"], Float[np.ndarray, " d"]]:
    """c'z of each entry (rows), its rho (columns), and a bound on the rounding in c'(p_theta - p_hat)."""
    free, sizes = np.asarray(valid.free), np.asarray(valid.sizes)
    scaled = np.asarray(valid.rows) / sizes[:, None]
    z = np.asarray(confidence.ball.z)[free] / sizes[free, None]
    known = np.vstack([np.asarray(valid.sums), scaled[~np.asarray(valid.positive)]])
    rows = np.vstack([scaled[free], known])
    c = np.linalg.lstsq(rows.T, np.eye(rows.shape[1]), rcond=LSTSQ_TOLERANCE)[0]
    rho = np.eye(rows.shape[1]) - rows.T @ c
    size = np.abs(rows) @ np.abs(np.asarray(confidence.theta)) + 1
    return c[: len(z)].T @ z, rho, 4 * rows.shape[1] * EPS * (size @ np.abs(c))


def _is_inside(
    valid: ValidSet, theta: Float[np.ndarray, " d"], axes: Float[np.ndarray, "d q"]
) -> Bool[np.ndarray, " d"]:
    """Whether the two points of the ellipsoid theta + axes u that go farthest along each entry are valid parameters."""
    long = np.linalg.norm(axes, axis=1, keepdims=True)
    change = np.asarray(valid.rows) @ axes @ (axes / np.where(long > 0, long, 1.0)).T
    result: np.ndarray = (np.asarray(valid.rows) @ theta >= np.abs(change).T).all(axis=1)
    return result


def _is_learnable(valid: ValidSet) -> Bool[np.ndarray, " d"]:
    """False where nothing that can happen in an episode depends on the entry alone."""
    affine, Z = np.asarray(valid.affine), np.asarray(valid.basis)
    hidden = affine @ affine.T - Z @ Z.T
    return np.diagonal(hidden) < 1e-9
