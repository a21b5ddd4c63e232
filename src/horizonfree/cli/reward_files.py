"""Rewards and costs in files, as people keep them: arrays of NumPy, or a table from a spreadsheet.

A .csv holds a row for each state, and in it one number, or one for each action. Rows and columns may have names: a
column of states in front, and a line of actions on top. They are then in any order, and all of them must be there.
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from horizonfree.cli.files import read_array
from horizonfree.errors import OptionError
from horizonfree.mdp.names import ALL_STATES, STATE_IDS, number_of
from horizonfree.problems.problem import Problem


def read_reward(path: Path, problem: Problem, what: str = "reward") -> Any:
    """An array [S], [S, A] or [H, S, A] from a .npy, .json or .csv file; `what` it is.

    Of a part of a problem it may be over all states of the whole problem.
    """
    found = _read_reward(path, problem, what)
    if isinstance(found, np.ndarray) and ALL_STATES in problem.layout:
        S = problem.layout[ALL_STATES]
        axis = 0 if found.shape in ((S,), (S, problem.num_actions)) else 1
        if found.ndim > axis and found.shape[axis] == S:
            return np.take(found, problem.layout[STATE_IDS], axis)
    return found


def _read_reward(path: Path, problem: Problem, what: str) -> Any:
    if path.suffix.lower() != ".csv":
        return read_array(path, what)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise OptionError(f"{what} {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise OptionError(f"{what} {path} is not a table: {error}") from None
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines())]
    rows = [row for row in rows if any(row)]
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        lengths = sorted({len(row) for row in rows})
        raise OptionError(
            f"{what} {path} has rows of {lengths} cells; all must have as many, and one at least"
        )
    return _table(rows, problem, f"{what} {path}")


def paid_of(path: Path, problem: Problem, what: str, *, is_cost: bool) -> np.ndarray:
    """What is paid for the last state, [S], or for transitions, [S, A, S]; costs are negative."""
    found = np.asarray(read_reward(path, problem, what))
    return -found if is_cost else found


def _table(rows: list[list[str]], problem: Problem, where: str) -> np.ndarray:
    """The numbers, in the order of states and actions."""
    head = rows[0] if any(_number(cell) is None for cell in rows[0][-1:]) else None
    body = rows[1:] if head else rows
    if not body:
        raise OptionError(f"{where} has a line of names and no numbers below it")
    has_states = len(rows[0]) > 1 and (
        (head is not None and head[0].lower() in ("", "state"))
        or any(_number(row[0]) is None for row in body)
    )
    cells = [row[1:] for row in body] if has_states else body
    numbers = np.array([[_read(cell, where) for cell in row] for row in cells])
    if has_states:
        states = [_found(problem, "states", row[0], where) for row in body]
        numbers = numbers[_order(states, problem.num_states, "state", where)]
    if head is not None and numbers.shape[1] > 1:
        actions = [_found(problem, "actions", name, where) for name in head[has_states:]]
        numbers = numbers[:, _order(actions, problem.num_actions, "action", where)]
    return np.squeeze(numbers)


def _found(problem: Problem, kind: str, name: str, where: str) -> int:
    sizes = {"states": problem.num_states, "actions": problem.num_actions}
    try:
        return number_of(problem.layout, kind, name, sizes[kind])
    except ValueError as error:
        raise OptionError(f"{where}: {error}") from None


def _order(found: list[int], size: int, what: str, where: str) -> np.ndarray:
    """Where each of them stands; refuses one that is missing or there twice."""
    counts = np.bincount(found, minlength=size)
    odd = np.flatnonzero(counts != 1)
    if odd.size:
        raise OptionError(f"{where} names {what} {odd[0]} {counts[odd[0]]} times; it needs each once")
    return np.argsort(found)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _read(cell: str, where: str) -> float:
    value = _number(cell)
    if value is None:
        raise OptionError(f"{where}: {cell!r} is not a number")
    return value
