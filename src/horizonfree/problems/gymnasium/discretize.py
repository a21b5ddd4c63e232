"""Observations of a Box as cells: an environment whose states are numbered.

Every coordinate is cut at edges, evenly spread between its bounds or given. What lies beyond the outer edges belongs to
the outer cells. One state is added, numbered last: the episode is over. Cells are no states of the real system, which
remembers where in a cell it is: certificates hold for a system that is Markov in the cells, up to what is declared
(misspecification=).
"""

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from jaxtyping import Float

from horizonfree._validation import check_count, check_floats, check_int, short_repr
from horizonfree.errors import OptionError, ShapeError

MOST_BINS, MOST_CELLS = 10**6, 2**31 - 2


def discretize(env: Any, bins: Any, *, repeat: int = 1) -> "Discretized":
    """The environment with numbered cells for observations, a gymnasium.Wrapper.

    bins: how many cells along every coordinate, one number or one for each; or, for each, its inner edges, increasing.
    repeat: how many steps of the environment an action takes.
    """
    if not isinstance(env, gymnasium.Env):
        raise ShapeError(f"env is {short_repr(env)}; it must be a gymnasium.Env")
    space = env.observation_space
    if not isinstance(space, Box) or len(space.shape) != 1:
        raise ShapeError(f"env has observations {space}; discretize is for a Box with one axis")
    edges = _edges(space, bins)
    cells = math.prod(len(x) + 1 for x in edges)
    if cells > MOST_CELLS:
        raise OptionError(f"bins make {short_repr(cells)} cells; there may be {MOST_CELLS:,} at most")
    return Discretized(env, edges, check_count(repeat, "repeat"))


class Discretized(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Cells instead of observations; the last state is the end of an episode."""

    def __init__(self, env: Any, edges: list[Float[np.ndarray, "_"]], repeat: int) -> None:
        super().__init__(env)
        self._edges, self._repeat = edges, repeat
        self._shape = tuple(len(x) + 1 for x in edges)
        self.observation_space = Discrete(math.prod(self._shape) + 1)

    @property
    def over(self) -> int:
        """The state in which an episode is over."""
        return int(self.observation_space.n) - 1  # type: ignore[attr-defined]  # Discrete

    def cell(self, observation: Any) -> int:
        """The number of the cell that an observation lies in."""
        at = [int(np.searchsorted(x, y, side="right")) for x, y in zip(self._edges, observation)]
        return int(np.ravel_multi_index(at, self._shape))

    def inside(self, state: int, rng: np.random.Generator) -> Float[np.ndarray, " n"]:
        """An observation drawn evenly from a cell; from any cell for the state in which an episode is over."""
        state = int(rng.integers(self.over)) if state == self.over else state
        space: Any = self.env.observation_space
        ends = [
            np.concatenate([[low], x, [high]]) for low, x, high in zip(space.low, self._edges, space.high)
        ]
        at = np.unravel_index(state, self._shape)
        low, high = (np.array([x[i + k] for x, i in zip(ends, at)], np.float64) for k in (0, 1))
        if not np.isfinite([low, high]).all():
            raise OptionError(
                f"cell {state} has no end; bound the observations of the environment to draw from it"
            )
        return rng.uniform(low, high)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """The first cell."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self.cell(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """The next cell, or the end."""
        total = 0.0
        for _ in range(self._repeat):
            observation, reward, is_over, is_cut, info = self.env.step(action)
            total += float(reward)
            if is_over or is_cut:
                break
        return self.over if is_over else self.cell(observation), total, is_over, is_cut, info


def _edges(space: Box, bins: Any) -> list[Float[np.ndarray, "_"]]:
    """The inner edges of every coordinate."""
    n = space.shape[0]
    given = list(bins) if np.iterable(bins) else [bins] * n
    if len(given) != n:
        raise ShapeError(f"bins has {len(given)} entries; observations have {n} coordinates")
    return [_inner(x, i, float(space.low[i]), float(space.high[i])) for i, x in enumerate(given)]


def _inner(given: Any, i: int, low: float, high: float) -> Float[np.ndarray, " k"]:
    if not np.iterable(given):
        number = check_int(given, f"bins[{i}]", 1, MOST_BINS, f"a whole number from 1 to {MOST_BINS:,}")
        if number > 1 and not np.isfinite([low, high]).all():
            raise OptionError(
                f"coordinate {i} of the observations goes from {low:g} to {high:g}; give its inner edges instead of "
                f"{number} bins"
            )
        return np.linspace(low, high, number + 1)[1:-1] if number > 1 else np.zeros(0)
    edges = check_floats(given, f"bins[{i}]")
    if edges.ndim != 1 or not (np.isfinite(edges).all() and (np.diff(edges) > 0).all()):
        raise ShapeError(f"bins[{i}] is {short_repr(given)}; inner edges must be finite and increasing")
    return edges
