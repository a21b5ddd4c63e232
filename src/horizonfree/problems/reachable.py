"""The part of a problem that its episodes can reach, as a problem (mdp/space.py)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int

from horizonfree._validation import check_integers, check_real
from horizonfree.errors import ModelError, ShapeError
from horizonfree.mdp import names
from horizonfree.mdp.names import ALL_STATES, STATE_IDS
from horizonfree.mdp.rewards import Reward
from horizonfree.mdp.space import Trajectory, extended, index_of, restricted, visited_states
from horizonfree.problems.endings import ENDED, NEVER
from horizonfree.problems.noise import AFTER
from horizonfree.problems.problem import Problem

MIN_OUT_OF_REACH = 5_000  # unreachable states, if most are, from which `explore` suggests `reachable_part`


def reachable_part(problem: Problem) -> Problem:
    """The problem on the states that episodes can reach; itself if these are all."""
    problem.check_exact_kernels(
        "explore the whole problem: an estimate may lead to states that no sample showed"
    )
    states = visited_states(problem.space)
    if len(states) == problem.num_states:
        return problem
    model, truth = problem.model.restricted_to(states, problem.truth)
    layout = _restricted_layout(problem, states)
    return problem._replace(model=model, truth=truth, recipe=None, layout=layout)


def num_out_of_reach(problem: Problem) -> int:
    """The number of unreachable states, where these are many and can be left out; else 0."""
    if problem.space.is_dense or problem.num_states < MIN_OUT_OF_REACH or problem.sampling is not None:
        return 0
    visited = len(visited_states(problem.space))
    missing = problem.num_states - visited
    return missing if missing >= max(MIN_OUT_OF_REACH, visited) else 0


def restrict(problem: Problem, x: Any) -> Any:
    """An object over all states, on those of the part."""
    states, sizes = problem.state_ids, _all_sizes(problem)
    if isinstance(x, Reward):
        is_occupied = None if x.occupied is None else restricted(x.occupied, states, sizes)
        return Reward(restricted(x.table, states, sizes), x.factor, x.offset, is_occupied)
    if isinstance(x, Trajectory):
        return Trajectory(_local_numbers(problem, np.asarray(x.s), "states"), x.a, x.j)
    if isinstance(x, tuple):
        if len(x) != 2:
            raise ShapeError("a log is a pair of arrays, states [K, H+1] and actions [K, H]")
        return _restricted_states(problem, x[0]), x[1]
    if callable(x):
        return lambda h, s, a: x(h, int(states[s]), a)
    return restricted(check_real(x, "the array"), states, sizes)


def extend(problem: Problem, x: Any, fill: Any) -> np.ndarray:
    """An array over the states of the part, on all states; `fill` elsewhere."""
    return extended(check_real(x, "the array"), problem.state_ids, _all_sizes(problem), fill)


def local_number(problem: Problem, state: int) -> int:
    """The number in the part of a state of the whole problem."""
    return int(_local_numbers(problem, np.array(state), "state"))


def _all_sizes(problem: Problem) -> tuple[int, int, int]:
    """(H, S, A) with all states."""
    return problem.horizon, problem.layout.get(ALL_STATES, problem.num_states), problem.num_actions


def _restricted_states(problem: Problem, states: Any) -> Any:
    """The states of a log, an array [K, H+1] or a list of rows of different lengths."""
    if isinstance(states, (list, tuple)) and len({np.size(row) for row in states}) > 1:
        rows = enumerate(states)
        return [
            _local_numbers(problem, check_integers(row, f"states[{k}]"), f"states[{k}]") for k, row in rows
        ]
    return _local_numbers(problem, check_integers(states, "states"), "states")


def _local_numbers(problem: Problem, states: np.ndarray, name: str) -> Int[np.ndarray, "..."]:
    H, S, _ = _all_sizes(problem)
    is_state = (states >= 0) & (states < S)
    local = np.where(is_state, index_of(problem.state_ids, S)[np.where(is_state, states, 0)], -1)
    bad = np.argwhere(local < 0)
    if len(bad):
        where = f"{name}{list(map(int, bad[0])) or ''}"
        state = states[tuple(bad[0])]
        if not is_state[tuple(bad[0])]:
            raise ShapeError(f"{where} is {state}; states are 0 to {S - 1}")
        raise ModelError(
            f"{where} is {state}, which no episode of {H} steps can reach, so it is not in the part. If it was "
            "observed, no parameter explains it: certify the log in the whole problem"
        )
    return local.astype(np.int32)


def _restricted_layout(problem: Problem, states: Int[np.ndarray, " m"]) -> dict[str, Any]:
    """Names, cells, endings and outcomes of these states."""
    layout: Mapping[str, Any] = problem.layout
    restricted_layout = dict(layout)
    if layout.get("states") is not None:
        restricted_layout["states"] = [layout["states"][s] for s in states]
    if layout.get("cells") is not None:
        restricted_layout["cells"] = np.asarray(layout["cells"])[states]
    if "radii" in layout:
        restricted_layout["radii"] = np.asarray(layout["radii"])[states]
    for key in (names.LABELLED, names.PAID):
        if key in layout:
            restricted_layout[key] = np.asarray(layout[key])[:, states]
    index = index_of(states, problem.num_states)
    if ENDED in layout:  # of the states that are no copies, which are numbered first
        ended = np.asarray(layout[ENDED])
        ended = ended[states[states < len(ended)]]
        local_states = index[np.maximum(ended, 0)]
        restricted_layout[ENDED] = np.where(ended < 0, ended, np.where(local_states < 0, NEVER, local_states))
    if AFTER in layout:
        local_states = index[np.asarray(layout[AFTER])[states]]
        restricted_layout[AFTER] = np.where(
            local_states < 0, np.arange(len(states))[:, None, None], local_states
        )
    restricted_layout[STATE_IDS] = problem.state_ids[states]
    restricted_layout[ALL_STATES] = _all_sizes(problem)[1]
    return restricted_layout
