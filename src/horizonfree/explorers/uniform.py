"""Uniformly random actions: a baseline.

Paper: none.
Algorithm: every action with probability 1/A in every state and step.
Symbols: none of its own.
Guarantee: none; its data can be certified like any other.
Departures: none.
"""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from horizonfree._arrays import Array
from horizonfree.explorers.base import Explorer, ExplorerPlan, Info
from horizonfree.mdp.space import Trajectory
from horizonfree.models.base import Evidence, Model
from horizonfree.planning.traced import optimal_jax


class State(eqx.Module):
    """The policy, which never changes."""

    policy: Float[Array, "H S A"]


class Uniform(Explorer):
    """Baseline: uniformly random actions."""

    learns: ClassVar[type[Model]] = Model  # type: ignore[type-abstract]  # every class

    def init(self, model: Model) -> State:
        """The uniform policy."""
        return State(jnp.full(model.space.sizes, 1.0 / model.space.num_actions))

    def choose(self, key: Array, model: Model, state: State, evidence: Evidence) -> State:
        """The uniform policy."""
        return state

    def update(
        self, model: Model, state: State, evidence: Evidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """The state does not change."""
        return state, Info({})

    def plan(
        self, model: Model, state: State, evidence: Evidence, reward: Float[Array, "H S A"]
    ) -> ExplorerPlan:
        """The best policy in the kernel that the evidence suggests."""
        return ExplorerPlan(*optimal_jax(model.estimate(evidence), reward))

    def claim(self, model: Model, state: State) -> None:
        """None: a baseline."""
        return None
