"""Families of rewards: one for each state, kept as numbers of states and made into tables one at a time, or a list."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, overload

import numpy as np
from jaxtyping import Int

from horizonfree._validation import did_you_mean, short_repr
from horizonfree.errors import RewardError
from horizonfree.mdp.rewards import Reward, goal, occupancy, resolve, space_of
from horizonfree.mdp.space import HasSpace, Space, occupied_states

FAMILIES = ("goals", "occupancies")


@dataclass(frozen=True, eq=False)
class StateRewards(Sequence[Reward]):
    """For each of these states the reward for ending there (`is_goal`), or for every step there.

    Ten thousand tables [H, S, A] of a grid of a hundred by a hundred cells would be 640 GB at H = 200.
    """

    space: Space
    states: Int[np.ndarray, " G"]
    is_goal: bool

    def __len__(self) -> int:
        """How many there are."""
        return len(self.states)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Reward: ...
    @overload
    def __getitem__(self, index: slice) -> "StateRewards": ...
    def __getitem__(self, index: Any) -> Any:
        """One of them as a table, or some of them."""
        if isinstance(index, slice):
            return StateRewards(self.space, self.states[index], self.is_goal)
        return Reward((goal if self.is_goal else occupancy)(self.space, int(self.states[index])))

    def paid(self, h: int) -> float:
        """What it pays to be in its state at a step."""
        if self.is_goal:
            return float(h == self.space.horizon - 1)
        return 1.0 / self.space.horizon


def family(problem: HasSpace, rewards: Any) -> tuple[str, Sequence[Reward]]:
    """Several rewards and a name for them: "goals", "occupancies" (of the states that can be occupied), or a list."""
    space = space_of(problem)
    if isinstance(rewards, str) and rewards in FAMILIES:
        occupied, is_goal = occupied_states(space), rewards == "goals"
        states = np.flatnonzero(occupied[-1] if is_goal else occupied.any(axis=0))
        names = ("goal", "goals") if is_goal else ("occupancy", "occupancies")
        return _all(len(states), *names), StateRewards(space, states, is_goal)
    is_list = isinstance(rewards, (list, tuple, StateRewards)) or (
        isinstance(rewards, np.ndarray) and rewards.ndim > 0
    )
    if not is_list or not len(rewards):
        near = did_you_mean(rewards, FAMILIES) if isinstance(rewards, str) else ""
        raise RewardError(
            f"rewards is {short_repr(rewards)}; it must be 'goals', 'occupancies' or a list of rewards{near}"
        )
    return _all(len(rewards), "reward", "rewards"), [resolve(space, reward) for reward in rewards]


def _all(number: int, one: str, several: str) -> str:
    """So many of a kind, in words."""
    return f"the only {one}" if number == 1 else f"all {number} {several}"
