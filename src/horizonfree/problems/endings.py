"""Episodes that end.

Whether an episode ends is part of the outcome of a transition, as the next state is. For each state s an array `ended`
says in which state an episode is that has ended in s:

    s           every entry into s ends the episode; s is absorbing
    a copy      some entries end it, some do not; the copy, "s (ended)", is absorbing and numbered after the S states
    NEVER       no entry ends it
    UNDECLARED  an episode can end in s if the class allows it to stay there for ever

`Problem.layout["ended"]` holds this array where something was declared. `truncated` is not an ending: the rest of such
an episode was not seen.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from horizonfree.errors import ShapeError
from horizonfree.models.base import Model

ENDED = "ended"  # key of a layout
NEVER, UNDECLARED = -1, -2


class Entries(NamedTuple):
    """Possible transitions s -> to, one entry each, and whether they end the episode."""

    s: Int[np.ndarray, " N"]
    to: Int[np.ndarray, " N"]
    ends: Bool[np.ndarray, " N"]


def ended_states(entries: Entries, starts: Bool[np.ndarray, " S"]) -> Int[np.ndarray, " S"]:
    """The array `ended` of the possible transitions and the possible first states.

    Transitions out of states in which no episode acts are not considered.
    """
    S = len(starts)
    s, to, ends = entries
    is_ended_in, is_left, is_acting = _mask(S, to[ends]), _mask(S, s[s != to]), starts.copy()
    is_acting &= ~is_ended_in | is_left  # an episode that starts in a final state is over
    size = -1
    while is_acting.sum() > size:
        size = int(is_acting.sum())
        is_acting |= _mask(S, to[~ends & is_acting[s]])
    is_both = is_acting & _mask(S, to[ends & is_acting[s]])
    ended = np.where(is_ended_in & ~is_acting, np.arange(S), NEVER)
    ended[is_both] = S + np.arange(is_both.sum())
    return ended


def _mask(S: int, states: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " S"]:
    mask = np.zeros(S, bool)
    mask[states] = True
    return mask


def num_copies(ended: Int[np.ndarray, " S"]) -> int:
    """The number of added states."""
    return int((ended >= len(ended)).sum())


def next_states(
    ended: Int[np.ndarray, " S"], to: Int[np.ndarray, " N"], ends: Bool[np.ndarray, " N"]
) -> Int[np.ndarray, " N"]:
    """The state after each transition.

    An ending that `ended` calls impossible occurs only in states where no episode acts; it leads to s' itself.
    """
    return np.where(ends & (ended[to] != NEVER), ended[to], to)


def with_copies(
    possible: Bool[np.ndarray, "S A S"], ended: Int[np.ndarray, " S"]
) -> Bool[np.ndarray, "S1 A S1"]:
    """The possible transitions with those to the copies; final states and copies lead to themselves."""
    S, copies = len(ended), num_copies(ended)
    at_random = np.flatnonzero(ended >= S)
    wider = np.pad(possible, ((0, copies), (0, 0), (0, copies)))
    wider[:S, :, ended[at_random]] = possible[:, :, at_random]
    final = np.concatenate([np.flatnonzero(ended == np.arange(S)), ended[at_random]])
    wider[final] = np.arange(S + copies) == final[:, None, None]
    return wider


def layout_with_copies(layout: Any, states: Any, ended: Int[np.ndarray, " S"]) -> tuple[Any, Any]:
    """A layout and names of states, with names of the copies; cells are left out: a copy has none."""
    S = len(ended)
    at_random = np.flatnonzero(ended >= S)
    is_layout = layout is None or isinstance(layout, Mapping)  # anything else raises an error elsewhere
    if not at_random.size or not is_layout:
        return layout, states
    other = dict(layout or {})
    other.pop("cells", None)
    names = other.pop("states", None) if states is None else states
    if not (names is None or isinstance(names, (list, tuple))):
        return other, names
    names = [f"state {s}" for s in range(S)] if names is None else list(names)
    if len(names) != S:
        raise ShapeError(f"states has {len(names)} names; there are {S} states")
    return other, [*names, *(f"{names[s]} (ended)" for s in at_random)]


def summary(ended: Int[np.ndarray, " S"]) -> str:
    """Where episodes end, as text."""
    num_always, at_random = int((ended == np.arange(len(ended))).sum()), num_copies(ended)
    rest_text = "always or never" if (ended == UNDECLARED).any() else "never"
    numbers = {"always": num_always, "at random": at_random}
    texts = [f"in {n:,} state{'s' * (n > 1)} {when}" for when, n in numbers.items() if n]
    return ", ".join([*texts, f"in each other state {rest_text}" if texts else f"in each state {rest_text}"])


class Endings(NamedTuple):
    """`after` [S]: where an episode is that has ended in s, NEVER where none can; `always` [S]: every entry ends it."""

    after: Int[np.ndarray, " S"]
    always: Bool[np.ndarray, " S"]

    @property
    def num_copies(self) -> int:
        """The number of states with a copy."""
        return int((self.after > np.arange(len(self.after))).sum())


def endings_of(model: Model, layout: Mapping[str, Any]) -> Endings:
    """The endings that a problem declares; by default an episode can end in every state where it may stay for ever."""
    endings, ended = undeclared(model.may_stay()), layout.get(ENDED)
    if ended is None:
        return endings
    S = len(ended)
    endings.after[:S] = np.where(ended == UNDECLARED, endings.after[:S], ended)
    endings.always[:S] = ended == np.arange(S)
    return endings


def has_copy(layout: Mapping[str, Any]) -> Bool[np.ndarray, " S"]:
    """Which of the states for which endings were declared have a copy."""
    ended = np.asarray(layout.get(ENDED, ()), np.int64)
    return np.asarray(ended >= len(ended))


def undeclared(may_stay: Bool[np.ndarray, " S"]) -> Endings:
    """An episode can end in every state where it may stay for ever (`Model.may_stay`)."""
    S = len(may_stay)
    return Endings(np.where(may_stay, np.arange(S), NEVER), np.zeros(S, bool))
