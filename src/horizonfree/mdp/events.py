"""Events within k steps, as rewards of lifted states: be in one of some states at least once, and the like.

An event looks at the states s_1, s_2, ..., s_{k+1}. Every state is open, or it decides the event as won or as lost; the
first state that is not open counts, and an event that is still open after k steps has an outcome of its own. Each of
the three outcomes is worth 0 or 1.

Lifted states are the states, while the event is open or has been decided just now, and a copy of each state for the
time after. Transitions between them have the probabilities of those that they lift, whatever the parameter, so the
lifted system is one of the same class with the rows that it has already (as in lift.py). On lifted states the event is
a reward: the worth of the outcome, in states that decide it just now, and at the last step in states that are open.
Exactly one of these is entered in an episode, so the total is 0 or 1. What a policy does after the decision changes
nothing; policies are of states and steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree._validation import check_int
from horizonfree.errors import OptionError, RewardError
from horizonfree.mdp.lift import Lift
from horizonfree.mdp.rewards import numbers_of, space_of
from horizonfree.mdp.space import MAX_HORIZON, HasSpace, Space

OPEN, WON, LOST = 0, 1, 2
MOST_ENTRIES = 2**28  # of the reward of lifted states


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
        if (self.steps + 1) * 2 * S * A > MOST_ENTRIES:
            raise OptionError(
                f"an event of {self.steps:,} steps needs {(self.steps + 1) * 2 * S * A:,} numbers, too many to hold; "
                "ask for fewer steps"
            )
        worth = self.pays if self.is_max else Worth(*(1.0 - x for x in self.pays))
        table = np.zeros((self.steps + 1, 2 * S, A))
        table[:, :S][:, self.decided == WON] = worth.won
        table[:, :S][:, self.decided == LOST] = worth.lost
        table[-1, :S][self.decided == OPEN] = worth.open
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
        if copies * space.succ.size > MOST_ENTRIES:
            raise OptionError(
                f"{len(events)} events make {copies:,} copies of {S:,} states, too many to hold; ask for fewer events"
            )
        origin = np.tile(np.arange(S), copies)
        now = sum(2**i * (event.decided != OPEN).astype(np.int64) for i, event in enumerate(events))
        onward = np.arange(copies).repeat(S) | np.tile(now, copies)
        initial = np.zeros(copies * S)
        initial[:S] = space.starts() if space.initial is None else np.asarray(space.initial)
        succ = np.asarray(space.succ)
        lifted = Space(
            succ=(succ[origin] + S * onward[:, None, None]).astype(np.int32),
            support=np.asarray(space.support)[origin],
            reachable=np.asarray(space.reachable)[origin],
            initial=initial,
            horizon=space.horizon,
            start=None,
            is_dense=False,
            acts=None if space.acts is None else np.asarray(space.acts)[origin],
        )
        return cls(lifted, origin, np.arange(S), onward)

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
        for outcome, worth in ((WON, event.pays.won), (LOST, event.pays.lost)):
            table[: event.steps + 1, is_open & (event.decided == outcome)[self.origin]] = worth
        table[event.steps, is_open & (event.decided == OPEN)[self.origin]] = event.pays.open
        return table

    def state(self, visited: Sequence[int], events: Sequence[Event]) -> int:
        """The lifted state after these states were visited, the present one last."""
        *before, now = visited
        kept = sum(2**i for i, x in enumerate(events) if (x.decided[before] != OPEN).any())
        return kept * len(self.first) + now


def reach(problem: HasSpace, states: int | str | Sequence[int | str], *, within: int | None = None) -> Event:
    """Be in one of the states (by name, label or number) at least once.

    within: how many transitions that may take, 0 to the horizon H; by default H - 1, at the steps that a reward is paid
    for. `Run.plan` and `Run.evaluate` take it in place of a reward.
    """
    space = space_of(problem)
    steps = space.horizon - 1
    if within is not None:
        meaning = f"a number of transitions, 0 to {space.horizon}"
        steps = check_int(within, "within", 0, space.horizon, meaning, RewardError)
    decided = np.zeros(space.num_states, np.int64)
    decided[numbers_of(problem, states)] = WON
    return Event(decided, steps)


def check_event(event: Event, space: Space) -> None:
    """Refuse an event of another problem, and one that is longer than an episode can be."""
    if len(event.decided) != space.num_states:
        raise OptionError(
            f"this event is of a problem with {len(event.decided)} states, this one has {space.num_states}; "
            "make it for this one"
        )
    if not 0 <= event.steps < MAX_HORIZON:
        raise OptionError(
            f"this event looks at {event.steps} steps; at most {MAX_HORIZON - 1:,} are possible"
        )
