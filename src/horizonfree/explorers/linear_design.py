"""Optimal design for linear MDPs: one dynamic program per episode.

Paper: none of its own; Kiefer and Wolfowitz 1960, "The equivalence of two extremum problems", for a design whose points
    are policies, as Wagenmaker et al. 2022 and Qiao and Wang 2023 (arXiv 2210.00701) have for linear MDPs.
Algorithm: pi_k = argmax over pi of E_pi sum_h ||phi(s_h,a_h)||^2 in Lam^-1, lam = 0.1, under the least-squares
    estimate; the mass that the ridge takes from a row goes to the best state:
        Q_h = ||phi||^2 + phi'w_h + max{0, 1 - phi'Lam^-1 (cross 1)} max_s V_{h+1}(s),   w_h = Lam^-1 (cross V_{h+1}).
    No bonus, no cap, no radius.
Symbols: `information` in the rows is T = V_1 at the start before the episode.
Guarantee: that of the certificate of its evidence. log det Lam grows by about T per episode; the largest T of the best
    design of K episodes is d/K (Kiefer and Wolfowitz), so K T/d tends to 1, or to the number of directions seen at each
    step, summed over the steps and divided by d, where steps="own".
Departures: none. Ties are settled by lot.
"""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree._validation import check_choice
from horizonfree._x64 import Leaf
from horizonfree.explorers.base import Explorer, ExplorerPlan, Info
from horizonfree.explorers.least_squares import (
    STEPS,
    Fit,
    Steps,
    Sums,
    current_sums,
    greedy_random_ties,
    init_own_sums,
    norms_sq,
    plan,
    update_own_sums,
    value_iteration,
)
from horizonfree.mdp.space import Trajectory
from horizonfree.models.base import Model
from horizonfree.models.linear.bounds import LinearEvidence
from horizonfree.models.linear.model import LinearModel

LAM = 0.1


class State(eqx.Module):
    """The policy, T, and sums of every step if steps="own"."""

    policy: Int[Leaf, "*batch H S"]
    promise: Float[Leaf, "*batch"]
    sums: Sums | None


class LinearDesign(Explorer):
    """For linear MDPs: the policy that goes where features were seen least."""

    steps: Steps = "pooled"
    learns: ClassVar[type[Model]] = LinearModel

    def __check_init__(self) -> None:
        check_choice(self.steps, "steps", STEPS)

    def init(self, model: LinearModel) -> State:
        """No design yet."""
        H, S, _ = model.space.sizes
        return State(jnp.zeros((H, S), jnp.int32), jnp.zeros(()), init_own_sums(model, self.steps))

    def choose(self, key: Array, model: LinearModel, state: State, evidence: LinearEvidence) -> State:
        """The best design for the present evidence."""
        fit = Fit.of(current_sums(state.sums, evidence), LAM)
        missing = fit.missing(model)
        Q, V = value_iteration(model, fit, norms_sq(model, fit.W), missing=missing)
        return State(greedy_random_ties(key, Q), model.space.at_start(V[0]), state.sums)

    def update(
        self, model: LinearModel, state: State, evidence: LinearEvidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Update the own sums; pooled data are in the evidence."""
        sums = update_own_sums(state.sums, model, trajectory)
        return State(state.policy, state.promise, sums), Info({"information": state.promise})

    def plan(
        self, model: LinearModel, state: State, evidence: LinearEvidence, reward: Float[Array, "H S A"]
    ) -> ExplorerPlan:
        """Least-squares value iteration without a bonus."""
        return plan(model, current_sums(state.sums, evidence), LAM, reward)

    def claim(self, model: LinearModel, state: State) -> None:
        """No claim of its own; the certificate of the evidence is the guarantee."""
        return None
