"""Optimal design for tabular MDPs: one dynamic program now and then.

Paper: none of its own; Kiefer and Wolfowitz 1960, "The equivalence of two extremum problems"; the bonus is that of
    Menard et al. 2021, "Fast active learning for pure exploration in reinforcement learning" (RF-Express), without
    clipping and without a factor H.
Algorithm: pi_k = argmax over pi of E_{p_hat, pi} sum_{h<H} bonus(s_h, a_h), p_hat the frequencies,
    bonus = (1.1 (m - 1) + log(X/delta)) / n after n visits that showed m successors, which is about eps, the radius of
    the pair's ball (models/tabular/radius.py); 4 log(X/delta) for a pair without visits, after which nothing is
    counted. Known pairs have no bonus. After episode k it is used for 1 + k/50 episodes.
Symbols: X unknown pairs.
Guarantee: that of the certificate of its evidence. kappa = max over pi of E sum eps is what the certificate for every
    reward is made of, and the design that minimises its largest value has kappa = (n eps) X / K (Kiefer and Wolfowitz).
Departures: none.
"""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree.explorers.base import Delta, Explorer, ExplorerPlan, Info
from horizonfree.mdp.space import Trajectory
from horizonfree.models.base import Model
from horizonfree.models.tabular.evidence import TabularEvidence
from horizonfree.models.tabular.model import TabularModel
from horizonfree.planning.traced import TIE, optimal_jax

PER_SUCCESSOR = 1.1  # of n eps, for every successor but the first
UNSEEN_PAIR = 4.0  # of log(X/delta), as if n = 1/4
EPISODES_PER_POLICY = 50  # after episode k a policy is used for 1 + k/50 episodes


class State(eqx.Module):
    """The policy, its expected sum of bonuses, and the number of episodes until the next choice."""

    policy: Int[Array, "H S"]
    promise: Float[Array, ""]
    left: Int[Array, ""]

    @property
    def is_due(self) -> Bool[Array, "*batch"]:
        """Whether the next episode needs a new policy."""
        return jnp.less_equal(self.left, 0)


class TabularDesign(Explorer):
    """For tabular MDPs: the policy that goes where least is known."""

    delta: Delta = 0.05
    learns: ClassVar[type[Model]] = TabularModel

    def init(self, model: TabularModel) -> State:
        """No design yet."""
        H, S, _ = model.space.sizes
        return State(jnp.zeros((H, S), jnp.int32), jnp.zeros(()), jnp.int32(0))

    def choose(self, key: Array, model: TabularModel, state: State, evidence: TabularEvidence) -> State:
        """The optimal policy for the present bonuses."""
        bonus = self.bonus(model, evidence)
        H = model.space.horizon
        reward = jnp.where(jnp.arange(H)[:, None, None] < H - 1, bonus, 0.0)
        n, support = evidence.visits[..., None], model.space.support
        is_known = support & (support.sum(-1, keepdims=True) == 1)
        # zero for pairs without visits, unless their successor is known
        kernel = model.space.kernel(jnp.where(n > 0, evidence.counts / jnp.maximum(n, 1), is_known))
        policy, V = optimal_jax(kernel, reward, TIE)
        return State(policy, model.space.at_start(V[0]), 1 + evidence.episodes // EPISODES_PER_POLICY)

    def bonus(self, model: TabularModel, evidence: TabularEvidence) -> Float[Array, "S A"]:
        """Approximately the radius of every pair's confidence ball; traced."""
        s, a = model.pairs.T
        N = evidence.counts[s, a]
        n, num_seen = N.sum(-1), (N > 0).sum(-1)
        L = jnp.log(max(model.num_unknown, 1) / self.delta)
        bonus = jnp.where(n > 0, (PER_SUCCESSOR * (num_seen - 1) + L) / jnp.maximum(n, 1), UNSEEN_PAIR * L)
        return jnp.zeros(model.space.sizes[1:]).at[s, a].set(bonus)

    def update(
        self, model: TabularModel, state: State, evidence: TabularEvidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """The evidence has all data."""
        return State(state.policy, state.promise, state.left - 1), Info({"promise": state.promise})

    def plan(
        self, model: TabularModel, state: State, evidence: TabularEvidence, reward: Float[Array, "H S A"]
    ) -> ExplorerPlan:
        """The best policy in the frequencies."""
        return ExplorerPlan(*optimal_jax(model.estimate(evidence), reward))

    def claim(self, model: TabularModel, state: State) -> None:
        """No claim of its own; the certificate of the evidence is the guarantee."""
        return None
