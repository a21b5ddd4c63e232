"""The part of a space that episodes come to, and the way from the caller's numbers of states to its own and back.

An episode of H steps acts in the reachable states, and ends in one of their successors. On a grid of 447 x 447 cells
with H = 50 these are 1,326 of 199,809. Seen on them alone every episode has the same law, so what is proved there
holds. A part counts its states anew, in the same order; `Space.numbers` remembers what the caller calls them.
"""

from typing import Any

import numpy as np

from horizonfree._arrays import leaf
from horizonfree._inputs import numbers
from horizonfree._shapes import Int
from horizonfree.errors import HorizonfreeError, ShapeError
from horizonfree.mdp.rewards import Reward, resolve
from horizonfree.mdp.space import Space


def visited_states(space: Space) -> Int[np.ndarray, " m"]:
    """States in which an action can be taken, or in which an episode can end; ascending."""
    succ, support, reachable = (np.asarray(x) for x in (space.succ, space.support, space.reachable))
    is_visited = reachable.copy()
    is_visited[succ[reachable][support[reachable]]] = True
    return np.flatnonzero(is_visited)


def part_of(space: Space, states: Int[np.ndarray, " m"]) -> Space:
    """The space with these states alone, the visited ones at least.

    Where an episode can only end, what would follow is not looked at: there, slots that lead out lead nowhere.
    """
    index = index_of(states, space.num_states)
    after = index[np.asarray(space.succ)[states]]
    initial = None if space.initial is None else leaf(np.asarray(space.initial)[states])
    return Space(
        succ=leaf(np.where(after >= 0, after, np.arange(len(states))[:, None, None]).astype(np.int32)),
        support=leaf(np.asarray(space.support)[states]),
        reachable=leaf(np.asarray(space.reachable)[states]),
        initial=initial,
        horizon=space.horizon,
        start=None if space.start is None else int(index[space.start]),
        is_dense=False,
        numbers=leaf(states.astype(np.int32)),
        acts=None if space.acts is None else leaf(np.asarray(space.acts)[states]),
    )


def index_of(states: Int[np.ndarray, " m"], S: int) -> Int[np.ndarray, " S"]:
    """The number that the part gives each state; -1 for those that it does not have."""
    index = np.full(S, -1, np.int32)
    index[states] = np.arange(len(states), dtype=np.int32)
    return index


def inside(space: Space, x: np.ndarray, axis: int = 0) -> np.ndarray:
    """An array over the caller's states as one over those of the space."""
    return x if space.numbers is None else np.take(x, np.asarray(space.numbers), axis)


def outside(space: Space, x: np.ndarray, S: int, axis: int = 0, fill: Any = 0) -> np.ndarray:
    """An array over the states of the space as one over the caller's S; `fill` where no action is ever taken."""
    if space.numbers is None:
        return x
    reachable = np.asarray(space.reachable)
    shape = (*x.shape[:axis], S, *x.shape[axis + 1 :])
    # zeros are memory that nobody has touched: most of them never will be
    found = np.zeros(shape, x.dtype) if fill == 0 else np.full(shape, fill, x.dtype)
    at = np.asarray(space.numbers)[reachable]
    np.moveaxis(found, axis, 0)[at] = np.moveaxis(x, axis, 0)[reachable]
    return found


def resolve_inside(whole: Space, space: Space, reward: Any, *, scale: str = "total") -> Reward:
    """`resolve` of a reward over the caller's states, on those of the space: others are not looked at.

    One that is refused is refused in the caller's numbers.
    """
    if space.numbers is None:
        return resolve(whole, reward, scale=scale)
    try:
        return resolve(space, _reward_inside(whole, space, reward), scale=scale)
    except HorizonfreeError:
        resolve(whole, reward, scale=scale)
        raise


def _reward_inside(whole: Space, space: Space, reward: Any) -> Any:
    if isinstance(reward, Reward):
        if reward.table.shape != whole.sizes:
            raise ShapeError(f"the reward has shape {reward.table.shape}; it must be {whole.sizes}")
        occupied = None if reward.occupied is None else inside(space, reward.occupied, 1)
        return Reward(inside(space, reward.table, 1), reward.factor, reward.offset, occupied)
    if callable(reward):
        states = np.asarray(space.numbers)
        return lambda h, s, a: reward(h, int(states[s]), a)
    table = numbers(reward, "the reward")
    if table.shape not in (whole.sizes[1:2], whole.sizes[1:], whole.sizes):
        raise ShapeError(f"the reward has shape {table.shape}; it must be {whole.sizes}")
    return inside(space, table, 1 if table.ndim == 3 else 0)


def start_inside(space: Space, start: Any) -> Any:
    """A start that the caller's space has, a state or a distribution, on the states of the space."""
    if space.numbers is None or start is None:
        return start
    if np.ndim(start) == 0:
        return int(np.searchsorted(np.asarray(space.numbers), start))
    return inside(space, np.asarray(start))
