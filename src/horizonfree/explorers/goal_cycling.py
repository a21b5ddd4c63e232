"""Aim at the least visited pair: the baseline that a sceptic would write in an afternoon.

Paper: none.
Algorithm: every episode aims at the reachable pair (s,a) with the fewest visits and aims so far, and follows the
    policy that most probably takes a in s at some step: W_h(s,a) = 1 at the aim, else <P_theta(.|s,a), max_a' W_{h+1}>,
    theta the predictor of the evidence. Among equally good actions the least visited.
Symbols: W as above.
Guarantee: none; its data can be certified like any other.
Departures: none.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from horizonfree.evidence import Evidence
from horizonfree.explorers._api import Explorer, Info
from horizonfree.mixture import Known
from horizonfree.planning import nearly_best
from horizonfree.simulate import Trajectory
from horizonfree.valid import ValidSet

NEVER = 2**31 - 1  # more visits than any pair has


class State(eqx.Module):
    """The policy, the chance it gives its aim, and how often each pair was aimed at."""

    policy: Int[Array, "H S"]
    chance: Float[Array, ""]
    aims: Int[Array, "S A"]


class GoalCycling(Explorer):
    """Baseline: aim at the least visited pair (s,a), one after the other."""

    def init(self, known: Known, valid: ValidSet) -> State:
        """Nothing aimed at."""
        H, S, A = known.horizon, known.num_states, known.num_actions
        return State(jnp.zeros((H, S), jnp.int32), jnp.zeros(()), jnp.zeros((S, A), jnp.int32))

    def is_due(self, known: Known, state: State) -> bool:
        """Every episode."""
        return True

    def choose(self, key: Array, known: Known, valid: ValidSet, state: State, evidence: Evidence) -> State:
        """Aims count as visits, so that a pair that is hard to reach does not hold the attention for ever."""
        S, A = known.num_states, known.num_actions
        visits = jnp.asarray(evidence.counts).sum(-1)
        tried = jnp.where(jnp.asarray(valid.reachable)[:, None], visits + state.aims, NEVER)
        aim = jnp.zeros(S * A, bool).at[tried.argmin()].set(True).reshape(S, A)
        kernel = known.kernel(jnp.asarray(evidence.theta))

        def step(W: Array, _: None) -> tuple[Array, tuple[Array, Array]]:
            Q = jnp.where(aim, 1.0, kernel.expect(W))
            W = Q.max(-1)
            least = jnp.where(nearly_best(Q, -1), visits, NEVER)
            return W, (least.argmin(-1).astype(jnp.int32), W)

        _, (policy, W) = jax.lax.scan(step, jnp.zeros(S), None, length=known.horizon, reverse=True)
        return State(policy, W[0, known.start], state.aims + aim)

    def update(
        self, known: Known, valid: ValidSet, state: State, evidence: Evidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Counts are in the evidence."""
        return state, {"chance": state.chance}

    def estimate(self, known: Known, valid: ValidSet, state: State, evidence: Evidence) -> Float[Array, " d"]:
        """The predictor of the evidence."""
        return jnp.asarray(evidence.theta)

    def audit(self, known: Known, state: State, truth: Float[Array, " d"]) -> Info:
        """Nothing claimed, nothing to check."""
        return {}

    def claim(self, known: Known, state: State) -> None:
        """None."""
        return None
