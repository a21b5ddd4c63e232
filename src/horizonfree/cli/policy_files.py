"""Policies in files: a tidy .csv with a row for each step and state, or arrays in .npy and .json files.

The columns of a tidy file are `step` (counted from 1; without it the policy is the same at every step), `state`,
`action` and, for a policy that draws its actions, `probability`. States and actions are names or numbers.
"""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

from horizonfree.cli.reward_files import index_of, is_added, is_csv, read_array, read_rows, to_number
from horizonfree.errors import OptionError
from horizonfree.problems.problem import Problem

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
    at = {name: head.index(name) for name in head}
    H, S, A = problem.space.sizes
    steps = (
        _steps([row[at["step"]] for row in rows], H, where) if "step" in at else np.zeros(len(rows), np.int64)
    )
    found = np.zeros((H if "step" in at else 1, S, A))
    for i, (h, row) in enumerate(zip(steps, rows), 1):
        s = index_of(problem, "states", row[at["state"]], f"{where}, row {i}")
        a = index_of(problem, "actions", row[at["action"]], f"{where}, row {i}")
        if s is None:
            continue
        if a is None:
            raise OptionError(f"{where}, row {i}: nothing is known of the action {row[at['action']]!r}")
        found[h, s, a] += (
            to_number(row[at["probability"]], f"{where}, row {i}") if "probability" in at else 1.0
        )
    for s in range(S):
        if is_added(problem, s):  # where all actions are alike
            found[:, s, 0] = 1.0
    total = found.sum(-1)
    odd = np.argwhere(np.abs(total - 1) > 1e-8)
    if odd.size:
        h, s = odd[0]
        at_step = f" at step {h + 1}" if "step" in at else ""
        has = (
            f"probabilities that sum to {total[h, s]:g}"
            if "probability" in at
            else f"{total[h, s]:g} actions"
        )
        raise OptionError(f"{where}: {problem.state_name(int(s))} has {has}{at_step}; it must have one")
    is_sure = bool((found.max(-1) == 1).all())
    result = found.argmax(-1) if is_sure else found
    return result if "step" in at else result[0]


def _steps(cells: list[str], H: int, where: str) -> np.ndarray:
    """Steps from 0 of cells that count from 1 to H."""
    numbers = [to_number(cell, f"{where}, row {i}") for i, cell in enumerate(cells, 1)]
    for i, x in enumerate(numbers, 1):
        if x != int(x) or not 1 <= x <= H:
            raise OptionError(f"{where}, row {i}: step is {cells[i - 1]}; steps are counted from 1 to {H}")
    return np.array(numbers, np.int64) - 1
