"""Bets of richer classes against a tabular MDP: a separate table for each part of the transitions."""

from typing import ClassVar

import numpy as np
from jaxtyping import Int

from horizonfree.guarantees.e_processes import dirichlet
from horizonfree.mdp.policies import is_allowed
from horizonfree.models.base import Alternatives
from horizonfree.models.tabular.confidence import TabularConfidence
from horizonfree.models.tabular.evidence import TabularEvidence
from horizonfree.models.tabular.model import TabularModel


class TabularAlternatives(Alternatives):
    """The table of frequencies, and tables averaged over Dirichlet distributions."""

    model: TabularModel
    names: ClassVar[tuple[str, ...]] = ("change", "memory", "age")

    def max_log_likelihood(self, evidence: TabularEvidence, confidence: TabularConfidence) -> float:
        """The log-likelihood of the frequencies."""
        counts = np.asarray(evidence.counts) * is_allowed(self.model.space)[..., None]
        share = counts / np.maximum(counts.sum(-1, keepdims=True), 1)
        return float((counts * np.log(np.where(counts > 0, share, 1.0))).sum())

    def marginal_log_likelihood(self, counts: Int[np.ndarray, "C S A n"]) -> float:
        """Averaged over the rows of every pair."""
        space = self.model.space
        counts = counts * is_allowed(space)[..., None]
        return float(dirichlet(counts, np.broadcast_to(np.asarray(space.support), counts.shape)).sum())

    def memory_labels(self) -> Int[np.ndarray, "S A n"]:
        """The state that a transition came from."""
        space = self.model.space
        return np.broadcast_to(np.arange(space.num_states)[:, None, None], space.succ.shape)
