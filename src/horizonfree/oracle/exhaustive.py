"""The oracle by enumeration: every deterministic policy and every antichain of states. For tiny problems and tests.

Enumerated are only choices that matter: at step h the states that s_1 can reach by then, of each state the actions
that differ, and antichains of nodes that can be reached. The last action never matters (V_{H+1} = 0),
nor does a reward at step 1 (u_h looks at V_{h+1}).

For explorers `enumerated` does so inside compiled code. A pair of policy and reward is a whole number. Its digits, in
a mixed base, are the actions at the states that can be occupied at a step (of actions with equal rows the first stands
for all), and at the end the reward: its place in the list of antichains. The numbers are tried block by block, each
pair evaluated side by side with the others of its block.

The rewards that are enumerated are indicators of antichains. A node is a state at a step. One node comes before another
if some policy and parameter can lead from it to the other. Rewards r >= 0 of states have total at most 1 on every
possible trajectory if and only if no chain of nodes collects more, since every chain lies on a trajectory. The order is
a partial order, whose comparability graph is perfect, so the vertices of this polytope are the indicators of
antichains: sets of nodes of which no trajectory visits two (Chvatal 1975, "On certain polytopes associated with
graphs"). Sets of states at one step are some of them.

A set of nodes is a whole number: bit i stands for the i-th node, step by step. A reward at step 1 never matters.
"""

from itertools import product
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree._validation import check_size
from horizonfree._x64 import Number, to_device, to_numpy, x64
from horizonfree.mdp.space import Space, occupied_states
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.oracle.objective import Prepared, backup, evaluate, prepare
from horizonfree.oracle.result import AntichainPoint, OracleResult, conclude
from horizonfree.planning.traced import TIE

MAX_REWARDS = 2**16  # antichains; more are not listed
MAX_NODES = 63  # bits of a number


class Antichains(NamedTuple):
    """The first `count` sets are all there are; more than MAX_REWARDS if there are too many. `rank`: bit of a node."""

    sets: Int[Array, " N"]
    count: Int[Array, ""]
    rank: Int[Array, "H S"]
    nodes: Bool[Array, "H S"]

    def indicator(self, one: Int[Array, "*n"]) -> Bool[Array, "*n H S"]:
        """The nodes of sets."""
        return self.nodes & ((one[..., None, None] >> self.rank) & 1 == 1)


