"""Bounded properties of MDPs and interval MDPs, by backward induction over choices.

    V_0 = what is paid at the end,   V_{j+1}(s) = opt_c [ r(c) + extreme over p in the intervals of c of p.V_j ],

where states in which a property is decided keep their value. The extreme over intervals [low, high] with sum p = 1
gives every branch `low` and the rest of the mass to the best branches in order (or the worst).
"""

import numpy as np
from jaxtyping import Bool, Float

from horizonfree._inputs import hint, shown
from horizonfree.errors import OptionError
from horizonfree.mdp.events import WON, Event
from horizonfree.problems.verification.explicit import ExplicitModel
from horizonfree.problems.verification import properties
from horizonfree.problems.verification.properties import Accumulated

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
            f"uncertainty is {shown(uncertainty)}; it must be 'robust' or 'cooperative'{hint(uncertainty, UNCERTAINTY)}"
        )
    return float(values(model, text, uncertainty == "cooperative")[model.initial].mean())


def values(model: ExplicitModel, text: str, is_cooperative: bool = False) -> Float[np.ndarray, " S"]:
    """The value of a property in every state."""
    found = properties.property(text).on_model(model)
    lists, is_max = Lists(model), found.is_max
    is_largest = is_max == is_cooperative
    best = np.maximum if is_max else np.minimum

    def back(V: np.ndarray, paid: np.ndarray | float = 0.0) -> np.ndarray:
        return best.reduceat(paid + lists.extreme(V, is_largest), model.first_choice[:-1])

    if isinstance(found, Accumulated):
        V = np.zeros(model.num_states)
        for _ in range(found.steps):
            V = back(V, found.paid)
        return V
    return _of_event(found, back)


def _of_event(event: Event, back) -> Float[np.ndarray, " S"]:  # type: ignore[no-untyped-def]
    decided = np.where(event.decided == WON, event.pays.won, event.pays.lost)
    is_open = event.decided == 0
    V = np.where(is_open, event.pays.open, decided)
    for _ in range(event.steps):
        V = np.where(is_open, back(V), decided)
    return np.asarray(V)
