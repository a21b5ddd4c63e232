"""Empirical transition frequencies of a tabular MDP, per step or pooled, and errors propagated through them.

p_hat(s'|s,a) = N(s,a,s')/n(s,a) is kept as a running mean: after c more visits, x(s') of which led to s',
p_hat <- p_hat + (x - c p_hat)/n. An episode touches H rows. Where n = 0 every possible successor counts alike. A
leading axis T holds one table per step (T = H), as the papers have it, or one that all steps share (T = 1). Slots of
the successor lists come before pairs: means over successors are then sums of whole tables, twice as fast.

Where any state may follow, lists of all S successors are long. `successors` says how many different ones a pair may
show: lists of that length are then filled as transitions are seen, and everything else stays as it is. Transitions
that do not fit are `missed`: if there are any, the theorems do not apply to p_hat.

Errors, for bonuses b_h(s,a), a factor and caps of every step (each paper has its own):

    X_{H+1} = 0,    X_h(s,a) = min{ cap_h, b_h(s,a) + factor sum_s' p_hat_h(s'|s,a) max_a' X_{h+1}(s',a') }

`ErrorExplorer` is greedy in them; RF-UCRL and RF-Express share it.
"""

import abc
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, UInt

from horizonfree._arrays import Array
from horizonfree._x64 import Leaf
from horizonfree.explorers.base import (
    BonusScale,
    Clip,
    Delta,
    Explorer,
    ExplorerPlan,
    Info,
    PoolSteps,
    Successors,
    check_bonus,
    check_successors,
)
from horizonfree.mdp.space import Space, Trajectory
from horizonfree.models.base import Model
from horizonfree.models.tabular.evidence import TabularEvidence
from horizonfree.models.tabular.learner import is_possible
from horizonfree.models.tabular.model import TabularModel
from horizonfree.planning.traced import greedy, nearly_best


class Frequencies(eqx.Module):
    """n and p_hat, of each step or of all; `succ` are lists filled from data, None for those of the space."""

    visits: Int[Leaf, "*batch T S A"]
    prob: Float[Leaf, "*batch T n S A"]
    succ: Int[Leaf, "*batch n S A"] | None = None
    missed: Int[Leaf, "*batch"] | None = None

    @classmethod
    def empty(cls, model: TabularModel, tables: int, successors: int | None = None) -> "Frequencies":
        """No visits; `tables` is H or 1. Lists of successors that are known stay as they are."""
        space = model.space
        S, A, n = space.succ.shape
        visits, possible = jnp.zeros((tables, S, A), jnp.int32), slots_first(space.support)
        if successors is None or successors >= n or model.is_support_known:
            return cls(visits, jnp.broadcast_to(possible / possible.sum(0), (tables, n, S, A)))
        is_known = (possible.sum(0) == 1) & (jnp.arange(successors)[:, None, None] == 0)
        first_slots = jnp.where(possible, slots_first(space.succ), 0).max(0)
        prob = jnp.broadcast_to(is_known.astype(jnp.float64), (tables, successors, S, A))
        return cls(visits, prob, jnp.where(is_known, first_slots, S).astype(jnp.int32), jnp.int32(0))

    def learn(
        self, space: Space, trajectory: Trajectory, *, is_counted: Array | bool = True
    ) -> "Frequencies":
        """With an episode; unobserved steps are not counted."""
        is_seen = is_possible(space, trajectory) & is_counted
        succ, missed, slots = self.succ, self.missed, trajectory.j
        if succ is not None and missed is not None:
            succ, slots = assign_slots(succ, trajectory, is_seen)
            missed = missed + (is_seen & (slots == len(succ))).sum(dtype=jnp.int32)
        t, s, a = self.places(trajectory)
        row = self.prob[t, :, s, a]
        c = is_seen.astype(jnp.float64)
        x = c[:, None] * (jnp.arange(row.shape[-1]) == slots[:, None])
        if len(self.visits) == 1:  # a pair may come several times
            is_same = (s[:, None] == s) & (a[:, None] == a)
            c, x = is_same @ c, is_same @ x
        n = self.visits[t, s, a] + c
        row = row + (x - c[:, None] * row) / jnp.maximum(n, 1.0)[:, None]
        visits = self.visits.at[t, s, a].set(n.astype(jnp.int32))
        return Frequencies(visits, self.prob.at[t, :, s, a].set(row), succ, missed)

    def places(self, trajectory: Trajectory) -> tuple[Int[Array, " H"], Int[Array, " H"], Int[Array, " H"]]:
        """Indices of the steps of an episode: table, state and action."""
        s, a = trajectory.s[:-1], trajectory.a
        return jnp.arange(len(a), dtype=jnp.int32) % len(self.visits), s, a

    def unseen_rows(self, space: Space) -> Float[Array, "T S A"]:
        """1 for pairs without visits whose successor is not known."""
        return ((self.visits == 0) & (space.support.sum(-1) > 1)).astype(jnp.float64)

    def plan(self, space: Space, reward: Float[Array, "H S A"]) -> ExplorerPlan:
        """The best policy in p_hat, by value iteration; traced."""

        def step(V: Array, inputs: tuple[Array, ...]) -> tuple[Array, tuple[Array, Array]]:
            prob, blank, r = inputs
            V, a = greedy(r + expect(space, prob, V, self.succ, blank))
            return V, (a, V)

        end = jnp.zeros(space.num_states)
        inputs = self.each_step(space, self.prob), self.each_step(space, self.unseen_rows(space)), reward
        _, (policy, V) = jax.lax.scan(step, end, inputs, reverse=True)
        return ExplorerPlan(policy, jnp.concatenate([V, end[None]]))

    def each_step(self, space: Space, tables: Array) -> Array:
        """Tables [T, ...] as [H, ...]."""
        return jnp.broadcast_to(tables, (space.horizon, *tables.shape[1:]))


