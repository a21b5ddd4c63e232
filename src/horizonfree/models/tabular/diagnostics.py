"""What reports show of a tabular MDP."""

import numpy as np
from jaxtyping import Float

from horizonfree.models.base import Diagnostics
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


def _radii(confidence: TabularConfidence) -> Float[np.ndarray, "S A"]:
    """|p - p_hat| <= sqrt(eps/2) for every successor."""
    return np.minimum(1.0, np.sqrt(np.asarray(confidence.balls.eps) / 2))
