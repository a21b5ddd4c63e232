"""Events within k steps, as rewards of lifted states: be in one of some states at least once, and the like.

An event looks at the states s_1, s_2, ..., s_{k+1}. Every state is open, or it decides the event as won or as lost; the
first state that is not open counts, and an event that is still open after k steps has an outcome of its own. Each of
the three outcomes is worth 0 or 1.

Lifted states are the states, while the event is open or has been decided just now, and a copy of each state for the
time after. Transitions between them have the probabilities of those that they lift, whatever the parameter, so the
lifted system is one of the same class with the rows that it has already. On lifted states the event is
a reward: the worth of the outcome, in states that decide it just now, and at the last step in states that are open.
Exactly one of these is entered in an episode, so the total is 0 or 1. What a policy does after the decision changes
nothing; policies are of states and steps.

A payment t(s, a, s') for a transition is made one step later, for the state that was entered. Where t = g(s, a) + f(s')
on all possible transitions, f is that payment (`split_payments`). For any other t, a lifted state is a state with a
payment for entering it:

    P((s', t(s, a, s')) | (s, any), a) = P(s'|s, a)

Both lifted systems keep the rows of the original one, so what is proved of a row stays true. What is proved of all
plans together does not: two actions with the same law are one choice in the system, and two in the lifted one if they
are paid differently.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree._validation import check_finite_rewards, check_floats, check_int, check_size, require_shape
from horizonfree.errors import OptionError, RewardError
from horizonfree.mdp.names import StateLike
from horizonfree.mdp.policies import redirect_forbidden
from horizonfree.mdp.rewards import numbers_of, space_of
from horizonfree.mdp.space import MAX_HORIZON, HasSpace, Kernel, Space

RELATIVE_TOLERANCE = 1e-12  # of the range of payments: what g + f may be off by, which is rounding
MAX_ENTRIES = 2**22  # entries of lists of successors of lifted states


@dataclass(frozen=True, eq=False)
class Lift(abc.ABC):
    """Lifted states: the space of them, the state of each, and the first one of every state."""

    space: Space
    origin: Int[np.ndarray, " X"]
    first: Int[np.ndarray, " S"]

    @abc.abstractmethod
    def lists(self, succ: Any) -> Any:
        """Lists of successors [S, A, n] as lists of lifted ones [X, A, n]."""

    def copies(self) -> Int[np.ndarray, "X A"] | None:
        """Which copy of all states follows each pair, where lifted states are such copies, one after the other."""
        return None

    def of(self, x: Any) -> Any:
        """An array over states as one over lifted states."""
        return np.asarray(x)[self.origin]

    def kernel(self, kernel: Kernel) -> Kernel:
        """The kernel of the lifted states."""
        return Kernel(self.lists(kernel.succ), self.of(kernel.prob), False)


@dataclass(frozen=True, eq=False)
class PaymentLift(Lift):
    """States with what they can be entered with, `paid`; `land` [S, A, S]: which of them a transition leads to."""

    paid: Float[np.ndarray, " X"]
    land: Int[np.ndarray, "S A S"]

    def lists(self, succ: Any) -> Any:
        """Lists of successors [S, A, n] as lists of lifted ones [X, A, n]."""
        return _at_successors(self.land, np.asarray(succ))[self.origin]


def payments(space: Space, transition: Any) -> Float[np.ndarray, "S A S"]:
    """t as a finite table, from an array [S, A, S] or a function (s, a, s') of possible transitions."""
    _, S, A = space.sizes
    if callable(transition):
        table = _table_of_function(space, transition)
    else:
        table = check_floats(transition, "transition")
        meaning = f"[S, A, S] = {(S, A, S)}, what a step from s by a to s' is paid, or a function (s, a, s') -> number"
        require_shape(table.shape == (S, A, S), "transition", table.shape, meaning)
    table = redirect_forbidden(space.acts, table)
    check_finite_rewards(_at_successors(table, np.asarray(space.succ)))
    return table


def _table_of_function(space: Space, function: Any) -> Float[np.ndarray, "S A S"]:
    _, S, A = space.sizes
    table = np.zeros((S, A, S))
    for s, a, j in zip(*np.nonzero(np.asarray(space.support))):
        entry = int(s), int(a), int(space.succ[s, a, j])
        if space.acts is not None and space.acts[s, a] != a:
            continue
        try:
            table[entry] = function(*entry)
        except Exception as error:  # of the caller's function
            raise RewardError(
                f"transition gives no number at (s, a, s') = {entry}: {type(error).__name__}: {error}"
            ) from error
    return table


def expected_payment(kernel: Kernel, t: Float[np.ndarray, "S A S"]) -> Float[np.ndarray, "S A"]:
    """sum_s' P(s'|s,a) t(s,a,s')."""
    return np.asarray((np.asarray(kernel.prob) * _at_successors(t, np.asarray(kernel.succ))).sum(-1))


def split_payments(
    space: Space, t: Float[np.ndarray, "S A S"]
) -> tuple[Float[np.ndarray, "S A"], Float[np.ndarray, " S"]] | None:
    """g and f with t = g + f wherever a transition is possible; None where there are none.

    From one pair of each connected part, g = 0, to its successors, from these to the pairs that lead there, and so on.
    """
    import scipy.sparse as sp  # loads slowly
    from scipy.sparse.csgraph import connected_components

    _, S, A = space.sizes
    s, a, j = np.nonzero(np.asarray(space.support))
    pair, successors = s * A + a, np.asarray(space.succ)[s, a, j]
    value, size = t[s, a, successors], S * A + S
    joined = sp.coo_array((np.ones(len(pair)), (pair, S * A + successors)), (size, size))
    part = connected_components(joined, directed=False)[1]
    g, f = np.full(S * A, np.nan), np.full(S, np.nan)
    g[np.unique(part[: S * A], return_index=True)[1]] = 0.0
    while np.isnan(g).any():
        is_known = ~np.isnan(g[pair])
        f[successors[is_known]] = (value - g[pair])[is_known]
        is_known = ~np.isnan(f[successors]) & np.isnan(g[pair])
        g[pair[is_known]] = (value - f[successors])[is_known]
    f[successors] = value - g[pair]
    if np.abs(g[pair] + f[successors] - value).max() > RELATIVE_TOLERANCE * np.ptp(value):
        return None
    return g.reshape(S, A), np.nan_to_num(f)


def split_payments_everywhere(
    t: Float[np.ndarray, "S A S"],
) -> tuple[Float[np.ndarray, "S A"], Float[np.ndarray, " S"]] | None:
    """g and f with t(s,a,s') = g(s,a) + f(s') for all s, a and s'; None where there are none."""
    g, f = t[:, :, 0], t[0, 0] - t[0, 0, 0]
    is_exact = np.abs(g[..., None] + f - t).max() <= RELATIVE_TOLERANCE * np.ptp(t)
    return (g, f) if is_exact else None


def lift_payments(space: Space, t: Float[np.ndarray, "S A S"]) -> PaymentLift:
    """States with what they can be entered with; those that nothing leads to once, with nothing."""
    _, S, A = space.sizes
    s, a, j = np.nonzero(np.asarray(space.support))
    successors = np.asarray(space.succ)[s, a, j]
    without_entry = np.setdiff1d(np.arange(S), successors)
    entries = np.stack(
        [np.r_[successors, without_entry], np.r_[t[s, a, successors], np.zeros(len(without_entry))]], axis=1
    )
    states, which = np.unique(entries, axis=0, return_inverse=True)
    check_size(
        len(states) * A * space.succ.shape[2],
        MAX_ENTRIES,
        f"transition pays in {len(states):,} different ways for entering {S:,} states",
        "round it, or write it as g(s, a) + f(s'), which may be of any size",
    )
    origin = states[:, 0].astype(np.int64)
    first = np.searchsorted(origin, np.arange(S))
    land = np.broadcast_to(first, (S, A, S)).copy()
    land[s, a, successors] = which.reshape(-1)[: len(successors)]
    initial = np.zeros(len(states))
    initial[first] = space.starts() if space.initial is None else np.asarray(space.initial)
    return PaymentLift(
        Space(
            succ=_at_successors(land, np.asarray(space.succ))[origin].astype(np.int32),
            support=np.asarray(space.support)[origin],
            reachable=np.asarray(space.reachable)[origin],
            initial=initial,
            horizon=space.horizon,
            start=None,
            is_dense=False,
            acts=None if space.acts is None else np.asarray(space.acts)[origin],
        ),
        origin,
        first,
        states[:, 1],
        land,
    )


def _at_successors(table: np.ndarray, succ: np.ndarray) -> np.ndarray:
    """The entries of a table [S, A, S] at successor lists [S, A, n]."""
    return np.take_along_axis(table, succ, axis=-1)


OPEN, WON, LOST = 0, 1, 2
MAX_LIFTED_ENTRIES = 2**28  # of the reward of lifted states


class Worth(NamedTuple):
    """What each outcome is worth, 0 or 1."""

    won: float
    lost: float
    open: float


REACH = Worth(1.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Event:
    """An event within `steps` transitions; `decided` [S] is OPEN, WON or LOST.

    `is_max`: a plan makes its probability as large as possible, else as small.
    """

    decided: Int[np.ndarray, " S"]
    steps: int
    pays: Worth = REACH
    is_max: bool = True
    name: str = "reach"

    def reward(self, space: Space) -> Float[np.ndarray, "k1 X A"]:
        """The reward of lifted states that a plan maximises: that of the event, or of its complement."""
        S, A = space.num_states, space.num_actions
        numbers = (self.steps + 1) * 2 * S * A
        check_size(
            numbers,
            MAX_LIFTED_ENTRIES,
            f"an event of {self.steps:,} steps needs {numbers:,} numbers",
            "ask for fewer steps",
        )
        outcome_values = self.pays if self.is_max else Worth(*(1.0 - x for x in self.pays))
        table = np.zeros((self.steps + 1, 2 * S, A))
        table[:, :S][:, self.decided == WON] = outcome_values.won
        table[:, :S][:, self.decided == LOST] = outcome_values.lost
        table[-1, :S][self.decided == OPEN] = outcome_values.open
        return table

    def lift(self, space: Space) -> "EventLift":
        """The lifted states on a space."""
        return EventLift.of_events(space, [self])


@dataclass(frozen=True, eq=False)
class EventLift(Lift):
    """Lifted states of events: m S + s is state s, m the sum of 2^i over the events i that were decided before.

    `onward` [X]: m in the states that follow.
    """

    onward: Int[np.ndarray, " X"]

    @classmethod
    def of_events(cls, space: Space, events: Sequence[Event]) -> "EventLift":
        """The space of the lifted states."""
        S, copies = space.num_states, 2 ** len(events)
        check_size(
            copies * space.succ.size,
            MAX_LIFTED_ENTRIES,
            f"{len(events)} events make {copies:,} copies of {S:,} states",
            "ask for fewer events",
        )
        origin = np.tile(np.arange(S), copies)
        decided_bits = sum(2**i * (event.decided != OPEN).astype(np.int64) for i, event in enumerate(events))
        onward = np.arange(copies).repeat(S) | np.tile(decided_bits, copies)
        initial = np.zeros(copies * S)
        initial[:S] = space.starts() if space.initial is None else np.asarray(space.initial)
        succ = np.asarray(space.succ)
        lifted_space = Space(
            succ=(succ[origin] + S * onward[:, None, None]).astype(np.int32),
            support=np.asarray(space.support)[origin],
            reachable=np.asarray(space.reachable)[origin],
            initial=initial,
            horizon=space.horizon,
            start=None,
            is_dense=False,
            acts=None if space.acts is None else np.asarray(space.acts)[origin],
        )
        return cls(lifted_space, origin, np.arange(S), onward)

    def copies(self) -> Int[np.ndarray, "X A"]:
        """The copy that follows each pair."""
        return np.repeat(self.onward[:, None], self.space.num_actions, axis=1)

    def lists(self, succ: Any) -> Any:
        """Lists of successors [S, A, n] as lists of lifted ones [X, A, n]."""
        succ = np.asarray(succ)
        return succ[self.origin] + len(succ) * self.onward[:, None, None].astype(succ.dtype)

    def paid(self, event: Event, number: int) -> Float[np.ndarray, "T X A"]:
        """The worth of the outcome of event `number`, at the step that decides it; 0 from its last step on."""
        (T, X, A), S = self.space.sizes, len(event.decided)
        is_open = (np.arange(X) // S >> number) % 2 == 0
        table = np.zeros((T, X, A))
        for outcome, outcome_value in ((WON, event.pays.won), (LOST, event.pays.lost)):
            table[: event.steps + 1, is_open & (event.decided == outcome)[self.origin]] = outcome_value
        table[event.steps, is_open & (event.decided == OPEN)[self.origin]] = event.pays.open
        return table

    def state(self, visited: Sequence[int], events: Sequence[Event]) -> int:
        """The lifted state after these states were visited, the present one last."""
        *earlier_states, last_state = visited
        memory = sum(2**i for i, x in enumerate(events) if (x.decided[earlier_states] != OPEN).any())
        return int(memory * len(self.first) + last_state)


def reach(problem: HasSpace, states: StateLike | Sequence[StateLike], *, within: int | None = None) -> Event:
    """Be in one of the states (by name, label, number or cell, as for `goal`) at least once.

    within: how many transitions that may take, 0 to the horizon H; by default H - 1, at the steps that a reward is paid
    for. `Run.plan` and `Run.evaluate` take it in place of a reward.

    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> run = hf.explore(problem, episodes=50, progress=False)
    >>> plan = run.plan(hf.reach(problem, 3, within=6))
    >>> 0 <= plan.value_low <= plan.value <= plan.value_high <= 1
    True
    """
    space = space_of(problem)
    steps = space.horizon - 1
    if within is not None:
        meaning = f"a number of transitions, 0 to {space.horizon}"
        steps = check_int(within, "within", 0, space.horizon, meaning, RewardError)
    decisions = np.zeros(space.num_states, np.int64)
    decisions[numbers_of(problem, states)] = WON
    return Event(decisions, steps)


def check_event(event: Event, space: Space) -> None:
    """Refuse an event of another problem, and one that is longer than an episode can be."""
    if len(event.decided) != space.num_states:
        raise OptionError(
            f"this event is of a problem with {len(event.decided)} states, this one has {space.num_states}; "
            "make it for this one"
        )
    check_int(
        event.steps, "the number of steps of the event", 0, MAX_HORIZON - 1, f"at most {MAX_HORIZON - 1:,}"
    )