def slots_first(table: Array) -> Array:
    """[S, A, n] as [n, S, A]."""
    return jnp.moveaxis(jnp.asarray(table), -1, 0)


def expect(
    space: Space,
    prob: Float[Array, "n S A"],
    V: Float[Array, " S"],
    succ: Int[Array, "n S A"] | None = None,
    unseen_rows: Float[Array, "S A"] | float = 0.0,
) -> Float[Array, "S A"]:
    """sum_s' p_hat(s'|s,a) V(s'), on the lists of the space, or on lists that were filled; traced.

    `unseen_rows` of filled lists are uniform over the states that can follow any pair.
    """
    if succ is not None:
        can_follow = space.support.any((0, 1))
        return (prob * V[succ]).sum(0) + unseen_rows * ((can_follow * V).sum() / can_follow.sum())
    if space.is_dense:
        return jnp.einsum("nsa,n->sa", prob, V)
    return (prob * V[slots_first(space.succ)]).sum(0)


def assign_slots(
    succ: Int[Array, "n S A"], trajectory: Trajectory, is_seen: Bool[Array, " H"]
) -> tuple[Int[Array, "n S A"], Int[Array, " H"]]:
    """The lists with the successors of an episode, and the slot of each, n if the list is full; traced."""
    n, S, _ = succ.shape
    steps = trajectory.s[:-1], trajectory.a, trajectory.s[1:], is_seen

    def assign(succ: Array, step: tuple[Array, ...]) -> tuple[Array, Array]:
        s, a, s_next, is_seen = step
        fits = (succ[:, s, a] == s_next) | (succ[:, s, a] == S)
        slot = jnp.where(fits.any() & is_seen, fits.argmax(), n).astype(jnp.int32)
        return succ.at[slot, s, a].set(s_next, mode="drop"), slot

    def find(succ: Array) -> tuple[Array, Array]:
        return succ, is_there.argmax(-1).astype(jnp.int32)

    is_there = succ[:, steps[0], steps[1]].T == steps[2][:, None]
    is_old = (is_there.any(-1) | ~is_seen).all()
    result: tuple[Array, Array] = jax.lax.cond(is_old, find, lambda x: jax.lax.scan(assign, x, steps), succ)
    return result


def missed_transitions(frequencies: Frequencies) -> str | None:
    """Why theorems do not apply to these frequencies, None if they do; on the host."""
    if frequencies.missed is None or not int(frequencies.missed):
        return None
    return f"{int(frequencies.missed)} transitions did not fit into the lists; explore with more `successors`"


class Errors(NamedTuple):
    """X_h(s,a), the actions that maximise it (ties at random), and its maximum at the start."""

    X: Float[Array, "H S A"]
    policy: Int[Array, "H S"]
    first: Float[Array, ""]


