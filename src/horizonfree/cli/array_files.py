"""Rewards, costs and policies from files: arrays of NumPy, or tables of a spreadsheet.

A .csv of rewards has a row for each state with one number, or one number for each action. Rows and columns may have
names: a first column of states, and a first line of actions. They may then be in any order, and all of them must be
there. Or it has a row for each state and action, with columns state, action and a number (and step, if it depends on
it). Nothing is unpickled.

Policies are in a tidy .csv with a row for each step and state, or arrays in .npy and .json files. The columns of a tidy
file are `step` (counted from 1; without it the policy is the same at every step), `state`,
`action` and, for a policy that draws its actions, `probability`. States and actions are names or numbers.
"""

import csv
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from horizonfree._validation import reading
from horizonfree.errors import LogWarning, OptionError
from horizonfree.mdp.names import ALL_STATES, STATE_BEFORE_START, STATE_IDS, number_of
from horizonfree.problems.problem import Problem

SUFFIXES = (".csv", ".npy", ".json")


def read_reward(path: Path, problem: Problem, what: str = "reward") -> Any:
    """An array [S], [S, A] or [H, S, A] from a .npy, .json or .csv file; `what` names it in errors.

    For a part of a problem it may also be given over all states of the whole problem.
    """
    reward = (
        _table(read_rows(path, what), problem, f"{what} {path}")
        if is_csv(path, what)
        else read_array(path, what)
    )
    if isinstance(reward, np.ndarray) and ALL_STATES in problem.layout:
        S = problem.layout[ALL_STATES]
        axis = 0 if reward.shape in ((S,), (S, problem.num_actions)) else 1
        if reward.ndim > axis and reward.shape[axis] == S:
            return np.take(reward, problem.layout[STATE_IDS], axis)
    return reward


def read_payment(path: Path, problem: Problem, what: str, *, is_cost: bool) -> np.ndarray:
    """What is paid for the last state, [S], or for transitions, [S, A, S]; costs are negative."""
    payment = np.asarray(read_reward(path, problem, what))
    return -payment if is_cost else payment


def read_constraints(problem: Problem, at_most: list[str], at_least: list[str]) -> list[Any]:
    """Constraints from texts FILE=NUMBER."""
    import horizonfree as hf

    result = []
    for option, make, texts in (("--at-most", hf.at_most, at_most), ("--at-least", hf.at_least, at_least)):
        for text in texts:
            name, _, number = text.rpartition("=")
            try:
                bound = float(number)
            except ValueError:
                name, bound = "", 0.0
            if not name:
                raise OptionError(
                    f"{option} {text}: write it as FILE=NUMBER, such as cost.csv=0.01, or as reach:STATE,STATE=NUMBER"
                )
            result.append(make(read_cost(problem, name), bound, name=name))
    return result


def read_cost(problem: Problem, name: str) -> Any:
    """A cost from a file, or the event reach:STATE,STATE."""
    if not name.startswith("reach:"):
        return read_reward(Path(name), problem, "cost")
    import horizonfree as hf

    states = name.removeprefix("reach:").split(",")
    return hf.reach(problem, [int(x) if x.isdecimal() else x for x in states])


