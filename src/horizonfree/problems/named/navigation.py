"""Chains, in which far states are hard to reach, and grids."""

from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy  # `scipy.sparse` is loaded on first use
from jaxtyping import Bool, Int

from horizonfree.problems.classes import Mixture
from horizonfree.problems.problem import Problem
from horizonfree.problems.registry import Between, Horizon, Seed, check_at_least, problem


def deterministic(target: Int[np.ndarray, "d S A"]) -> "list[scipy.sparse.csr_array]":
    """Sparse kernels [S*A, S] that lead from (s, a) to one state."""
    _, S, A = target.shape
    first = np.arange(S * A + 1)
    return [
        scipy.sparse.csr_array((np.ones(S * A), successors.ravel(), first), shape=(S * A, S))
        for successors in target
    ]


def line(S: int, actions: list[str]) -> dict[str, Any]:
    """The layout of states in a row."""
    return {"cells": np.stack([np.arange(S), np.zeros(S, int)], axis=1), "actions": actions}


@problem("river-swim")
def river_swim(
    states: Annotated[int, Between(3, 1000, "positions along the river")] = 8,
    forward: Annotated[float, Between(0, 1, "probability that a stroke moves forward")] = 0.35,
    backward: Annotated[float, Between(0, 1, "probability that the current wins")] = 0.05,
    horizon: Horizon = 32,
) -> Problem:
    """Swimming against a current of unknown strength: a stroke moves forward, holds, or drifts back.

    Action 0 goes down the river for sure, action 1 swims. d = 3: forward, hold, back, with banks that hold, so
    both ends keep the mass that would leave; the classical ends have probabilities of their own.

    Source: Strehl and Littman (2008), "An analysis of model-based interval estimation for Markov decision
    processes"; as a linear mixture with three features in the experiments on UCRL-WVTR (S = 10, H = 100).
    """
    hold = 1 - forward - backward
    check_at_least("1 - forward - backward", hold, 0, "it is the probability to hold")
    s = np.arange(states)
    backward_state = np.maximum(s - 1, 0)
    swim = [np.minimum(s + 1, states - 1), s, backward_state]
    target = np.array([np.stack([backward_state, forward], axis=1) for forward in swim])
    return Mixture.from_kernels(
        dict(zip(["forward", "hold", "back"], deterministic(target), strict=True)),
        horizon=horizon,
        weights=[forward, max(hold, 0.0), backward],
        layout=line(states, ["back", "swim"]),
    )


@problem("double-chain")
def double_chain(
    length: Annotated[int, Between(3, 10001, "states of the chain")] = 31,
    fail: Annotated[float, Between(0, 1, "probability to go the wrong way")] = 0.1,
    horizon: Horizon = 20,
) -> Problem:
    """A chain entered in the middle, with two actions that go the wrong way with unknown probability.

    d = 2: the intended and the opposite move; the ends hold.

    Source: Kaufmann et al. (2021), "Adaptive reward-free exploration": 31 states, failure 0.1, H = 20.
    """
    s = np.arange(length)
    left, right = np.maximum(s - 1, 0), np.minimum(s + 1, length - 1)
    target = np.array([np.stack([left, right], 1), np.stack([right, left], 1)])
    return Mixture.from_kernels(
        dict(zip(["as intended", "the wrong way"], deterministic(target), strict=True)),
        horizon=horizon,
        start=(length - 1) // 2,
        weights=[1 - fail, fail],
        layout=line(length, ["left", "right"]),
    )


@problem("combination-lock")
def combination_lock(
    length: Annotated[int, Between(1, 1000, "keys to press in a row")] = 6,
    keys: Annotated[int, Between(2, 100, "keys on the lock")] = 4,
    codes: Annotated[int, Between(2, 100, "candidate codes")] = 3,
    reliability: Annotated[float, Between(0, 1, "probability that the true code counts")] = 0.9,
    horizon: Horizon = 12,
    seed: Seed = 0,
) -> Problem:
    """A lock that opens after a row of right keys; a wrong key starts again; the code is one of several.

    Base kernel i is the lock with code i; at every press the true code counts with probability `reliability`, the
    others share the rest. Codes never agree on a key (code i presses the first key plus i, in a circle). The open
    lock, the last state, stays open. d = codes. The seed draws the first code and which code is true.

    Source: after the combination lock of Kakade (2003), "On the sample complexity of reinforcement learning".
    """
    check_at_least("keys", keys, codes, "the codes press different keys")
    rng = np.random.default_rng(seed)
    first, true = rng.integers(keys, size=length), rng.integers(codes)
    right = (first + np.arange(codes)[:, None]) % keys
    target = np.zeros((codes, length + 1, keys), int)
    target[:, length] = length
    i, s = np.indices(right.shape)
    target[i, s, right] = s + 1
    weights = np.full(codes, (1 - reliability) / (codes - 1))
    weights[true] = reliability
    return Mixture.from_kernels(
        {f"code {i + 1}": kernel for i, kernel in enumerate(deterministic(target))},
        horizon=horizon,
        weights=weights,
        layout=line(length + 1, [f"key {a}" for a in range(keys)]),
    )


