"""Problems whose transitions are linear in known features of state and action."""

from collections.abc import Mapping
from typing import Any

from horizonfree.models.linear.model import linear_model
from horizonfree.problems.problem import Problem, described


class LinearMDP:
    """Ways to build a problem of this class. start: a state, or a distribution from which the first state is drawn."""

    @staticmethod
    def from_features(
        phi: Any,
        *,
        horizon: int,
        start: Any = 0,
        mu: Any = None,
        states: Any = None,
        actions: Any = None,
        actions_allowed: Any = None,
        name: str = "linear",
        layout: Mapping[str, Any] | None = None,
    ) -> Problem:
        """P(s'|s,a) = <phi(s,a), mu(s')>: phi [S, A, d] is known, mu [d, S] is the truth, optional.

        Features must be independent, and some combination of them must be 1 in every pair, or no mu makes probabilities
        sum to one. They may be of any size: they are divided by the largest norm, and mu is multiplied by it.
        actions_allowed: as for mixtures.
        """
        model = linear_model(phi, horizon=horizon, start=start, allowed=actions_allowed)
        truth = None if mu is None else model.parameter(mu, "mu")
        return described(model, truth, name, layout, states=states, actions=actions)
