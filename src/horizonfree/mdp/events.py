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
        origin = np.tile(np.arange(space.num_states), 2)
        is_open = np.append(self.decided == OPEN, np.zeros(space.num_states, bool))
        return EventLift.of_event(space, origin, is_open)


@dataclass(frozen=True, eq=False)
class EventLift(Lift):
    """Lifted states of an event: those of the space, then a copy of each for the time after the decision."""

    is_open: Any

    @classmethod
    def of_event(cls, space: Space, origin: np.ndarray, is_open: np.ndarray) -> "EventLift":
        """The space of the lifted states."""
        S = space.num_states
        initial = np.zeros(2 * S)
        initial[:S] = space.starts() if space.initial is None else np.asarray(space.initial)
        lifted = Space(
            succ=_after(np.asarray(space.succ), origin, is_open).astype(np.int32),
            support=np.asarray(space.support)[origin],
            reachable=np.asarray(space.reachable)[origin],
            initial=initial,
            horizon=space.horizon,
            start=None,
            is_dense=False,
            acts=None if space.acts is None else np.asarray(space.acts)[origin],
        )
        return cls(lifted, origin, np.arange(S), is_open)

    def lists(self, succ: Any) -> Any:
        """Lists of successors [S, A, n] as lists of lifted ones [X, A, n]."""
        return _after(np.asarray(succ), self.origin, self.is_open)


def _after(succ: np.ndarray, origin: np.ndarray, is_open: np.ndarray) -> np.ndarray:
    """An open event moves to the states themselves, a decided one to the copies."""
    return succ[origin] + np.where(is_open, 0, len(succ))[:, None, None].astype(succ.dtype)


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