ACTIONS = ["up", "right", "down", "left"]
MOVES = np.array([(0, -1), (1, 0), (0, 1), (-1, 0)])  # (column, row)


class Grid(NamedTuple):
    """The free cells of a map, (column, row) in reading order, and where each of the four moves leads."""

    cells: Int[np.ndarray, "S 2"]
    target: Int[np.ndarray, "S 4"]


def grid(is_free: Bool[np.ndarray, "rows columns"]) -> Grid:
    """States are the free cells; a move into a wall or off the map stays."""
    row, column = np.nonzero(is_free)
    cells = np.stack([column, row], axis=1)
    index = np.full((is_free.shape[0] + 2, is_free.shape[1] + 2), -1)
    index[row + 1, column + 1] = np.arange(len(cells))
    next_cells = cells[:, None, :] + MOVES
    target = index[next_cells[..., 1] + 1, next_cells[..., 0] + 1]
    stay = np.arange(len(cells))[:, None]
    return Grid(cells, np.where(target >= 0, target, stay))


def slip_features(
    target: Int[np.ndarray, "S 4"], zone: Int[np.ndarray, " S"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates of phi: 2z is the intended move in zone z, 2z+1 one of the three others, 1/3 each."""
    S, A = target.shape
    s, a, b = (x.ravel() for x in np.indices((S, A, A)))
    is_slip = a != b
    return s, a, target[s, b], 2 * zone[s] + is_slip, np.where(is_slip, 1 / 3, 1.0)


def slip_names(zones: int) -> list[str]:
    """Names of the features of `slip_features`."""
    prefixes = [""] if zones == 1 else [f"zone {z + 1}, " for z in range(zones)]
    return [f"{zone}{outcome}" for zone in prefixes for outcome in ("as intended", "astray")]


@problem("zoned-grid")
def zoned_grid(
    size: Annotated[int, Between(2, 200, "cells along a side")] = 8,
    zones: Annotated[int, Between(1, 200, "vertical zones with a slip probability each")] = 4,
    horizon: Horizon = 20,
    seed: Seed = 0,
) -> Problem:
    """A square grid whose vertical zones have an unknown slip probability each.

    In zone z a move goes as intended with probability theta_z, else in one of the three other directions, equally
    likely; theta_z ~ U(0.3, 0.95). Features vanish outside their zone, so d = 2 zones and, as theta_z^2 + (1 -
    theta_z)^2 <= 1, ||theta|| <= sqrt(zones). Start: top left.

    Source: this library; the usual slippery grid, its slip made a parameter.
    """
    check_at_least("size", size, zones, "every zone needs a column")
    cells, target = grid(np.ones((size, size), bool))
    theta_z = np.random.default_rng(seed).uniform(0.3, 0.95, zones)
    return Mixture.from_features(
        slip_features(target, cells[:, 0] * zones // size),
        horizon=horizon,
        bound=np.sqrt(zones),
        theta=np.stack([theta_z, 1 - theta_z], axis=1).ravel(),
        layout={"cells": cells, "actions": ACTIONS, "weights": slip_names(zones)},
    )


@problem("rooms")
def rooms(
    columns: Annotated[int, Between(1, 20, "rooms side by side")] = 5,
    rows: Annotated[int, Between(1, 20, "rooms one above the other")] = 3,
    room_size: Annotated[int, Between(2, 20, "cells along a side of a room")] = 5,
    slip: Annotated[float, Between(0, 1, "probability of a move in another direction")] = 0.05,
    horizon: Horizon = 30,
) -> Problem:
    """Rooms behind walls, joined by one-cell doors; the slip probability is unknown.

    A wall one cell thick has a door in the middle of every stretch between two rooms. Start: the middle of the
    middle room. d = 2: intended and slip.

    Source: Menard et al. (2021), "Fast active learning for pure exploration in reinforcement learning": 15 rooms
    of 25 states, H = 30. The arrangement in rows and columns is ours.
    """
    pitch = room_size + 1
    row, column = np.indices((rows * pitch - 1, columns * pitch - 1)) % pitch
    middle = room_size // 2
    is_wall = (row == room_size) & (column != middle) | (column == room_size) & (row != middle)
    cells, target = grid(~is_wall)
    center = np.array([columns // 2, rows // 2]) * pitch + middle
    return Mixture.from_features(
        slip_features(target, np.zeros(len(cells), int)),
        horizon=horizon,
        start=int(np.flatnonzero((cells == center).all(axis=1))[0]),
        bound=1.0,
        theta=np.array([1 - slip, slip]),
        layout={
            "cells": cells,
            "actions": ACTIONS,
            "weights": slip_names(1),
            "walls": np.argwhere(is_wall)[:, ::-1],
        },
    )
