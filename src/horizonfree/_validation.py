"""Checks of arguments. Each error names the argument, its value, and what it must be."""

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from horizonfree.errors import (
    HorizonfreeError,
    ModelError,
    OptionError,
    RewardError,
    ShapeError,
    UnknownNameError,
)

MAX_INT = 2**63 - 1
MAX_INT_AS_FLOAT = 2**1023  # larger integers have no float
MAX_TABLE_ENTRIES = 2**28
MAX_REPR = 200  # characters of a value in an error message

_T = TypeVar("_T")


def short_repr(value: Any) -> str:
    """repr(value) for an error message: shortened, and never an error itself."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return f"a {type(value).__name__} too long to be written"
    except Exception:
        return f"a {type(value).__name__} that cannot be shown"
    return shorten(text)


def shorten(text: Any) -> str:
    """Text of another library, such as an error message, without its middle where it is long."""
    text = str(text)
    return text if len(text) <= MAX_REPR else f"{text[: MAX_REPR - 20]} ... {text[-15:]}"


def require(
    condition: Any, name: str, value: Any, meaning: str, error: type[HorizonfreeError] = OptionError
) -> None:
    """Raise "NAME is VALUE; it must be MEANING" unless the condition holds."""
    if not condition:
        raise error(f"{name} is {short_repr(value)}; it must be {meaning}")


def check_int(
    value: Any, name: str, low: int, high: int, meaning: str, error: type[HorizonfreeError] = OptionError
) -> int:
    """An integer from low to high, ends included; floats such as 3.0 count."""
    is_integer = isinstance(value, (int, np.integer)) or (isinstance(value, float) and value.is_integer())
    is_integer = is_integer and not isinstance(value, bool)
    require(is_integer and low <= value <= high, name, value, meaning, error)
    return int(value)


def check_count(value: Any, name: str) -> int:
    """An integer of at least 1."""
    return check_int(value, name, 1, MAX_INT, "a whole number of at least 1")


def check_at_least(value: float, name: str, low: float) -> None:
    """A number of at least `low`."""
    require(value >= low, name, value, f"at least {low}")


def check_seed(seed: Any) -> int:
    """A seed of a random number generator."""
    return check_int(seed, "seed", 0, MAX_INT, "a whole number from 0 to 2^63 - 1")


def check_state(state: Any, name: str, num_states: int) -> int:
    """The number of a state."""
    return check_int(state, name, 0, num_states - 1, f"a state, 0 to {num_states - 1}", ShapeError)


def check_number(value: Any, name: str, low: float, high: float, meaning: str) -> float:
    """A real number from low to high, ends included."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if isinstance(value, np.floating):
        value = float(value)  # a half float cannot be compared with 1e300
    if isinstance(value, int) and abs(value) >= MAX_INT_AS_FLOAT:
        is_number = False
    require(is_number and low <= value <= high, name, value, meaning)
    return float(value)


def check_probability(value: Any, name: str, meaning: str = "a failure probability") -> float:
    """A number strictly between 0 and 1."""
    is_number = isinstance(value, (int, float, np.number, np.ndarray)) and np.ndim(value) == 0
    is_number = is_number and (not isinstance(value, np.ndarray) or value.dtype.kind in "fiu")
    if not (is_number and 0 < value < 1):
        raise OptionError(f"{name} is {short_repr(value)}; {meaning} lies strictly between 0 and 1")
    return float(value)


def check_bool(value: Any, name: str) -> None:
    """True, False, or None for a default."""
    require(value is None or isinstance(value, (bool, np.bool_, int)), name, value, "True, False or None")


def check_choice(
    value: Any, name: str, choices: Collection[str], error: type[HorizonfreeError] = OptionError
) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        texts = [repr(x) for x in choices]
        choices_text = " or ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))
        require(False, name, value, f"{choices_text}{did_you_mean(value, choices)}", error)
    return str(value)


def check_known(name: Any, names: Collection[str], kind: str) -> None:
    """One of many names: of problems, explorers, columns, ..."""
    if not isinstance(name, str) or name not in names:
        raise UnknownNameError(
            f"there is no {kind} {short_repr(name)}; {suggestion(short_repr(name), names)}"
        )


def reward_name(name: str, names: Sequence[str], absent: str) -> str:
    """A reward's name, or the only one if `name` is empty; `absent` says that there are none."""
    name = names[0] if not name and len(names) == 1 else name
    if name not in names:
        raise UnknownNameError(
            f"there is no reward {short_repr(name)}; {suggestion(name, names) if names else absent}"
        )
    return name


def check_not_rejected(certificate: Any) -> None:
    """Raise an error where a certificate says that the data refute the model class."""
    if certificate.is_rejected:
        raise ModelError(f"the data refute the model class: {certificate}")


def check_instance(value: Any, kind: type[_T], name: str, hint: str = "") -> _T:
    """An object of a class; `hint` says where one comes from."""
    if not isinstance(value, kind):
        raise ShapeError(f"{name} is a {type(value).__name__}; it must be a {kind.__name__}{hint}")
    return value


def check_integers(x: Any, name: str) -> np.ndarray:
    """An array of integers of any type."""
    array = check_real(x, name)
    if array.dtype.kind not in "iu":
        wrong = f"has type {array.dtype}" if array.size else "is empty"
        need = "" if array.size else ", at least one"
        raise ShapeError(f"{name} {wrong}; it must hold whole numbers{need}")
    return array


def check_floats(x: Any, name: str) -> np.ndarray:
    """An array of real numbers, as float64."""
    return check_real(x, name).astype(np.float64, copy=False)


