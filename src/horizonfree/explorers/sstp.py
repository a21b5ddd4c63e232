"""A reconstruction of SSTP: visit every pair about as often as it can be reached, in stages.

Paper: Z. Zhang, S. S. Du, X. Ji 2021 (ICML), arXiv 2010.05901, "Near optimal reward-free reinforcement learning"
    (staged sampling, truncated planning). Its text was not read: this file fills the gaps and must not be taken for
    the published algorithm. The bonus is that of MVP, Z. Zhang, X. Ji, S. S. Du 2021 (COLT),
    arXiv 2009.13503, which was read.
Algorithm: stages k = 1..K, K = ceil(log2(1/eps)) + 1, of equally many episodes. Goals of stage k are the unknown pairs
    with N(s,a) < base 2^-k visits, Y. The policy maximises, with optimism, the probability to take a goal at all:
        Q_h(s,a) = 1 on Y,   else min{ 1, p_hat V_{h+1} + c1 sqrt(Var_p_hat(V_{h+1}) iota/n) + c3 iota/n },
    c1 = 460/9, c3 = 544/9, iota = ln(2/delta); it is made anew when a count has doubled or Y has changed. A stage ends
    with its episodes, or when Y is empty. Plans: value iteration in p_hat; nothing is counted after a pair that has
    fewer visits than the last stage requires.
Symbols: visits and frequencies N, n, p_hat of all steps together, as the paper's kernel is shared by the steps: there
    is nothing to pool. `reach` in the rows is the optimistic probability to take a goal, `goals` how many there are.
Guarantee: the paper proves S^2 A/eps^2 episodes up to logarithms, of H too, for rewards of total at most 1. Of this
    reconstruction nothing is proved and nothing is claimed; certificates of its evidence hold as for every explorer.
Departures:
    1. All of it is a reconstruction but the bonus. Known of the paper: the kernel is shared by the steps; pairs are
       grouped by visits, halved from group to group, which must be as hard to reach; intrinsic rewards are indicators
       whose sum is truncated (here at 1: the first hit); values are truncated at 1.
    2. base stands for c S log(.)/eps^2 with its unknown constant. bonus_scale multiplies the bonus.
    3. Pairs with one possible successor, or out of reach, are no goals. After the last stage it stays in it.
"""

import math
from typing import Annotated, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree._validation import check_count, check_probability
from horizonfree._x64 import Leaf
from horizonfree.explorers.base import (
    BonusScale,
    Delta,
    Episodes,
    Explorer,
    ExplorerPlan,
    Info,
    check_bonus,
    check_budget,
)
from horizonfree.explorers.per_step import greedy_random_ties, moments, slots_first
from horizonfree.mdp.space import Kernel, Trajectory
from horizonfree.models.base import Model
from horizonfree.models.tabular.evidence import TabularEvidence
from horizonfree.models.tabular.model import TabularModel
from horizonfree.planning.traced import optimal_jax

C1, C3 = 460 / 9, 544 / 9  # of MVP


class State(eqx.Module):
    """The policy, its `reach`, the stage and its episodes so far, and the visits when the policy was chosen.

    `finished`: the stage in which a pair ceased to be a goal, 0 if it has not.
    """

    policy: Int[Leaf, "*batch H S"]
    reach: Float[Leaf, "*batch"]
    stage: Int[Leaf, "*batch"]
    spent: Int[Leaf, "*batch"]
    planned: Int[Leaf, "*batch S A"]
    finished: Int[Leaf, "*batch S A"]
    is_due: Bool[Leaf, "*batch"]


