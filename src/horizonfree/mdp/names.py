"""Names of states, actions and weights. They are stored in the layout of a problem, not in its model.

A layout may hold "states" (S names), "actions" (A) and "weights" (one for each entry of the parameter, in a mixture of
kernels the names of the kernels). Without a name a state is called by its number, "state 3", or on a grid by its cell,
"(3, 0)", which is (column, row) from 0. In a part of a problem STATE_IDS are the numbers of its states in the whole
problem, which has ALL_STATES: texts use these numbers, arrays count the states of the part from 0.

A state is accepted as a number, a name, any text that stands for it in a table, or a tuple: on a grid (column, row),
else the entries of a name such as "(2, 1)". A list is several states.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from horizonfree._validation import (
    check_int,
    check_integers,
    require,
    require_shape,
    reward_name,
    short_repr,
    suggestion,
)
from horizonfree.errors import OptionError, ShapeError, UnknownNameError
from horizonfree.mdp.space import Space

StateLike = int | str | tuple[int, int]  # a number, a name, or a cell (column, row)

KINDS = {"states": "state", "actions": "action", "weights": "weight"}
STATE_IDS, ALL_STATES = "state_ids", "num_all_states"
LABELS, LABELLED = "labels", "labelled"  # names of sets of states, and the sets, bool [L, S]
REWARDS, PAID = "rewards", "paid"  # names of rewards, and the rewards [R, S, A]
MAX_NAMES = 10**7  # of states
STATE_BEFORE_START = "before the start"  # the state that is added where the start is unknown
CELLS = "cells"  # column and row of each state on a grid [S, 2]
_CELL_TEXT = re.compile(r"(?:cell )?\( ?(\d{1,9}) ?, ?(\d{1,9}) ?\)", re.ASCII)


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
            result[kind] = _check_names(names, kind, sizes[kind])
    return result


def _check_names(names: Any, kind: str, size: int) -> list[str]:
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


def state_text(layout: Mapping[str, Any], state: int) -> str:
    """The name of a state, or its cell on a grid, or its number as text."""
    cells = layout.get(CELLS)
    if layout.get("states") is not None or cells is None or not np.asarray(cells)[:, 1].any():
        return name_of(layout, "states", state)
    column, row = np.asarray(cells)[state].tolist()
    return f"({column}, {row})"


def number_of(layout: Mapping[str, Any], kind: str, value: Any, size: int) -> int:
    """The number of a state, action or weight from its name or number, or the text that stands for it in tables."""
    names = [str(x) for x in layout.get(kind) or ()]
    if isinstance(value, tuple) and _tuple_text(value) in names:
        value = _tuple_text(value)
    cell = _cell(layout, value) if kind == "states" else None
    if cell is not None:
        return _only_state(cell, _in_cell(layout, cell, size))
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
    hint = suggestion(value, names)
    numbers = f"{kind} are 0 to {size - 1}" + (f", or by name, such as {names[0]!r}" if names else "")
    numbers += ", or cells, '(column, row)'" if kind == "states" and layout.get(CELLS) is not None else ""
    advice = hint if hint.startswith("did you mean") else numbers
    raise UnknownNameError(f"there is no {KINDS[kind]} {short_repr(value)}; {advice}")


def labels_of(layout: Mapping[str, Any]) -> dict[str, list[int]]:
    """The states of each label."""
    masks = layout.get(LABELLED, ())
    return {str(name): np.flatnonzero(mask).tolist() for name, mask in zip(layout.get(LABELS, ()), masks)}


def states_named(layout: Mapping[str, Any], name: Any, size: int) -> Int[np.ndarray, " n"]:
    """The states of a label or a cell, or the one of this name or number."""
    labels, cell = [str(x) for x in layout.get(LABELS, ())], _cell(layout, name)
    if cell is not None:
        return _in_cell(layout, cell, size)
    if name not in labels or name in (layout.get("states") or ()):
        return np.array([number_of(layout, "states", name, size)])
    return np.flatnonzero(np.asarray(layout[LABELLED])[labels.index(name)])


def numbers_of(layout: Mapping[str, Any], states: Any, size: int) -> Int[np.ndarray, " n"]:
    """The numbers of one state or of a list of them, each a number, a name, a label of several states or a cell."""
    if isinstance(states, (str, tuple)):
        return states_named(layout, states, size)
    if isinstance(states, list) and any(isinstance(x, (str, tuple)) for x in states):
        return np.concatenate([states_named(layout, x, size) for x in states])
    array = np.atleast_1d(check_integers(states, "states"))
    require_shape(array.ndim == 1, "states", array.shape, "a state or a list of states")
    outside = array[(array < 0) | (array >= size)]
    if outside.size:
        raise ShapeError(f"state {outside[0]} does not exist; states are 0 to {size - 1}")
    return array


def with_names(layout: Any, states: Any) -> dict[str, Any]:
    """The layout with the names of states, both as they were given: neither is checked yet."""
    entries = dict(layout) if isinstance(layout, Mapping) else {}
    try:
        is_list = not isinstance(states, str) and len(states) <= MAX_NAMES and np.iterable(states)
    except (TypeError, OverflowError):
        is_list = False
    if not is_list:
        return entries
    names = states.tolist() if isinstance(states, np.ndarray) else states
    return entries | {"states": [x if isinstance(x, str) else short_repr(x) for x in names]}


def start_of(layout: Mapping[str, Any], start: Any, size: int, unknown: str | None = None) -> Any:
    """The number of a start that is a name or a cell; a number, a distribution and None as they are.

    A tuple with a number for every state is a distribution. unknown: a text that is returned as it is.
    """
    if isinstance(start, str) and start == unknown:
        return start
    if isinstance(start, str) or (isinstance(start, tuple) and len(start) != size):
        try:
            return number_of(layout, "states", start, size)
        except (ShapeError, UnknownNameError) as error:
            what = "a state, by number, name or cell, or a distribution over states"
            what += "" if unknown is None else f", or {unknown!r}"
            raise type(error)(f"start is {short_repr(start)}; it must be {what}: {error}") from None
    return start


def _cell(layout: Mapping[str, Any], value: Any) -> tuple[Any, ...] | None:
    """The cell that a tuple, or a text on a grid, stands for; None for other values, and for names."""
    if isinstance(value, tuple):
        return None if _tuple_text(value) in (layout.get("states") or ()) else value
    if not isinstance(value, str) or layout.get(CELLS) is None or value in (layout.get("states") or ()):
        return None
    match = _CELL_TEXT.fullmatch(value)
    return (int(match[1]), int(match[2])) if match else None


def _tuple_text(value: tuple[Any, ...]) -> str:
    """A tuple as the name of an observation with several entries, such as "(2, 1)"."""
    return f"({', '.join(map(str, value))})"


def _in_cell(layout: Mapping[str, Any], cell: tuple[Any, ...], size: int) -> Int[np.ndarray, " n"]:
    """The states in a cell, (column, row)."""
    cells, list_hint = layout.get(CELLS), f"several states are a list, {short_repr(list(cell))}"
    if cells is None:
        names = layout.get("states")
        example = f", or by name, such as {str(names[0])!r}" if names else ""
        raise ShapeError(
            f"{short_repr(cell)} is no state: a tuple is a cell, (column, row), and this problem has no grid; states "
            f"are 0 to {size - 1}{example}; {list_hint}"
        )
    cells = np.asarray(cells)
    is_pair = len(cell) == 2 and all(isinstance(x, (int, np.integer)) for x in cell)
    inside = np.flatnonzero((cells == np.array(cell)).all(axis=1)) if is_pair else np.array([], int)
    if not inside.size:
        columns, rows = (cells.max(axis=0)).tolist()
        raise ShapeError(
            f"{short_repr(cell)} is no cell; columns are 0 to {columns}, rows 0 to {rows}, (column, row); {list_hint}"
        )
    return inside


def _only_state(cell: tuple[Any, ...], states: Int[np.ndarray, " n"]) -> int:
    """The state of a cell that has one."""
    if len(states) > 1:
        states_text = ", ".join(str(s) for s in states[:4].tolist()) + (", .." if len(states) > 4 else "")
        raise ShapeError(
            f"the cell {short_repr(cell)} has {len(states)} states: {states_text}; give one of them"
        )
    return int(states[0])


def reward_of(layout: Mapping[str, Any], name: str) -> Float[np.ndarray, "S A"]:
    """The reward of this name; of the only one where the name is empty."""
    names = [str(x) for x in layout.get(REWARDS, ())]
    index = names.index(reward_name(name, names, "this problem has no rewards with names"))
    return np.asarray(np.asarray(layout[PAID], np.float64)[index])
