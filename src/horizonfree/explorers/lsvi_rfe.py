"""A reconstruction of LSVI-RFE: uncertainty as a reward, in a regression weighted by variances.

Paper: P. Hu, Y. Chen, L. Huang 2023 (ICLR), "Towards minimax optimal reward-free reinforcement learning in linear
    MDPs". Only its abstract and opening were read: this file fills the gaps and must not be taken for the published
    algorithm.
Algorithm: as Wang et al. 2020 with weights. lam = 1, ||.|| the norm of Lam^-1, Lam and w of transitions with weight
    1/sigma^2, those with a bar of transitions that all count alike, b = min{1, ||phi||/2},
        Q_h = clip( phi'w_h + 2 b_h, 0, 1 ),    once as a reward and once as a bonus,
        sigma^2_h = clip( m2 - m1^2 + min{1, 2 ||phi||/2} + min{1, ||phi||_bar/2}, 1/H, 1 ),
        m1 = clip( phi'w(V_{h+1}), 0, 1 ),   m2 = clip( phi'w_bar(V_{h+1}^2), 0, 1 ).
    Plans: least-squares value iteration on all transitions alike, without a bonus.
Symbols: `V` in the rows is V_1 at the start before the episode, for rewards of total at most 1; `weight` the mean of
    1/sigma^2 over its transitions.
Guarantee: the paper proves d^2 H^4/eps^2 episodes up to logarithms. Of this reconstruction nothing is proved and
    nothing is claimed; certificates of its evidence hold as for every explorer.
Departures:
    1. All of it is a reconstruction. Known of the paper: variance-aware exploration, a Bernstein bound for weighted
       regressions, and bonuses that differ between exploring and planning. The form of sigma is that of regressions by
       the same authors (LSVI-UCB+), with radii of 1/2.
    2. steps="pooled" (default): one regression for all steps. Ties are settled by lot.
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

LAM = 1.0
RADIUS = 0.5


class State(eqx.Module):
    """The policy and its value; sigma^2 of each pair; weighted sums, and unweighted ones if steps="own"."""

    policy: Int[Leaf, "*batch H S"]
    value: Float[Leaf, "*batch"]
    sigma_sq: Float[Leaf, "*batch H A S"]
    weighted: Sums
    sums: Sums | None


class LSVIRFE(Explorer):
    """A reconstruction of LSVI-RFE (Hu, Chen, Huang 2023), for linear MDPs: uncertainty as a reward, with variances."""

    steps: Steps = "pooled"
    learns: ClassVar[type[Model]] = LinearModel

    def __check_init__(self) -> None:
        check_choice(self.steps, "steps", STEPS)

    def init(self, model: LinearModel) -> State:
        """No data."""
        H, S, A = model.space.sizes
        weighted = Sums.empty(model, H if self.steps == "own" else 1)
        sums, policy = init_own_sums(model, self.steps), jnp.zeros((H, S), jnp.int32)
        return State(policy, jnp.zeros(()), jnp.ones((H, A, S)), weighted, sums)

    def choose(self, key: Array, model: LinearModel, state: State, evidence: LinearEvidence) -> State:
        """Greedy in the uncertainty that is carried back, and the variances of the next transitions."""
        fit, unweighted = Fit.of(state.weighted, LAM), Fit.of(current_sums(state.sums, evidence), LAM)
        norms = jnp.sqrt(norms_sq(model, fit.W))
        Q, V = value_iteration(model, fit, 2 * jnp.minimum(1.0, RADIUS * norms), low=0.0, cap=1.0)
        doubt = jnp.minimum(1.0, 2 * RADIUS * norms)
        doubt = doubt + jnp.minimum(1.0, RADIUS * jnp.sqrt(norms_sq(model, unweighted.W)))
        sigma_sq = jnp.clip(
            value_variance(model, fit, unweighted, V[1:]) + doubt, 1 / model.space.horizon, 1.0
        )
        return State(
            greedy_random_ties(key, Q), model.space.at_start(V[0]), sigma_sq, state.weighted, state.sums
        )

    def update(
        self, model: LinearModel, state: State, evidence: LinearEvidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """One more row of every step, weighted by the estimated variance."""
        h = jnp.arange(model.space.horizon)
        weight = 1 / state.sigma_sq[h, trajectory.a, trajectory.s[:-1]]
        weighted = state.weighted.learn(model, trajectory, weight)
        sums = update_own_sums(state.sums, model, trajectory)
        following = State(state.policy, state.value, state.sigma_sq, weighted, sums)
        return following, Info({"V": state.value, "weight": weight.mean()})

    def plan(
        self, model: LinearModel, state: State, evidence: LinearEvidence, reward: Float[Array, "H S A"]
    ) -> ExplorerPlan:
        """Least-squares value iteration on all transitions alike, without a bonus."""
        return plan(model, current_sums(state.sums, evidence), LAM, reward)

    def claim(self, model: LinearModel, state: State) -> None:
        """None: nothing is proved of a reconstruction."""
        return None


def value_variance(
    model: LinearModel, fit: Fit, unweighted: Fit, V: Float[Array, "H S"]
) -> Float[Array, "H A S"]:
    """m2 - m1^2, about the variance of the next value after every pair; traced."""
    m1, m2 = (jnp.clip(x.predict(model, v), 0.0, 1.0) for x, v in ((fit, V), (unweighted, V**2)))
    return m2 - m1**2
