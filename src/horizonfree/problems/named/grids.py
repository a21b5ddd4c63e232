"""Grids: a move goes as intended or slips, walls hold."""

from typing import Annotated, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from horizonfree.problems.classes import Mixture
from horizonfree.problems.problem import Problem
from horizonfree.problems.registry import Between, Horizon, Seed, check_at_least, problem

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
    after = cells[:, None, :] + MOVES
    target = index[after[..., 1] + 1, after[..., 0] + 1]
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
    where = [""] if zones == 1 else [f"zone {z + 1}, " for z in range(zones)]
    return [f"{zone}{what}" for zone in where for what in ("as intended", "astray")]


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
