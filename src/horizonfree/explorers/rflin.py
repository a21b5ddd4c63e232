"""RFLIN: for every step, cover the features that policies can reach there, hard ones last.

Paper: A. Wagenmaker, Y. Chen, M. Simchowitz, S. S. Du, K. Jamieson 2022 (ICML), "Reward-free RL is no harder than
    reward-aware RL in linear Markov decision processes"; FORCE, its regret minimiser, is in force.py.
Algorithm: RFLIN, COVERTRAJ and EGS. For steps h = 1..H and epochs i = 1..m: X is the set of pairs not yet covered, all
    of them at i = 1; a regret minimiser plays K_i episodes for the reward at step h alone
        r(phi) = 1[phi in X] min{ 1, ||phi||^2_{Lam^-1}/gamma_i^2 },   Lam = I + sum phi_h phi_h' of the epoch so far;
    at its end what has ||phi||^2_{Lam^-1} <= gamma_i^2 is covered and leaves X. Plans: least-squares value iteration.
Symbols: m epochs of each step; `step`, `epoch` in the rows are h and i, `uncovered` counts the pairs in X, `reach` is
    the regret minimiser's bound on the reward of the episode.
Guarantee: with the constants of the paper (theory/linear.py), FORCE, and H sum K_i episodes, plans lose at
    most eps for all rewards that are linear in phi and in [0, 1] at every step, with probability 1 - delta. `claim`
    says it with constants="paper", and how many episodes that is: far more than is practical.
Departures:
    1. regmin="lsvi-ucb" (default): bonus ||phi||/2 before step h, values at most 1, instead of FORCE. Tables name it.
    2. constants="practical" (default): m = 4 epochs whose lengths, in the ratio 8:4:2:1, share the budget exactly, and
       gamma_i^2 = 4^i d (1 - 2^-m)/K_h, K_h = K/H: the third term of the paper's K_i solved for gamma, without its
       logarithm and constants. The first epoch is the longest; the third covers everything.
    3. X is kept as a set of pairs (s,a). Actions after step h are uniform. After the budget it stays in the last
       epoch; before it is spent, late steps have not been aimed at.
    4. Regressions, of the regret minimiser too, use all that was seen of a step, steps="pooled" (default) of all steps.
       The paper keeps data of every step apart, which is what makes its radius sqrt(d) instead of d. FORCE starts
       afresh in every epoch, with K = K_i, and its Q is at least 0.
    5. Plans have no bonus, unless constants="paper", and are clipped to [0, 1]. Ties are broken at random.
    6. constants="paper": what the paper leaves open is 1; the appendix prints the number of epochs upside down.
"""

from typing import Annotated, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree._validation import check_choice, check_probability, check_size
from horizonfree._x64 import Leaf
from horizonfree.estimators.ridge import inverse_root
from horizonfree.explorers import force
from horizonfree.explorers.base import (
    Delta,
    Episodes,
    Explorer,
    ExplorerPlan,
    Info,
    check_bonus,
    check_budget,
)
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
    rows,
    uniform_after,
    update_own_sums,
    value_iteration,
)
from horizonfree.guarantees.certificate import Certificate, confidence_of, round_up_text
from horizonfree.mdp.space import Trajectory
from horizonfree.models.base import Model
from horizonfree.models.linear.bounds import LinearEvidence
from horizonfree.models.linear.model import LinearModel
from horizonfree.theory import linear as theory

LAM = 1.0
EPOCHS = 4
RADIUS = 0.5  # of lsvi-ucb
REGMIN = ("lsvi-ucb", "force")
CONSTANTS = ("practical", "paper")
MAX_STORED_TRANSITIONS = 10**8  # of FORCE


class State(eqx.Module):
    """The policy and its bound; sums; phi phi' of the epoch; the pairs in X; the memory of FORCE."""

    policy: Float[Leaf, "*batch H S A"]
    reach: Float[Leaf, "*batch"]
    sums: Sums | None
    gram: Float[Leaf, "*batch d d"]
    is_left: Bool[Leaf, "*batch A S"]
    memory: force.Memory | None
    episode: Int[Leaf, "*batch"]