def is_csv(path: Path, what: str) -> bool:
    """Whether a file is a table of text; refuses a suffix other than .csv, .npy and .json."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise OptionError(f"{what} {path}: its name must end in one of {', '.join(SUFFIXES)}")
    return suffix == ".csv"


def read_array(path: Path, what: str) -> Any:
    """An array from a .npy or .json file; `what` names it in errors."""
    is_json = path.suffix.lower() == ".json"
    form = "a .npy file of numbers, as numpy.save writes it"
    if is_json:
        form = "a list of numbers, or the output of `plan --json`"
    with reading(f"{what} {path}", form, Exception), path.open("rb") as file:
        if not is_json:
            return np.asarray(npy.read_array(file, allow_pickle=False))
        value = json.load(file)
        return np.array(value["policy"] if isinstance(value, dict) else value, dtype=np.float64)


def read_rows(path: Path, what: str) -> list[list[str]]:
    """The cells of a .csv file, without empty rows; all rows must have as many."""
    with reading(f"{what} {path}", "a table"):
        text = path.read_text(encoding="utf-8-sig")
    lines = text.splitlines()
    separator = max(",;\t", key=(lines or [""])[0].count)
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=separator)]
    rows = [row for row in rows if any(row)]
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        lengths = sorted({len(row) for row in rows})
        raise OptionError(
            f"{what} {path} has rows of {lengths} cells; all must have as many, and one at least"
        )
    return rows


def index_of(problem: Problem, kind: str, name: str, where: str) -> int | None:
    """The number of a state or an action by its name; None, with a warning, for one that a log does not contain."""
    sizes = {"states": problem.num_states, "actions": problem.num_actions}
    try:
        return number_of(problem.layout, kind, name, sizes[kind])
    except ValueError as error:
        if "log" in problem.layout and kind in problem.layout:
            message = f"{where}: {error}; the log does not contain it, and it is left out"
            warnings.warn(LogWarning(message), stacklevel=2)
            return None
        raise OptionError(f"{where}: {error}") from None


def is_added(problem: Problem, state: int) -> bool:
    """Whether a state was added to those of a log: "before the start", or the copy of one for ended episodes."""
    names = problem.layout.get("states")
    return names is not None and (
        names[state] == STATE_BEFORE_START or str(names[state]).endswith(" (ended)")
    )


def to_number(cell: str, where: str) -> float:
    """The number in a cell."""
    value = _number(cell)
    if value is None:
        raise OptionError(f"{where}: {cell!r} is not a number")
    return value


def _table(rows: list[list[str]], problem: Problem, where: str) -> np.ndarray:
    """The numbers, in the order of states and actions."""
    names = [x.lower() for x in rows[0]]
    if {"state", "action"} <= set(names):
        return _tidy_reward(rows[1:], names, problem, where)
    head = rows[0] if any(_number(cell) is None for cell in rows[0][-1:]) else None
    body = rows[1:] if head else rows
    if not body:
        raise OptionError(f"{where} has a line of names and no numbers below it")
    has_states = len(rows[0]) > 1 and (
        (head is not None and head[0].lower() in ("", "state"))
        or any(_number(row[0]) is None for row in body)
    )
    cells = [row[1:] for row in body] if has_states else body
    numbers = np.array(
        [
            [to_number(cell, f"{where}, row {i}") for cell in row]
            for i, row in enumerate(cells, 2 if head else 1)
        ]
    )
    if has_states:
        numbers = _sorted(numbers, problem, "states", [row[0] for row in body], where)
    if head is not None and numbers.shape[1] > 1:
        numbers = _sorted(numbers.T, problem, "actions", head[has_states:], where).T
    if not has_states:
        return np.squeeze(numbers)
    return numbers[:, 0] if numbers.shape[1] == 1 else numbers


def _tidy_reward(rows: list[list[str]], head: list[str], problem: Problem, where: str) -> np.ndarray:
    """Numbers [S, A] or [H, S, A] of rows (step, state, action, number)."""
    value_columns = [i for i, name in enumerate(head) if name not in ("step", "state", "action")]
    if len(value_columns) != 1 or len(set(head)) != len(head):
        raise OptionError(
            f"{where} has columns {', '.join(head)}; it needs state, action and one of numbers, and may have step"
        )
    H, S, A = problem.space.sizes
    has_steps = "step" in head
    steps = _steps([row[head.index("step")] for row in rows], H, where) if has_steps else [0] * len(rows)
    table = np.zeros((H if has_steps else 1, S, A))
    counts = np.zeros(table.shape, int)
    for i, (h, row) in enumerate(zip(steps, rows), 2):
        s = index_of(problem, "states", row[head.index("state")], f"{where}, row {i}")
        a = index_of(problem, "actions", row[head.index("action")], f"{where}, row {i}")
        if s is not None and a is not None:
            table[h, s, a] = to_number(row[value_columns[0]], f"{where}, row {i}")
            counts[h, s, a] += 1
    for h, s, a in np.argwhere(counts != 1):
        if counts[h, s, a] or not is_added(problem, int(s)):
            at_step = f" at step {h + 1}" if has_steps else ""
            pair = f"{problem.state_name(int(s))} and {problem.action_name(int(a))}"
            raise OptionError(f"{where} names {pair} {counts[h, s, a]} times{at_step}; it needs each once")
    return table if has_steps else table[0]


def _sorted(numbers: np.ndarray, problem: Problem, kind: str, names: list[str], where: str) -> np.ndarray:
    """Rows of numbers in the order of the problem's states or actions; refuses one that is missing or there twice."""
    size = problem.num_states if kind == "states" else problem.num_actions
    index = [index_of(problem, kind, name, where) for name in names]
    is_named = np.array([i is not None for i in index], bool)
    positions = np.array([i for i in index if i is not None], np.int64)
    counts = np.bincount(positions, minlength=size)
    result = np.zeros((size, numbers.shape[1]))
    result[positions] = numbers[is_named]
    for i in np.flatnonzero(counts != 1):
        if kind == "states" and counts[i] == 0 and is_added(problem, int(i)):
            continue
        name = problem.state_name(int(i)) if kind == "states" else problem.action_name(int(i))
        raise OptionError(f"{where} names {name} {counts[i]} times; it needs each once")
    return result


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


