"""Environments with Box observations as environments with numbered cells.

Every coordinate is cut at edges, evenly spaced between its bounds or given. Values beyond the outer edges belong to the
outer cells. One more state, numbered last, is for episodes that are over. The real system is in general not Markov in
the cells: certificates hold up to a declared misspecification (misspecification=).
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from horizonfree._extras import needs_extra
from horizonfree._validation import check_count, check_floats, check_int, require, short_repr
from horizonfree.errors import OptionError, ShapeError

with needs_extra("gymnasium", "environments of Gymnasium"):
    import gymnasium
    from gymnasium.spaces import Box, Discrete

MAX_BINS, MAX_CELLS = 10**6, 2**31 - 2


def discretize(env: Any, bins: Any, *, repeat: int = 1) -> "Discretized":
    """The environment with numbered cells for observations, a gymnasium.Wrapper.

    bins: the number of cells along each coordinate, one for all or one for each; or, for each coordinate, its inner
    edges in increasing order. repeat: the number of environment steps per action.

    >>> import gymnasium, horizonfree as hf
    >>> hf.discretize(gymnasium.make("MountainCar-v0"), bins=(6, 5)).observation_space
    Discrete(31)
    """
    require(isinstance(env, gymnasium.Env), "env", env, "a gymnasium.Env", ShapeError)
    space = env.observation_space
    if not isinstance(space, Box) or len(space.shape) != 1:
        raise ShapeError(f"env has observations {space}; discretize is for a Box with one axis")
    edges = _edges(space, bins)
    cells = math.prod(len(x) + 1 for x in edges)
    if cells > MAX_CELLS:
        raise OptionError(f"bins make {short_repr(cells)} cells; there may be {MAX_CELLS:,} at most")
    return Discretized(env, edges, check_count(repeat, "repeat"))


class Discretized(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Cells as observations; the last state is the end of an episode."""

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
        """The number of the cell of an observation."""
        at = [int(np.searchsorted(x, y, side="right")) for x, y in zip(self._edges, observation)]
        return int(np.ravel_multi_index(at, self._shape))

    def inside(self, state: int, rng: np.random.Generator) -> Float[np.ndarray, " n"]:
        """A uniform draw from a cell; for the last state, from a random cell."""
        state = int(rng.integers(self.over)) if state == self.over else state
        space: Any = self.env.observation_space
        ends = [
            np.concatenate([[low], x, [high]]) for low, x, high in zip(space.low, self._edges, space.high)
        ]
        at = np.unravel_index(state, self._shape)
        low, high = (np.array([x[i + k] for x, i in zip(ends, at)], np.float64) for k in (0, 1))
        if not np.isfinite([low, high]).all():
            raise OptionError(
                f"cell {state} is unbounded; bound the observations of the environment to draw from it"
            )
        return rng.uniform(low, high)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset; the first cell."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self.cell(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """`repeat` steps; the next cell."""
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
    per_axis = list(bins) if np.iterable(bins) else [bins] * n
    if len(per_axis) != n:
        raise ShapeError(f"bins has {len(per_axis)} entries; observations have {n} coordinates")
    return [_inner_edges(x, i, float(space.low[i]), float(space.high[i])) for i, x in enumerate(per_axis)]


def _inner_edges(bins: Any, i: int, low: float, high: float) -> Float[np.ndarray, " k"]:
    if not np.iterable(bins):
        number = check_int(bins, f"bins[{i}]", 1, MAX_BINS, f"a whole number from 1 to {MAX_BINS:,}")
        if number > 1 and not np.isfinite([low, high]).all():
            raise OptionError(
                f"coordinate {i} of the observations goes from {low:g} to {high:g}; give its inner edges instead of "
                f"{number} bins"
            )
        return np.linspace(low, high, number + 1)[1:-1] if number > 1 else np.zeros(0)
    edges = check_floats(bins, f"bins[{i}]")
    is_increasing = edges.ndim == 1 and np.isfinite(edges).all() and (np.diff(edges) > 0).all()
    require(is_increasing, f"bins[{i}]", bins, "a list of inner edges, finite and increasing", ShapeError)
    return edges
