"""A Gymnasium environment with unknown transition probabilities, as a tabular MDP.

States and actions are those of its discrete spaces, the horizon is its time limit. After termination the state no
longer changes, so it is assumed that a state ends every episode that enters it, or none. An environment that
contradicts this raises an error, and the model class is refuted (live.py). `Tabular(.., terminal="unknown")` does not
assume it.

The start is the one that the environment declares. If it declares none, it is reset a few times before the first
episode: if all resets lead to one state, that is the start; otherwise the caller must give it.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from horizonfree._extras import needs_extra
from horizonfree.errors import ModelError, OptionError, ShapeError, UnknownNameError
from horizonfree.mdp.space import start_distribution
from horizonfree.problems.classes import Tabular
from horizonfree.problems.endings import ENDED, UNDECLARED
from horizonfree.problems.gymnasium.live import check_is_env, state_of
from horizonfree.problems.gymnasium.table import ended_in, read_table
from horizonfree.problems.problem import Problem

if TYPE_CHECKING:
    import gymnasium

NUM_RESETS = 20  # of an environment that does not declare its start


def unknown_table(env: "gymnasium.Env[Any, Any]", horizon: int | None = None, start: Any = None) -> Problem:
    """The environment as a tabular MDP in which any state may follow any other.

    horizon: by default the environment's time limit. start: a state, a distribution over states, or "unknown" (see
    `Tabular`); by default `initial_state_distrib` of the environment, or the state to which its first resets lead.
    From its table `P`, where it has one, only the terminal states are used.
    """
    with needs_extra("gymnasium", "environments of Gymnasium"):
        from gymnasium.spaces import Discrete

    check_is_env(env)
    sizes = []
    for kind, space in (("observation", env.observation_space), ("action", env.action_space)):
        if not isinstance(space, Discrete):
            raise ShapeError(
                f"the {kind} space of the environment is {space}; a table needs Discrete spaces: wrap the environment "
                "so that it has finitely many (gymnasium.ObservationWrapper), or give known= and encode="
            )
        sizes.append(int(space.n))
    S, A = sizes
    start = _start(env, S) if start is None else start
    return Tabular(
        S,
        A,
        _time_limit(env) if horizon is None else horizon,
        start,
        terminal=_terminal(env, S, start),
        layout={ENDED: np.full(S, UNDECLARED)},
        name=env.spec.id if env.spec is not None else type(env.unwrapped).__name__,
    )


def _time_limit(env: "gymnasium.Env[Any, Any]") -> int:
    limit = getattr(env.spec, "max_episode_steps", None) or getattr(env, "_max_episode_steps", None)
    if limit is None:
        raise OptionError(
            "the environment has no time limit, so that an episode may never end; say how many steps: horizon=100"
        )
    return int(limit)


def _start(env: "gymnasium.Env[Any, Any]", S: int) -> int | Float[np.ndarray, " S"]:
    """The start that the environment declares, or that its resets lead to."""
    declared = getattr(env.unwrapped, "initial_state_distrib", None)
    if declared is not None and np.shape(declared) == (S,):
        return np.asarray(declared, np.float64)
    first = sorted({state_of(env, env.reset(seed=seed)[0]) for seed in range(NUM_RESETS)})
    if len(first) > 1:
        raise OptionError(
            f"the environment does not say where episodes start, and {NUM_RESETS} resets led to {len(first)} states, "
            f"{first[0]} and {first[1]} among them; pass start='unknown' (one more state, numbered {S}, and one more "
            "step, the first, in which the start is drawn), or a distribution over the states: start=[...]"
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
    both = np.flatnonzero(ended >= S)
    if both.size:
        raise ModelError(
            f"state {both[0]} ends some episodes that enter it and not others; give known=hf.Tabular(states, actions, "
            "horizon, terminal='unknown'), in which every state may end an episode or not"
        )
    return np.flatnonzero(ended == np.arange(S)).tolist()
