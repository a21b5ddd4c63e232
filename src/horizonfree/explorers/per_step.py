"""Frequencies of an unknown table, of every step apart or of all steps together, and errors carried back through them.

p_hat(s'|s,a) = N(s,a,s')/n(s,a) is kept as a running mean, p_hat <- p_hat + (1[s'] - p_hat)/n: an episode touches H
rows. Where n = 0 every possible successor counts alike. A leading axis T holds one table per step (T = H), as the
papers have it, or one that all steps share (T = 1). Slots of the successor lists come before pairs: means over
successors are then sums of whole tables, twice as fast.

Where any state may follow, lists of all S successors are long. `successors` says how many different ones a pair may
show: lists of that length are then filled as transitions are seen, and rows without visits lead nowhere. Transitions
that find no place are `missed`: if there are any, p_hat is not what the theorems speak of.

Errors, for bonuses b_h(s,a), a factor and caps of every step (each paper has its own):

    X_{H+1} = 0,    X_h(s,a) = min{ cap_h, b_h(s,a) + factor sum_s' p_hat_h(s'|s,a) max_a' X_{h+1}(s',a') }
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt

from horizonfree._x64 import Leaf
from horizonfree.explorers.interface import Planned
from horizonfree.mdp.rollout import Trajectory
from horizonfree.mdp.space import Space
from horizonfree.models.tabular.evidence import Evidence
from horizonfree.models.tabular.model import TabularModel
from horizonfree.planning.backward import greedy, nearly_best


class Frequencies(eqx.Module):
    """n and p_hat, of each step or of all; `succ` are the lists as they were filled, None for those of the space."""

    visits: Int[Leaf, "*batch T S A"]
    prob: Float[Leaf, "*batch T n S A"]
    succ: Int[Leaf, "*batch n S A"] | None = None
    missed: Int[Leaf, "*batch"] | None = None

    @classmethod
    def nothing(cls, space: Space, tables: int, successors: int | None = None) -> "Frequencies":
        """No visits; `tables` is H or 1. Lists that are short already stay as they are."""
        S, A, n = space.succ.shape
        visits, possible = jnp.zeros((tables, S, A), jnp.int32), slots_first(space.support)
        if successors is None or successors >= n or not space.is_dense:
            return cls(visits, jnp.broadcast_to(possible / possible.sum(0), (tables, n, S, A)))
        is_known = (possible.sum(0) == 1) & (jnp.arange(successors)[:, None, None] == 0)
        known = jnp.where(possible, slots_first(space.succ), 0).max(0)
        prob = jnp.broadcast_to(is_known.astype(jnp.float64), (tables, successors, S, A))
        return cls(visits, prob, jnp.where(is_known, known, S).astype(jnp.int32), jnp.int32(0))

    def learn(
        self,
        model: TabularModel,
        evidence: Evidence,
        trajectory: Trajectory,
        *,
        is_counted: Array | bool = True,
    ) -> "Frequencies":
        """After one more episode, which the evidence already holds; steps that were not seen count for nothing."""
        is_seen = possible(model.space, trajectory) & is_counted
        succ, missed, slots = self.succ, self.missed, trajectory.j
        if succ is not None and missed is not None:
            succ, slots = placed(succ, trajectory, is_seen)
            missed = missed + (is_seen & (slots == len(succ))).sum(dtype=jnp.int32)
        h, s, a = jnp.arange(len(self.visits)), trajectory.s[:-1], trajectory.a
        if len(self.visits) == 1:
            visits = self.visits.at[0, s, a].add(is_seen.astype(jnp.int32))
            return Frequencies(visits, pooled(model, evidence, visits[0], succ)[None], succ, missed)
        n, row = self.visits[h, s, a] + is_seen, self.prob[h, :, s, a]
        hit = jnp.arange(row.shape[-1]) == slots[:, None]
        row = row + jnp.where(is_seen[:, None], (hit - row) / jnp.maximum(n, 1.0)[:, None], 0.0)
        return Frequencies(self.visits.at[h, s, a].set(n), self.prob.at[h, :, s, a].set(row), succ, missed)

    def plan(self, space: Space, reward: Float[Array, "H S A"]) -> Planned:
        """The best policy in p_hat, by value iteration; traced."""

        def step(V: Array, inputs: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
            prob, r = inputs
            V, a = greedy(r + expect(space, prob, V, self.succ))
            return V, (a, V)

        end = jnp.zeros(space.num_states)
        _, (policy, V) = jax.lax.scan(step, end, (self.each_step(space), reward), reverse=True)
        return Planned(policy, jnp.concatenate([V, end[None]]))

    def each_step(self, space: Space) -> Float[Array, "H n S A"]:
        """p_hat of every step."""
        return jnp.broadcast_to(self.prob, (space.horizon, *self.prob.shape[1:]))


def slots_first(table: Array) -> Array:
    """[S, A, n] as [n, S, A]."""
    return jnp.moveaxis(jnp.asarray(table), -1, 0)


def expect(
    space: Space, prob: Float[Array, "n S A"], V: Float[Array, " S"], succ: Int[Array, "n S A"] | None = None
) -> Float[Array, "S A"]:
    """sum_s' p_hat(s'|s,a) V(s'), on lists of its own or on those of the space; traced."""
    if succ is None and space.is_dense:
        return jnp.einsum("nsa,n->sa", prob, V)
    return (prob * V[slots_first(space.succ) if succ is None else succ]).sum(0)


def pooled(
    model: TabularModel, evidence: Evidence, visits: Int[Array, "S A"], succ: Int[Array, "n S A"] | None
) -> Float[Array, "n S A"]:
    """p_hat of all steps together; traced."""
    if succ is None:
        return slots_first(model.estimate(evidence).prob)
    slots = jnp.moveaxis(succ, 0, -1)
    counts = jnp.take_along_axis(evidence.counts, jnp.minimum(slots, evidence.counts.shape[-1] - 1), axis=-1)
    n = jnp.maximum(visits, 1).astype(jnp.float64)
    prob = slots_first(jnp.where(slots < model.space.num_states, counts / n[..., None], 0.0))
    is_known = slots_first(model.space.support).sum(0) == 1
    first = (jnp.arange(len(succ)) == 0)[:, None, None]
    return jnp.where(is_known, first, prob)


def placed(
    succ: Int[Array, "n S A"], trajectory: Trajectory, is_seen: Bool[Array, " H"]
) -> tuple[Int[Array, "n S A"], Int[Array, " H"]]:
    """The lists with the successors of an episode in them, and the slot of each; n where there was no place; traced."""
    n, S, _ = succ.shape
    steps = trajectory.s[:-1], trajectory.a, trajectory.s[1:], is_seen

    def place(succ: Array, step: tuple[Array, ...]) -> tuple[Array, Array]:
        s, a, s_next, is_seen = step
        fits = (succ[:, s, a] == s_next) | (succ[:, s, a] == S)
        slot = jnp.where(fits.any() & is_seen, fits.argmax(), n).astype(jnp.int32)
        return succ.at[slot, s, a].set(s_next, mode="drop"), slot

    def find(succ: Array) -> tuple[Array, Array]:
        return succ, is_there.argmax(-1).astype(jnp.int32)

    is_there = succ[:, steps[0], steps[1]].T == steps[2][:, None]
    is_old = (is_there.any(-1) | ~is_seen).all()
    found: tuple[Array, Array] = jax.lax.cond(is_old, find, lambda x: jax.lax.scan(place, x, steps), succ)
    return found


def why_void(frequencies: Frequencies) -> str | None:
    """Why theorems do not speak of these frequencies, None if they do; on the host."""
    if frequencies.missed is None or not int(frequencies.missed):
        return None
    return (
        f"{int(frequencies.missed)} transitions found no place in the lists; explore with more `successors`"
    )


def possible(space: Space, trajectory: Trajectory) -> Bool[Array, " H"]:
    """Which steps were seen, and are possible."""
    s, a, j = trajectory.s[:-1], trajectory.a, trajectory.j
    is_slot = (j >= 0) & (j < space.succ.shape[2])
    return is_slot & space.support[s, a, jnp.where(is_slot, j, 0)]


class Errors(NamedTuple):
    """X_h(s,a), the actions that maximise it (ties at random), and its maximum at the start."""

    X: Float[Array, "H S A"]
    policy: Int[Array, "H S"]
    first: Float[Array, ""]


def carry_back(
    key: Array,
    space: Space,
    frequencies: Frequencies,
    bonus: Float[Array, "T S A"],
    scales: Float[Array, " H"],
    caps: Float[Array, " H"],
    factor: float = 1.0,
) -> Errors:
    """The recursion above with bonuses scale_h b(s,a); traced.

    Ties are settled by lot, as by the authors: at first everything is at its cap, and the lowest action would be the
    only one that is ever tried.
    """
    H, S, _ = space.sizes
    lots = jax.random.bits(key, (H, S), jnp.uint32)
    shared = len(frequencies.visits) == 1

    def step(V: Array, inputs: tuple[Array, ...]) -> tuple[Array, tuple[Array, Array]]:
        lot, scale, cap, *own = inputs
        prob, b = (frequencies.prob[0], bonus[0]) if shared else own
        X = jnp.minimum(cap, scale * b + factor * expect(space, prob, V, frequencies.succ))
        return X.max(-1), (X, by_lot(lot, X))

    own = () if shared else (frequencies.prob, bonus)
    V, (X, policy) = jax.lax.scan(step, jnp.zeros(S), (lots, scales, caps, *own), reverse=True)
    return Errors(X, policy, space.at_start(V))


def by_lot(lot: UInt[Array, " S"], X: Float[Array, "S A"]) -> Int[Array, " S"]:
    """One of the actions that are best, or nearly: the lot, a number of 32 bits, picks it; traced."""
    is_best = nearly_best(X, -1)
    rank = jnp.cumsum(is_best, axis=-1, dtype=jnp.uint32)
    wanted = lot[:, None] % rank[:, -1:] + 1
    actions = jnp.arange(X.shape[-1], dtype=jnp.int32)
    return jnp.where(is_best & (rank == wanted), actions, 0).sum(-1, dtype=jnp.int32)