COLUMNS = ("step", "state", "action", "probability")


def read_policy(path: Path, problem: Problem) -> Any:
    """Actions [H, S] or [S], or probabilities [H, S, A] or [S, A], from a .csv, .npy or .json file.

    Numbers in text have no type: they are actions where they are whole and their last axis is that of the states.
    """
    if is_csv(path, "policy"):
        rows = read_rows(path, "policy")
        head = [x.lower() for x in rows[0]]
        if "action" in head:
            return _tidy(rows[1:], head, problem, f"policy {path}")
        where = f"policy {path}"
        table = np.squeeze(
            np.array([[to_number(x, f"{where}, row {i + 1}") for x in row] for i, row in enumerate(rows)])
        )
    else:
        table = read_array(path, "policy")
        if path.suffix.lower() == ".npy":
            return table
    is_actions = table.ndim in (1, 2) and table.shape[-1] == problem.num_states
    is_whole = is_actions and bool((np.abs(table) < 2**31).all() and (table == table.astype(int)).all())
    return table.astype(int) if is_whole else table


def write_policy(path: Path, policy: np.ndarray, problem: Problem) -> None:
    """A policy [H, S] or [H, S, A] in a file that `read_policy` reads."""
    if not is_csv(path, "policy"):
        if path.suffix.lower() == ".json":
            path.write_text(json.dumps({"policy": policy.tolist()}) + "\n")
        else:
            with path.open("wb") as file:
                np.save(file, policy)
        return
    states = [_label(problem, "states", s) for s in range(policy.shape[1])]
    actions = [_label(problem, "actions", a) for a in range(problem.num_actions)]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS[: policy.ndim + 1])
        if policy.ndim == 2:
            writer.writerows((h + 1, states[s], actions[policy[h, s]]) for h, s in np.ndindex(policy.shape))
        else:
            writer.writerows(
                (h + 1, states[s], actions[a], repr(float(policy[h, s, a])))
                for h, s, a in np.argwhere(policy > 0)
            )


def _label(problem: Problem, kind: str, index: int) -> str:
    """A name, or a number as `read_policy` understands it."""
    names = problem.layout.get(kind)
    if names is not None:
        return str(names[index])
    return str(problem.space.id_of(index) if kind == "states" else index)


def _tidy(rows: list[list[str]], head: list[str], problem: Problem, where: str) -> np.ndarray:
    """A policy of rows (step, state, action, probability)."""
    unknown = [name for name in head if name not in COLUMNS]
    if unknown or "state" not in head:
        raise OptionError(
            f"{where} has columns {', '.join(head)}; it needs state and action, and may have step and probability"
        )
    columns = {name: head.index(name) for name in head}
    H, S, A = problem.space.sizes
    steps = (
        _steps([row[columns["step"]] for row in rows], H, where)
        if "step" in columns
        else np.zeros(len(rows), np.int64)
    )
    table = np.zeros((H if "step" in columns else 1, S, A))
    for i, (h, row) in enumerate(zip(steps, rows), 2):
        s = index_of(problem, "states", row[columns["state"]], f"{where}, row {i}")
        a = index_of(problem, "actions", row[columns["action"]], f"{where}, row {i}")
        if s is None:
            continue
        if a is None:
            raise OptionError(f"{where}, row {i}: nothing is known of the action {row[columns['action']]!r}")
        table[h, s, a] += (
            to_number(row[columns["probability"]], f"{where}, row {i}") if "probability" in columns else 1.0
        )
    for s in range(S):
        if is_added(problem, s):  # where all actions are alike
            table[:, s, 0] = 1.0
    total = table.sum(-1)
    odd = np.argwhere(np.abs(total - 1) > 1e-8)
    if odd.size:
        h, s = odd[0]
        at_step = f" at step {h + 1}" if "step" in columns else ""
        is_filled = (
            f"probabilities that sum to {total[h, s]:g}"
            if "probability" in columns
            else f"{total[h, s]:g} actions"
        )
        raise OptionError(f"{where}: {problem.state_name(int(s))} has {is_filled}{at_step}; it must have one")
    is_sure = bool((table.max(-1) == 1).all())
    result = table.argmax(-1) if is_sure else table
    return result if "step" in columns else result[0]


def _steps(cells: list[str], H: int, where: str) -> np.ndarray:
    """Steps from 0 of cells that count from 1 to H."""
    numbers = [to_number(cell, f"{where}, row {i}") for i, cell in enumerate(cells, 2)]
    for i, x in enumerate(numbers, 2):
        if x != int(x) or not 1 <= x <= H:
            raise OptionError(f"{where}, row {i}: step is {cells[i - 2]}; steps are counted from 1 to {H}")
    return np.array(numbers, np.int64) - 1
