"""Wang et al. 2020: explore for the uncertainty of least-squares value iteration as a reward.

Paper: R. Wang, S. S. Du, L. F. Yang, R. Salakhutdinov 2020 (NeurIPS), arXiv 2006.11274, "On reward-free reinforcement
    learning with linear function approximation". Only its abstract and opening were read: the algorithm is from memory
    of the paper. Check Algorithm 1 before calling it exact.
Algorithm: 1 and 2 as remembered. Rewards in [0, 1] at every step, lam = 1, ||.|| the norm of Lam_h^-1,
        u_h = min{ beta ||phi||, H },   Q_h = min{ phi'w_h + u_h/H + u_h, H },   w_h = Lam_h^-1 sum phi V_{h+1}(s'),
    u/H being the reward and u the bonus; the policy is greedy. Plans: the same with a given reward in place of u/H.
Symbols: beta = c_b d H sqrt(log(dH/(delta eps))), c_b = 1. `V` in the rows is V_1 at the start before the episode, for
    rewards in [0, 1] at every step.
Guarantee: after K = c_K d^3 H^6 log(dH/(delta eps))/eps^2 episodes plans lose at most eps, for all rewards in [0, 1] at
    every step together, with probability 1 - delta. The paper leaves c_b and c_K open. `claim` solves this for
    eps with c_b = c_K = 1, with constants="paper" alone; rewards of total at most 1 are among these, so eps stands.
Departures:
    1. constants="practical" (default): no minimum with H, unless cap=True. Below it Q is proportional to beta, and the
       policy does not depend on beta at all; above it all actions tie. constants="paper" has cap, own steps, the radius
       above, and the bonus when planning.
    2. steps="pooled" (default): one regression for all steps, as the kernel is one for all.
    3. Q is at least 0: with few episodes phi'w can be negative.
    4. Ties are settled by lot. The lowest action would be played for ever where all tie.
    5. Plans have no bonus but plan_bonus ||phi||, 0 by default, for values in [0, 1] as totals are at most 1.
"""

import math
from typing import Annotated, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree._validation import check_choice, check_probability, require
from horizonfree._x64 import Leaf, Number
from horizonfree.explorers.base import Delta, Explorer, ExplorerPlan, Info
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
from horizonfree.guarantees.certificate import Certificate, round_up, round_up_text
from horizonfree.mdp.space import Trajectory
from horizonfree.models.base import Model
from horizonfree.models.linear.bounds import LinearEvidence
from horizonfree.models.linear.model import LinearModel
from horizonfree.theory import linear as theory

LAM = 1.0
CONSTANTS = ("practical", "paper")
METHOD = "paper (constants c_b = c_K = 1 are not the paper's: it leaves them open)"


class State(eqx.Module):
    """The policy, its value for its own reward, and what was seen of every step, where steps are apart."""

    policy: Int[Leaf, "*batch H S"]
    value: Float[Leaf, "*batch"]
    sums: Sums | None
    episode: Int[Leaf, "*batch"]


class Wang2020(Explorer):
    """Wang et al. 2020, for linear MDPs, from memory of the paper: uncertainty as a reward, with optimism."""

    constants: Annotated[
        str, "'practical', or 'paper': the radius, the cap, own steps and the planning bonus as printed"
    ] = "practical"
    steps: Steps = "pooled"
    cap: Annotated[bool, "cap uncertainties and values at H, as printed"] = False
    beta: Annotated[float, "when practical: the radius; it matters under the cap only"] = 1.0
    plan_bonus: Annotated[float, "when practical: what plans add, in ||phi||, to values in [0, 1]"] = 0.0
    eps: Annotated[float, "accuracy that the paper's radius refers to"] = 0.1
    delta: Delta = 0.05
    learns: ClassVar[type[Model]] = LinearModel

    def __check_init__(self) -> None:
        check_choice(self.constants, "constants", CONSTANTS)
        check_choice(self.steps, "steps", STEPS)
        check_probability(self.eps, "eps", "an accuracy")
        check_probability(self.delta, "delta")
        require(0 < self.beta < math.inf, "beta", self.beta, "a positive number")
        require(0 <= self.plan_bonus < math.inf, "plan_bonus", self.plan_bonus, "a number of at least 0")

    @property
    def is_paper(self) -> bool:
        """Whether constants="paper"."""
        return self.constants == "paper"

    def radius(self, model: LinearModel) -> Number:
        """The radius beta; traced."""
        if not self.is_paper:
            return self.beta
        H, d = model.space.horizon, model.phi.shape[-1]
        return d * H * jnp.sqrt(jnp.log(d * H / (self.delta * self.eps)))

    def init(self, model: LinearModel) -> State:
        """No data."""
        H, S, _ = model.space.sizes
        sums = init_own_sums(model, "own" if self.is_paper else self.steps)
        return State(jnp.zeros((H, S), jnp.int32), jnp.zeros(()), sums, jnp.int32(0))

    def choose(self, key: Array, model: LinearModel, state: State, evidence: LinearEvidence) -> State:
        """Greedy in the uncertainty that is carried back."""
        H, fit = model.space.horizon, Fit.of(current_sums(state.sums, evidence), LAM)
        u, cap = self.radius(model) * jnp.sqrt(norms_sq(model, fit.W)), jnp.inf
        if self.cap or self.is_paper:
            u, cap = jnp.minimum(u, H), float(H)
        Q, V = value_iteration(model, fit, u / H + u, low=0.0, cap=cap)
        policy = greedy_random_ties(key, Q)
        return State(policy, model.space.at_start(V[0]), state.sums, state.episode)

    def update(
        self, model: LinearModel, state: State, evidence: LinearEvidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """One more row of every step."""
        sums = update_own_sums(state.sums, model, trajectory)
        return State(state.policy, state.value, sums, state.episode + 1), Info({"V": state.value})

    def plan(
        self, model: LinearModel, state: State, evidence: LinearEvidence, reward: Float[Array, "H S A"]
    ) -> ExplorerPlan:
        """Least-squares value iteration with the bonus of the options."""
        bonus = self.radius(model) if self.is_paper else self.plan_bonus
        return plan(model, current_sums(state.sums, evidence), LAM, reward, bonus)

    def claim(self, model: LinearModel, state: State) -> Certificate | None:
        """The eps that K episodes are enough for, if the constants that the paper leaves open were 1."""
        if not self.is_paper:
            return None
        sizes, k = (model.phi.shape[-1], model.space.horizon), int(state.episode)
        num_needed = theory.wang_episodes(self.eps, self.delta, *sizes)
        eps = theory.wang_accuracy(k, self.delta, *sizes)
        text = f"a gap of {self.eps:g} would need about {num_needed:.2g} episodes, if the constants left open were 1"
        statement = (
            f"vacuous: {text}" if round_up(eps) >= 1 else f"no guarantee: {round_up_text(eps)} now; {text}"
        )
        return Certificate(eps, self.delta, METHOD, statement, {"needed": num_needed})
