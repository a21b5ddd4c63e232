"""Elements of finite Gymnasium spaces, numbered from 0, with names; environments with numbers in their place.

An element of a Discrete, MultiDiscrete, MultiBinary, Tuple or Dict space, nested or not, is a list of digits, one for
each entry, in the order of the space. Its number is that of the digits in mixed radix,
the last digit changing fastest. Every coordinate of a Box has a digit, too, where it is cut into cells or levels
(discretize.py).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from horizonfree._extras import needs_extra
from horizonfree._validation import check_int, check_size, require, short_repr, shorten
from horizonfree.errors import ShapeError

with needs_extra("gymnasium", "environments of Gymnasium"):
    import gymnasium
    from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

MAX_ELEMENTS = 2**31 - 2  # of a space


class Cut(Protocol):
    """One coordinate of a Box, cut into a finite number of parts."""

    @property
    def size(self) -> int:
        """The number of parts."""

    def part(self, value: float) -> int:
        """The part of a value."""

    def value(self, part: int) -> float:
        """A value of the part."""

    def name(self, part: int) -> str:
        """The part as text."""


class Numbering:
    """The elements of a space, numbered from 0. `cuts`: one for each coordinate of its boxes, in order."""

    def __init__(self, space: Space[Any], cuts: Sequence[Cut] = (), kind: str = "observation") -> None:
        self.space, self.cuts, self._kind = space, tuple(cuts), kind
        self.size = _num_elements(space, iter(self.cuts))
        check_size(
            self.size,
            MAX_ELEMENTS,
            f"the {kind} space {shorten(space)} has too many elements to number",
            "use fewer or coarser entries, or map observations to states: encode=function, num_states=100",
        )
        self.shape = tuple(_radices(space, iter(self.cuts)))

    def axes(self) -> list[tuple[int, bool]]:
        """The size of each digit, and whether it is that of a coordinate of a box."""
        result: list[tuple[int, bool]] = []
        for leaf in leaves(self.space):
            sizes = self.shape[len(result) :][: _num_digits(leaf)]
            result += [(size, isinstance(leaf, Box)) for size in sizes]
        return result

    def encode(self, element: Any) -> int:
        """The number of an element."""
        try:
            digits = list(_digits(self.space, element, iter(self.cuts)))
        except (KeyError, IndexError, TypeError, ValueError):
            digits = []
        is_element = len(digits) == len(self.shape)
        if not (is_element and all(0 <= digit < n for digit, n in zip(digits, self.shape))):
            raise ShapeError(f"{self._kind} {short_repr(element)} is not in {shorten(self.space)}")
        number = 0
        for digit, n in zip(digits, self.shape):
            number = number * n + digit
        return number

    def digits(self, number: int) -> list[int]:
        """The digits of an element."""
        meaning = f"a whole number from 0 to {self.size - 1}"
        number = check_int(number, f"the number of an {self._kind}", 0, self.size - 1, meaning, ShapeError)
        digits = []
        for n in reversed(self.shape):
            number, digit = divmod(number, n)
            digits.append(digit)
        return digits[::-1]

    def decode(
        self, number: int, value: Callable[[Any, int], float] = lambda cut, part: cut.value(part)
    ) -> Any:
        """The element with a number. value: (cut, part) -> a value of the part."""
        return _element(self.space, iter(self.digits(number)), (partial(value, cut) for cut in self.cuts))

    def name(self, number: int) -> str:
        """The element as text, such as "wear 2, stock 1"."""
        return _name(self.space, iter(self.digits(number)), iter(self.cuts))

    def names(self) -> list[str] | None:
        """The names of all elements; None for a Discrete space, and where two elements have the same."""
        if isinstance(self.space, Discrete):
            return None
        names = [self.name(i) for i in range(self.size)]
        return names if len(set(names)) == self.size else None


class Flattened(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The environment with Discrete spaces.

    `observations`, `actions`: their numberings; None leaves a space as it is.
    """

    def __init__(self, env: Any, observations: Numbering | None, actions: Numbering | None) -> None:
        super().__init__(env)
        self.observations, self.actions = observations, actions
        if observations is not None:
            self.observation_space = Discrete(observations.size)
        if actions is not None:
            self.action_space = Discrete(actions.size)

    @cached_property
    def state_names(self) -> list[str] | None:
        """The observations as texts."""
        return None if self.observations is None else self.observations.names()

    @cached_property
    def action_names(self) -> list[str] | None:
        """The actions as texts."""
        return None if self.actions is None else self.actions.names()

    def number(self, observation: Any) -> Any:
        """The number of an observation."""
        return observation if self.observations is None else self.observations.encode(observation)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset; the number of the first observation."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self.number(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """A step with the number of an action; the number of the observation."""
        action = action if self.actions is None else self.actions.decode(action)
        observation, reward, is_over, is_cut, info = self.env.step(action)
        return self.number(observation), reward, is_over, is_cut, info


def flatten(env: Any, has_encode: bool = False) -> Any:
    """The environment with Discrete spaces; itself where they are. With encode, observations stay as they are."""
    keeps = has_encode or isinstance(env.observation_space, Discrete)
    observations = None if keeps else _finite(env.observation_space, "observation")
    actions = None if isinstance(env.action_space, Discrete) else _finite(env.action_space, "action")
    if observations is None and actions is None:
        return env
    require(isinstance(env, gymnasium.Env), "the environment", env, "a gymnasium.Env", ShapeError)
    return Flattened(env, observations, actions)


def names_in(env: Any, kind: str) -> list[str] | None:
    """The names of the states ("state") or actions ("action") of an environment that was flattened, below wrappers."""
    attribute = "observation_space" if kind == "state" else "action_space"
    space = getattr(env, attribute)
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, Flattened):
            names: list[str] | None = getattr(env, f"{kind}_names")
            if names is not None:
                return names
        env = env.env
        if getattr(env, attribute) is not space:
            return None
    return None


def _finite(space: Space[Any], kind: str) -> Numbering:
    """The numbering of a space without boxes."""
    boxes = [leaf for leaf in leaves(space) if not isinstance(leaf, (Discrete, MultiDiscrete, MultiBinary))]
    if not boxes:
        return Numbering(space, (), kind)
    if all(isinstance(leaf, Box) for leaf in boxes):
        bounds = coordinates(space)
        is_bounded = bool(np.isfinite(bounds).all()) or kind == "action"
        bins = "10" if is_bounded else example_bins(bounds, [10] * len(bounds))
        quote = "" if is_bounded else "'"
        shell = f"--param {quote}bins={bins}{quote}"
        advice = f"cut it into cells, hf.explore(hf.discretize(env, {bins}), ...); at the shell {shell}"
    else:
        advice = "wrap the environment so that it has finitely many elements"
    encode = (
        "; or map observations to states, encode=function, num_states=100" if kind == "observation" else ""
    )
    raise ShapeError(
        f"the {kind} space of the environment is {shorten(space)}; a table needs finite spaces: {advice}{encode}"
    )


def coordinates(space: Space[Any]) -> list[tuple[float, float]]:
    """The bounds of the coordinates of all boxes in a space."""
    return [
        (float(low), float(high))
        for leaf in leaves(space)
        if isinstance(leaf, Box)
        for low, high in zip(leaf.low.flat, leaf.high.flat)
    ]


def example_bins(bounds: Sequence[tuple[float, float]], bins: Sequence[Any]) -> str:
    """These bins as text, with inner edges for unbounded coordinates that have none."""
    texts = (str(x) if np.iterable(x) or np.isfinite(b).all() else "[-1, 0, 1]" for x, b in zip(bins, bounds))
    return f"[{', '.join(texts)}]"


def leaves(space: Space[Any]) -> Iterator[Space[Any]]:
    """The spaces that a nested space consists of."""
    children = _children(space)
    if children is None:
        yield space
    else:
        for child in children:
            yield from leaves(child)


def _children(space: Space[Any]) -> list[Space[Any]] | None:
    if isinstance(space, Tuple):
        return list(space.spaces)
    return list(space.spaces.values()) if isinstance(space, Dict) else None


def _num_digits(leaf: Space[Any]) -> int:
    """How many digits an element of a space without parts has."""
    return 1 if isinstance(leaf, Discrete) else math.prod(leaf.shape or ())


def _num_elements(space: Space[Any], cuts: Iterator[Cut]) -> int:
    """The number of elements, or some number above MAX_ELEMENTS. Nothing of that size is allocated."""
    total = 1
    for leaf in leaves(space):
        if isinstance(leaf, MultiBinary):
            total *= 2 ** min(math.prod(leaf.shape), MAX_ELEMENTS.bit_length())
        else:
            for n in _leaf_radices(leaf, cuts):
                total *= n
                if total > MAX_ELEMENTS:
                    return total
        if total > MAX_ELEMENTS:
            return total
    return total


def _radices(space: Space[Any], cuts: Iterator[Cut]) -> Iterator[int]:
    for leaf in leaves(space):
        yield from _leaf_radices(leaf, cuts)


def _leaf_radices(leaf: Space[Any], cuts: Iterator[Cut]) -> Iterator[int]:
    if isinstance(leaf, Discrete):
        yield int(leaf.n)
    elif isinstance(leaf, MultiDiscrete):
        yield from (int(n) for n in leaf.nvec.flat)
    elif isinstance(leaf, MultiBinary):
        yield from (2 for _ in range(math.prod(leaf.shape)))
    else:
        yield from (next(cuts).size for _ in range(math.prod(leaf.shape or ())))


def _digits(space: Space[Any], element: Any, cuts: Iterator[Cut]) -> Iterator[int]:
    """The digits of an element. Entries that are no integers raise an error, entries outside the space may not."""
    if isinstance(space, (Tuple, Dict)):
        is_dict = isinstance(space, Dict)
        keys: list[Any] = list(space.spaces) if isinstance(space, Dict) else list(range(len(space.spaces)))
        if len(element) != len(keys) or isinstance(element, Mapping) != is_dict:
            raise ValueError("wrong entries")
        for key in keys:
            yield from _digits(space[key], element[key], cuts)
        return
    values = np.asarray(element)
    if values.shape != (space.shape or ()):
        raise ValueError("wrong shape")
    if isinstance(space, Box):
        yield from (next(cuts).part(float(x)) for x in values.flat)
        return
    first = getattr(space, "start", 0)
    yield from (_integer(x) - int(s) for x, s in zip(values.flat, np.broadcast_to(first, values.shape).flat))


def _integer(x: Any) -> int:
    if int(x) != x:
        raise ValueError("not an integer")
    return int(x)


def _element(space: Space[Any], digits: Iterator[int], values: Iterator[Callable[[int], float]]) -> Any:
    if isinstance(space, Tuple):
        return tuple(_element(child, digits, values) for child in space.spaces)
    if isinstance(space, Dict):
        return {key: _element(child, digits, values) for key, child in space.spaces.items()}
    if isinstance(space, Discrete):
        return space.start + space.dtype.type(next(digits))
    count = math.prod(space.shape or ())
    if isinstance(space, Box):
        coordinates = [next(values)(next(digits)) for _ in range(count)]
        return np.array(coordinates, space.dtype).reshape(space.shape)
    entries = np.array([next(digits) for _ in range(count)], space.dtype).reshape(space.shape or ())
    return entries + getattr(space, "start", np.zeros_like(entries))


def _name(space: Space[Any], digits: Iterator[int], cuts: Iterator[Cut], is_nested: bool = False) -> str:
    if isinstance(space, Dict):
        text = ", ".join(f"{key} {_name(child, digits, cuts, True)}" for key, child in space.spaces.items())
        return f"({text})" if is_nested else text
    if isinstance(space, Tuple):
        return f"({', '.join(_name(child, digits, cuts, True) for child in space.spaces)})"
    if isinstance(space, Discrete):
        return str(int(space.start) + next(digits))
    count = math.prod(space.shape or ())
    if isinstance(space, Box):
        texts = [next(cuts).name(next(digits)) for _ in range(count)]
    else:
        starts = np.broadcast_to(getattr(space, "start", 0), space.shape or ()).flat
        texts = [str(int(first) + next(digits)) for first in starts]
    return texts[0] if is_nested and count == 1 else f"({', '.join(texts)})"
