"""Uniformly random actions: the baseline that every explorer must beat.

Paper: none.
Algorithm: every action with probability 1/A in every state and step.
Symbols: none of its own.
Guarantee: none; its data can be certified like any other.
Departures: none.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from horizonfree.evidence import Evidence
from horizonfree.explorers._api import Explorer, Info
from horizonfree.mixture import Known
from horizonfree.simulate import Trajectory
from horizonfree.valid import ValidSet


class State(eqx.Module):
    """The policy, which never changes."""

    policy: Float[Array, "H S A"]


class Uniform(Explorer):
    """Random actions."""

    def init(self, known: Known, valid: ValidSet) -> State:
        """1/A everywhere."""
        shape = (known.horizon, known.num_states, known.num_actions)
        return State(jnp.full(shape, 1.0 / known.num_actions))

    def is_due(self, known: Known, state: State) -> bool:
        """Never: the policy stays."""
        return False

    def choose(self, key: Array, known: Known, valid: ValidSet, state: State, evidence: Evidence) -> State:
        """Always the same."""
        return state

    def update(
        self, known: Known, valid: ValidSet, state: State, evidence: Evidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Nothing to learn."""
        return state, {}

    def estimate(self, known: Known, valid: ValidSet, state: State, evidence: Evidence) -> Float[Array, " d"]:
        """The predictor of the evidence."""
        return jnp.asarray(evidence.theta)

    def audit(self, known: Known, state: State, truth: Float[Array, " d"]) -> Info:
        """Nothing claimed, nothing to check."""
        return {}

    def claim(self, known: Known, state: State) -> None:
        """None."""
        return None
