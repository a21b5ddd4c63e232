"""Aim at the least visited state-action pair: a simple baseline.

Paper: none.
Algorithm: every episode aims at the reachable pair (s,a) with the fewest visits and aims so far, and follows the
    policy that most probably takes a in s at some step: W_h(s,a) = 1 at the aim, else <P(.|s,a), max_a' W_{h+1}>,
    in the kernel that the evidence suggests. Among equally good actions the least visited.
Symbols: W as above.
Guarantee: none; its data can be certified like any other.
Departures: none.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree.explorers.base import Explorer, ExplorerPlan, Info
from horizonfree.mdp.space import Trajectory
from horizonfree.models.base import Evidence, Model
from horizonfree.planning.traced import expect, nearly_best, optimal_jax

MAX_VISITS = 2**31 - 1  # more visits than any pair has


class State(eqx.Module):
    """The policy, the chance it gives its aim, and how often each pair was aimed at."""

    policy: Int[Array, "H S"]
    chance: Float[Array, ""]
    aims: Int[Array, "S A"]


class GoalCycling(Explorer):
    """Baseline: aim at the least visited pair (s,a), one after the other."""

    learns: ClassVar[type[Model]] = Model  # type: ignore[type-abstract]  # every class

    def init(self, model: Model) -> State:
        """No aim yet."""
        H, S, A = model.space.sizes
        return State(jnp.zeros((H, S), jnp.int32), jnp.zeros(()), jnp.zeros((S, A), jnp.int32))

    def choose(self, key: Array, model: Model, state: State, evidence: Evidence) -> State:
        """Aims count as visits, so that a pair that is hard to reach is not aimed at forever."""
        (H, S, A), visits = model.space.sizes, evidence.visits
        totals = jnp.where(model.space.reachable[:, None], visits + state.aims, MAX_VISITS)
        aim = jnp.zeros(S * A, bool).at[totals.argmin()].set(True).reshape(S, A)
        kernel = model.estimate(evidence)

        def step(W: Array, _: None) -> tuple[Array, tuple[Array, Array]]:
            Q = jnp.where(aim, 1.0, expect(kernel, W))
            W = Q.max(-1)
            least = jnp.where(nearly_best(Q, -1), visits, MAX_VISITS)
            return W, (least.argmin(-1).astype(jnp.int32), W)

        _, (policy, W) = jax.lax.scan(step, jnp.zeros(S), None, length=H, reverse=True)
        return State(policy, model.space.at_start(W[0]), state.aims + aim)

    def update(
        self, model: Model, state: State, evidence: Evidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Counts are in the evidence."""
        return state, Info({"chance": state.chance})

    def plan(
        self, model: Model, state: State, evidence: Evidence, reward: Float[Array, "H S A"]
    ) -> ExplorerPlan:
        """The best policy in the kernel that the evidence suggests."""
        return ExplorerPlan(*optimal_jax(model.estimate(evidence), reward))

    def claim(self, model: Model, state: State) -> None:
        """None: a baseline."""
        return None
