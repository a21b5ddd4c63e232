"""Ranges of the arguments of theorems, scales of rewards, lines of tables."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np

from horizonfree._validation import check_probability, require

Scale = Literal["total", "per-step"]
_P = ParamSpec("_P")
_R = TypeVar("_R")
LIMITS = {  # within which all quantities and their squares are finite
    "d": (1, 1e15),
    "H": (1, 1e15),
    "k": (1, 1e200),
    "K": (1, 1e200),
    "B": (1e-30, 1e30),
    "eps": (1e-50, 1e50),
    "delta": (1e-300, 1),
    "S": (1, 1e15),
    "A": (1, 1e15),
}


@dataclass(frozen=True)
class TableLine:
    """One line of `table`: a symbol, its value, and its meaning."""

    name: str
    value: float | int | str
    meaning: str


def python_numbers(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Convert arguments from NumPy to Python numbers: types of 16 or 32 bits would overflow or lose digits."""

    def convert(x: Any) -> Any:
        return float(x) if isinstance(x, np.floating) else int(x) if isinstance(x, np.integer) else x

    @wraps(function)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        converted: Any = {name: convert(x) for name, x in kwargs.items()}
        return function(*map(convert, args), **converted)

    return wrapper


def scale_factor(scale: Scale, H: int) -> int:
    """The factor of suboptimality on this scale, relative to totals at most 1."""
    units = {"total": 1, "per-step": H}
    require(
        isinstance(scale, str) and scale in units,
        "scale",
        scale,
        "'total' (rewards add up to at most 1) or 'per-step'",
    )
    return units[scale]


def check_ranges(**values: float) -> None:
    """Raise for arguments outside their ranges."""
    for name, value in values.items():
        require(
            not isinstance(value, bool) and isinstance(value, (int, float, np.integer, np.floating)),
            name,
            value,
            "a number",
        )
        if name == "delta":
            check_probability(value, name)
        least, largest = LIMITS[name]
        require(least <= value <= largest, name, value, f"a number between {least:g} and {largest:g}")
        if name in ("d", "H", "S", "A"):
            require(value == int(value), name, value, "a whole number")
