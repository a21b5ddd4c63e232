"""Checks that many inputs share: what is wrong, which value it is, and what it must be."""

from typing import Any

import numpy as np

from horizonfree.errors import HorizonfreeError, OptionError, ShapeError


def whole(
    value: Any, name: str, least: int, most: int, meaning: str, error: type[HorizonfreeError] = OptionError
) -> int:
    """A whole number from least to most; `meaning` tells what it must be."""
    is_whole = isinstance(value, (int, np.integer)) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not is_whole or not least <= value <= most:
        raise error(f"{name} is {value!r}; it must be {meaning}")
    return int(value)


def share(value: Any, name: str, meaning: str = "a failure probability") -> None:
    """Refuse what is not a number strictly between 0 and 1."""
    is_number = isinstance(value, (int, float, np.number, np.ndarray)) and np.ndim(value) == 0
    if not (is_number and 0 < value < 1):
        raise OptionError(f"{name} is {value!r}; {meaning} lies strictly between 0 and 1")


def numbers(x: Any, name: str) -> np.ndarray:
    """An array of real numbers, as float64."""
    return real(x, name).astype(np.float64, copy=False)


def real(x: Any, name: str) -> np.ndarray:
    """An array of real numbers, of whatever type."""
    try:
        array = np.asarray(x)
    except ValueError as error:  # rows of different lengths
        raise ShapeError(f"{name} is not an array: {error}") from None
    if array.dtype.kind not in "fiub":
        raise ShapeError(f"{name} has type {array.dtype}; it must hold real numbers")
    return array
