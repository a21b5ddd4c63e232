"""What reports show of a tabular MDP."""

import numpy as np
from jaxtyping import Float

from horizonfree.models.base import Diagnostics
from horizonfree.models.misspecification import Misspecification
from horizonfree.models.tabular.confidence import TabularConfidence
from horizonfree.models.tabular.evidence import TabularEvidence, frequencies
from horizonfree.models.tabular.model import TabularModel
from horizonfree.planning.induction import best_total

UNVISITED_COUNT = 0.5  # a visit that a pair without visits counts for in `inefficiency`


class TabularDiagnostics(Diagnostics):
    """Every unknown pair by itself."""

    model: TabularModel

    def in_units(self, parameter: Float[np.ndarray, "S A n"]) -> Float[np.ndarray, " d"]:
        """The probabilities of all possible transitions, one after the other."""
        flat: np.ndarray = np.asarray(parameter)[np.asarray(self.model.space.support)]
        return flat

    def row_uncertainty(self, confidence: TabularConfidence) -> Float[np.ndarray, " S"]:
        """By Pinsker's inequality, for the worst action."""
        return np.where(self.model.space.reachable, _radii(confidence).max(axis=1), np.nan)

    def mean_uncertainty(self, confidence: TabularConfidence) -> float:
        """Over the unknown pairs."""
        s, a = np.asarray(self.model.pairs).T
        return float(_radii(confidence)[s, a].mean()) if len(s) else 0.0

    def inefficiency(self, evidence: TabularEvidence) -> float:
        """K T / X, T the largest expected sum of 1/visits over an episode: optimal design."""
        space, pairs = self.model.space, np.asarray(self.model.pairs)
        if not len(pairs):
            return 0.0
        s, a = pairs.T
        promise = np.zeros(space.sizes[1:])
        promise[s, a] = 1 / np.maximum(np.asarray(evidence.visits)[s, a], UNVISITED_COUNT)
        return int(evidence.episodes) * best_total(space, frequencies(space, evidence), promise) / len(pairs)

    def asymptotic_gap(self, misspecification: Misspecification) -> float:
        """If every pair had the smallest radius: endless data leave 4 zeta for each of the H - 1 transitions."""
        s, a = np.asarray(self.model.pairs).T
        zeta = misspecification.radii(*self.model.space.sizes[1:])[s, a].min(initial=np.inf)
        return float(min(1.0, 4 * zeta * (self.model.space.horizon - 1))) if len(s) else 0.0


def _radii(confidence: TabularConfidence) -> Float[np.ndarray, "S A"]:
    """|p - p_hat| <= sqrt(eps/2) for every successor."""
    return np.asarray(np.minimum(1.0, confidence.row_error()))
