"""What reports show of a linear MDP."""

import numpy as np
from jaxtyping import Float

from horizonfree.models.base import Diagnostics
from horizonfree.models.linear.bounds import RIDGE, LinearEvidence
from horizonfree.models.linear.confidence import LinearConfidence
from horizonfree.models.linear.model import LinearModel
from horizonfree.planning.induction import best_total


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

    def inefficiency(self, evidence: LinearEvidence) -> float:
        """K T / d of optimal design in the ridge estimate, which learner.py has for explorers.

        T is the largest expected sum of ||x||^2 in (gram + lam I)^-1 over an episode, and no design of K episodes has
        T < d/K (Kiefer and Wolfowitz 1960, "The equivalence of two extremum problems").
        """
        space, phi, gram = self.model.space, np.asarray(self.model.phi), np.asarray(evidence.gram)
        d = phi.shape[-1]
        inverse = np.linalg.inv(gram + RIDGE * np.eye(d))
        raw = np.maximum(phi @ inverse @ np.asarray(evidence.cross), 0.0)
        total = raw.sum(-1, keepdims=True)
        prob = np.where(total > 0, raw / np.where(total > 0, total, 1.0), 1 / len(phi))
        promise = np.einsum("sad,de,sae->sa", phi, inverse, phi)
        return float(int(evidence.episodes) * best_total(space, space.kernel(prob), promise) / d)

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
