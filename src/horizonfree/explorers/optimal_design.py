"""Optimal design of experiments for mixtures: one dynamic program per episode.

Paper: none of its own; Kiefer and Wolfowitz 1960, "The equivalence of two extremum problems".
Algorithm: pi_k = argmax over pi of E_{theta, pi} sum_h tr(F^-1 G(s_h, a_h)), theta the predictor of the evidence,
    G(s,a) = sum_s' z z'/P_theta(s') the information of one transition, F that of the data and of pseudo-counts for half
    of the unknowns (models/mixture/learner.py). z: the features along the q directions that can be learnt.
Symbols: F, G, z as in the certificates.
Guarantee: that of the certificate of its evidence. Since E tr(F^-1 G) <= T for every policy and no design has T < q/K
    (Kiefer and Wolfowitz), K T / q >= 1 measures how far the exploration is from the best design in hindsight.
Departures: none.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree.explorers.base import Info, PlugIn
from horizonfree.mdp.space import Trajectory
from horizonfree.models.mixture.evidence import MixtureEvidence
from horizonfree.models.mixture.learner import design
from horizonfree.models.mixture.model import MixtureModel


class State(eqx.Module):
    """The policy, and T, its expected information relative to the present one."""

    policy: Int[Array, "H S"]
    promise: Float[Array, ""]


class OptimalDesign(PlugIn):
    """Optimal experiment design: the policy that promises the most information."""

    def init(self, model: MixtureModel) -> State:
        """No design yet."""
        return State(jnp.zeros((model.space.horizon, model.space.num_states), jnp.int32), jnp.zeros(()))

    def choose(self, key: Array, model: MixtureModel, state: State, evidence: MixtureEvidence) -> State:
        """The best design for the present evidence."""
        return State(*design(model.space, model.valid, evidence.row_counts, evidence.theta))

    def update(
        self, model: MixtureModel, state: State, evidence: MixtureEvidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """The evidence has all data."""
        return state, Info({"information": state.promise})

    def theta_hat(self, model: MixtureModel, state: State, evidence: MixtureEvidence) -> Float[Array, " d"]:
        """The predictor of the evidence."""
        return evidence.theta

    def claim(self, model: MixtureModel, state: State) -> None:
        """No claim of its own; the certificate of the evidence is the guarantee."""
        return None