class RFLIN(Explorer):
    """RFLIN (Wagenmaker et al. 2022), for linear MDPs: cover the features of every step, with a regret minimiser."""

    regmin: Annotated[str, "the regret minimiser: 'lsvi-ucb', or 'force' as in the paper, slow"] = "lsvi-ucb"
    budget: Episodes = None
    steps: Steps = "pooled"
    constants: Annotated[
        str,
        "'practical': epochs share the budget; 'paper': epochs and planning bonus as printed, eps and delta",
    ] = "practical"
    bonus_scale: Annotated[float, "factor of the regret minimiser's bonus; 1 is the paper's FORCE"] = 1.0
    eps: Annotated[float, "accuracy that the paper's epochs refer to"] = 0.1
    delta: Delta = 0.05
    learns: ClassVar[type[Model]] = LinearModel

    def __check_init__(self) -> None:
        check_choice(self.regmin, "regmin", REGMIN)
        check_choice(self.steps, "steps", STEPS)
        check_choice(self.constants, "constants", CONSTANTS)
        check_bonus(self.bonus_scale, self.delta)
        check_probability(self.eps, "eps", "an accuracy")

    def schedule(self, model: LinearModel) -> "Epochs":
        """The epochs of all steps."""
        H, d = model.space.horizon, model.dim
        budget = check_budget(self.budget, "in all, which steps and epochs share")
        if self.constants == "paper":
            paper_epochs = self.paper_schedule(model)
            return Epochs(np.tile(paper_epochs.lengths, (H, 1)), np.array(paper_epochs.gamma_sq))
        return practical_epochs(budget, H, d)

    def paper_schedule(self, model: LinearModel) -> theory.Schedule:
        """The paper's radius and epochs."""
        return theory.rflin_schedule(float(self.eps), float(self.delta), model.dim, model.space.horizon)

    def init(self, model: LinearModel) -> State:
        """All pairs are to be covered at the first step."""
        _, S, A = model.space.sizes
        capacity, memory = min(int(min(self.schedule(model).lengths.max(), 2.0**62)), self.budget or 0), None
        if self.regmin == "force":
            transitions = capacity * model.space.horizon
            what = (
                f"budget is {self.budget} episodes: FORCE keeps all {transitions:,} transitions of an epoch"
            )
            check_size(transitions, MAX_STORED_TRANSITIONS, what, "explore for fewer")
            memory = force.Memory.empty(model, capacity)
        policy, gram = jnp.full(model.space.sizes, 1 / A), jnp.zeros((model.dim, model.dim))
        is_left, sums = jnp.ones((A, S), bool), init_own_sums(model, self.steps)
        return State(policy, jnp.zeros(()), sums, gram, is_left, memory, jnp.int32(0))

    def choose(self, key: Array, model: LinearModel, state: State, evidence: LinearEvidence) -> State:
        """The regret minimiser's policy for what is not covered at the step of the epoch."""
        position = self.schedule(model).at(state.episode)
        reward = jnp.where(
            state.is_left, jnp.minimum(1.0, uncertainty(model, state.gram) / position.gamma_sq), 0.0
        )
        memory = state.memory
        if memory is None:
            fit = Fit.of(current_sums(state.sums, evidence), LAM)
            Q, V = lsvi_ucb(model, fit, reward, position.step, RADIUS * self.bonus_scale)
        else:
            terms = force.Terms.of(model, position.length, self.delta)
            Q, V = force.optimism(model, memory, terms, reward, position.step, self.bonus_scale)
            memory = eqx.tree_at(lambda x: x.V, memory, V)
        policy = uniform_after(greedy_random_ties(key, Q), position.step, model.space.num_actions)
        new = policy, model.space.at_start(V[0]), memory
        chosen_state: State = eqx.tree_at(
            lambda x: (x.policy, x.reach, x.memory), state, new, is_leaf=lambda x: x is None
        )
        return chosen_state

    def update(
        self, model: LinearModel, state: State, evidence: LinearEvidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """One more row of every step; at the end of an epoch what is covered leaves X."""
        epochs = self.schedule(model)
        position, next_position = epochs.at(state.episode), epochs.at(state.episode + 1)
        is_over = (position.step != next_position.step) | (position.epoch != next_position.epoch)
        x = rows(model, trajectory)[position.step]
        gram = state.gram + x[:, None] * x
        is_left = state.is_left & (uncertainty(model, gram) > position.gamma_sq)
        is_left = jnp.where(is_over, is_left | (position.step != next_position.step), state.is_left)
        memory = self.update_memory(model, state, trajectory, position, is_over)
        sums = update_own_sums(state.sums, model, trajectory)
        gram = jnp.where(is_over, 0.0, gram)
        new = State(state.policy, state.reach, sums, gram, is_left, memory, state.episode + 1)
        uncovered = state.is_left.sum(dtype=jnp.int32)
        places = {"step": position.step + 1, "epoch": position.epoch + 1}
        return new, Info({"reach": state.reach, **places, "uncovered": uncovered})

    def update_memory(
        self,
        model: LinearModel,
        state: State,
        trajectory: Trajectory,
        now: "EpochPosition",
        is_over: Bool[Array, ""],
    ) -> force.Memory | None:
        """The memory of FORCE after the episode; empty at the end of an epoch."""
        if state.memory is None:
            return None
        terms = force.Terms.of(model, now.length, self.delta)
        precision = force.precisions(model, state.memory, terms, trajectory)
        index = (state.episode - now.start).astype(jnp.int32)
        memory = state.memory.append(model, trajectory, index, precision)
        precision = jnp.where(is_over, 0.0, memory.precision)
        result: force.Memory = eqx.tree_at(lambda x: x.precision, memory, precision)
        return result

    def plan(
        self, model: LinearModel, state: State, evidence: LinearEvidence, reward: Float[Array, "H S A"]
    ) -> ExplorerPlan:
        """Least-squares value iteration, with the paper's bonus or none."""
        bonus = self.paper_schedule(model).beta if self.constants == "paper" else 0.0
        return plan(model, current_sums(state.sums, evidence), LAM, reward, bonus)

    def claim(self, model: LinearModel, state: State) -> Certificate | None:
        """eps after H sum K_i episodes, if the constants that the paper leaves open were 1."""
        if self.constants != "paper":
            return None
        num_needed = theory.rflin_episodes(self.paper_schedule(model), model.space.horizon)
        is_enough = int(state.episode) >= num_needed and self.regmin == "force" and self.steps == "own"
        text = f"a gap of {self.eps:g} would need about {num_needed:.2g} episodes with FORCE and own steps"
        statement = (
            f"suboptimality at most {round_up_text(self.eps)} ({confidence_of(self.delta)}) for linear rewards"
            if is_enough
            else f"vacuous: {text}"
        )
        method = "paper (constants that it leaves open are 1)"
        return Certificate(
            self.eps if is_enough else 1.0, self.delta, method, statement, {"needed": num_needed}
        )


class EpochPosition(eqx.Module):
    """Step and epoch of an episode, both from 0, gamma^2, and first episode and length of the epoch."""

    step: Int[Array, ""]
    epoch: Int[Array, ""]
    gamma_sq: Float[Array, ""]
    start: Float[Array, ""]
    length: Float[Array, ""]


class Epochs(eqx.Module):
    """Lengths of the epochs of every step, and gamma_i^2."""

    lengths: Float[np.ndarray, "H m"]
    gamma_sq: Float[np.ndarray, " m"]

    def at(self, episode: Int[Array, ""]) -> EpochPosition:
        """The position of an episode; after all epochs it is in the last; traced."""
        H, m = self.lengths.shape
        ends = np.cumsum(self.lengths.ravel())
        e = jnp.minimum((episode >= ends).sum(dtype=jnp.int32), H * m - 1)
        length = jnp.asarray(self.lengths.ravel())[e]
        start = jnp.asarray(ends)[e] - length
        return EpochPosition(
            e // m, e % m, jnp.asarray(self.gamma_sq)[e % m], start, jnp.maximum(length, 1.0)
        )


def practical_epochs(budget: int, H: int, d: int) -> Epochs:
    """Epochs that share a budget, in the ratio 8:4:2:1 for each step."""
    weights = 2.0 ** -np.arange(1, EPOCHS + 1)
    step_lengths = apportion(budget, np.ones(H))
    lengths = np.stack([apportion(int(K), weights) for K in step_lengths])
    return Epochs(lengths, 4.0 ** np.arange(1, EPOCHS + 1) * d * weights.sum() * H / budget)


def apportion(total: int, weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Integers in these proportions that sum to the total (largest remainders)."""
    exact = total * weights / weights.sum()
    rounded: np.ndarray = np.floor(exact)
    order = np.argsort(rounded - exact, kind="stable")
    rounded[order[: total - int(rounded.sum())]] += 1
    return rounded


def uncertainty(model: LinearModel, gram: Float[Array, "d d"]) -> Float[Array, "A S"]:
    """||phi||^2 in (I + gram)^-1; traced."""
    W, _ = inverse_root(jnp.asarray(gram) + jnp.eye(model.dim))
    return norms_sq(model, W[None])[0]


def lsvi_ucb(
    model: LinearModel,
    fit: Fit,
    reward: Float[Array, "A S"],
    h: Int[Array, ""],
    radius: Float[Array, ""] | float,
) -> tuple[Float[Array, "H A S"], Float[Array, "H1 S"]]:
    """Q and V for a reward at step h (from 0) alone, optimistic before it; traced."""
    t = jnp.arange(model.space.horizon)[:, None, None]
    bonus = radius * jnp.sqrt(norms_sq(model, fit.W))
    gain = jnp.where(t < h, bonus, jnp.where(t == h, reward, 0.0))
    return value_iteration(model, fit, gain, low=0.0, cap=1.0)
