"""Jin et al. 2020: reach every state at every step with EULER, then replay the policies that it used.

Paper: C. Jin, A. Krishnamurthy, M. Simchowitz, T. Yu 2020 (ICML), arXiv 2002.02794, "Reward-free exploration for
    reinforcement learning"; inside it EULER, of A. Zanette, E. Brunskill 2019 (ICML), arXiv 1901.00210.
Algorithm: RF-RL-Explore. For every goal (s,h), S H of them, EULER plays N0 episodes for the reward 1[s_h = s]. Then N
    episodes are played, each with one of the S H N0 policies, drawn evenly, whose action at its goal is replaced by an
    even draw. Only these N episodes make the model. RL-Plan: value iteration in p_hat, or natural policy gradient,
        pi_h(a|s) <- pi_h(a|s) exp(eta Q^pi_h(s,a)), normalised, T times from even probabilities.
    EULER, backwards in its own p_hat, with L = ln(4 SHA N0 H/delta'), delta' = delta/7 (SA for SHA where steps are
    pooled), the range R of values,
    J = R L/3, B_p = R sqrt(2L), B_v = sqrt(2L) and ||x|| = sqrt(sum p_hat x^2) (`euler`):
        b(V) = sqrt(2 Var_p_hat(V) L/n) + R L/(3(n-1)) + ((4J + B_p)/sqrt(n) + B_v ||up' - lo'||)/sqrt(n)
        Q = min{cap, r + p_hat up' + b(up')},  up = max_a Q,  lo = max{0, r + p_hat lo' - b(lo')} at the best action.
Symbols: N0 is `per_goal`; N is what the budget leaves. up, lo: V-bar and V-underbar of EULER. `reach` in the rows is
    EULER's bound on the probability to reach the goal of the episode, 0 when policies are replayed.
Guarantee: with N0 = c S^2 A H^4 iota^3/delta_sig, delta_sig = eps/(2SH^2), and N = c H^5 S^2 A iota/eps^2 (`needed`),
    plans for all rewards in [0, 1] per step lose at most 3 eps, with probability 1 - p. The paper does not say what c
    is, so nothing is claimed in numbers. Every state that some policy reaches at step h with probability delta_sig has
    max_pi P^pi_h(s,a) <= 2SAH mu_h(s,a), mu the distribution of the N episodes.
Departures:
    1. faithful=False (default): values of these rewards are at most 1, so R = 1, cap = 1, and EULER plans up to the
       step of its goal only. With faithful=True R = H and cap = H-h+1 (printed: H-h), and it plans to the last step.
    2. EULER is run on visits of every step apart, as the paper's footnote says; with pool_steps on those of all steps
       together, as EULER has it for kernels that all steps share, and so is p_hat. The reward is known, so that its
       bonus is 0. Printed slips: ln(4SAT)/delta' for ln(4SAT/delta'), and the greedy action's reward in the line of Q.
    3. n < 2 divides by zero in the print: Q is at its cap and lo = 0 there. bonus_scale multiplies b.
    4. The N policies are drawn before the first episode, so that only those are kept. After the budget they are
       played again from the first on.
    5. Natural policy gradient ends with one greedy step, which never does worse: plans are tables of actions.
    6. Rows of p_hat without visits are even over the possible successors; the paper leaves them open. Ties by lot.
"""

import math
from typing import Annotated, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree._validation import check_choice, check_count, check_size, require
from horizonfree._x64 import Leaf
from horizonfree.errors import OptionError
from horizonfree.explorers.base import (
    BonusScale,
    Delta,
    Episodes,
    Explorer,
    ExplorerPlan,
    Info,
    PoolSteps,
    check_bonus,
    check_budget,
)
from horizonfree.explorers.per_step import Frequencies, expect, greedy_random_ties, moments, slots_first
from horizonfree.mdp.space import Space, Trajectory
from horizonfree.models.base import Model
from horizonfree.models.tabular.evidence import TabularEvidence
from horizonfree.models.tabular.model import TabularModel
from horizonfree.planning.traced import greedy

PLANNERS = ("value-iteration", "natural-policy-gradient")
MAX_STORED_ENTRIES = 2**31  # of the stored policies


