"""A Gymnasium environment with unknown transition probabilities, as a tabular MDP.

States and actions are the elements of its finite spaces (flatten.py), the horizon is its time limit. After termination
the state no longer changes, so it is assumed that a state ends every episode that enters it, or none. An environment
that contradicts this raises an error, and the model class is refuted (live.py). `terminal="unknown"` does not assume
it.

The start is the one that the environment declares. If it declares none, it is reset a few times before the first
episode: if all resets lead to one state, that is the start; otherwise the caller must give it.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from horizonfree._validation import check_int, check_size
from horizonfree.errors import ModelError, OptionError, ShapeError, UnknownNameError
from horizonfree.mdp.names import start_of, with_names
from horizonfree.mdp.space import start_distribution
from horizonfree.problems.classes import UNKNOWN, Tabular
from horizonfree.problems.endings import ENDED, UNDECLARED
from horizonfree.problems.gymnasium.from_env import ended_in, layout_of, read_table
from horizonfree.problems.gymnasium.live import Encode, check_encode, check_is_env, encoded_state
from horizonfree.problems.problem import Problem

if TYPE_CHECKING:
    import gymnasium

NUM_RESETS = 20  # of an environment that does not declare its start
MAX_TRANSITIONS = 500_000_000  # S^2 A, of which each needs a few bytes


def unknown_table(
    env: "gymnasium.Env[Any, Any]",
    horizon: int | None = None,
    start: Any = None,
    terminal: Any = None,
    encode: Encode | None = None,
    num_states: int | None = None,
) -> Problem:
    """The environment as a tabular MDP in which any state may follow any other.

    horizon: by default the environment's time limit. start: a state, a distribution over states, or "unknown" (see
    `Tabular`); by default `initial_state_distrib` of the environment, or the state to which its first resets lead.
    terminal: as for `Tabular`; by default from the environment's table `P`, of which nothing else is used.
    encode: observation -> one of num_states states, where observations are not states.
    """
    from horizonfree.problems.gymnasium.flatten import flatten, names_in

    check_is_env(env)
    check_encode(encode)
    env = flatten(env, encode is not None)
    if encode is None:
        if num_states is not None:
            raise OptionError(
                "num_states= belongs to encode=, which turns observations into states; give both"
            )
        S = int(env.observation_space.n)  # type: ignore[attr-defined]  # Discrete after flatten
    else:
        if num_states is None:
            raise OptionError("say how many states encode= returns: num_states=100")
        S = check_int(
            num_states, "num_states", 1, 2**31 - 1, "a whole number of at least 1, as encode= returns states"
        )
    A = int(env.action_space.n)  # type: ignore[attr-defined]
    copies = 2 if isinstance(terminal, str) else 1
    transitions = (copies * S) ** 2 * A
    check_size(
        transitions,
        MAX_TRANSITIONS,
        f"{copies * S:,} states and {A:,} actions have {transitions:,} possible transitions",
        "use coarser cells, hf.discretize(env, 5), or fewer states, encode=function, num_states=100",
    )
    H = _time_limit(env) if horizon is None else horizon
    names = None if encode is not None else names_in(env, "state")
    start = _start(env, S, encode) if start is None else start
    start = start_of(with_names(_layout(env, S, encode, has_start=False), names), start, S, UNKNOWN)
    if encode is not None and isinstance(start, str):
        raise OptionError(
            "start='unknown' needs states as observations; wrap the environment instead of passing encode=: "
            f"gymnasium.wrappers.TransformObservation(env, encode, gymnasium.spaces.Discrete({S}))"
        )
    if terminal is None:
        terminal = _terminal(env, S, start) if encode is None else []
    layout: dict[str, Any] = {ENDED: np.full(S, UNDECLARED)}
    if not isinstance(terminal, str):
        layout |= _layout(env, S, encode, has_start=isinstance(start, str))
    problem = Tabular(
        S,
        A,
        H,
        start,
        terminal=terminal,
        states=names,
        actions=names_in(env, "action") or layout_of(env.unwrapped, A=A).get("actions"),
        layout=layout,
        name=env.spec.id if env.spec is not None else type(env.unwrapped).__name__,
    )
    return with_cells(problem, env) if encode is None else problem


def with_cells(problem: Problem, env: Any) -> Problem:
    """The problem with what is assumed of the cells of an environment, if it has any."""
    from horizonfree.problems.gymnasium.discretize import cell_layout

    layout = cell_layout(env, problem.num_states, problem.num_actions)
    return problem._replace(layout={**problem.layout, **layout}, recipe=None) if layout else problem


def _layout(env: "gymnasium.Env[Any, Any]", S: int, encode: Encode | None, has_start: bool) -> dict[str, Any]:
    """The cells of toy-text environments, where the states are theirs."""
    is_same = encode is None and env.observation_space == env.unwrapped.observation_space
    cells = layout_of(env.unwrapped, S).get("cells") if is_same and not has_start else None
    return {} if cells is None else {"cells": cells}


def _time_limit(env: "gymnasium.Env[Any, Any]") -> int:
    limit = getattr(env.spec, "max_episode_steps", None)
    below: Any = env
    while limit is None and below is not None:
        limit = getattr(below, "_max_episode_steps", None)
        below = getattr(below, "env", None)  # of a wrapper
    if limit is None:
        raise OptionError(
            "the environment has no time limit, so that an episode may never end; say how many steps: horizon=100 "
            "(at the shell --param horizon=100)"
        )
    return int(limit)


def _start(env: "gymnasium.Env[Any, Any]", S: int, encode: Encode | None) -> int | Float[np.ndarray, " S"]:
    """The start that the environment declares, or that its resets lead to."""
    distribution = getattr(env.unwrapped, "initial_state_distrib", None)
    if encode is None and distribution is not None and np.shape(distribution) == (S,):
        return np.asarray(distribution, np.float64)
    first = sorted({encoded_state(env, env.reset(seed=seed)[0], encode, S) for seed in range(NUM_RESETS)})
    if len(first) > 1:
        raise OptionError(
            f"the environment does not say where episodes start, and {NUM_RESETS} resets led to {len(first)} states, "
            f"{first[0]} and {first[1]} among them; pass start='unknown' (one more state, numbered {S}, and one more "
            "step, the first, in which the start is drawn; at the shell --param start=unknown), or a distribution over "
            "the states: start=[...]"
        )
    return first[0]


def _terminal(env: "gymnasium.Env[Any, Any]", S: int, start: Any) -> list[int]:
    """States that always end an episode in the environment's table, where it has one, except possible first states."""
    if not hasattr(env.unwrapped, "P"):
        return []
    try:
        table = read_table(env.unwrapped)
    except (ShapeError, UnknownNameError, OptionError):
        return []
    if table.num_states != S:
        return []
    rho = getattr(env.unwrapped, "initial_state_distrib", None)
    if rho is None:
        rho = np.zeros(S) if isinstance(start, str) else start_distribution(start, S)
    ended = ended_in([table], np.asarray(rho) > 0)
    at_random = np.flatnonzero(ended >= S)
    if at_random.size:
        raise ModelError(
            f"state {at_random[0]} ends some episodes that enter it and not others; pass terminal='unknown' "
            "(at the shell --param terminal=unknown), so that every state may end an episode or not"
        )
    return np.flatnonzero(ended == np.arange(S)).tolist()
