"""A sweep that was run: its rows as arrays."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from horizonfree._validation import short_repr, suggestion
from horizonfree.errors import HorizonfreeError, RunError, UnknownNameError
from horizonfree.runs import files
from horizonfree.runs.frames import frame
from horizonfree.sweeps import file, rows
from horizonfree.sweeps.file import Spec
from horizonfree.sweeps.grid import tasks_of

if TYPE_CHECKING:
    import pandas

SETTINGS = "sweep.json"
FORMAT = 1  # of the folder
STAMPS = ("problem", "explorer", "seconds", "device", "versions", "task")  # the same in all rows of a task


@dataclass(frozen=True, eq=False)
class Sweep:
    """Rows as columns: sweep["eps"] is an array with a number for each; `failed` says why tasks have none.

    `missing` is how many tasks have not been run yet.
    """

    folder: Path
    spec: Spec = field(repr=False)
    columns: Mapping[str, np.ndarray] = field(repr=False)
    failed: Mapping[str, str]
    missing: int

    def __len__(self) -> int:
        return len(self.columns["seed"])

    def __getitem__(self, name: str) -> np.ndarray:
        if not isinstance(name, str) or name not in self.columns:
            raise UnknownNameError(
                f"no column is called {short_repr(name)}; {suggestion(short_repr(name), self.columns)}"
            )
        return self.columns[name]

    def where(self, **values: Any) -> "Sweep":
        """The rows in which columns have these values: where(explorer="scaled", episodes=300)."""
        chosen = np.ones(len(self), bool)
        for name, value in values.items():
            chosen &= self[name] == value
        columns = {name: x[chosen] for name, x in self.columns.items()}
        return Sweep(self.folder, self.spec, columns, self.failed, self.missing)

    def to_pandas(self) -> "pandas.DataFrame":
        """The rows as a data frame; text is categorical."""
        return frame(self.columns)


def load_sweep(folder: str | PathLike[str]) -> Sweep:
    """The sweep in a folder, whether it is finished or not."""
    path = files.resolve_path(folder)
    with files.os_errors(path):
        if not (path / SETTINGS).exists():
            raise RunError(f"{path} holds no sweep")
    spec = spec_in(path)
    return gathered(path, spec, {line["task"]: line for line, _ in rows.read_lines(path)})


def spec_in(path: Path) -> Spec:
    """What the folder of a sweep is about."""
    found, _ = files.read_json(path / SETTINGS)
    if found.get("format") != FORMAT:
        raise RunError(
            f"{path} has format {short_repr(found.get('format'))}; this version reads format {FORMAT}"
        )
    try:
        return file.spec(found["spec"])
    except (HorizonfreeError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{path / SETTINGS}: {error}") from None


def gathered(path: Path, spec: Spec, lines: Mapping[str, rows.Line]) -> Sweep:
    """The lines of a sweep as one table, in the order of its tasks."""
    names = ["seed", "episodes", *spec.measure, *spec.records]
    parts: list[dict[str, np.ndarray]] = []
    stamps: list[list[Any]] = []
    failed: dict[str, str] = {}
    missing = 0
    for key, task in tasks_of(spec).items():
        line = lines.get(key)
        if line is None:
            missing += 1
        elif "error" in line:
            where = f"{task['problem']}, {task['explorer']}, seeds {_span(task['seeds'])}"
            failed[where] = str(line["error"])
        else:
            try:
                parts.append(rows.arrays(line, names))
                stamps.append([_stamp(line[name]) for name in STAMPS])
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                told = f"{path / rows.ROWS}: task {key}: {error}; remove its line, and it is run again"
                raise RunError(told) from None
    sizes = [len(part["seed"]) for part in parts]
    kinds = {name: float if name == "seconds" else object for name in STAMPS}
    shared = {
        name: np.repeat(np.array([x[i] for x in stamps], kinds[name]), sizes) for i, name in enumerate(STAMPS)
    }
    none = {name: np.zeros(0, np.int64 if name in rows.WHOLE else float) for name in names}
    found = {name: np.concatenate([none[name], *(part[name] for part in parts)]) for name in names}
    columns = {"problem": shared["problem"], "explorer": shared["explorer"], **found, **shared}
    return Sweep(path, spec, columns, failed, missing)


def _stamp(value: Any) -> Any:
    """A number, or text that is kept once however many tasks have it."""
    if value is None or isinstance(value, (int, float)):
        return np.nan if value is None else float(value)
    return sys.intern(value if isinstance(value, str) else json.dumps(value))


def _span(seeds: list[int]) -> str:
    return f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
