"""What reports show of a linear MDP."""

import numpy as np
from jaxtyping import Float

from horizonfree._arrays import Array
from horizonfree.models.base import Diagnostics
from horizonfree.models.linear.bounds import LinearEvidence
from horizonfree.models.linear.confidence import LinearConfidence
from horizonfree.models.linear.model import LinearModel


class LinearDiagnostics(Diagnostics):
    """Uncertainties are widths of rows in total variation."""

    model: LinearModel

    def in_units(self, parameter: Float[np.ndarray, "d S"]) -> Float[np.ndarray, " n"]:
        """mu of the features as given, one feature after the other."""
        flat: np.ndarray = (np.asarray(parameter) / self.model.unit).ravel()
        return flat

    def row_uncertainty(self, confidence: LinearConfidence) -> Float[np.ndarray, " S"]:
        """The width of the least known action."""
        return np.where(self.model.space.reachable, confidence.width.max(axis=1), np.nan)

    def mean_uncertainty(self, confidence: LinearConfidence) -> float:
        """Over all pairs."""
        return float(confidence.width.mean())

    def inefficiency(self, evidence: LinearEvidence) -> Float[Array, ""]:
        """K T / d of optimal design; traced."""
        from horizonfree.models.linear import learner

        return learner.inefficiency(self.model.space, self.model.phi, evidence)

    def evidence_history(self, evidence: LinearEvidence) -> list[LinearEvidence]:
        """The evidence at the starts of past e-processes; its counts are not stored, and zero."""
        starts, now = np.asarray(evidence.starts), int(evidence.episodes)
        return [_at_start(evidence, int(j)) for j in np.flatnonzero((starts > 0) & (starts < now))]


def _at_start(evidence: LinearEvidence, j: int) -> LinearEvidence:
    """At the start of e-process j: earlier ones had started, the others tracked the sums of that moment."""
    starts = np.asarray(evidence.starts)
    is_on = (starts < starts[j])[:, None, None]
    gram, cross = np.asarray(evidence.gram_at), np.asarray(evidence.cross_at)
    return LinearEvidence(
        gram=gram[j],
        cross=cross[j],
        gram_at=np.where(is_on, gram, gram[j]),
        cross_at=np.where(is_on, cross, cross[j]),
        counts=np.zeros_like(evidence.counts),
        starts=evidence.starts,
        weights=evidence.weights,
        episodes=np.asarray(starts[j]),
        impossible=evidence.impossible,
    )
