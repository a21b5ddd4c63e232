"""Names of states, actions and weights. They are stored in the layout of a problem, not in its model.

A layout may hold "states" (S names), "actions" (A) and "weights" (one for each entry of the parameter, in a mixture of
kernels the names of the kernels). Without a name a state is called by its number: "state 3". In a part of a
problem STATE_IDS are the numbers of its states in the whole problem, which has ALL_STATES: texts use these numbers,
arrays count the states of the part from 0.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from horizonfree._validation import check_int, require, short_repr, suggestion
from horizonfree.errors import OptionError, ShapeError, UnknownNameError
from horizonfree.mdp.space import Space

KINDS = {"states": "state", "actions": "action", "weights": "weight"}
STATE_IDS, ALL_STATES = "state_ids", "num_all_states"
LABELS, LABELLED = "labels", "labelled"  # names of sets of states, and the sets, bool [L, S]
REWARDS, PAID = "rewards", "paid"  # names of rewards, and the rewards [R, S, A]
STATE_BEFORE_START = "before the start"  # the state that is added where the start is unknown


def named(layout: Any, space: Space, num_weights: int, **given: Any) -> dict[str, Any]:
    """A layout with these names. Raises an error for too few names or for equal ones."""
    require(
        layout is None or isinstance(layout, Mapping),
        "layout",
        layout,
        "a dictionary, as Problem.layout describes it",
    )
    result = dict(layout or {})
    sizes = {
        "states": space.num_states,
        "actions": space.num_actions,
        "weights": num_weights,
    }
    for kind, names in given.items():
        if names is not None:
            result[kind] = _checked(names, kind, sizes[kind])
    return result


def _checked(names: Any, kind: str, size: int) -> list[str]:
    """`size` different texts."""
    is_list = isinstance(names, (list, tuple)) or (isinstance(names, np.ndarray) and names.ndim == 1)
    texts = [x for x in names if isinstance(x, str)] if is_list else []
    require(is_list and len(texts) == len(names), kind, names, "a list of names, which are text")
    if len(texts) != size:
        raise ShapeError(f"{kind} has {len(texts)} names; there are {size} {kind}")
    first: dict[str, int] = {}
    for i, text in enumerate(texts):
        if text in first or not text:
            what = f"that of {KINDS[kind]} {first[text]}" if text else "empty"
            raise OptionError(f"{kind}[{i}] is {text!r}, {what}; every name must be one of its own")
        first[text] = i
    return [str(x) for x in texts]


def name_of(layout: Mapping[str, Any], kind: str, index: int) -> str:
    """The name of a state, action or weight, or its number as text."""
    names = layout.get(kind)
    if names is None or index >= len(names):
        ids = layout.get(STATE_IDS) if kind == "states" else None
        return f"{KINDS[kind]} {index if ids is None else ids[index]}"
    return str(names[index])


def number_of(layout: Mapping[str, Any], kind: str, value: Any, size: int) -> int:
    """The number of a state, action or weight from its name, its number, or what `name_of` calls it: "state 3"."""
    names = [str(x) for x in layout.get(kind) or ()]
    if not isinstance(value, str):
        return check_int(value, KINDS[kind], 0, size - 1, f"a {KINDS[kind]}, 0 to {size - 1}", ShapeError)
    if value in names:
        return names.index(value)
    value = value.removeprefix(f"{KINDS[kind]} ")
    is_number = value.isascii() and value.isdigit()
    if kind == "states" and STATE_IDS in layout and is_number:
        places = np.flatnonzero(layout[STATE_IDS].astype(str) == value)
        if not len(places):
            raise UnknownNameError(
                f"there is no state {value} in this part of a problem: no episode comes to it"
            )
        return int(places[0])
    if is_number and len(value) <= len(str(size)) and int(value) < size:
        return int(value)
    near = suggestion(value, names)
    numbers = f"{kind} are 0 to {size - 1}" + (f", or by name, such as {names[0]!r}" if names else "")
    advice = near if near.startswith("did you mean") else numbers
    raise UnknownNameError(f"there is no {KINDS[kind]} {short_repr(value)}; {advice}")


def labels_of(layout: Mapping[str, Any]) -> dict[str, list[int]]:
    """The states of each label."""
    masks = layout.get(LABELLED, ())
    return {str(name): np.flatnonzero(mask).tolist() for name, mask in zip(layout.get(LABELS, ()), masks)}


def states_named(layout: Mapping[str, Any], name: str, size: int) -> Int[np.ndarray, " n"]:
    """The states of a label, or the one of this name or number."""
    labels = [str(x) for x in layout.get(LABELS, ())]
    if name not in labels or name in (layout.get("states") or ()):
        return np.array([number_of(layout, "states", name, size)])
    return np.flatnonzero(np.asarray(layout[LABELLED])[labels.index(name)])


def reward_of(layout: Mapping[str, Any], name: str) -> Float[np.ndarray, "S A"]:
    """The reward of this name; of the only one where the name is empty."""
    known = [str(x) for x in layout.get(REWARDS, ())]
    if not name and len(known) == 1:
        name = known[0]
    if name not in known:
        there = suggestion(name, known) if known else "this problem has no rewards with names"
        raise UnknownNameError(f"there is no reward {short_repr(name)}; {there}")
    return np.asarray(np.asarray(layout[PAID], np.float64)[known.index(name)])
