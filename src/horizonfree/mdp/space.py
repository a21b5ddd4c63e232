"""Spaces (states, actions, possible transitions, horizon, start), kernels and trajectories.

Successor lists: `succ [S, A, n]` names the possible next states of (s, a) in ascending order. A slot of padding repeats
the last of them and is not in the support. A kernel that reaches most states is stored densely: n = S and
succ[s, a] = 0..S-1.

The first state is fixed (`start`), or it is drawn from a known distribution (`initial`).

A space can be restricted to its reachable states. An episode of H steps acts in these and ends in one of their
successors, so it has the same distribution in the restricted space, under every parameter and policy, and what is
proved there holds in the whole space. Restricted states are numbered anew, in the same order; `Space.state_ids` holds
their numbers in the whole space. In a state in which an episode can only end, every action stays.
"""

from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array, Leaf, node, static
from horizonfree._validation import check_floats, check_int, require_entries, require_shape
from horizonfree.errors import KernelError, ShapeError

TOLERANCE = 1e-8  # how far a row of probabilities may be from summing to one
MAX_HORIZON = 10**6  # steps of an episode
IMPOSSIBLE, UNSEEN = -1, -2  # in place of a slot: no successor of (s, a); the episode had broken off

_Array = TypeVar("_Array")  # JAX's or NumPy's