def antichains(space: Space, is_occupied: Bool[Array, "H S"]) -> Antichains:
    """All antichains of the nodes that can be occupied from step 2 on; traced. The empty set is the first.

    One node after the other is added to every set that it can be added to, so each set occurs once.
    """
    H, S = is_occupied.shape
    nodes = is_occupied.at[0].set(False)
    rank = jnp.where(nodes, jnp.cumsum(nodes).reshape(H, S) - 1, 0)
    total = nodes.sum()
    bits = jnp.where(nodes, jnp.int64(1) << jnp.minimum(rank, MAX_NODES - 1), 0)
    comparable = _comparable(space)
    node_order = jnp.argsort(~nodes.ravel(), stable=True)  # the i-th node

    def add(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        i, sets, count = carry
        h, s = node_order[i] // S, node_order[i] % S
        num_steps = jnp.abs(jnp.arange(H) - h)  # [H]: steps between
        conflict = (bits * (comparable[num_steps, s] & (jnp.arange(H) < h)[:, None])).sum()
        is_compatible = (jnp.arange(MAX_REWARDS) < count) & (sets & conflict == 0)
        slots = jnp.where(is_compatible, count + jnp.cumsum(is_compatible) - 1, MAX_REWARDS)
        return i + 1, sets.at[slots].set(sets | bits[h, s], mode="drop"), count + is_compatible.sum()

    def goes_on(carry: tuple[Array, Array, Array]) -> Array:
        i, _, count = carry
        return (i < total) & (count <= MAX_REWARDS)

    too_many = jnp.where(total > MAX_NODES, MAX_REWARDS + 1, 1)
    start = jnp.int64(0), jnp.zeros(MAX_REWARDS, jnp.int64), too_many.astype(jnp.int64)
    _, sets, count = jax.lax.while_loop(goes_on, add, start)
    return Antichains(sets, count, rank, nodes)


def _comparable(space: Space) -> Bool[Array, "H S S"]:
    """[k, s, t]: whether state s can be reached from t in k steps."""
    S = space.num_states
    step = jnp.zeros((S, S)).at[space.succ, jnp.arange(S)[:, None, None]].max(space.support.astype(float)) > 0

    def extend(current: Array, _: None) -> tuple[Array, Array]:
        return _product(step, current), current

    return jax.lax.scan(extend, jnp.eye(S, dtype=bool), None, length=space.horizon)[1]


def _product(x: Bool[Array, "S S"], y: Bool[Array, "S S"]) -> Bool[Array, "S S"]:
    product: Float[Array, "S S"] = x.astype(float) @ y.astype(float)
    return product > 0


MAX_PAIRS = 2_000_000  # pairs of policy and reward; more are refused

_prepare = jax.jit(prepare)
_antichains = jax.jit(lambda space, occupied: _indicators(antichains(space, occupied)))
_backups = jax.jit(jax.vmap(backup, in_axes=(None, 0, 0, 0, None)))
_conclude = jax.jit(conclude, static_argnames="mode")


@x64
def exhaustive(
    model: MixtureModel,
    theta: Float[np.ndarray, " d"],
    inv_tilde: Float[np.ndarray, "d d"],
    inv_hat: Float[np.ndarray, "d d"],
    *,
    beta: float,
) -> OracleResult:
    """The exact maximum of Vhat_1(s_1) over deterministic policies and antichains of states (first of equals)."""
    choices = _choices(model)
    reach = occupied_states(model.space)
    targets, num_targets = (np.asarray(x) for x in _antichains(*to_device((model.space, reach))))
    check_size(
        int(num_targets), MAX_REWARDS, f"exhaustive search would list {num_targets} rewards", "use ascent"
    )
    targets = targets[:num_targets]
    count = _count(choices, reach) * len(targets)
    what = f"exhaustive search would try {count:.3g} pairs of policy and reward"
    check_size(count, MAX_PAIRS, what, "use ascent")
    prepared = _prepare(*to_device((model, theta, inv_tilde, inv_hat)))
    return to_numpy(_search(prepared, choices, reach, targets, beta))


def _indicators(antichains: Antichains) -> tuple[Bool[Array, "N H S"], Int[Array, ""]]:
    return antichains.indicator(antichains.sets), antichains.count


def _choices(model: MixtureModel) -> list[Int[np.ndarray, " _"]]:
    """Per state the first of each class of actions with equal features."""
    rows = np.asarray(model.phi).reshape(*model.space.sizes[1:], -1)
    return [np.sort(np.unique(row, axis=0, return_index=True)[1]) for row in rows]


def _count(choices: list[Int[np.ndarray, " _"]], reach: Bool[np.ndarray, "H S"]) -> float:
    """Policies that differ where they matter."""
    return float(np.prod([float(len(c)) for step in reach[:-1] for c, is_on in zip(choices, step) if is_on]))


def _search(
    prepared: Prepared,
    choices: list[Int[np.ndarray, " _"]],
    reach: Bool[np.ndarray, "H S"],
    targets: Bool[np.ndarray, "R H S"],
    beta: float,
) -> OracleResult:
    """All pairs side by side: backwards, each becomes one pair per combination of actions at the step."""
    H, S = reach.shape
    policy, combos = np.zeros((H, S), np.int32), [np.zeros((1, S), np.int32)] * (H - 1)
    V, V_hat = targets[:, H - 1].astype(float), np.zeros((len(targets), S))
    for h in range(H - 2, -1, -1):
        r = np.repeat(targets[:, h].astype(float), len(V) // len(targets), axis=0)
        Q, raw = map(np.asarray, _backups(prepared, V, V_hat, r, beta))
        states = np.flatnonzero(reach[h])
        if states.size:
            combos[h] = np.zeros((np.prod([len(choices[s]) for s in states]), S), np.int32)
            combos[h][:, states] = list(product(*(choices[s] for s in states)))
        V, raw = (q[:, combos[h], np.arange(S)].reshape(-1, S) for q in (Q, raw))
        V_hat = np.minimum(raw, 1)
    best = _first_best(prepared, raw) if H > 1 else 0
    for h in range(H - 1):  # the first step was combined last
        best, of_step = divmod(best, len(combos[h]))
        policy[h] = combos[h][of_step]
    point = AntichainPoint(jnp.asarray(policy), jnp.asarray(targets[best]))
    result: OracleResult = _conclude(prepared, point, beta, beta, 0, mode="exhaustive")
    return result


def _first_best(prepared: Prepared, raw: Float[np.ndarray, "N S"]) -> int:
    """The first of largest value; among values that are capped, of largest value before the cap."""
    value, uncapped = (np.asarray(prepared.space.at_start(x)) for x in (np.minimum(raw, 1), raw))
    return int(np.where(value == value.max(), uncapped, -np.inf).argmax())


BLOCK_SIZE = 256  # pairs of policy and reward that are evaluated side by side
TOO_MANY_PAIRS = (
    f"oracle='exhaustive' would try more than {MAX_PAIRS:,} pairs of policy and reward, or {MAX_REWARDS:,} rewards; "
    "use oracle='ascent', or a smaller problem"
)


class Pairs(NamedTuple):
    """The choices: different actions of each state, their number at each step, and the rewards."""

    actions: Int[Array, "S A"]
    bases: Int[Array, "H S"]
    rewards: Antichains
    total: Int[Array, ""]


class Best(NamedTuple):
    """The first pair of largest value; among values that are capped, of largest value before the cap."""

    number: Int[Array, ""]
    value: Float[Array, ""]
    raw: Float[Array, ""]


def enumerated(model: MixtureModel, prepared: Prepared, beta: Number) -> tuple[AntichainPoint, Best]:
    """The exact maximum of Vhat_1(s_1) over deterministic policies and antichains of states; traced.

    More than MAX_PAIRS pairs, or MAX_REWARDS antichains, are an error when it runs: compiled code cannot know the
    numbers beforehand.
    """
    pairs = _pairs(model)
    at_start = prepared.space.at_start

    def values(index: Array) -> tuple[Array, Array]:
        point = point_of(pairs, index)
        raw = evaluate(prepared, point.policy, point.reward, beta).raw[0]
        return at_start(jnp.minimum(raw, 1)), at_start(raw)

    def block(carry: tuple[Array, Best]) -> tuple[Array, Best]:
        first, best = carry
        index = jnp.minimum(first + jnp.arange(BLOCK_SIZE), pairs.total - 1)
        value, raw = jax.vmap(values)(index)
        candidates = [jnp.concatenate([old[None], new]) for old, new in zip(best, (index, value, raw))]
        return first + BLOCK_SIZE, _best_of(*candidates)

    start = jnp.int64(0), Best(jnp.int64(0), *values(jnp.int64(0)))
    _, best = jax.lax.while_loop(lambda carry: carry[0] < pairs.total, block, start)
    return point_of(pairs, best.number), best


def point_of(pairs: Pairs, index: Int[Array, ""]) -> AntichainPoint:
    """The pair of a number."""
    H = len(pairs.bases)
    choice, reward = index // pairs.rewards.count, index % pairs.rewards.count
    bases = pairs.bases.ravel()
    digits = choice // (jnp.cumprod(bases) // bases) % bases
    policy = pairs.actions[jnp.tile(jnp.arange(len(pairs.actions)), H), digits].reshape(pairs.bases.shape)
    return AntichainPoint(policy.astype(jnp.int32), pairs.rewards.indicator(pairs.rewards.sets[reward]))


def _best_of(index: Int[Array, " N"], value: Float[Array, " N"], raw: Float[Array, " N"]) -> Best:
    """The first of those that are equal up to rounding."""
    is_best = value >= value.max() * (1 - TIE)
    largest = jnp.where(is_best, raw, -jnp.inf).max()
    i = (is_best & (raw >= largest * (1 - TIE))).argmax()
    return Best(index[i], value[i], raw[i])


def _pairs(model: MixtureModel) -> Pairs:
    """All pairs that matter: the last action does not, nor does a reward at step 1."""
    _, S, A = model.space.sizes
    is_occupied = _occupied_states(model)
    rows = jnp.concatenate([model.phi.reshape(S, A, -1), model.space.succ.astype(float)], axis=-1)
    is_same_row = (rows[:, :, None] == rows[:, None]).all(-1)  # [S, A, A]
    is_new = ~(is_same_row & jnp.tri(A, k=-1, dtype=bool)).any(-1)
    actions = jnp.argsort(~is_new, axis=1, stable=True)
    bases = jnp.where(is_occupied, is_new.sum(1), 1).at[-1].set(1)
    rewards = antichains(model.space, is_occupied)
    total = jnp.prod(bases.astype(float)) * rewards.count
    total = eqx.error_if(total, (total > MAX_PAIRS) | (rewards.count > MAX_REWARDS), TOO_MANY_PAIRS)
    return Pairs(actions, bases.astype(int), rewards, total.astype(int))


def _occupied_states(model: MixtureModel) -> Bool[Array, "H S"]:
    """Which states can be occupied at each step, under some policy and parameter."""
    space = model.space
    S = space.num_states
    first = jnp.asarray(jnp.arange(S) == space.start if space.initial is None else space.initial > 0)

    def step(current: Array, _: None) -> tuple[Array, Array]:
        following = jnp.zeros(S, bool).at[space.succ].max(current[:, None, None] & space.support)
        return following, current

    return jax.lax.scan(step, first, None, length=space.horizon)[1]
