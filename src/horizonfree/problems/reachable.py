"""The part of a problem that its episodes can come to, as a problem of its own (mdp/part.py)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Int

from horizonfree._arrays import leaf
from horizonfree._validation import check_integers, check_real
from horizonfree.errors import ModelError, OptionError, ShapeError
from horizonfree.mdp import names
from horizonfree.mdp.names import ALL_STATES, STATE_IDS
from horizonfree.mdp.part import extended, index_of, restricted, visited_states
from horizonfree.mdp.rewards import Reward
from horizonfree.mdp.trajectory import Trajectory
from horizonfree.problems.endings import ENDED, NEVER
from horizonfree.problems.noise import AFTER
from horizonfree.problems.problem import Problem

MANY = 5_000  # states out of reach, and half of all, from which on `explore` suggests to leave them out


def reachable_part(problem: Problem) -> Problem:
    """The problem on the states that episodes can come to; itself where these are all."""
    if problem.sampling is not None:
        raise OptionError(
            "these kernels were estimated from samples, and the error of an estimate may lead to states that no sample "
            "showed; explore the whole problem"
        )
    states = visited_states(problem.space)
    if len(states) == problem.num_states:
        return problem
    model, truth = problem.model.restricted_to(states, problem.truth)
    layout = _restricted_layout(problem, states)
    return replace(problem, model=model, truth=truth, recipe=None, layout=layout)


def num_out_of_reach(problem: Problem) -> int:
    """How many states episodes cannot come to, where these are many and can be left out; else 0."""
    if problem.space.is_dense or problem.num_states < MANY or problem.sampling is not None:
        return 0
    visited = len(visited_states(problem.space))
    missing = problem.num_states - visited
    return missing if missing >= max(MANY, visited) else 0


def restrict(problem: Problem, x: Any) -> Any:
    """What holds for all states, on those of the problem."""
    states, sizes = problem.state_ids, _all_sizes(problem)
    if isinstance(x, Reward):
        occupied = None if x.occupied is None else restricted(x.occupied, states, sizes)
        return Reward(restricted(x.table, states, sizes), x.factor, x.offset, occupied)
    if isinstance(x, Trajectory):
        return Trajectory(leaf(_positions(problem, np.asarray(x.s), "states")), x.a, x.j)
    if isinstance(x, tuple):
        if len(x) != 2:
            raise ShapeError("a log is a pair of arrays, states [K, H+1] and actions [K, H]")
        return _restricted_states(problem, x[0]), x[1]
    if callable(x):
        return lambda h, s, a: x(h, int(states[s]), a)
    return restricted(check_real(x, "the array"), states, sizes)


def extend(problem: Problem, x: Any, fill: Any) -> np.ndarray:
    """What holds for the states of the problem, on all states; `fill` elsewhere."""
    return extended(check_real(x, "the array"), problem.state_ids, _all_sizes(problem), fill)


def position(problem: Problem, state: int) -> int:
    """The number that the problem has for a state of the whole."""
    return int(_positions(problem, np.array(state), "state"))


def _all_sizes(problem: Problem) -> tuple[int, int, int]:
    """(H, S, A) with all states."""
    return problem.horizon, problem.layout.get(ALL_STATES, problem.num_states), problem.num_actions


def _restricted_states(problem: Problem, states: Any) -> Any:
    """The states of a log, an array [K, H+1] or a list of rows of different lengths."""
    if isinstance(states, (list, tuple)) and len({np.size(row) for row in states}) > 1:
        rows = enumerate(states)
        return [_positions(problem, check_integers(row, f"states[{k}]"), f"states[{k}]") for k, row in rows]
    return _positions(problem, check_integers(states, "states"), "states")


def _positions(problem: Problem, states: np.ndarray, name: str) -> Int[np.ndarray, "..."]:
    H, S, _ = _all_sizes(problem)
    is_state = (states >= 0) & (states < S)
    found = np.where(is_state, index_of(problem.state_ids, S)[np.where(is_state, states, 0)], -1)
    bad = np.argwhere(found < 0)
    if len(bad):
        where = f"{name}{list(map(int, bad[0])) or ''}"
        state = states[tuple(bad[0])]
        if not is_state[tuple(bad[0])]:
            raise ShapeError(f"{where} is {state}; states are 0 to {S - 1}")
        raise ModelError(
            f"{where} is {state}, which no episode of {H} steps can come to; the part does not have it. If it was "
            "observed, no parameter explains it: the whole problem says so of such a log"
        )
    return found.astype(np.int32)


def _restricted_layout(problem: Problem, states: Int[np.ndarray, " m"]) -> dict[str, Any]:
    """Names, cells, endings and outcomes of these states."""
    layout: Mapping[str, Any] = problem.layout
    found = dict(layout)
    if layout.get("states") is not None:
        found["states"] = [layout["states"][s] for s in states]
    if layout.get("cells") is not None:
        found["cells"] = np.asarray(layout["cells"])[states]
    if names.LABELLED in layout:
        found[names.LABELLED] = np.asarray(layout[names.LABELLED])[:, states]
    if names.PAID in layout:
        found[names.PAID] = np.asarray(layout[names.PAID])[:, states]
    index = index_of(states, problem.num_states)
    if ENDED in layout:  # of the states that are no copies, which are numbered first
        ended = np.asarray(layout[ENDED])
        ended = ended[states[states < len(ended)]]
        after = index[np.maximum(ended, 0)]
        found[ENDED] = np.where(ended < 0, ended, np.where(after < 0, NEVER, after))
    if AFTER in layout:
        after = index[np.asarray(layout[AFTER])[states]]
        found[AFTER] = np.where(after < 0, np.arange(len(states))[:, None, None], after)
    found[STATE_IDS] = problem.state_ids[states]
    found[ALL_STATES] = _all_sizes(problem)[1]
    return found
