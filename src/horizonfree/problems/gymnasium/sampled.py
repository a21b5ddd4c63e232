"""Samples of environments: from every state, or from episodes of random actions.

An outcome is the next state and whether the environment terminated in it. `truncated` is no ending: the rest of the
episode is unobserved.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Int

from horizonfree._validation import calling, check_int, check_size
from horizonfree.errors import OptionError
from horizonfree.problems.gymnasium.live import Encode, encoded_state

Place = Callable[[Any, int, np.random.Generator], None]
NUM_RESETS = 20  # to check that an environment always starts in the same state
MAX_STEPS = 20_000_000  # of an environment: many minutes


def is_env(x: Any) -> bool:
    """Whether something is an environment."""
    return all(hasattr(x, name) for name in ("action_space", "observation_space", "reset", "step"))


def sampled_env(
    env: Any,
    name: str,
    rng: np.random.Generator,
    samples: int,
    horizon: int,
    num_states: int | None,
    encode: Encode | None,
    place: Place | None,
) -> Int[np.ndarray, "S A S2"]:
    """Counts of the outcomes: S next states in which the episode goes on, then S in which it has ended."""
    from horizonfree.problems.gymnasium.flatten import flatten

    env = flatten(env, encode is not None)
    S, A = _sizes(env, num_states, encode)
    check_size(
        S * A * samples,
        MAX_STEPS,
        f"environment {name} would take {S * A * samples:,} steps",
        "ask for fewer samples, or sample it yourself and give counts [S, A, S]",
    )
    sampler = _EnvSampler(env, name, S, A, encode, rng)
    if place is None:
        sampler.run_episodes(samples * S * A, horizon)
    else:
        sampler.sample_pairs(place, samples)
    return sampler.counts


def start_of_envs(envs: list[Any], encode: Encode | None) -> int:
    """The one state in which all of them start."""
    from horizonfree.problems.gymnasium.flatten import flatten

    S = 2**31
    envs = [flatten(env, encode is not None) for env in envs]
    starts = {encoded_state(env, env.reset(seed=i)[0], encode, S) for env in envs for i in range(NUM_RESETS)}
    if len(starts) > 1:
        raise OptionError(
            f"the environments start in {len(starts)} different states; give their distribution, start=[..], or "
            "start= the state to plan from"
        )
    return starts.pop()


class _EnvSampler:
    """Counts the outcomes of an environment."""

    def __init__(
        self, env: Any, name: str, S: int, A: int, encode: Encode | None, rng: np.random.Generator
    ) -> None:
        self._env, self._name, self._encode, self._rng = env, name, encode, rng
        self.counts = np.zeros((S, A, 2 * S), np.int64)

    def sample_pairs(self, place: Place, samples: int) -> None:
        """The same number of samples of every state-action pair."""
        S, A, _ = self.counts.shape
        for s, a in np.ndindex(S, A):
            for _ in range(samples):
                self._reset()
                with calling(f"place(environment {self._name}, state {s})"):
                    place(self._env, s, self._rng)
                self._step(s, a)

    def run_episodes(self, steps: int, horizon: int) -> None:
        """This many steps, in episodes of random actions."""
        while steps > 0:
            s, is_over = self._state(self._reset()), False
            for _ in range(horizon):
                s, is_over = self._step(s, int(self._rng.integers(self.counts.shape[1])))
                steps -= 1
                if is_over:
                    break

    def _reset(self) -> Any:
        return self._env.reset(seed=int(self._rng.integers(2**31)))[0]

    def _state(self, observation: Any) -> int:
        return encoded_state(self._env, observation, self._encode, len(self.counts))

    def _step(self, s: int, a: int) -> tuple[int, bool]:
        first = int(self._env.action_space.start)
        observation, _, is_over, is_cut, _ = self._env.step(first + a)
        successor = self._state(observation)
        self.counts[s, a, successor + (len(self.counts) if is_over else 0)] += 1
        return successor, bool(is_over or is_cut)


def _sizes(env: Any, num_states: int | None, encode: Encode | None) -> tuple[int, int]:
    """S and A, from the spaces of the environment or from num_states."""
    A = int(env.action_space.n)
    if encode is not None:
        meaning = "a whole number of at least 1, as encode returns states"
        return check_int(num_states, "num_states", 1, 2**31, meaning), A
    return int(env.observation_space.n), A
