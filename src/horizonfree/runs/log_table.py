"""Columns of a log from a file or a data frame: labels, numbers, dates, and which entries are missing.

A source is the path of a .csv or .parquet file, or an object that returns columns by name: a dictionary, a data frame
of pandas or Polars, an Arrow table, or anything with `__arrow_c_stream__`. None of these libraries is imported unless
it is needed.
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._extras import needs_extra
from horizonfree._validation import did_you_mean, reading, require_array, short_repr, shorten
from horizonfree.errors import OptionError, ShapeError, UnknownNameError

MISSING = ("", "NA", "N/A", "NaN", "nan", "NaT", "NULL", "null", "<NA>")  # text that stands for no entry
MISSING_TYPES = ("NAType", "NaTType")  # of pandas
FLAGS = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}
JITTER = 0.1  # by how much of itself the distance of two dates may differ from a whole number of steps


@dataclass(frozen=True, eq=False)
class Labels:
    """A column whose row i holds labels[code[i]], or nothing where code[i] is -1.

    Labels are whole numbers if all entries are, else text. `is_complete`: they are declared (a categorical column), and
    some may not occur.
    """

    code: Int[np.ndarray, " N"]
    labels: list[Any]
    is_complete: bool = False

    @property
    def are_numbers(self) -> bool:
        """Whether the labels are whole numbers."""
        return all(isinstance(x, int) for x in self.labels)

    def recoded(self, labels: Sequence[Any]) -> Int[np.ndarray, " N"]:
        """The code of each row in other labels, which contain these or the same as text; -1 where it is missing."""
        index = {x: i for i, x in enumerate(labels)}
        new = [index[x] if x in index else index[str(x)] for x in self.labels]
        return np.asarray(np.array([*new, -1], np.int64)[self.code])


class Source:
    """Columns by name. Columns are arrays whose entries may be missing."""

    def __init__(self, source: Any) -> None:
        self.text = False  # entries of a .csv file are all text
        if not isinstance(source, (str, PathLike)):
            self._get: Callable[[str], Any] = _columns_of(source)
            self.names = _names_of(source)
            return
        path = Path(fspath(source))
        if not _is_file(path):
            raise UnknownNameError(f"there is no file {shorten(path)}")
        kind = path.suffix.lower()
        if kind not in (".csv", ".parquet"):
            raise OptionError(f"{path} is neither .csv nor .parquet; give the columns as arrays instead")
        self.text = kind == ".csv"
        table = _read_csv(path) if self.text else _read_parquet(path)
        self._get, self.names = table.__getitem__, list(table)

    def __contains__(self, name: str) -> bool:
        return name in self.names if self.names is not None else self._find(name) is not None

    def column(self, name: str) -> np.ndarray:
        """A column as an array, or an error that lists those that there are."""
        result = self._find(name)
        if result is None:
            hint = did_you_mean(name, self.names or ())
            names_text = f"; it has {short_repr(list(self.names))[1:-1]}" if self.names else ""
            raise UnknownNameError(f"the log has no column {name!r}{hint}{names_text}")
        return as_array(result, name)

    def categories(self, name: str) -> list[Any] | None:
        """The declared labels of a categorical column, None of any other."""
        return None if self.text else categories_of(self._find(name))

    def _find(self, name: str) -> Any:
        try:
            return self._get(name)
        except Exception:  # each library has errors of its own for a column that does not exist
            return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # the name is too long
        return False


def _columns_of(source: Any) -> Callable[[str], Any]:
    """How columns are read from an object; Arrow data without columns by name is imported with pyarrow."""
    if hasattr(source, "__getitem__"):
        return lambda name: source[name]
    if hasattr(source, "__arrow_c_stream__"):
        table = _pyarrow("pyarrow", "Arrow data").table(source)
        return lambda name: table[name]
    raise ShapeError(
        f"the log is {short_repr(source)}; it must be a .csv or .parquet file, a data frame, or a dictionary of columns"
    )


def _names_of(source: Any) -> list[str] | None:
    for attribute in ("column_names", "columns", "keys"):
        names = getattr(source, attribute, None)
        names = names() if callable(names) else names
        if names is not None:
            return [str(x) for x in names]
    return None


def _pyarrow(module: str, what: str) -> Any:
    with needs_extra("parquet", f"{what} (a .csv file needs no extra)"):
        return import_module(module)


def _read_csv(path: Path) -> dict[str, list[str]]:
    """The columns of a file with a header; cells are separated by commas, semicolons or tabs."""
    errors = UnicodeDecodeError, csv.Error
    with (
        reading(path, "a table", *errors, error=ShapeError),
        path.open(newline="", encoding="utf-8-sig") as file,
    ):
        first = file.readline()
        separator = max(",;\t", key=first.count)
        head = [x.strip() for x in next(csv.reader([first], delimiter=separator), [])]
        rows = [row for row in csv.reader(file, delimiter=separator) if any(map(str.strip, row))]
    odd = next((i for i, row in enumerate(rows) if len(row) != len(head)), None)
    if odd is not None:
        raise ShapeError(
            f"{path}, row {odd + 1}: it has {len(rows[odd])} cells, the header has {len(head)}; they must agree"
        )
    repeated = [name for name, n in Counter(head).items() if n > 1]
    if repeated:
        raise ShapeError(
            f"{path} has {len(repeated)} names for several columns, such as {repeated[0]!r}; rename one"
        )
    columns = zip(*rows) if rows else [()] * len(head)
    return {name: [x.strip() for x in column] for name, column in zip(head, columns)}


def _read_parquet(path: Path) -> dict[str, Any]:
    parquet = _pyarrow("pyarrow.parquet", str(path))
    with reading(path, "a Parquet file", Exception, error=ShapeError):
        table = parquet.read_table(path)
    names = getattr(table, "column_names", None) or list(table)
    return {name: table[name] for name in names}


def as_array(column: Any, name: str) -> np.ndarray:
    """A column as an array of one axis; missing entries are NaN, NaT, None or text that stands for them."""
    if "ma" in type(column).__module__.split(".") and hasattr(column, "mask"):
        raise ShapeError(f"column {name} is a masked array, whose hidden values would count; fill them first")
    if hasattr(column, "dictionary_decode") or hasattr(column, "combine_chunks"):  # Arrow
        column = column.to_pylist() if "dictionary" in str(column.type) else column.to_numpy()
    array = np.asarray(column)
    if array.dtype.kind == "T":
        array = array.astype(object)
    is_column = array.ndim == 1 and array.dtype.kind in "biufOUM"
    require_array(is_column, f"column {name}", array, "numbers, text or dates, one entry for each row")
    return array


def categories_of(column: Any) -> list[Any] | None:
    """The declared labels of a pandas categorical or a Polars Enum, in their order; None of any other column."""
    dtype = getattr(column, "dtype", None)
    is_declared = str(dtype).startswith(("category", "Enum"))
    return list(dtype.categories) if is_declared else None  # type: ignore[union-attr]


def missing_in(array: np.ndarray) -> Bool[np.ndarray, " N"]:
    """Which entries of a column are missing."""
    if array.dtype.kind in "fM":
        return np.asarray(np.isnan(array) if array.dtype.kind == "f" else np.isnat(array))
    if array.dtype.kind == "U":
        return np.isin(np.char.strip(array), MISSING)
    if array.dtype.kind == "O":
        return np.array([_is_missing(x) for x in array], bool)
    return np.zeros(len(array), bool)


def _is_missing(x: Any) -> bool:
    if x is None or type(x).__name__ in MISSING_TYPES:
        return True
    return x != x if isinstance(x, (float, np.floating)) else isinstance(x, str) and x.strip() in MISSING


def _refuse_cell(name: str, row: int, x: Any, reason: str) -> NoReturn:
    raise ShapeError(f"column {name}, row {row + 1}: {short_repr(x)} is {reason}") from None


def labels_of(array: np.ndarray, name: str, categories: list[Any] | None = None) -> Labels:
    """A column of whole numbers or text as labels, in ascending order; categories: declared labels, in their order."""
    is_missing = missing_in(array)
    code = np.full(len(array), -1, np.int64)
    present = array[~is_missing]
    if present.dtype.kind == "f" and (present != np.floor(present)).any():
        odd = int(np.flatnonzero(~is_missing)[np.flatnonzero(present != np.floor(present))[0]])
        fix = f"bins={{{name!r}: 5}} makes five states of such a column, or round it first"
        _refuse_cell(name, odd, float(array[odd]), f"not a whole number; {fix}")
    if present.dtype.kind == "f":
        present = present.astype(np.int64)
    if present.dtype.kind in "OM":
        present = np.array([_text(x) for x in present], dtype=str)
    distinct, which = np.unique(
        np.char.strip(present) if present.dtype.kind == "U" else present, return_inverse=True
    )
    labels = _as_numbers(distinct.tolist())
    if labels and isinstance(labels[0], int):
        order = np.argsort(labels, kind="stable")  # numbers that are written as text
        labels, which = [labels[i] for i in order], np.argsort(order)[which]
    code[~is_missing] = which
    if categories is None:
        return Labels(code, labels)
    category_labels = _as_numbers([_text(x) for x in categories])
    return Labels(Labels(code, labels).recoded(category_labels), category_labels, is_complete=True)


def _text(x: Any) -> str:
    """The label of an entry; whole numbers have no point."""
    if isinstance(x, (float, np.floating)) and float(x).is_integer():
        return str(int(x))
    return str(x).strip()


def _as_numbers(labels: list[Any]) -> list[Any]:
    """Labels as whole numbers if each is one, written as Python writes it; else as text."""
    try:
        numbers = [int(x) for x in labels]
    except (ValueError, TypeError):
        numbers = []
    is_plain = bool(labels) and [str(x) for x in numbers] == [str(x) for x in labels]
    if is_plain or (labels and all(isinstance(x, bool) for x in labels)):
        return numbers
    return [str(x) for x in labels]


def reals_of(array: np.ndarray, name: str) -> Float[np.ndarray, " N"]:
    """A column of numbers, NaN where an entry is missing."""
    is_missing = missing_in(array)
    numbers = np.full(len(array), np.nan)
    for row in np.flatnonzero(~is_missing) if array.dtype.kind in "OU" else ():
        try:
            numbers[row] = float(array[row])
        except (ValueError, TypeError):
            _refuse_cell(name, int(row), array[row], "not a number")
    if array.dtype.kind not in "OU":
        numbers[~is_missing] = array[~is_missing]
    odd = np.flatnonzero(np.isinf(numbers))
    if odd.size:
        _refuse_cell(name, int(odd[0]), float(numbers[odd[0]]), "not finite")
    return numbers


def flags_of(array: np.ndarray, name: str) -> Bool[np.ndarray, " N"]:
    """A column of truth values; a missing entry is False."""
    is_missing = missing_in(array)
    texts = ["0" if no else str(x).strip().lower() for no, x in zip(is_missing, array)]
    odd = next((row for row, x in enumerate(texts) if x not in FLAGS), None)
    if odd is not None:
        _refuse_cell(name, odd, texts[odd], "none of 0, 1, false, true")
    return np.array([FLAGS[x] for x in texts], bool)


def steps_of(array: np.ndarray, name: str, episode: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """The number of each step in its episode, -1 where it is missing: whole numbers, or dates evenly spaced.

    The unit of dates is the most common distance of two that follow each other in an episode.
    """
    is_missing = missing_in(array) | (episode < 0)
    result = np.full(len(array), -1, np.int64)
    present, rows = array[~is_missing], np.flatnonzero(~is_missing)
    if not rows.size:
        return result
    times = _whole_numbers(present)
    if times is not None:
        result[rows] = times - times.min()
        return result
    seconds = np.array([_seconds(x, name, row) for x, row in zip(present, rows)])
    order = np.lexsort((seconds, episode[rows]))
    is_same = np.diff(episode[rows][order]) == 0
    distance = np.diff(seconds[order])
    distances = distance[is_same & (distance > 0)]
    unit = float(Counter(distances.tolist()).most_common(1)[0][0]) if distances.size else 1.0
    count = np.maximum(np.round(distance / unit), np.where(distance > 0, 1, 0))
    odd = np.flatnonzero(is_same & (np.abs(distance - count * unit) > JITTER * np.maximum(count, 1) * unit))
    if odd.size:
        first, second = rows[order[odd[0]]], rows[order[odd[0] + 1]]
        raise ShapeError(
            f"column {name}, rows {first + 1} and {second + 1}: from {array[first]} to {array[second]} is no whole "
            f"number of steps of {_duration(unit)}, the most common distance; give a column that counts the steps, or "
            "leave the column out (columns={'step': None}): then rows that follow each other are successive steps"
        )
    is_first = np.append(True, ~is_same)
    total = np.cumsum(np.append(0, np.where(is_same, count, 0)))
    result[rows[order]] = total - np.maximum.accumulate(np.where(is_first, total, 0))
    return result


def _whole_numbers(array: np.ndarray) -> Int[np.ndarray, " n"] | None:
    """A column of whole numbers, None of anything else."""
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        return array.astype(np.int64) if (array == np.floor(array)).all() else None
    try:
        return np.array([int(x) for x in array], np.int64) if array.dtype.kind in "OU" else None
    except (ValueError, TypeError, OverflowError):
        return None


def _seconds(x: Any, name: str, row: Any) -> float:
    """A date as seconds since 1970."""
    try:
        if isinstance(x, np.datetime64):
            return float(x.astype("datetime64[us]").astype(np.int64)) / 1e6
        moment = x if isinstance(x, (date, datetime)) else datetime.fromisoformat(str(x).strip())
        if not isinstance(moment, datetime):
            moment = datetime(moment.year, moment.month, moment.day)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError):
        form = "write dates as 2024-12-31 or 2024-12-31 18:30"
        _refuse_cell(name, row, x, f"neither a whole number nor a date; {form}")


def _duration(seconds: float) -> str:
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}{'s' * (seconds != size)}"
    return f"{seconds:.4g} seconds"


def listed(items: Iterable[Any], most: int = 5) -> str:
    """A few items, and how many more there are."""
    texts = [str(x) for x in items]
    return ", ".join(texts[:most]) + (f", and {len(texts) - most} more" if len(texts) > most else "")