def propagate_errors(
    key: Array,
    space: Space,
    frequencies: Frequencies,
    bonus: Float[Array, "T S A"],
    scales: Float[Array, " H"],
    caps: Float[Array, " H"],
    factor: float = 1.0,
) -> Errors:
    """The recursion above with bonuses scale_h b(s,a); traced.

    Ties are broken at random, as by the authors: at first everything is at its cap, and the lowest action would be
    the only one that is ever tried.
    """
    H, S, _ = space.sizes
    lots = jax.random.bits(key, (H, S), jnp.uint32)
    tables = frequencies.prob, frequencies.unseen_rows(space), bonus
    is_shared = len(frequencies.visits) == 1

    def step(V: Array, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
        scale, cap, *step_tables = inputs
        prob, blank, b = (x[0] for x in tables) if is_shared else step_tables
        X = jnp.minimum(cap, scale * b + factor * expect(space, prob, V, frequencies.succ, blank))
        return X.max(-1), X

    step_tables = () if is_shared else tables
    V, X = jax.lax.scan(step, jnp.zeros(S), (scales, caps, *step_tables), reverse=True)
    return Errors(X, greedy_random_ties(lots, X), space.at_start(V))


def greedy_random_ties(lot: UInt[Array, "*batch"], X: Float[Array, "*batch A"]) -> Int[Array, "*batch"]:
    """The greedy action; 32 random bits (`lot`) choose among those that are best up to rounding; traced."""
    is_best = nearly_best(X, -1)
    rank = jnp.cumsum(is_best, axis=-1, dtype=jnp.uint32)
    choice = lot[..., None] % rank[..., -1:] + 1
    actions = jnp.arange(X.shape[-1], dtype=jnp.int32)
    return jnp.where(is_best & (rank == choice), actions, 0).sum(-1, dtype=jnp.int32)


def moments(
    prob: Float[Array, "n S A"], v: Float[Array, "n S A"]
) -> tuple[Float[Array, "S A"], Float[Array, "S A"]]:
    """Mean and variance of values at the successors; traced."""
    mean = (prob * v).sum(0)
    return mean, (prob * (v - mean) ** 2).sum(0)


class State(eqx.Module):
    """The policy, the error at the start when it was chosen, the frequencies and their bonuses."""

    policy: Int[Leaf, "*batch H S"]
    error: Float[Leaf, "*batch"]
    seen: Frequencies
    bonus: Float[Leaf, "*batch T S A"]
    episode: Int[Leaf, "*batch"]


class ErrorExplorer(Explorer):
    """Greedy in propagated errors; `number` is the name of the error at the start in the records."""

    clip: Clip = False
    bonus_scale: BonusScale = 1.0
    pool_steps: PoolSteps = False
    successors: Successors = None
    delta: Delta = 0.05
    learns: ClassVar[type[Model]] = TabularModel
    number: eqx.AbstractClassVar[str]

    def __check_init__(self) -> None:
        check_bonus(self.bonus_scale, self.delta)
        check_successors(self.successors)

    @abc.abstractmethod
    def largest(self, H: int) -> float:
        """The error before the first episode."""

    @abc.abstractmethod
    def bonus(self, model: TabularModel, n: Int[Array, "*n"]) -> Float[Array, "*n"]:
        """The bonus of pairs after n visits; traced."""

    @abc.abstractmethod
    def exploration_errors(self, key: Array, model: TabularModel, seen: Frequencies, bonus: Array) -> Errors:
        """The errors to explore by; traced."""

    @abc.abstractmethod
    def value_error(self, error: Any) -> Any:
        """A bound on the error of values at the start, for rewards in [0, 1] per step."""

    def init(self, model: TabularModel) -> State:
        """No data."""
        H, S, _ = model.space.sizes
        seen = Frequencies.empty(model, 1 if self.pool_steps else H, self.successors)
        policy, bonus = jnp.zeros((H, S), jnp.int32), self.bonus(model, seen.visits)
        return State(policy, jnp.asarray(self.largest(H)), seen, bonus, jnp.int32(0))

    def choose(self, key: Array, model: TabularModel, state: State, evidence: TabularEvidence) -> State:
        """The greedy policy of the errors."""
        result = self.exploration_errors(key, model, state.seen, state.bonus)
        return State(result.policy, result.first, state.seen, state.bonus, state.episode)

    def update(
        self, model: TabularModel, state: State, evidence: TabularEvidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Visits, frequencies, and the bonuses of the pairs that were visited."""
        seen = state.seen.learn(model.space, trajectory)
        places = seen.places(trajectory)
        bonus = state.bonus.at[places].set(self.bonus(model, seen.visits[places]))
        following = State(state.policy, state.error, seen, bonus, state.episode + 1)
        return following, Info({self.number: state.error})

    def plan(
        self, model: TabularModel, state: State, evidence: TabularEvidence, reward: Float[Array, "H S A"]
    ) -> ExplorerPlan:
        """The best policy in p_hat."""
        return state.seen.plan(model.space, reward)

    def stopping_time(self, records: Mapping[str, np.ndarray], eps: float) -> int | None:
        """The number of episodes after which the paper's rule stops, None if it does not; rewards in [0, 1] per
        step."""
        stops = np.flatnonzero(self.value_error(np.asarray(records[self.number])) <= eps / 2)
        return int(stops[0]) if stops.size else None
