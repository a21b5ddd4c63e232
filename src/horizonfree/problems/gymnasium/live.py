"""Episodes of a real environment, which can only be stepped: of an exploration, and under the policy of a plan."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree._extras import needs_extra
from horizonfree._validation import calling, check_int, check_seed, check_state, require, short_repr
from horizonfree.errors import ModelError, OptionError, ShapeError
from horizonfree.mdp.policies import policy_table
from horizonfree.mdp.space import IMPOSSIBLE, UNSEEN, Space, Trajectory, may_stay
from horizonfree.problems.endings import ENDED, NEVER, Endings, endings_of, num_copies, undeclared
from horizonfree.problems.problem import Problem
from horizonfree.problems.reachable import local_number

if TYPE_CHECKING:
    import gymnasium

Encode = Callable[[Any], int]


class Attempt(NamedTuple):
    """An episode as far as it was observed, the error that stopped it, and the final state and step if it terminated.

    The final state is that of the model class, a copy where the class has one. `rewards` are those of the environment,
    NaN where no step was taken.
    """

    trajectory: Trajectory
    error: Exception | None
    end: tuple[int, int] | None
    rewards: Float[np.ndarray, " H"]


def check_is_env(env: Any) -> None:
    """An object with the methods of an environment."""
    lacking = [x for x in ("action_space", "observation_space", "reset", "step") if not hasattr(env, x)]
    if lacking:
        raise ShapeError(
            f"the environment is {short_repr(env)}, without {' and '.join(lacking)}; it must be a gymnasium.Env"
        )


def check_encode(encode: Any) -> None:
    """A function, or None."""
    require(encode is None or callable(encode), "encode", encode, "a function from observations to states")


def check_env_matches(
    env: "gymnasium.Env[Any, Any]", space: Space, encode: Encode | None = None, num_copies: int = 0
) -> None:
    """An environment whose spaces are the states and actions of the model class.

    The class may have more states: copies of states for episodes that have ended, which the environment may report or
    not, and, numbered last, a start from which the first state is drawn. With encode (observation -> state) only the
    actions can be checked beforehand.
    """
    with needs_extra("gymnasium", "environments of Gymnasium"):
        from gymnasium.spaces import Discrete

    check_is_env(env)
    check_encode(encode)
    sizes = {"action": space.num_actions}
    if encode is None:
        num_observations = getattr(env.observation_space, "n", None)
        num_added = int(has_drawn_start(env, space, num_copies))
        hidden = 0 if num_observations == space.num_states else num_copies
        sizes["observation"] = space.num_states - num_added - hidden
    for kind, size in sizes.items():
        own_space = getattr(env, f"{kind}_space")
        if not isinstance(own_space, Discrete) or own_space.n != size:
            advice = "" if kind == "action" else "; pass encode= to turn observations into states"
            raise ShapeError(
                f"the {kind} space of the environment is {own_space}, but the model class needs "
                f"Discrete({size}){advice}"
            )


def encode_for(env: "gymnasium.Env[Any, Any]", problem: Problem, encode: Encode | None) -> Encode | None:
    """The function from observations to states; for a part of a problem, observations are states of the whole problem.

    Environments from `to_gymnasium` of the part already use its numbers.
    """
    from horizonfree.problems.gymnasium.to_env import ProblemEnv

    is_made_here = isinstance(getattr(env, "unwrapped", env), ProblemEnv)
    is_own = is_made_here and getattr(env.observation_space, "n", None) == problem.num_states
    if encode is not None or problem.space.state_ids is None or is_own:
        return encode
    return lambda observation: local_number(problem, state_of(env, observation))


def endings_in(env: "gymnasium.Env[Any, Any]", problem: Problem, encode: Encode | None) -> Endings:
    """The endings that the problem declares for this environment.

    An environment that reports every state of the problem, copies too, need not terminate in final states;
    `problem.to_gymnasium()` does not.
    """
    from horizonfree.problems.gymnasium.to_env import ProblemEnv

    has_copies = len(problem.layout.get(ENDED, ())) < problem.num_states
    has_all = encode is None and getattr(env.observation_space, "n", None) == problem.num_states
    if isinstance(getattr(env, "unwrapped", env), ProblemEnv) or (has_all and has_copies):
        return undeclared(problem.model.may_stay())
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

    The environment's seed and the random actions come from rng; forbidden actions are never taken. After termination
    the state no longer changes. A transition that is impossible under every parameter raises an error.
    """

    from horizonfree.problems.gymnasium.flatten import flatten  # needs gymnasium

    attempted = attempt(flatten(env, encode is not None), space, policy, rng, encode)
    if attempted.error is not None:
        raise attempted.error
    return attempted.trajectory