class SSTP(Explorer):
    """A reconstruction of SSTP (Zhang, Du, Ji 2021), for tabular MDPs: visits in stages, hard pairs last."""

    eps: Annotated[float, "accuracy that the number of stages refers to"] = 0.1
    base: Annotated[
        int, "visits that twice the first stage wants of every pair; halved from stage to stage"
    ] = 1000
    budget: Episodes = None
    bonus_scale: BonusScale = 1.0
    delta: Delta = 0.05
    learns: ClassVar[type[Model]] = TabularModel

    def __check_init__(self) -> None:
        check_bonus(self.bonus_scale, self.delta)
        check_probability(self.eps, "eps", "an accuracy")
        check_count(self.base, "base")

    @property
    def stages(self) -> int:
        """K, the number of stages."""
        return math.ceil(math.log2(1 / self.eps)) + 1

    @property
    def episodes(self) -> int:
        """The episodes of a stage."""
        return max(1, check_budget(self.budget, "in all, which the stages share") // self.stages)

    def init(self, model: TabularModel) -> State:
        """The first stage."""
        H, S, A = model.space.sizes
        none = jnp.zeros((S, A), jnp.int32)
        policy = jnp.zeros((H, S), jnp.int32)
        return State(policy, jnp.ones(()), jnp.int32(1), jnp.int32(0), none, none, jnp.asarray(True))

    def required_visits(self, stage: Int[Array, ""]) -> Float[Array, ""]:
        """The visits that stage k requires of a pair, base 2^-k."""
        return self.base * 0.5 ** stage.astype(jnp.float64)

    def goals(
        self, model: TabularModel, stage: Int[Array, ""], visits: Int[Array, "S A"]
    ) -> Bool[Array, "S A"]:
        """Y, the pairs with fewer visits."""
        s, a = model.pairs.T
        is_goal = visits[s, a] < self.required_visits(stage)
        return jnp.zeros(model.space.sizes[1:], bool).at[s, a].set(is_goal)

    def choose(self, key: Array, model: TabularModel, state: State, evidence: TabularEvidence) -> State:
        """The policy that reaches a goal with the largest optimistic probability."""
        H, S, _ = model.space.sizes
        is_goal = self.goals(model, state.stage, evidence.visits)
        prob, n = (
            slots_first(model.estimate(evidence).prob),
            jnp.maximum(evidence.visits, 1).astype(jnp.float64),
        )
        iota = jnp.log(2 / self.delta)

        def backup(V: Array, lot: Array) -> tuple[Array, Array]:
            mean, variance = moments(prob, V[slots_first(model.space.succ)])
            b = self.bonus_scale * (C1 * jnp.sqrt(variance * iota / n) + C3 * iota / n)
            Q = jnp.where(is_goal, 1.0, jnp.minimum(1.0, mean + jnp.where(is_known, 0.0, b)))
            return Q.max(-1), greedy_random_ties(lot, Q)

        s, a = model.pairs.T
        is_known = jnp.ones(model.space.sizes[1:], bool).at[s, a].set(False)
        lots = jax.random.bits(key, (H, S), jnp.uint32)
        V, policy = jax.lax.scan(backup, jnp.zeros(S), lots, reverse=True)
        new = policy, model.space.at_start(V), evidence.visits.astype(jnp.int32), jnp.asarray(False)
        chosen_state: State = eqx.tree_at(lambda x: (x.policy, x.reach, x.planned, x.is_due), state, new)
        return chosen_state

    def update(
        self, model: TabularModel, state: State, evidence: TabularEvidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Pairs with enough visits are finished; a stage ends with its episodes, or without goals."""
        goals_before = self.goals(model, state.stage, state.planned)
        goals = self.goals(model, state.stage, evidence.visits)
        is_wanted = jnp.zeros_like(goals).at[tuple(model.pairs.T)].set(True)
        finished = jnp.where(is_wanted & ~goals & (state.finished == 0), state.stage, state.finished)
        is_over = ((state.spent + 1 >= self.episodes) | ~goals.any()) & (state.stage < self.stages)
        has_doubled = (evidence.visits >= 2 * jnp.maximum(state.planned, 1)).any()
        is_due = is_over | has_doubled | (goals != goals_before).any()
        stage, spent = (
            jnp.where(is_over, state.stage + 1, state.stage),
            jnp.where(is_over, 0, state.spent + 1),
        )
        new = State(state.policy, state.reach, stage, spent, state.planned, finished, is_due)
        return new, Info({"reach": state.reach, "goals": goals_before.sum(dtype=jnp.int32)})

    def covered(self, model: TabularModel, evidence: TabularEvidence) -> Kernel:
        """p_hat, zero in pairs with fewer visits than the last stage requires; traced."""
        kernel = model.estimate(evidence)
        is_missing = self.goals(model, jnp.int32(self.stages), evidence.visits)
        return model.space.kernel(jnp.where(is_missing[..., None], 0.0, kernel.prob))

    def plan(
        self, model: TabularModel, state: State, evidence: TabularEvidence, reward: Float[Array, "H S A"]
    ) -> ExplorerPlan:
        """The optimal policy in this kernel."""
        return ExplorerPlan(*optimal_jax(self.covered(model, evidence), reward))

    def claim(self, model: TabularModel, state: State) -> None:
        """None: nothing is proved of a reconstruction."""
        return None
