"""Bounded properties of MDPs and interval MDPs, by backward induction over choices.

    V_0 = what is paid at the end,   V_{j+1}(s) = opt_c [ r(c) + extreme over p in the intervals of c of p.V_j ],

where states in which a property is decided keep their value. The extreme over intervals [low, high] with sum p = 1
gives every branch `low` and the rest of the mass to the best branches in order (or the worst).
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._validation import did_you_mean, short_repr
from horizonfree.errors import OptionError
from horizonfree.mdp.events import OPEN, WON, Event
from horizonfree.problems.verification import properties
from horizonfree.problems.verification.explicit import ExplicitModel
from horizonfree.problems.verification.properties import Accumulated

Back = Callable[[np.ndarray, int], np.ndarray]  # values of the next step, and the step, to values
UNCERTAINTY = ("robust", "cooperative")


class Lists:
    """The branches of a model as padded lists [C, n]."""

    def __init__(self, model: ExplicitModel):
        count = np.diff(model.first_branch)
        is_slot: Bool[np.ndarray, "C n"] = np.arange(count.max()) < count[:, None]

        def padded(x: np.ndarray) -> np.ndarray:
            table = np.zeros(is_slot.shape, x.dtype)
            table[is_slot] = x
            return table

        self.target = padded(model.target)
        self.low, room = padded(model.low), padded(model.high - model.low)
        self.room, self.is_slot = room, is_slot
        self.left = 1 - self.low.sum(1)

    def extreme(self, V: Float[np.ndarray, " S"], is_largest: bool) -> Float[np.ndarray, " C"]:
        """The largest or smallest mean of V over the intervals of each choice."""
        v = V[self.target]
        order = np.argsort(np.where(self.is_slot, -v if is_largest else v, np.inf), axis=1, kind="stable")
        room = np.take_along_axis(self.room, order, 1)
        before = np.cumsum(room, 1) - room
        more = np.clip(self.left[:, None] - before, 0.0, room)
        return np.asarray((self.low * v).sum(1) + (more * np.take_along_axis(v, order, 1)).sum(1))


def value(model: ExplicitModel, text: str, uncertainty: str = "robust") -> float:
    """The value of a property in the initial state; the mean over several, which are alike."""
    if not isinstance(uncertainty, str) or uncertainty not in UNCERTAINTY:
        raise OptionError(
            f"uncertainty is {short_repr(uncertainty)}; it must be 'robust' or 'cooperative'"
            + did_you_mean(uncertainty, UNCERTAINTY)
        )
    return float(values(model, text, uncertainty == "cooperative")[model.initial].mean())


def values(model: ExplicitModel, text: str, is_cooperative: bool = False) -> Float[np.ndarray, " S"]:
    """The value of a property in every state, over all policies."""
    found = properties.property(text).on_model(model)
    best = np.maximum if found.is_max else np.minimum
    lists = Lists(model)

    def back(V: np.ndarray, _: int) -> np.ndarray:
        paid = found.paid if isinstance(found, Accumulated) else 0.0
        return best.reduceat(paid + lists.extreme(V, found.is_max == is_cooperative), model.first_choice[:-1])

    return _from_the_end(found, model.num_states, back)


def values_of_policy(
    model: ExplicitModel, event: Event, choices: Int[np.ndarray, "k S"], *, is_largest: bool
) -> Float[np.ndarray, " S"]:
    """The largest or smallest probability of an event under one policy; choices: which choice a state takes."""
    lists = Lists(model)

    def back(V: np.ndarray, h: int) -> np.ndarray:
        return lists.extreme(V, is_largest)[choices[h]]

    return _from_the_end(event, model.num_states, back)


def _from_the_end(found: Event | Accumulated, S: int, back: Back) -> Float[np.ndarray, " S"]:
    """From the last step to the first; states that decide an event keep its worth."""
    if isinstance(found, Accumulated):
        is_open, V = np.ones(S, bool), np.zeros(S)
    else:
        is_open = found.decided == OPEN
        decided = np.where(found.decided == WON, found.pays.won, found.pays.lost)
        V = np.where(is_open, found.pays.open, decided)
    for h in range(found.steps - 1, -1, -1):
        V = np.where(is_open, back(V, h), V)
    return V