def attempt(
    env: "gymnasium.Env[Any, Any]",
    space: Space,
    policy: Any,
    rng: np.random.Generator,
    encode: Encode | None = None,
    endings: Endings | None = None,
) -> Attempt:
    """`run_episode` that also returns the steps before an error.

    Dropping such an episode would be selection by outcome. Unobserved steps have the slot UNSEEN, steps that contradict
    the class the slot IMPOSSIBLE.
    """
    endings = undeclared(may_stay(space)) if endings is None else endings
    copies = endings.num_copies
    check_env_matches(env, space, encode, copies)
    table = policy_table(policy, *space.sizes)
    H, S, A = space.sizes
    is_drawn = encode is None and has_drawn_start(env, space, copies)
    first_action = int(env.action_space.start)  # type: ignore[attr-defined]  # Discrete, as checked
    s, a, j = np.zeros(H + 1, np.int32), np.zeros(H, np.int32), np.full(H, UNSEEN, np.int32)
    rewards = np.full(H, np.nan)
    starts = np.flatnonzero(space.starts())
    s[:] = starts[0]
    end: tuple[int, int] | None = None

    try:
        observation, _ = env.reset(seed=int(rng.integers(2**31)))
        first = starts[0] if is_drawn else encoded_state(env, observation, encode, S)
        if first not in starts:
            j[0] = IMPOSSIBLE
            where = _join_states([space.id_of(int(s)) for s in starts])
            raise ModelError(
                f"the environment started in state {space.id_of(first)}; the model class starts in {where}; give it as "
                "start= a distribution over all states in which episodes may start, or, for a tabular MDP, "
                "start='unknown'"
            )
        s[:] = first
        is_over = False
        for h in range(H):
            rule = table[h, s[h]]
            a[h] = rule if table.ndim == 2 else rng.choice(A, p=rule / rule.sum())
            action = int(a[h] if space.acts is None else space.acts[s[h], a[h]])
            is_cut = False
            if is_over:
                s[h + 1] = s[h]
            elif h == 0 and is_drawn:
                s[1] = encoded_state(env, observation, encode, S)
            else:
                observation, reward, is_over, is_cut, _ = env.step(first_action + action)
                rewards[h] = _payment(reward)
                j[h] = IMPOSSIBLE  # unless it is a state of the class
                s[h + 1] = encoded_state(env, observation, encode, S)
                _check_ending(endings, space, int(s[h + 1]), bool(is_over), h)
                if is_over:
                    s[h + 1] = endings.after[s[h + 1]]
                    end = int(s[h + 1]), h
            j[h] = _slot(space, int(s[h]), int(a[h]), int(s[h + 1]))
            if j[h] == IMPOSSIBLE:
                raise ModelError(
                    f"(s={space.id_of(s[h])}, a={a[h]}) -> s'={space.id_of(s[h + 1])} was observed but its features "
                    "are zero: it is impossible under every parameter; the model class does not describe the "
                    "environment"
                )
            if is_cut and not is_over and h + 1 < H:
                raise OptionError(
                    f"the environment was truncated after step {h + 1} but the horizon is {H}; make it with "
                    f"max_episode_steps={H} or more"
                )
    except Exception as error:
        return Attempt(Trajectory(s, a, j), error, end, rewards)
    return Attempt(Trajectory(s, a, j), None, end, rewards)


def _payment(paid: Any) -> float:
    """The reward of a step as a number; NaN for anything else, which counts as not recorded."""
    is_number = isinstance(paid, (int, float, np.number, np.ndarray)) and np.size(paid) == 1
    value = float(np.asarray(paid).item()) if is_number else np.nan
    return value if np.isfinite(value) else np.nan


def _check_ending(endings: Endings, space: Space, s: int, is_over: bool, h: int) -> None:
    """Raise an error where the environment ends or goes on in state s against the model class."""
    name = f"state {space.id_of(s)}"
    if is_over and endings.after[s] == NEVER:
        raise ModelError(
            f"the environment ended an episode in {name} after {h + 1} steps, but in the model class no episode "
            f"ends there; make {name} absorbing in the class, or give ended episodes states of their own"
        )
    if not is_over and endings.always[s]:
        raise ModelError(
            f"the environment entered {name} after {h + 1} steps and went on, but in the model class every "
            "episode ends there; declare fewer terminal states, sample simulators more often, or add one that goes "
            "on there"
        )


def check_endings(
    attempted: Attempt, counts: Int[np.ndarray, "S A n"], space: Space, ended: set[int]
) -> Attempt:
    """The attempt, with an error if some episodes end in a state and others leave it: these are two states.

    counts, ended: the counts and the final states of earlier episodes. The step that contradicts them gets the slot
    IMPOSSIBLE: the model class is refuted.
    """
    if attempted.error is not None:
        return attempted
    trajectory, end = attempted.trajectory, attempted.end
    s, j = np.asarray(trajectory.s), np.asarray(trajectory.j)
    leaves = s[:-1] != s[1:]
    message, h = "", -1
    for step in np.flatnonzero(leaves):
        if int(s[step]) in ended:
            message, h = (
                f"went on from state {space.id_of(s[step])} at step {step + 1}, but an earlier episode ended there",
                int(step),
            )
            break
    if not message and end is not None:
        final, h = end
        num_left = (np.asarray(counts[final]) * (np.asarray(space.succ[final]) != final)).sum()
        num_left += (leaves & (s[:-1] == final)).sum()
        if num_left:
            name = f"state {space.id_of(final)}"
            message = (
                f"ended in {name} after {h + 1} steps, but {num_left} times earlier it went on from there"
            )
    if not message:
        return attempted
    error = ModelError(
        f"the environment {message}: its observation does not tell whether the episode is over; pass "
        "terminal='unknown' (at the shell --param terminal=unknown; with known=, in hf.Tabular), so that every state "
        "may end an episode or not, or wrap the environment so that ends are states of their own"
    )
    j = np.where(np.arange(len(j)) == h, IMPOSSIBLE, j).astype(np.int32)
    return Attempt(Trajectory(trajectory.s, trajectory.a, j), error, end, attempted.rewards)


