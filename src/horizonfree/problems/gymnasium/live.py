"""Episodes of a real environment that we may only step, as the states and actions of a known class."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Int

from horizonfree._arrays import leaf
from horizonfree._validation import check_int, short_repr
from horizonfree.errors import ModelError, OptionError, ShapeError
from horizonfree.mdp.policies import policy_table
from horizonfree.mdp.space import Space
from horizonfree.mdp.trajectory import IMPOSSIBLE, UNSEEN, Trajectory
from horizonfree.problems.endings import ENDED, NEVER, Endings, endings_of, undeclared
from horizonfree.problems.problem import Problem
from horizonfree.problems.reachable import position

if TYPE_CHECKING:
    import gymnasium

Encode = Callable[[Any], int]


class Attempt(NamedTuple):
    """An episode as far as it was seen, what broke it off, and the final state and step where the environment ended it.

    The final state is that of the class, a copy where the class has one.
    """

    trajectory: Trajectory
    error: Exception | None
    end: tuple[int, int] | None


def check_is_env(env: Any) -> None:
    """Refuse what is no environment."""
    lacking = [x for x in ("action_space", "observation_space", "reset", "step") if not hasattr(env, x)]
    if lacking:
        raise ShapeError(
            f"the environment is {short_repr(env)}, without {' and '.join(lacking)}; it must be a gymnasium.Env"
        )


def check_env_matches(
    env: "gymnasium.Env[Any, Any]", space: Space, encode: Encode | None = None, num_copies: int = 0
) -> None:
    """Refuse an environment whose spaces are not the states and actions of the known class.

    The class may have more states: copies of states for episodes that have ended, which the environment may show or
    not, and, numbered last, a start from which the first state is drawn. With encode (observation -> state) only the
    actions can be checked beforehand.
    """
    from gymnasium.spaces import Discrete

    check_is_env(env)
    if not (encode is None or callable(encode)):
        raise OptionError(
            f"encode is {short_repr(encode)}; it must be a function from observations to states"
        )
    sizes = {"action": space.num_actions}
    if encode is None:
        own = getattr(env.observation_space, "n", None)
        added = int(_has_drawn_start(env, space, num_copies))
        hidden = 0 if own == space.num_states else num_copies
        sizes["observation"] = space.num_states - added - hidden
    for kind, size in sizes.items():
        own = getattr(env, f"{kind}_space")
        if not isinstance(own, Discrete) or own.n != size:
            advice = "" if kind == "action" else "; pass encode= to turn observations into states"
            raise ShapeError(
                f"the {kind} space of the environment is {own}, but the known class wants Discrete({size}){advice}"
            )


def encode_for(env: "gymnasium.Env[Any, Any]", problem: Problem, encode: Encode | None) -> Encode | None:
    """How observations are states: as asked; of a part of a problem, by the numbers of the whole problem.

    One that `to_gymnasium` of the part returned has the numbers of the part.
    """
    from horizonfree.problems.gymnasium.to_env import ProblemEnv

    is_made_here = isinstance(getattr(env, "unwrapped", env), ProblemEnv)
    is_own = is_made_here and getattr(env.observation_space, "n", None) == problem.num_states
    if encode is not None or problem.space.state_ids is None or is_own:
        return encode
    return lambda observation: position(problem, state_of(env, observation))


def endings_in(env: "gymnasium.Env[Any, Any]", problem: Problem, encode: Encode | None) -> Endings:
    """Where the problem says that episodes of this environment end.

    An environment that itself shows every state of the problem, copies too, need not terminate in final states, as
    `problem.to_gymnasium()` does not.
    """
    from horizonfree.problems.gymnasium.to_env import ProblemEnv

    has_copies = len(problem.layout.get(ENDED, ())) < problem.num_states
    has_all = encode is None and getattr(env.observation_space, "n", None) == problem.num_states
    if isinstance(getattr(env, "unwrapped", env), ProblemEnv) or (has_all and has_copies):
        return undeclared(problem.space, problem.model)
    return endings_of(problem.model, problem.layout)


def run_episode(
    env: "gymnasium.Env[Any, Any]",
    space: Space,
    policy: Any,
    rng: np.random.Generator,
    *,
    encode: Encode | None = None,
) -> Trajectory:
    """One episode of exactly H steps under a policy, [H, S] actions or [H, S, A] probabilities.

    The environment's seed and the random actions come from rng; it is never asked for a forbidden action. After
    termination it counts as staying where it ended. What is impossible under every parameter raises an error.
    """
    trajectory, error, _ = attempt(env, space, policy, rng, encode)
    if error is not None:
        raise error
    return trajectory


def attempt(
    env: "gymnasium.Env[Any, Any]",
    space: Space,
    policy: Any,
    rng: np.random.Generator,
    encode: Encode | None = None,
    endings: Endings | None = None,
) -> Attempt:
    """As `run_episode`, but what was seen before an error is returned with it.

    To forget such an episode would be to choose the data by what they say. Steps that were not seen have the slot
    UNSEEN; what contradicts the class has the slot IMPOSSIBLE.
    """
    endings = undeclared(space) if endings is None else endings
    copies = endings.num_copies
    check_env_matches(env, space, encode, copies)
    table = policy_table(policy, *space.sizes)
    H, S, A = space.sizes
    has_drawn_start = encode is None and _has_drawn_start(env, space, copies)
    first_action = int(env.action_space.start)  # type: ignore[attr-defined]  # Discrete, as checked
    s, a, j = np.zeros(H + 1, np.int32), np.zeros(H, np.int32), np.full(H, UNSEEN, np.int32)
    starts = np.flatnonzero(space.starts())
    s[:] = starts[0]
    end: tuple[int, int] | None = None

    try:
        observation, _ = env.reset(seed=int(rng.integers(2**31)))
        first = starts[0] if has_drawn_start else _state(env, observation, encode, S)
        if first not in starts:
            j[0] = IMPOSSIBLE
            where = _listed([space.id_of(int(s)) for s in starts])
            raise ModelError(
                f"the environment started in state {space.id_of(first)}; the known class starts in {where}; give it as "
                "start= a distribution over all states in which episodes may start, or, for an unknown table, "
                "start='unknown'"
            )
        s[:] = first
        is_over = False
        for h in range(H):
            rule = table[h, s[h]]
            a[h] = rule if table.ndim == 2 else rng.choice(A, p=rule / rule.sum())
            does = int(a[h] if space.acts is None else space.acts[s[h], a[h]])
            is_cut = False
            if is_over:
                s[h + 1] = s[h]
            elif h == 0 and has_drawn_start:
                s[1] = _state(env, observation, encode, S)
            else:
                observation, _, is_over, is_cut, _ = env.step(first_action + does)
                j[h] = IMPOSSIBLE  # unless it is a state of the class
                s[h + 1] = _state(env, observation, encode, S)
                _check_ending(endings, space, int(s[h + 1]), bool(is_over), h)
                if is_over:
                    s[h + 1] = endings.after[s[h + 1]]
                    end = int(s[h + 1]), h
            j[h] = _slot(space, int(s[h]), int(a[h]), int(s[h + 1]))
            if j[h] == IMPOSSIBLE:
                raise ModelError(
                    f"(s={space.id_of(s[h])}, a={a[h]}) -> s'={space.id_of(s[h + 1])} was observed but its features "
                    "are zero: it is impossible under every parameter; the known class does not describe the "
                    "environment"
                )
            if is_cut and not is_over and h + 1 < H:
                raise OptionError(
                    f"the environment was truncated after step {h + 1} but the horizon is {H}; make it with "
                    f"max_episode_steps={H} or more"
                )
    except Exception as error:
        return Attempt(Trajectory(*map(leaf, (s, a, j))), error, end)
    return Attempt(Trajectory(*map(leaf, (s, a, j))), None, end)


def _check_ending(endings: Endings, space: Space, s: int, is_over: bool, h: int) -> None:
    """Raise an error where the environment ends, or goes on, against what the class says of state s."""
    name = f"state {space.id_of(s)}"
    if is_over and endings.after[s] == NEVER:
        raise ModelError(
            f"the environment ended an episode in {name} after {h + 1} steps, but in the known class no episode "
            f"ends there; make {name} absorbing in the class, or give ended episodes states of their own"
        )
    if not is_over and endings.always[s]:
        raise ModelError(
            f"the environment entered {name} after {h + 1} steps and went on, but in the known class every "
            "episode ends there; declare fewer terminal states, sample simulators more often, or add one that goes "
            "on there"
        )


def contradicted(
    attempted: Attempt, counts: Int[np.ndarray, "S A n"], space: Space, ended: set[int]
) -> Attempt:
    """The attempt; with an error where some episodes end in a state and others leave it: these are two states.

    counts: of earlier episodes. ended: the final states of earlier episodes. The step that contradicts them becomes
    impossible for every parameter: the class is refuted.
    """
    if attempted.error is not None:
        return attempted
    trajectory, end = attempted.trajectory, attempted.end
    s, j = np.asarray(trajectory.s), np.asarray(trajectory.j)
    leaves = s[:-1] != s[1:]
    words, h = "", -1
    for step in np.flatnonzero(leaves):
        if int(s[step]) in ended:
            words, h = (
                f"went on from state {space.id_of(s[step])} at step {step + 1}, but an earlier episode ended there",
                int(step),
            )
            break
    if not words and end is not None:
        final, h = end
        left = (np.asarray(counts[final]) * (np.asarray(space.succ[final]) != final)).sum()
        left += (leaves & (s[:-1] == final)).sum()
        if left:
            name = f"state {space.id_of(final)}"
            words = f"ended in {name} after {h + 1} steps, but {left} times earlier it went on from there"
    if not words:
        return attempted
    error = ModelError(
        f"the environment {words}: its observation does not tell whether the episode is over; give "
        "known=hf.Tabular(states, actions, horizon, terminal='unknown'), in which every state may end an episode or "
        "not, or wrap the environment so that ends are states of their own"
    )
    j = np.where(np.arange(len(j)) == h, IMPOSSIBLE, j).astype(np.int32)
    return Attempt(Trajectory(trajectory.s, trajectory.a, leaf(j)), error, end)


def _state(env: "gymnasium.Env[Any, Any]", observation: Any, encode: Encode | None, S: int) -> int:
    """The state that an observation is, by the encoding where there is one."""
    if encode is None:
        return state_of(env, observation)
    name, meaning = f"encode({short_repr(observation)})", f"a state, 0 to {S - 1}"
    try:
        found = encode(observation)
    except ModelError:
        raise
    except Exception as error:  # whatever somebody's function does
        raise OptionError(
            f"{name} fails: {type(error).__name__}: {error}; it takes an observation and gives {meaning}"
        ) from error
    return check_int(found, name, 0, S - 1, meaning, ShapeError)


def state_of(env: "gymnasium.Env[Any, Any]", observation: Any) -> int:
    """The state that an observation of a Discrete space is; refuses what is not in the space."""
    origin, n = int(env.observation_space.start), int(env.observation_space.n)  # type: ignore[attr-defined]
    number = observation.item() if getattr(observation, "shape", None) == () else observation
    meaning = f"a whole number from {origin} to {origin + n - 1}, as the observation space says"
    return check_int(number, "an observation", origin, origin + n - 1, meaning, ShapeError) - origin


def _has_drawn_start(env: "gymnasium.Env[Any, Any]", space: Space, num_copies: int) -> bool:
    """Whether the known start is a state that was added to draw the first state, numbered last."""
    own = getattr(env.observation_space, "n", None)
    return bool(space.start == space.num_states - 1 and own == space.num_states - 1 - num_copies)


def _slot(space: Space, s: int, a: int, s_next: int) -> int:
    """Which successor of (s, a) is s_next."""
    slot = np.flatnonzero((np.asarray(space.succ[s, a]) == s_next) & np.asarray(space.support[s, a]))
    return int(slot[0]) if slot.size else IMPOSSIBLE


def _listed(states: list[int]) -> str:
    """Some states, in words."""
    return f"one of {len(states)} states" if len(states) > 4 else " or ".join(map(str, states))