def check_real(x: Any, name: str) -> np.ndarray:
    """An array of real numbers of any type."""
    if "numpy.ma" in sys.modules and np.ma.isMaskedArray(x):  # importing numpy.ma is slow
        raise ShapeError(
            f"{name} is a masked array, whose hidden values would count; fill them (x.filled(...)) first"
        )
    try:
        array = np.asarray(x)
    except (ValueError, TypeError, OverflowError) as error:  # e.g. rows of different lengths
        raise ShapeError(f"{name} is not an array: {error}") from None
    if array.dtype.kind not in "fiub":
        raise ShapeError(f"{name} has type {array.dtype}; it must hold real numbers")
    return array


def check_shape(array: np.ndarray, name: str, shape: tuple[int, ...], axes: str = "") -> np.ndarray:
    """An array of this shape. `axes` names its axes, such as "[S, A]"."""
    if array.shape != shape:
        shape_text = f"{axes} = {shape}" if axes else f"{shape}"
        raise ShapeError(f"{name} has shape {array.shape}; it must be {shape_text}")
    return array


def check_array(x: Any, name: str, shape: tuple[int, ...], axes: str = "") -> np.ndarray:
    """An array of finite real numbers of this shape, as float64."""
    array = check_shape(check_floats(x, name), name, shape, axes)
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        raise ShapeError(f"{name}{bad[0].tolist()} is {array[tuple(bad[0])]}; every entry must be finite")
    return array


def require_shape(
    condition: Any,
    name: str,
    shape: tuple[int, ...],
    meaning: str,
    error: type[HorizonfreeError] = ShapeError,
) -> None:
    """Raise "NAME has shape SHAPE; it must be MEANING" unless the condition holds."""
    if not condition:
        raise error(f"{name} has shape {shape}; it must be {meaning}")


def require_array(condition: Any, name: str, array: np.ndarray, meaning: str) -> None:
    """Raise "NAME has shape SHAPE and type TYPE; it must be MEANING" unless the condition holds."""
    if not condition:
        raise ShapeError(f"{name} has shape {array.shape} and type {array.dtype}; it must be {meaning}")


def require_entries(
    is_valid: Any,
    name: str,
    array: np.ndarray,
    meaning: str,
    error: type[HorizonfreeError] = ShapeError,
    at: str = "",
) -> None:
    """Raise "NAME[i, j] is ENTRY; MEANING" for the first entry that is not valid.

    `at` writes the place instead of [i, j], such as "(s={}, a={})".
    """
    is_valid = np.asarray(is_valid)
    if not is_valid.all():
        index = tuple(int(i) for i in np.unravel_index(int(is_valid.argmin()), is_valid.shape))
        entry = array[index]
        text = f"{entry:.10g}" if isinstance(entry, (float, np.floating)) else str(entry)
        where = at.format(*index) if at else f"{list(index) or ''}"
        raise error(f"{name}{where} is {text}; {meaning}")


def check_square(table: np.ndarray, name: str) -> None:
    """A table [S, A, S] without an empty axis."""
    shape = table.shape
    require_shape(len(shape) == 3 and shape[0] == shape[2] and 0 not in shape, name, shape, "[S, A, S]")


def check_size(
    number: float, limit: float, what: str, advice: str, error: type[HorizonfreeError] = OptionError
) -> None:
    """Raise "WHAT; at most MOST are possible: ADVICE" where a number exceeds its limit."""
    if number > limit:
        raise error(f"{what}; at most {limit:,} are possible: {advice}")


def check_table_size(S: int, A: int) -> None:
    """Tables [S, A, S] must fit into memory."""
    what = f"{S:,} states and {A:,} actions make a table of {S * A * S:,} entries"
    check_size(S * A * S, MAX_TABLE_ENTRIES, what, "give fewer states, or a part of them", ShapeError)


def check_finite_rewards(table: np.ndarray) -> None:
    """Rewards must be finite."""
    bad = np.argwhere(~np.isfinite(table))
    if bad.size:
        raise RewardError(f"reward{bad[0].tolist()} is {table[tuple(bad[0])]}; rewards must be finite")


@contextmanager
def reading(
    what: Any, form: str, *errors: type[Exception], error: type[HorizonfreeError] = OptionError
) -> Iterator[None]:
    """Read a file: "WHAT: No such file or directory", or "WHAT is not FORM: ..." for these errors of its content."""
    try:
        yield
    except HorizonfreeError:
        raise
    except OSError as reason:
        raise error(f"{what}: {reason.strerror or reason}") from None
    except Exception as reason:
        if isinstance(reason, errors or ValueError):
            kind = "" if isinstance(reason, ValueError) else f"{type(reason).__name__}: "
            raise error(f"{what} is not {form}: {kind}{shorten(reason)}") from None
        raise


@contextmanager
def calling(where: str, usage: str = "") -> Iterator[None]:
    """Call a function of the user: "WHERE fails: ValueError: ...; USAGE"."""
    try:
        yield
    except HorizonfreeError:
        raise
    except Exception as reason:
        advice = f"; {usage}" if usage else ""
        raise OptionError(f"{where} fails: {type(reason).__name__}: {reason}{advice}") from reason


def did_you_mean(name: Any, names: Iterable[str]) -> str:
    """ "; did you mean 'x'?" where a name is close to one of these, else an empty text."""
    nearest = closest(name, names) if isinstance(name, str) else None
    return f"; did you mean {nearest!r}?" if nearest is not None and nearest != name else ""


def closest(name: str, names: Iterable[str]) -> str | None:
    """The closest of these names, None where none is close."""
    import difflib  # slow to import

    return next(iter(difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)), None)


def suggestion(name: str, names: Iterable[str]) -> str:
    """The closest of these names, or all of them."""
    import difflib  # slow to import

    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"choose one of: {', '.join(sorted(names))}"