class State(eqx.Module):
    """Data of EULER for its present goal, data of the replayed episodes, and the policies to replay.

    `draws`: the episode of EULER whose policy each replayed episode takes; `kept`: the same numbers, sorted.
    """

    policy: Float[Leaf, "*batch H S A"]
    reach: Float[Leaf, "*batch"]
    euler: Frequencies
    seen: Frequencies
    draws: Int[Leaf, "*batch N"]
    kept: Int[Leaf, "*batch N"]
    policies: Int[Leaf, "*batch P H S"]
    episode: Int[Leaf, "*batch"]


class Jin2020(Explorer):
    """Jin et al. 2020, for tabular MDPs: reach every state at every step, then replay those policies."""

    per_goal: Annotated[int, "N0, episodes for each state and step"] = 10
    budget: Episodes = None
    bonus_scale: BonusScale = 1.0
    pool_steps: PoolSteps = False
    faithful: Annotated[bool, "EULER with values up to H, as printed, though its rewards sum to 1"] = False
    planner: Annotated[str, "'value-iteration' or 'natural-policy-gradient'"] = "value-iteration"
    eta: Annotated[float, "of natural policy gradient: its step"] = 1.0
    iterations: Annotated[int, "of natural policy gradient: how many"] = 100
    delta: Delta = 0.05
    learns: ClassVar[type[Model]] = TabularModel

    def __check_init__(self) -> None:
        check_bonus(self.bonus_scale, self.delta)
        check_count(self.per_goal, "per_goal")
        check_count(self.iterations, "iterations")
        check_choice(self.planner, "planner", PLANNERS)
        require(0 < self.eta < math.inf, "eta", self.eta, "a positive number")

    def episodes(self, space: Space) -> tuple[int, int]:
        """S H N0 episodes of EULER, and N: what the budget leaves to be replayed."""
        H, S, _ = space.sizes
        first = S * H * self.per_goal
        budget = check_budget(self.budget, "in all, of which S H N0 go to goals")
        if budget <= first:
            raise OptionError(
                f"budget is {budget} episodes, but {self.per_goal} for each of {S} states and {H} steps are "
                f"{first}: explore for more, or lower per_goal"
            )
        what = f"budget is {budget} episodes: {min(first, budget - first) * H * S:,} actions of policies to be kept"
        check_size(min(first, budget - first) * H * S, MAX_STORED_ENTRIES, what, "explore for fewer")
        return first, budget - first

    def init(self, model: TabularModel) -> State:
        """No data, no draws."""
        H, S, A = model.space.sizes
        first, N = self.episodes(model.space)
        empty = self.empty(model)
        policies = jnp.zeros((min(first, N), H, S), jnp.int8 if A <= 127 else jnp.int32)
        uniform, draws = jnp.full((H, S, A), 1 / A), jnp.zeros(N, jnp.int32)
        return State(uniform, jnp.ones(()), empty, empty, draws, draws, policies, jnp.int32(0))

    def empty(self, model: TabularModel) -> Frequencies:
        """No visits."""
        return Frequencies.empty(model, 1 if self.pool_steps else model.space.horizon)

    def choose(self, key: Array, model: TabularModel, state: State, evidence: TabularEvidence) -> State:
        """EULER's policy for the goal of this episode, or one of its earlier policies."""
        first, N = self.episodes(model.space)
        key_draw, key_lot = jax.random.split(key)

        def draw(_: State) -> tuple[Array, Array]:
            draws = jax.random.randint(key_draw, (N,), 0, first, jnp.int32)
            return draws, jnp.sort(draws)

        draws, stored = jax.lax.cond(state.episode == 0, draw, lambda x: (x.draws, x.kept), state)
        state = eqx.tree_at(lambda x: (x.draws, x.kept), state, (draws, stored))
        chosen_state: State = jax.lax.cond(
            state.episode < first,
            lambda x: self.aim(key_lot, model, x, first),
            lambda x: self.replay(model, x, first),
            state,
        )
        return chosen_state

    def aim(self, key: Array, model: TabularModel, state: State, first: int) -> State:
        """EULER's policy for the goal of this episode; stored if it was drawn."""
        k, S = state.episode, model.space.num_states
        goal = k // self.per_goal
        is_new = k % self.per_goal == 0
        seen = jax.tree.map(lambda x, y: jnp.where(is_new, x, y), self.empty(model), state.euler)
        bounds = self.euler(key, model.space, seen, goal // S, goal % S)
        slot = self.slot(state, k, first)
        next_slot = (
            jnp.where(state.kept[slot] == k, slot, len(state.policies)) if first > len(state.kept) else slot
        )
        policies = state.policies.at[next_slot].set(bounds.policy.astype(state.policies.dtype), mode="drop")
        policy = jax.nn.one_hot(bounds.policy, model.space.num_actions, dtype=jnp.float64)
        reach = model.space.at_start(bounds.up[0])
        new = (policy, reach, seen, policies)
        next_state: State = eqx.tree_at(lambda x: (x.policy, x.reach, x.euler, x.policies), state, new)
        return next_state

    def replay(self, model: TabularModel, state: State, first: int) -> State:
        """The policy that was drawn for this episode, uniform at its goal."""
        S, A = model.space.sizes[1:]
        t = state.draws[(state.episode - first) % len(state.draws)]
        goal = t // self.per_goal
        actions = state.policies[self.slot(state, t, first)]
        policy = jax.nn.one_hot(actions, A, dtype=jnp.float64).at[goal // S, goal % S].set(1 / A)
        next_state: State = eqx.tree_at(lambda x: (x.policy, x.reach), state, (policy, jnp.zeros(())))
        return next_state

    def slot(self, state: State, t: Int[Array, ""], first: int) -> Int[Array, ""]:
        """The index at which the policy of EULER's episode t is stored: its first draw."""
        if first <= len(state.kept):
            return t
        return jnp.minimum(jnp.searchsorted(state.kept, t), len(state.kept) - 1).astype(jnp.int32)

    def update(
        self, model: TabularModel, state: State, evidence: TabularEvidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """EULER learns from its own episodes, the model from the replayed ones."""
        is_aimed = state.episode < self.episodes(model.space)[0]
        euler = state.euler.learn(model.space, trajectory, is_counted=is_aimed)
        seen = state.seen.learn(model.space, trajectory, is_counted=~is_aimed)
        new = (euler, seen, state.episode + 1)
        state = eqx.tree_at(lambda x: (x.euler, x.seen, x.episode), state, new)
        return state, Info({"reach": state.reach})

    def euler(
        self, key: Array, space: Space, seen: Frequencies, h: Int[Array, ""], s: Int[Array, ""]
    ) -> "Optimism":
        """EULER's policy for the reward of being in s at step h (from 0), with its bounds; traced."""
        H, S, A = space.sizes
        R = float(H) if self.faithful else 1.0
        pairs = S * A * (1 if self.pool_steps else H)
        L = jnp.log(4 * pairs * self.per_goal * H / (self.delta / 7))
        lots, steps = jax.random.bits(key, (H, S), jnp.uint32), jnp.arange(H)
        goal = (steps == h)[:, None] & (jnp.arange(S) == s)
        caps = H - steps.astype(jnp.float64) if self.faithful else jnp.ones(H)

        def backup(
            next_values: tuple[Array, Array], inputs: tuple[Array, ...]
        ) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
            step, lot, is_goal, cap, prob, visits = inputs
            r = jnp.broadcast_to(is_goal[:, None], (S, A)).astype(jnp.float64)
            high, low = backups(space, prob, visits.astype(jnp.float64), next_values, L, R, self.bonus_scale)
            Q, lower = jnp.minimum(cap, r + high), jnp.maximum(0.0, r + low)
            if not self.faithful:  # from its goal on everything is known
                Q, lower = (jnp.where(step < h, x, r) for x in (Q, lower))
            a = greedy_random_ties(lot, Q)
            new = Q.max(-1), jnp.take_along_axis(lower, a[:, None], axis=-1)[:, 0]
            return new, (a, *new)

        end = jnp.zeros(S), jnp.zeros(S)
        inputs = steps, lots, goal, caps, *(seen.each_step(space, x) for x in (seen.prob, seen.visits))
        _, (policy, up, lo) = jax.lax.scan(backup, end, inputs, reverse=True)
        return Optimism(policy, up, lo)

    def plan(
        self, model: TabularModel, state: State, evidence: TabularEvidence, reward: Float[Array, "H S A"]
    ) -> ExplorerPlan:
        """By value iteration or natural policy gradient, in the frequencies of the replayed episodes."""
        if self.planner == "value-iteration":
            return state.seen.plan(model.space, reward)
        pi = natural_policy_gradient(model.space, state.seen, reward, self.eta, self.iterations)
        policy = greedy(values(model.space, state.seen, reward, pi).reshape(-1, model.space.num_actions))[1]
        policy = policy.reshape(model.space.sizes[:2])
        Q = values(
            model.space, state.seen, reward, jax.nn.one_hot(policy, reward.shape[-1], dtype=jnp.float64)
        )
        V = jnp.take_along_axis(Q, policy[..., None], axis=-1)[..., 0]
        return ExplorerPlan(policy, jnp.concatenate([V, jnp.zeros_like(V[:1])]))

    def claim(self, model: TabularModel, state: State) -> None:
        """None: the paper's constant is not known."""
        return None


class Optimism(NamedTuple):
    """EULER's policy, and bounds on the best value and on the value of the policy."""

    policy: Int[Array, "H S"]
    up: Float[Array, "H S"]
    lo: Float[Array, "H S"]


def backups(
    space: Space,
    prob: Float[Array, "n S A"],
    n: Float[Array, "S A"],
    next_values: tuple[Float[Array, " S"], Float[Array, " S"]],
    L: Float[Array, ""],
    R: float,
    bonus_scale: float,
) -> tuple[Float[Array, "S A"], Float[Array, "S A"]]:
    """p_hat up' + b(up') and p_hat lo' - b(lo'), infinite where n < 2; traced."""
    up, lo = (V[slots_first(space.succ)] for V in next_values)
    is_known: Bool[Array, "S A"] = n >= 2
    m = jnp.where(is_known, n, 2.0)
    spread = jnp.sqrt((prob * (up - lo) ** 2).sum(0))
    J, B_p, B_v = R * L / 3, R * jnp.sqrt(2 * L), jnp.sqrt(2 * L)
    lower_order = R * L / (3 * (m - 1)) + ((4 * J + B_p) / jnp.sqrt(m) + B_v * spread) / jnp.sqrt(m)

    def with_bonus(v: Float[Array, "n S A"], sign: float) -> Float[Array, "S A"]:
        mean, variance = moments(prob, v)
        b = bonus_scale * (jnp.sqrt(2 * variance * L / m) + lower_order)
        return jnp.where(is_known, mean + sign * b, sign * jnp.inf)

    return with_bonus(up, 1.0), with_bonus(lo, -1.0)


def natural_policy_gradient(
    space: Space, seen: Frequencies, reward: Float[Array, "H S A"], eta: float, iterations: int
) -> Float[Array, "H S A"]:
    """The policy after T steps in p_hat, where it loses at most H log A/(eta T) + H^2/T, rewards in [0, 1]; traced."""

    def step(_: Array, logits: Array) -> Array:
        logits = logits + eta * values(space, seen, reward, jax.nn.softmax(logits))
        return logits - logits.max(-1, keepdims=True)

    return jax.nn.softmax(jax.lax.fori_loop(0, iterations, step, jnp.zeros(reward.shape)))


def values(
    space: Space, seen: Frequencies, reward: Float[Array, "H S A"], pi: Float[Array, "H S A"]
) -> Float[Array, "H S A"]:
    """Q of a policy in p_hat; traced."""

    def backup(V: Array, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
        prob, r, weights = inputs
        Q = r + expect(space, prob, V)
        return (weights * Q).sum(-1), Q

    inputs = seen.each_step(space, seen.prob), reward, pi
    return jax.lax.scan(backup, jnp.zeros(space.num_states), inputs, reverse=True)[1]


def sufficient_episodes(
    sizes: tuple[int, int, int], eps: float, p: float, c: float = 1.0
) -> tuple[float, float]:
    """N0 and N of the theorem, for sizes (H, S, A) and rewards in [0, 1] per step; c is the unknown constant."""
    H, S, A = sizes
    significant = eps / (2 * S * H**2)
    N0 = c * S**2 * A * H**4 * math.log(S * A * H / (p * significant)) ** 3 / significant
    return N0, c * H**5 * S**2 * A * math.log(S * A * H / (p * eps)) / eps**2
