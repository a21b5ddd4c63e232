"""The states that episodes can come to, a space of these alone, and arrays over all states restricted to them.

An episode of H steps acts in the reachable states, and ends in one of their successors. On a grid of 447 x 447 cells
with H = 50 these are 1,326 of 199,809. On them alone every episode has the same law under every parameter and policy,
so what is proved there holds. A part numbers its states anew, in the same order; `Space.state_ids` holds the numbers
that they have in the whole space. In a state in which an episode can only end, every action stays.
"""

from typing import Any

import numpy as np
from jaxtyping import Int

from horizonfree.errors import ShapeError
from horizonfree.mdp.space import Space


def visited_states(space: Space) -> Int[np.ndarray, " m"]:
    """States in which an action can be taken, or in which an episode can end; ascending."""
    succ, support, reachable = (np.asarray(x) for x in (space.succ, space.support, space.reachable))
    is_visited = reachable.copy()
    is_visited[succ[reachable][support[reachable]]] = True
    return np.flatnonzero(is_visited)


def restricted_space(space: Space, states: Int[np.ndarray, " m"]) -> Space:
    """The space with these states alone, all visited ones among them.

    Slots of the successor lists keep their places, so that what is stored for each slot needs no reordering. In states
    where no action is taken all of them lead to the state itself.
    """
    index = index_of(states, space.num_states)
    after = index[np.asarray(space.succ)[states]]
    is_acting = np.asarray(space.reachable)[states]
    own = np.arange(len(states), dtype=np.int32)[:, None, None]
    return Space(
        succ=np.where((after >= 0) & is_acting[:, None, None], after, own),
        support=np.asarray(space.support)[states],
        reachable=is_acting,
        initial=None if space.initial is None else np.asarray(space.initial)[states],
        horizon=space.horizon,
        start=None if space.start is None else int(index[space.start]),
        is_dense=False,
        state_ids=(states if space.state_ids is None else space.state_ids[states]).astype(np.int32),
        acts=None if space.acts is None else np.asarray(space.acts)[states],
    )


def index_of(states: Int[np.ndarray, " m"], S: int) -> Int[np.ndarray, " S"]:
    """The place of each of S states among these; -1 for those that are not there."""
    index = np.full(S, -1, np.int32)
    index[states] = np.arange(len(states), dtype=np.int32)
    return index


def restricted(x: np.ndarray, states: Int[np.ndarray, " m"], sizes: tuple[int, int, int]) -> np.ndarray:
    """An array over all states, of sizes (H, S, A), on these alone."""
    return np.take(x, states, _state_axis(x.shape, sizes))


def extended(
    x: np.ndarray, states: Int[np.ndarray, " m"], sizes: tuple[int, int, int], fill: Any
) -> np.ndarray:
    """An array over these states as one over all, of sizes (H, S, A); `fill` elsewhere, broadcast."""
    H, S, A = sizes
    axis = _state_axis(x.shape, (H, len(states), A))
    result = np.empty((*x.shape[:axis], S, *x.shape[axis + 1 :]), np.result_type(x, fill))
    try:
        result[...] = fill
    except ValueError:
        raise ShapeError(
            f"fill has shape {np.shape(fill)}; it must be a number, or broadcast to {result.shape}"
        ) from None
    np.moveaxis(result, axis, 0)[states] = np.moveaxis(x, axis, 0)
    return result


def _state_axis(shape: tuple[int, ...], sizes: tuple[int, int, int]) -> int:
    """The axis of the states in an array [S], [S, A], [H, S] or [H, S, A]; values of H+1 steps count as [H, S]."""
    H, S, A = sizes
    is_by_action, is_by_step = shape == (S, A), shape in ((H, S), (H + 1, S))
    if is_by_action and is_by_step:
        raise ShapeError(
            f"an array of shape {shape} can be [S, A] or [H, S] here; give it for every step, [H, S, A]"
        )
    if shape == (S,) or is_by_action:
        return 0
    if is_by_step or shape == sizes:
        return 1
    raise ShapeError(
        f"the array has shape {shape}; it must be [S], [S, A], [H, S] or [H, S, A], with (H, S, A) = {sizes}"
    )
