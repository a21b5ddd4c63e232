"""A reconstruction of FRANCIS: forwards in time, random linear rewards where a step was seen least.

Paper: A. Zanette, A. Lazaric, M. J. Kochenderfer, E. Brunskill 2020 (NeurIPS), arXiv 2008.07737, "Provably efficient
    reward-agnostic navigation with linear value iteration". Its abstract, its opening and a review were read: this file
    fills the gaps and must not be taken for the published algorithm.
Algorithm: phases p = 1..H of K/H episodes each. In phase p every episode draws xi ~ N(0, Lam_p^-1), lam = 1, and plays
    least-squares value iteration for the reward phi'xi at step p alone, without optimism:
        V_p = max_a phi'xi,   Q_t = phi'w_t for t < p,   w_t = Lam_t^-1 (cross_t V_{t+1});
    greedy up to step p, uniform actions after it. Plans: the same for a given reward, on all data.
Symbols: `phase` in the rows is p. The scale of xi does not matter: nothing is clipped.
Guarantee: the paper proves d^3 H^5/eps^2 episodes up to logarithms, if every direction of the features can be reached
    at every step. Of this reconstruction nothing is proved and nothing is claimed; certificates of its evidence hold as
    for every explorer.
Departures:
    1. All of it is a reconstruction. Known of the paper: phases forwards in time, Gaussian rewards that make a
       G-optimal design, least squares without bonus. Unknown: the schedule, the constants, and when a phase stops.
    2. strict=False (default): every transition of an episode is kept, not only that of its phase's step. strict=True
       has the independence that the paper's proof is built on.
    3. steps="pooled" (default): one regression for all steps. Plans are clipped to [0, 1].
    4. After the budget it stays in the last phase. A run that ends before it has not explored the late steps.
"""

from typing import Annotated, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree._validation import check_choice
from horizonfree._x64 import Leaf
from horizonfree.explorers.base import Episodes, Explorer, ExplorerPlan, Info, check_budget
from horizonfree.explorers.least_squares import (
    STEPS,
    Fit,
    Steps,
    Sums,
    current_sums,
    greedy_random_ties,
    pairs,
    plan,
    uniform_after,
    value_iteration,
)
from horizonfree.mdp.space import Space, Trajectory
from horizonfree.models.base import Model
from horizonfree.models.linear.bounds import LinearEvidence
from horizonfree.models.linear.model import LinearModel

LAM = 1.0


class State(eqx.Module):
    """The policy, and sums of transitions; `sums` is None where those of the evidence are the ones needed."""

    policy: Float[Leaf, "*batch H S A"]
    sums: Sums | None
    episode: Int[Leaf, "*batch"]


class Francis(Explorer):
    """A reconstruction of FRANCIS (Zanette et al. 2020), for linear MDPs: random linear rewards, step after step."""

    budget: Episodes = None
    steps: Steps = "pooled"
    strict: Annotated[bool, "keep of every episode only the transition at the step of its phase"] = False
    learns: ClassVar[type[Model]] = LinearModel

    def __check_init__(self) -> None:
        check_choice(self.steps, "steps", STEPS)

    def phase(self, space: Space, episode: Int[Array, ""]) -> Int[Array, ""]:
        """The phase p - 1 of an episode; traced."""
        K = check_budget(self.budget, "in all, which the phases share")
        return jnp.minimum(episode // max(1, K // space.horizon), space.horizon - 1)

    def init(self, model: LinearModel) -> State:
        """The uniform policy, and empty sums."""
        H = model.space.horizon
        is_kept = self.strict or self.steps == "own"
        sums = Sums.empty(model, H if self.steps == "own" else 1) if is_kept else None
        return State(jnp.full(model.space.sizes, 1 / model.space.num_actions), sums, jnp.int32(0))

    def choose(self, key: Array, model: LinearModel, state: State, evidence: LinearEvidence) -> State:
        """The best policy for a random linear reward at the step of the phase."""
        key_xi, key_ties = jax.random.split(key)
        p, fit = self.phase(model.space, state.episode), Fit.of(current_sums(state.sums, evidence), LAM)
        z = jax.random.normal(key_xi, (model.dim,), jnp.float64)
        xi = z @ fit.W[p if self.steps == "own" else 0]  # W'z: its covariance is W'W
        policy = greedy_random_ties(key_ties, plan_at_step(model, fit, xi, p)[0])
        return State(uniform_after(policy, p, model.space.num_actions), state.sums, state.episode)

    def update(
        self, model: LinearModel, state: State, evidence: LinearEvidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Add the transitions of all steps, or only the one at the step of the phase."""
        p, sums = self.phase(model.space, state.episode), state.sums
        if sums is not None:
            is_kept = jnp.arange(model.space.horizon) == p if self.strict else jnp.ones(model.space.horizon)
            sums = sums.learn(model, trajectory, is_kept.astype(jnp.float64))
        return State(state.policy, sums, state.episode + 1), Info({"phase": p + 1})

    def plan(
        self, model: LinearModel, state: State, evidence: LinearEvidence, reward: Float[Array, "H S A"]
    ) -> ExplorerPlan:
        """Least-squares value iteration without a bonus."""
        return plan(model, current_sums(state.sums, evidence), LAM, reward)

    def claim(self, model: LinearModel, state: State) -> None:
        """None: nothing is proved of a reconstruction."""
        return None


def plan_at_step(
    model: LinearModel, fit: Fit, xi: Float[Array, " d"], p: Int[Array, ""]
) -> tuple[Float[Array, "H A S"], Float[Array, "H1 S"]]:
    """Q and V of the reward phi'xi at step p (from 0) alone; traced."""
    H, S, A = model.space.sizes
    reward = (pairs(model) @ xi).reshape(A, S)
    return value_iteration(model, fit, jnp.where((jnp.arange(H) == p)[:, None, None], reward, 0.0))
