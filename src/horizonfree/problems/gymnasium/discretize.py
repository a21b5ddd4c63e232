"""Environments with Box observations or actions as environments with numbered cells and levels.

Every coordinate of an observation is cut at edges, evenly spaced between its bounds or given. Values beyond the outer
edges belong to the outer cells. Coordinates of actions take a few levels. Finite parts of mixed spaces stay as they are
(flatten.py). One more state, numbered last, is for episodes that are over. The real system is in general not Markov in
the cells: certificates assume that cells are exact, or hold for a declared Lipschitz constant (docs/robust-tables.md).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from horizonfree._extras import needs_extra
from horizonfree._validation import check_count, check_floats, check_int, check_size, require, short_repr
from horizonfree.errors import OptionError, ShapeError
from horizonfree.problems.gymnasium.flatten import (
    MAX_ELEMENTS,
    Flattened,
    Numbering,
    coordinates,
    example_bins,
)

with needs_extra("gymnasium", "environments of Gymnasium"):
    import gymnasium
    from gymnasium.spaces import Discrete

MAX_BINS = 10**6
OVER = "over"  # name of the last state
RADII, ASSUMES = (
    "radii",
    "assumes",
)  # in the layout of problems: errors of cells, and what certificates assume
EXACT_CELLS = (
    "assuming that cells are exact: the law of the next cell does not depend on where in a cell the state is"
)
LIPSCHITZ_CELLS = (
    "assuming that within a cell the law of the next state moves in total variation by at most {constants} for each "
    "unit of the coordinates, and that observations keep their bounds"
)


@dataclass(frozen=True)
class Cells:
    """A coordinate of observations, cut at inner edges."""

    edges: Float[np.ndarray, " k"]
    low: float
    high: float

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.edges) + 1

    def part(self, value: float) -> int:
        """The cell of a value."""
        return int(np.searchsorted(self.edges, value, side="right"))

    def ends(self, part: int) -> tuple[float, float]:
        """The ends of a cell."""
        ends = [self.low, *self.edges.tolist(), self.high]
        return ends[part], ends[part + 1]

    def value(self, part: int) -> float:
        """The middle of a cell."""
        return sum(self.ends(part)) / 2

    def width(self, part: int) -> float:
        """How long a cell is; infinite where it has one end."""
        low, high = self.ends(part)
        return high - low

    def name(self, part: int) -> str:
        """The range of a cell; outer cells have one end."""
        if self.size == 1:
            return "any"
        low, high = self.ends(part)
        if part == 0:
            return f"< {high:.4g}"
        return f">= {low:.4g}" if part == self.size - 1 else f"{low:.4g} to {high:.4g}"


@dataclass(frozen=True)
class Levels:
    """A coordinate of actions that takes a few values."""

    values: Float[np.ndarray, " n"]

    @property
    def size(self) -> int:
        """The number of levels."""
        return len(self.values)

    def part(self, value: float) -> int:
        """The nearest level."""
        return int(np.abs(self.values - value).argmin())

    def value(self, part: int) -> float:
        """A level."""
        return float(self.values[part])

    def name(self, part: int) -> str:
        """A level as text."""
        return f"{self.values[part]:.4g}"


def discretize(
    env: Any, bins: Any = None, *, actions: Any = None, repeat: int = 1, lipschitz: Any = None
) -> "Discretized":
    """The environment with numbered cells for observations and numbered levels for actions, a gymnasium.Wrapper.

    bins: for the coordinates of all boxes of the observation space, in order, the number of cells, one for all or one
    for each; or, for each coordinate, its inner edges in increasing order. actions: for the coordinates of the action
    space likewise the number of evenly spaced levels, bounds included, or a list of them; by default bins, if that is
    one number. repeat: the number of environment steps per action.
    lipschitz: by how much the law of the next state may move, in total variation, for each unit of a coordinate within
    a cell: one number, or one for each coordinate. The error of each cell is then part of every certificate; without it
    certificates say that they assume that cells are exact.

    >>> import gymnasium, horizonfree as hf
    >>> hf.discretize(gymnasium.make("MountainCar-v0"), bins=(6, 5)).observation_space
    Discrete(31)
    >>> hf.discretize(gymnasium.make("Pendulum-v1"), 6, actions=3).action_space
    Discrete(3)
    """
    require(isinstance(env, gymnasium.Env), "env", env, "a gymnasium.Env", ShapeError)
    observed, acted = coordinates(env.observation_space), coordinates(env.action_space)
    if not observed and not acted:
        raise ShapeError(
            f"env has observations {env.observation_space} and actions {env.action_space}; discretize is for a Box. "
            "Explore the environment itself: hf.explore(env, ...)"
        )
    if observed and bins is None:
        raise OptionError(
            "bins is missing; say how many cells a coordinate has: hf.discretize(env, 10), at the shell --param bins=10"
        )
    if not observed and np.iterable(bins):
        raise ShapeError("observations have no coordinates to cut; give actions= alone")
    if actions is None and acted and (bins is None or np.iterable(bins)):
        raise OptionError(
            f"the actions are {env.action_space}; say how many levels a coordinate has: "
            "hf.discretize(env, bins, actions=5), at the shell --param actions=5"
        )
    if actions is not None and not acted:
        raise OptionError(f"the actions are {env.action_space}, which is finite; leave out actions=")
    cells = _cells(observed, bins) if observed else []
    levels = _levels(acted, bins if actions is None else actions) if acted else []
    observations = Numbering(env.observation_space, cells)
    numbered = (
        None if isinstance(env.action_space, Discrete) else Numbering(env.action_space, levels, "action")
    )
    constants = None if lipschitz is None else _constants(lipschitz, len(observed))
    return Discretized(env, observations, numbered, check_count(repeat, "repeat"), constants)


class Discretized(Flattened):
    """Cells as observations; the last state is the end of an episode."""

    def __init__(
        self,
        env: Any,
        observations: Numbering,
        actions: Numbering | None,
        repeat: int = 1,
        lipschitz: Float[np.ndarray, " k"] | None = None,
    ) -> None:
        super().__init__(env, observations, actions)
        self._cells, self._repeat, self._lipschitz = observations, repeat, lipschitz
        self.observation_space = Discrete(observations.size + 1)

    @cached_property
    def state_names(self) -> list[str] | None:
        """The cells as texts, and the end of an episode."""
        names = self._cells.names()
        return None if names is None else [*names, OVER]

    @property
    def over(self) -> int:
        """The state in which an episode is over."""
        return self._cells.size

    @cached_property
    def radii(self) -> Float[np.ndarray, " S"] | None:
        """How far the law at a point of each cell may be from that at its middle; None without Lipschitz constants."""
        if self._lipschitz is None:
            return None
        total = np.zeros(1)
        constants = iter(self._lipschitz)
        cuts = iter(self._cells.cuts)
        for size, is_cut in self._cells.axes():
            error = np.zeros(size)
            if is_cut:
                cut, L = next(cuts), next(constants)
                if L > 0:
                    error = np.array([L * cut.width(i) / 2 for i in range(size)])  # type: ignore[attr-defined]
            total = (total[:, None] + error).ravel()
        return np.append(np.minimum(total, 1.0), 0.0)

    def assumption(self) -> str:
        """What certificates assume of cells."""
        if self._lipschitz is None:
            return EXACT_CELLS
        return LIPSCHITZ_CELLS.format(constants=", ".join(f"{x:.4g}" for x in self._lipschitz))

    def cell(self, observation: Any) -> int:
        """The number of the cell of an observation."""
        return self._cells.encode(observation)

    def inside(self, state: int, rng: np.random.Generator) -> Any:
        """A uniform draw from a cell; for the last state, from a random cell."""
        state = int(rng.integers(self.over)) if state == self.over else state
        return self._cells.decode(state, lambda cut, part: _draw(cut, part, state, rng))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """`repeat` steps; the next cell."""
        action = action if self.actions is None else self.actions.decode(action)
        total = 0.0
        for _ in range(self._repeat):
            observation, reward, is_over, is_cut, info = self.env.step(action)
            total += float(reward)
            if is_over or is_cut:
                break
        return self.over if is_over else self.cell(observation), total, is_over, is_cut, info


def cell_layout(env: Any, S: int, A: int) -> dict[str, Any]:
    """What the layout of a problem says of the cells of an environment: radii [S, A] and assumptions; or nothing.

    States behind those of the environment (copies for ended episodes, an unknown start) have no error.
    """
    while isinstance(env, gymnasium.Wrapper) and not isinstance(env, Discretized):
        env = env.env
    if not isinstance(env, Discretized) or not env._cells.cuts:
        return {}
    layout: dict[str, Any] = {ASSUMES: [env.assumption()]}
    if env.radii is not None:
        radii = np.zeros((S, A))
        radii[: len(env.radii)] = env.radii[:, None]
        layout[RADII] = radii
    return layout


def _constants(lipschitz: Any, n: int) -> Float[np.ndarray, " k"]:
    """One for each coordinate of the observations."""
    values = np.array(_per_coordinate(lipschitz, "lipschitz", "observations", n), np.float64)
    is_good = bool((np.isfinite(values) & (values >= 0)).all())
    require(is_good, "lipschitz", lipschitz, "a number of at least 0, or one for each coordinate")
    return values


def _draw(cut: Any, part: int, state: int, rng: np.random.Generator) -> float:
    low, high = cut.ends(part)
    if not np.isfinite([low, high]).all():
        raise OptionError(
            f"cell {state} is unbounded; bound the observations of the environment to draw from it"
        )
    return float(rng.uniform(low, high))


def _per_coordinate(x: Any, name: str, kind: str, n: int) -> list[Any]:
    per_axis = list(x) if np.iterable(x) else [x] * n
    if len(per_axis) != n:
        raise ShapeError(f"{name} has {len(per_axis)} entries; {kind} have {n} coordinates")
    return per_axis


def _cells(bounds: list[tuple[float, float]], bins: Any) -> list[Cells]:
    """The cells of every coordinate."""
    per_axis = _per_coordinate(bins, "bins", "observations", len(bounds))
    total = math.prod(x for x in per_axis if isinstance(x, int) and x > 0)
    check_size(total, MAX_ELEMENTS, f"bins make {short_repr(total)} cells", "give fewer bins")
    edges = [_inner_edges(x, i, bounds, per_axis) for i, x in enumerate(per_axis)]
    return [Cells(x, low, high) for x, (low, high) in zip(edges, bounds)]


def _inner_edges(
    bins: Any, i: int, bounds: list[tuple[float, float]], per_axis: list[Any]
) -> Float[np.ndarray, " k"]:
    low, high = bounds[i]
    if not np.iterable(bins):
        number = check_int(bins, f"bins[{i}]", 1, MAX_BINS, f"a whole number from 1 to {MAX_BINS:,}")
        if number > 1 and not np.isfinite([low, high]).all():
            line = example_bins(bounds, per_axis)
            raise OptionError(
                f"coordinate {i} of the observations goes from {low:g} to {high:g}; give its inner edges instead of "
                f"{number} bins, for example hf.discretize(env, {line}), at the shell --param 'bins={line}'"
            )
        return np.linspace(low, high, number + 1)[1:-1] if number > 1 else np.zeros(0)
    return _increasing(bins, f"bins[{i}]", "a list of inner edges, finite and increasing")


def _levels(bounds: list[tuple[float, float]], actions: Any) -> list[Levels]:
    """The levels of every coordinate."""
    levels = []
    for i, x in enumerate(_per_coordinate(actions, "actions", "actions", len(bounds))):
        if np.iterable(x):
            values = _increasing(x, f"actions[{i}]", "a list of levels, finite and increasing")
            require(len(values), f"actions[{i}]", x, "a list of one level or more", ShapeError)
            levels.append(Levels(values))
            continue
        low, high = bounds[i]
        number = check_int(x, f"actions[{i}]", 1, MAX_BINS, f"a whole number from 1 to {MAX_BINS:,}")
        if not np.isfinite([low, high]).all():
            raise OptionError(
                f"coordinate {i} of the actions goes from {low:g} to {high:g}; give its levels: "
                f"hf.discretize(env, bins, actions=[{'..., ' * (i > 0)}[-1, 0, 1]])"
            )
        levels.append(Levels(np.linspace(low, high, number) if number > 1 else np.array([(low + high) / 2])))
    return levels


def _increasing(x: Any, name: str, meaning: str) -> Float[np.ndarray, " k"]:
    values = check_floats(x, name)
    is_increasing = values.ndim == 1 and np.isfinite(values).all() and (np.diff(values) > 0).all()
    require(is_increasing, name, x, meaning, ShapeError)
    return values
