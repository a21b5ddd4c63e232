"""An episode of an environment under the policy of a plan."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree._validation import check_seed
from horizonfree.errors import ModelError
from horizonfree.mdp.space import Space
from horizonfree.problems.endings import ENDED, num_copies
from horizonfree.problems.gymnasium.flatten import flatten
from horizonfree.problems.gymnasium.live import (
    Encode,
    check_env_matches,
    check_is_env,
    encoded_state,
    has_drawn_start,
    state_of,
)


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
) -> Rollout:
    """One episode of at most H steps, to its end or until it is truncated; states as in the problem.

    Where the start of the problem is an added state, its step is not a step of the environment.
    """
    check_is_env(env)
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
        rule = policy[h, states[-1]]
        a = int(rule if rule.ndim == 0 else rng.choice(A, p=rule / rule.sum()))
        action = int(a if space.acts is None else space.acts[states[-1], a])
        observation, paid, is_over, is_cut, _ = env.step(int(env.action_space.start) + action)
        state = encoded_state(env, observation, encode, S)
        if is_over and copies and state < len(ended) and ended[state] >= 0:
            state = int(ended[state])
        states.append(state)
        actions.append(a)
        rewards.append(float(paid))
        if is_over or is_cut:
            break
    return Rollout(np.array(states), np.array(actions, int), np.array(rewards), bool(is_over))


def _local_number(env: Any, state_ids: Int[np.ndarray, " S"], observation: Any) -> int:
    """The number in a part of a problem of an observed state of the whole problem."""
    state = state_of(env, observation)
    place = np.flatnonzero(state_ids == state)
    if not place.size:
        raise ModelError(f"the environment is in state {state}, which is not in this part of the problem")
    return int(place[0])