def encoded_state(env: "gymnasium.Env[Any, Any]", observation: Any, encode: Encode | None, S: int) -> int:
    """The state of an observation."""
    if encode is None:
        return state_of(env, observation)
    name, meaning = f"encode({short_repr(observation)})", f"a state, 0 to {S - 1}"
    with calling(name, f"it takes an observation and returns {meaning}"):
        state = encode(observation)
    return check_state(state, name, S)


def state_of(env: "gymnasium.Env[Any, Any]", observation: Any) -> int:
    """The state of an observation in a Discrete space."""
    origin, n = int(env.observation_space.start), int(env.observation_space.n)  # type: ignore[attr-defined]
    number = observation.item() if getattr(observation, "shape", None) == () else observation
    meaning = f"a whole number from {origin} to {origin + n - 1}, as in the observation space"
    return check_int(number, "an observation", origin, origin + n - 1, meaning, ShapeError) - origin


def has_drawn_start(env: "gymnasium.Env[Any, Any]", space: Space, num_copies: int) -> bool:
    """Whether the start is an added state, numbered last, from which the first state is drawn."""
    num_observations = getattr(env.observation_space, "n", None)
    return bool(space.start == space.num_states - 1 and num_observations == space.num_states - 1 - num_copies)


def _slot(space: Space, s: int, a: int, s_next: int) -> int:
    """The slot of s_next among the successors of (s, a)."""
    slot = np.flatnonzero((np.asarray(space.succ[s, a]) == s_next) & np.asarray(space.support[s, a]))
    return int(slot[0]) if slot.size else IMPOSSIBLE


def _join_states(states: list[int]) -> str:
    return f"one of {len(states)} states" if len(states) > 4 else " or ".join(map(str, states))


class Rollout(NamedTuple):
    """One episode: n + 1 states, n actions and the n rewards of the environment, and whether it terminated."""

    states: Int[np.ndarray, " n1"]
    actions: Int[np.ndarray, " n"]
    rewards: Float[np.ndarray, " n"]
    terminated: bool

    @property
    def total(self) -> float:
        """The sum of the rewards."""
        return float(self.rewards.sum())


def rollout(
    env: Any,
    space: Space,
    layout: Mapping[str, Any],
    policy: np.ndarray,
    seed: int,
    encode: Encode | None,
    row: Callable[[Sequence[int]], int] = lambda visited: visited[-1],
) -> Rollout:
    """One episode of at most H steps, to its end or until it is truncated; states as in the problem.

    row: which row of the policy is for an episode that visited these states. Where the start of the problem is an added
    state, its step is not a step of the environment.
    """
    check_is_env(env)
    from horizonfree.problems.gymnasium.flatten import flatten

    env = flatten(env, encode is not None)
    H, S, A = space.sizes
    ended = np.asarray(layout.get(ENDED, ()), int)
    copies = num_copies(ended)
    if encode is None and space.state_ids is not None and getattr(env.observation_space, "n", None) != S:
        encode = partial(_local_number, env, np.asarray(space.state_ids))
    check_env_matches(env, space, encode, copies)
    rng = np.random.default_rng(check_seed(seed))
    first = int(encode is None and has_drawn_start(env, space, copies))
    observation, _ = env.reset(seed=int(rng.integers(2**31)))
    states, is_over = [encoded_state(env, observation, encode, S)], False
    actions: list[int] = []
    rewards: list[float] = []
    for h in range(first, H):
        rule = policy[h, row(states)]
        a = int(rule if rule.ndim == 0 else rng.choice(A, p=rule / rule.sum()))
        action = int(a if space.acts is None else space.acts[states[-1], a])
        observation, reward, is_over, is_cut, _ = env.step(int(env.action_space.start) + action)
        state = encoded_state(env, observation, encode, S)
        if is_over and copies and state < len(ended) and ended[state] >= 0:
            state = int(ended[state])
        states.append(state)
        actions.append(a)
        rewards.append(float(reward))
        if is_over or is_cut:
            break
    return Rollout(np.array(states), np.array(actions, int), np.array(rewards), bool(is_over))


def _local_number(env: Any, state_ids: Int[np.ndarray, " S"], observation: Any) -> int:
    """The number in a part of a problem of an observed state of the whole problem."""
    state = state_of(env, observation)
    positions = np.flatnonzero(state_ids == state)
    if not positions.size:
        raise ModelError(f"the environment is in state {state}, which is not in this part of the problem")
    return int(positions[0])