@node
class Space:
    """States, actions and possible transitions of episodes of H steps.

    `reachable`: states in which an action can be taken, under some parameter and policy. `initial` is the
    distribution of the first state, None where it is always `start`; `start` is None where it is drawn. `state_ids`:
    the numbers that the states have in the space that they are a part of. `acts`: which action is taken for
    each, where some are forbidden (policies.py).
    """

    succ: Int[Leaf, "S A n"]
    support: Bool[Leaf, "S A n"]
    reachable: Bool[Leaf, " S"]
    initial: Float[Leaf, " S"] | None
    horizon: int = static()
    start: int | None = static()
    is_dense: bool = static()
    state_ids: Int[Leaf, " S"] | None = None
    acts: Int[Leaf, "S A"] | None = None

    @property
    def num_states(self) -> int:
        """S."""
        return int(self.succ.shape[0])

    @property
    def num_actions(self) -> int:
        """A."""
        return int(self.succ.shape[1])

    @property
    def space(self) -> "Space":
        """Itself, so that a space can stand in for a problem or a model (`HasSpace`)."""
        return self

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(H, S, A), the shape of a reward."""
        S, A, _ = self.succ.shape
        return self.horizon, S, A

    def kernel(self, prob: Float[Leaf, "S A n"]) -> "Kernel":
        """Transition probabilities on these successor lists."""
        return Kernel(self.succ, prob, self.is_dense)

    def at_start(self, V: _Array) -> _Array:
        """The value [..., S] at the start, or its mean over a drawn start; NumPy or traced."""
        states: Any = V
        return cast(_Array, states[..., self.start] if self.initial is None else states @ self.initial)

    def id_of(self, state: int) -> int:
        """The number of a state in the space that this is a part of."""
        return int(state if self.state_ids is None else self.state_ids[state])

    def starts(self) -> Bool[np.ndarray, " S"]:
        """States in which an episode can start."""
        return _starts(self.num_states, self.initial, self.start)


@runtime_checkable
class HasSpace(Protocol):
    """A problem or a model: whatever has a space."""

    @property
    def space(self) -> Space:
        """Where it lives."""


@node
class Kernel:
    """Transition probabilities P(s'|s,a) on successor lists."""

    succ: Int[Leaf, "S A n"]
    prob: Float[Leaf, "S A n"]
    is_dense: bool = static()

    @property
    def num_states(self) -> int:
        """S."""
        return int(self.succ.shape[0])

    @property
    def num_actions(self) -> int:
        """A."""
        return int(self.succ.shape[1])

    def expect(self, V: Float[Leaf, " S"]) -> Float[Array, "S A"]:
        """[P V](s,a) = sum_s' P(s'|s,a) V(s'); planning/traced.py has the traced version."""
        check_values(V, len(self.succ))
        return self.prob @ V if self.is_dense else np.einsum("san,san->sa", self.prob, V[self.succ])

    def dense(self) -> Float[np.ndarray, "S A S"]:
        """The full table, for small problems and for tests."""
        S, A, _ = self.succ.shape
        table = np.zeros((S, A, S))
        s, a = np.arange(S)[:, None, None], np.arange(A)[None, :, None]
        np.add.at(table, (s, a, np.asarray(self.succ)), np.asarray(self.prob))
        return table


def make_space(
    succ: Int[np.ndarray, "S A n"],
    support: Bool[np.ndarray, "S A n"],
    is_dense: bool,
    horizon: Any,
    start: Any,
    acts: Int[np.ndarray, "S A"] | None = None,
) -> Space:
    """The space of these successor lists, after checking horizon and start (a state or a distribution)."""
    S = succ.shape[0]
    horizon = check_int(
        horizon, "horizon", 1, MAX_HORIZON, f"a number of steps, 1 to {MAX_HORIZON:,}", ShapeError
    )
    initial, first = _start(start, S)
    reachable = reachable_states(succ, support, _starts(S, initial, first), horizon)
    lists = succ.astype(np.int32), support, reachable
    begins = None if initial is None else initial
    return Space(*lists, begins, horizon, first, is_dense, None, None if acts is None else acts)


def with_start(space: Space, start: Any, horizon: Any, *, is_paid_after: bool = False) -> Space:
    """The space with another start or horizon; None leaves it as it is.

    Refuses to go where no episode of the space could: nothing can be known of it. A state is kept as a distribution, so
    that what is compiled for one state serves for all. is_paid_after: the last step is only a payment for the state
    that it is in, so that nothing need be known of where it leads.
    """
    S = space.num_states
    if horizon is None:
        horizon = space.horizon
    horizon = check_int(
        horizon, "horizon", 1, MAX_HORIZON, f"a number of steps, 1 to {MAX_HORIZON:,}", ShapeError
    )
    initial, first = (space.initial, space.start) if start is None else _start(start, S)
    starts = _starts(S, initial, first)
    acting = max(1, horizon - 1) if is_paid_after else horizon
    reachable = reachable_states(np.asarray(space.succ), np.asarray(space.support), starts, acting)
    new_states = np.flatnonzero(reachable & ~np.asarray(space.reachable))
    if new_states.size:
        raise ShapeError(
            f"from this start and in {horizon} steps state {space.id_of(new_states[0])} can be reached, which "
            f"no episode of {space.horizon} steps from the problem's start can; nothing is known of it"
        )
    weights = np.arange(S) == first if initial is None else np.asarray(initial)
    lists = space.succ, space.support, reachable, weights.astype(np.float64)
    return Space(*lists, horizon, None, space.is_dense, space.state_ids, space.acts)


def _start(start: Any, S: int) -> tuple[Float[np.ndarray, " S"] | None, int | None]:
    """(None, state), or (distribution, None); a distribution that is sure of a state is that state."""
    try:
        is_state = np.ndim(start) == 0
    except ValueError:  # rows of different lengths: not an array, which `check_floats` reports
        is_state = False
    if is_state:
        meaning = f"a state, 0 to {S - 1}, or a distribution over them"
        return None, check_int(start, "start", 0, S - 1, meaning, ShapeError)
    initial = check_floats(start, "start")
    require_shape(
        initial.shape == (S,), "start", initial.shape, f"({S},), a distribution over the {S} states"
    )
    require_entries(initial >= 0, "start", initial, "every probability must be a number >= 0", KernelError)
    if not abs(initial.sum() - 1) <= TOLERANCE:
        raise KernelError(f"start sums to {initial.sum():.10g}; it must sum to 1 (tolerance {TOLERANCE:g})")
    largest = int(initial.argmax())
    if np.count_nonzero(initial) == 1:
        return None, largest
    return initial / initial.sum(), None


def start_distribution(start: Any, S: int) -> Float[np.ndarray, " S"]:
    """The distribution of the first state, of a state or a distribution."""
    initial, first = _start(start, S)
    return (np.arange(S) == first).astype(np.float64) if initial is None else initial


def check_kernel(kernel: Kernel, what: str = "kernel") -> None:
    """Refuse probabilities that are negative or do not sum to one, naming the first bad entry."""
    prob = np.asarray(kernel.prob)
    bad = np.argwhere(~(prob >= -TOLERANCE))
    if bad.size:
        s, a, j = bad[0]
        raise KernelError(
            f"{what}: probability of (s={s}, a={a}) -> {kernel.succ[s, a, j]} is {prob[s, a, j]:.6g}; "
            "every transition probability must be a number >= 0"
        )
    with np.errstate(over="ignore", invalid="ignore"):  # of infinite sums, which are refused
        total = prob.sum(axis=-1)
    bad = np.argwhere(~(np.abs(total - 1) <= TOLERANCE))
    if bad.size:
        s, a = bad[0]
        raise KernelError(
            f"{what}: row (s={s}, a={a}) sums to {total[s, a]:.10g}; it must sum to 1 (tolerance {TOLERANCE:g})"
        )


def own_slots(space: Space) -> Bool[np.ndarray, "S A n"]:
    """The slot of each successor list that leads back to the state itself."""
    state = np.arange(space.num_states)[:, None, None]
    return np.asarray((np.asarray(space.succ) == state) & np.asarray(space.support))


def may_stay(space: Space) -> Bool[np.ndarray, " S"]:
    """States that may follow themselves, whatever the action."""
    return np.asarray(own_slots(space).any(-1).all(-1))


def occupied_states(space: Space) -> Bool[np.ndarray, "H S"]:
    """Which states can be occupied at each step, under some policy and parameter."""
    succ, support = np.asarray(space.succ), np.asarray(space.support)
    is_occupied = np.zeros((space.horizon, space.num_states), bool)
    is_occupied[0] = space.starts()
    for h in range(space.horizon - 1):
        is_occupied[h + 1, succ[is_occupied[h]][support[is_occupied[h]]]] = True
    return is_occupied


def reachable_states(
    succ: Int[np.ndarray, "S A n"],
    support: Bool[np.ndarray, "S A n"],
    starts: Bool[np.ndarray, " S"],
    horizon: int,
) -> Bool[np.ndarray, " S"]:
    """States that some parameter and policy can be in at one of the steps 1..H."""
    reached, last = starts.copy(), np.zeros(len(succ), np.int64)
    frontier = np.flatnonzero(reached)
    for _ in range(horizon - 1):
        successors = succ[frontier][support[frontier]]
        successors = successors[~reached[successors]]
        if not successors.size:
            break
        order = np.arange(len(successors))
        last[successors] = order
        frontier = successors[last[successors] == order]  # each once; np.unique would load masked arrays
        reached[frontier] = True
    return reached


def _starts(S: int, initial: Any, start: int | None) -> Bool[np.ndarray, " S"]:
    return np.arange(S) == start if initial is None else np.asarray(initial) > 0


def check_values(V: Any, S: int) -> None:
    """Refuse value functions of a number of states that is not S."""
    require_shape(
        V.ndim and V.shape[-1] == S, "V", V.shape, f"[.., {S}]: its last axis must be the {S} states"
    )


@node
class Trajectory:
    """One episode, or a batch of them: states s_1..s_{H+1}, actions, and which successor slot was taken."""

    s: Int[Leaf, "*batch H1"]
    a: Int[Leaf, "*batch H"]
    j: Int[Leaf, "*batch H"]


def visited_states(space: Space) -> Int[np.ndarray, " m"]:
    """States in which an action can be taken, or in which an episode can end; ascending."""
    succ, support, reachable = (np.asarray(x) for x in (space.succ, space.support, space.reachable))
    is_visited = reachable.copy()
    is_visited[succ[reachable][support[reachable]]] = True
    return np.flatnonzero(is_visited)


def restricted_space(space: Space, states: Int[np.ndarray, " m"]) -> Space:
    """The space with these states alone, all visited ones among them.

    Slots of the successor lists keep their places, so that what is stored for each slot needs no reordering. In states
    where no action is taken all of them lead to the state itself.
    """
    index = index_of(states, space.num_states)
    successors = index[np.asarray(space.succ)[states]]
    is_acting = np.asarray(space.reachable)[states]
    local_states = np.arange(len(states), dtype=np.int32)[:, None, None]
    return Space(
        succ=np.where((successors >= 0) & is_acting[:, None, None], successors, local_states),
        support=np.asarray(space.support)[states],
        reachable=is_acting,
        initial=None if space.initial is None else np.asarray(space.initial)[states],
        horizon=space.horizon,
        start=None if space.start is None else int(index[space.start]),
        is_dense=False,
        state_ids=(states if space.state_ids is None else space.state_ids[states]).astype(np.int32),
        acts=None if space.acts is None else np.asarray(space.acts)[states],
    )


def index_of(states: Int[np.ndarray, " m"], S: int) -> Int[np.ndarray, " S"]:
    """The place of each of S states among these; -1 for those that are not there."""
    index = np.full(S, -1, np.int32)
    index[states] = np.arange(len(states), dtype=np.int32)
    return index


def restricted(x: np.ndarray, states: Int[np.ndarray, " m"], sizes: tuple[int, int, int]) -> np.ndarray:
    """An array over all states, of sizes (H, S, A), on these alone."""
    return np.take(x, states, _state_axis(x.shape, sizes))


def extended(
    x: np.ndarray, states: Int[np.ndarray, " m"], sizes: tuple[int, int, int], fill: Any
) -> np.ndarray:
    """An array over these states as one over all, of sizes (H, S, A); `fill` elsewhere, broadcast."""
    H, S, A = sizes
    axis = _state_axis(x.shape, (H, len(states), A))
    result = np.empty((*x.shape[:axis], S, *x.shape[axis + 1 :]), np.result_type(x, fill))
    try:
        result[...] = fill
    except ValueError:
        raise ShapeError(
            f"fill has shape {np.shape(fill)}; it must be a number, or broadcast to {result.shape}"
        ) from None
    np.moveaxis(result, axis, 0)[states] = np.moveaxis(x, axis, 0)
    return result


def _state_axis(shape: tuple[int, ...], sizes: tuple[int, int, int]) -> int:
    """The axis of the states in an array [S], [S, A], [H, S] or [H, S, A]; values of H+1 steps count as [H, S]."""
    H, S, A = sizes
    is_by_action, is_by_step = shape == (S, A), shape in ((H, S), (H + 1, S))
    if is_by_action and is_by_step:
        raise ShapeError(
            f"an array of shape {shape} can be [S, A] or [H, S] here; give it for every step, [H, S, A]"
        )
    if shape == (S,) or is_by_action:
        return 0
    if is_by_step or shape == sizes:
        return 1
    raise ShapeError(
        f"the array has shape {shape}; it must be [S], [S, A], [H, S] or [H, S, A], with (H, S, A) = {sizes}"
    )


class Predecessors(NamedTuple):
    """The states with a transition to each state: those of s are `states[first[s] : first[s + 1]]`, each once."""

    first: Int[np.ndarray, " S1"]
    states: Int[np.ndarray, " E"]


def predecessors(space: Space) -> Predecessors:
    """The predecessors of all states, by transitions that some parameter makes possible."""
    S, A, n = space.succ.shape
    support = np.asarray(space.support)
    successors = np.asarray(space.succ)[support].astype(np.int64)
    origin = np.broadcast_to(np.arange(S)[:, None, None], (S, A, n))[support]
    edges = np.sort(successors * S + origin)
    edges = edges[np.diff(edges, prepend=-1) > 0]
    first = np.searchsorted(edges, np.arange(S + 1) * S)
    return Predecessors(first, edges % S)


def distances(
    predecessors: Predecessors, goals: Int[np.ndarray, " G"], max_distance: int
) -> Int[np.ndarray, "G S"]:
    """The least number of transitions from each state to each goal; max_distance + 1 where it is more."""
    G, S = len(goals), len(predecessors.first) - 1
    result = np.full(G * S, max_distance + 1, np.int32)
    position = np.zeros(G * S, np.int64)
    frontier = np.arange(G) * S + goals  # pairs (g, s) as one number
    result[frontier] = 0
    for distance in range(1, max_distance + 1):
        s = frontier % S
        count = predecessors.first[s + 1] - predecessors.first[s]
        skipped = np.repeat(predecessors.first[s] - (np.cumsum(count) - count), count)
        frontier = np.repeat(frontier - s, count) + predecessors.states[np.arange(len(skipped)) + skipped]
        frontier = frontier[result[frontier] > max_distance]
        if not frontier.size:
            break
        order = np.arange(len(frontier))
        position[frontier] = order
        frontier = frontier[position[frontier] == order]  # without repetitions
        result[frontier] = distance
    return result.reshape(G, S)
