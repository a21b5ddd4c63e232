"""Explorers of mixtures that plan in an estimate of their own: all of those that the library has."""

import abc
from typing import Any, ClassVar

from jaxtyping import Float

from horizonfree._arrays import Array
from horizonfree.explorers.interface import Explorer, Planned
from horizonfree.models.interface import Model
from horizonfree.models.mixture.evidence import Evidence
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.planning.traced import optimal_jax


class PlugIn(Explorer):
    """An explorer that says which parameter it would plan with; any planner will do then."""

    learns: ClassVar[type[Model]] = MixtureModel

    @abc.abstractmethod
    def theta_hat(self, model: MixtureModel, state: Any, evidence: Evidence) -> Float[Array, " d"]:
        """The parameter that the algorithm itself would plan with; traced."""

    def plan(
        self, model: MixtureModel, state: Any, evidence: Evidence, reward: Float[Array, "H S A"]
    ) -> Planned:
        """The best policy in that parameter."""
        return Planned(*optimal_jax(model.kernel(self.theta_hat(model, state, evidence)), reward))
