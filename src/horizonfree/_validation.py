"""Checks that many inputs share: what is wrong, which value it is, and what it must be."""

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from horizonfree.errors import HorizonfreeError, OptionError, RewardError, ShapeError

MAX_INT = 2**63 - 1  # the largest whole number that is understood
MAX_REPR = 200  # letters of a value that a message repeats


def short_repr(value: Any) -> str:
    """A value as messages repeat it, in brief; a whole number of thousands of digits has no digits in Python."""
    try:
        text = repr(value)
    except ValueError:
        return f"a {type(value).__name__} too long to be written"
    except Exception:  # of somebody's own, or made of nonsense
        return f"a {type(value).__name__} that cannot be shown"
    return shorten(text)


def shorten(words: Any) -> str:
    """What somebody else has to say, such as an error, without the middle where it is long."""
    text = str(words)
    return text if len(text) <= MAX_REPR else f"{text[: MAX_REPR - 20]} ... {text[-15:]}"


def check_int(
    value: Any, name: str, least: int, most: int, meaning: str, error: type[HorizonfreeError] = OptionError
) -> int:
    """A whole number from least to most; `meaning` tells what it must be."""
    is_whole = isinstance(value, (int, np.integer)) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not is_whole or not least <= value <= most:
        raise error(f"{name} is {short_repr(value)}; it must be {meaning}")
    return int(value)


def check_count(value: Any, name: str) -> int:
    """A whole number of at least 1."""
    return check_int(value, name, 1, MAX_INT, "a whole number of at least 1")


def check_bool(value: Any, name: str) -> None:
    """Refuse what is neither yes nor no, nor left open."""
    if not (value is None or isinstance(value, (bool, np.bool_, int))):
        raise OptionError(f"{name} is {short_repr(value)}; it must be True, False or None")


def check_seed(seed: Any) -> int:
    """Refuse what is not a seed."""
    return check_int(seed, "seed", 0, MAX_INT, "a whole number from 0 to 2^63 - 1")


def check_probability(value: Any, name: str, meaning: str = "a failure probability") -> float:
    """A number strictly between 0 and 1."""
    is_number = isinstance(value, (int, float, np.number, np.ndarray)) and np.ndim(value) == 0
    is_number = is_number and (not isinstance(value, np.ndarray) or value.dtype.kind in "fiu")
    if not (is_number and 0 < value < 1):
        raise OptionError(f"{name} is {short_repr(value)}; {meaning} lies strictly between 0 and 1")
    return float(value)


def check_integers(x: Any, name: str) -> np.ndarray:
    """An array of whole numbers, of whatever type."""
    array = check_real(x, name)
    if array.dtype.kind not in "iu" and not array.size:
        raise ShapeError(f"{name} is empty; it must hold whole numbers, at least one")
    if array.dtype.kind not in "iu":
        raise ShapeError(f"{name} has type {array.dtype}; it must hold whole numbers")
    return array


def check_floats(x: Any, name: str) -> np.ndarray:
    """An array of real numbers, as float64."""
    return check_real(x, name).astype(np.float64, copy=False)


def check_real(x: Any, name: str) -> np.ndarray:
    """An array of real numbers, of whatever type."""
    if "numpy.ma" in sys.modules and np.ma.isMaskedArray(x):  # it loads slowly, and nobody has one without it
        raise ShapeError(
            f"{name} is a masked array, whose hidden values would count; fill them (x.filled(...)) first"
        )
    try:
        array = np.asarray(x)
    except (ValueError, TypeError, OverflowError) as error:  # rows of different lengths, objects that refuse
        raise ShapeError(f"{name} is not an array: {error}") from None
    if array.dtype.kind not in "fiub":
        raise ShapeError(f"{name} has type {array.dtype}; it must hold real numbers")
    return array


def check_finite_rewards(table: np.ndarray) -> None:
    """Refuse rewards that are infinite or not numbers, naming the first."""
    bad = np.argwhere(~np.isfinite(table))
    if bad.size:
        raise RewardError(f"reward{list(map(int, bad[0]))} is {table[tuple(bad[0])]}; rewards must be finite")


def did_you_mean(name: Any, names: Iterable[str]) -> str:
    """ ", did you mean ..?" after a name that is nearly one of these, else nothing."""
    import difflib  # as below

    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6) if isinstance(name, str) else []
    return f"; did you mean {near[0]!r}?" if near and near[0] != name else ""


def suggestion(name: str, names: Iterable[str]) -> str:
    """Advice for a name that does not exist."""
    import difflib  # for errors only

    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"choose one of: {', '.join(sorted(names))}"
