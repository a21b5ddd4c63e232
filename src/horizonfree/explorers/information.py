"""The policy that promises the most information: optimal design of experiments, one dynamic programme per episode.

Paper: none of its own; Kiefer and Wolfowitz 1960, "The equivalence of two extremum problems".
Algorithm: pi_k = argmax over pi of E_{theta, pi} sum_h tr(F^-1 G(s_h, a_h)), theta the predictor of the evidence,
    G(s,a) = sum_s' z z'/P_theta(s') the information of one transition, F that of the data and of half a pseudo-count
    per free row. z: the features along the q directions that can be learnt.
Symbols: F, G, z as in the certificates.
Guarantee: that of the certificate of its evidence. Since E tr(F^-1 G) <= T for every policy and no design has T < q/K
    (Kiefer and Wolfowitz), K T / q >= 1 measures how far the exploration is from the best design in hindsight.
Departures: none.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from horizonfree.evidence import Evidence
from horizonfree.explorers._api import Explorer, Info
from horizonfree.likelihood import PSEUDO_COUNT
from horizonfree.mixture import Kernel, Known
from horizonfree.planning import TIE, optimal_jax
from horizonfree.rows import at_slots, coordinates, whiten
from horizonfree.simulate import Trajectory
from horizonfree.valid import ValidSet


class State(eqx.Module):
    """The policy, and T: what it promises, in units of what is known."""

    policy: Int[Array, "H S"]
    promise: Float[Array, ""]


class Information(Explorer):
    """Optimal experiment design: the policy that promises the most information."""

    def init(self, known: Known, valid: ValidSet) -> State:
        """No design yet."""
        return State(jnp.zeros((known.horizon, known.num_states), jnp.int32), jnp.zeros(()))

    def is_due(self, known: Known, state: State) -> bool:
        """Every episode."""
        return True

    def choose(self, key: Array, known: Known, valid: ValidSet, state: State, evidence: Evidence) -> State:
        """The best design for what is known now."""
        return State(*design(known, valid, jnp.asarray(evidence.rows), jnp.asarray(evidence.theta)))

    def update(
        self, known: Known, valid: ValidSet, state: State, evidence: Evidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """All that is learnt is in the evidence."""
        return state, {"information": state.promise}

    def estimate(self, known: Known, valid: ValidSet, state: State, evidence: Evidence) -> Float[Array, " d"]:
        """The predictor of the evidence."""
        return jnp.asarray(evidence.theta)

    def audit(self, known: Known, state: State, truth: Float[Array, " d"]) -> Info:
        """Nothing claimed, nothing to check."""
        return {}

    def claim(self, known: Known, state: State) -> None:
        """None of its own: the certificate of its evidence is the guarantee."""
        return None


def design(
    known: Known, valid: ValidSet, counts: Int[Array, " R"], theta: Float[Array, " d"]
) -> tuple[Int[Array, "H S"], Float[Array, ""]]:
    """argmax and max over policies of T = E sum_h tr(F^-1 G(s_h, a_h)); traceable."""
    at = coordinates(valid)
    p = at.p(at.y(theta))
    free = jnp.asarray(valid.free)
    p_free = jnp.where(free, p, 1.0)
    F = (at.z * ((counts + PSEUDO_COUNT) / p_free**2)[:, None]).T @ at.z
    promise = (whiten(F, at.z) ** 2).sum(-1) / p_free  # tr(F^-1 z z') / p of one slot
    row_of = jnp.asarray(valid.row_of)
    kernel = Kernel(known.succ, at_slots(p, row_of), known.is_dense)
    gain = at_slots(promise, row_of).sum(-1) * jnp.asarray(valid.reachable)[:, None]
    policy, V = optimal_jax(kernel, jnp.broadcast_to(gain, (known.horizon, *gain.shape)), TIE)
    return policy, V[0, known.start]
