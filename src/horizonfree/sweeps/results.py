"""The rows of a sweep: on disk, and as arrays.

`rows.jsonl` has one line of JSON for every finished task, with its rows as columns:

    {"seal": "...", "task": "...", "problem": "grid", "explorer": "scaled", "seconds": 1.2, "device": "cpu",
     "memory": 350000000, "versions": {...}, "rows": {"seed": [0, 0], "episodes": [10, 20], "eps": [0.9, 0.8]}}
    {"seal": "...", "task": "...", "problem": "grid", "explorer": "scaled", "error": "...", "tries": 2}

A line is appended in one piece and flushed to the disk. A line that an interruption cut short has no newline, and is
removed when the sweep resumes; every other line has the SHA-256 of its other bytes (`seal`). Of several lines for a
task the last one counts. Numbers are read back to the last bit; null is nan.

Summaries have medians over seeds with 95 % bootstrap intervals: the percentiles of the medians of RESAMPLES draws with
replacement. Slopes are those of log(median) against log(episodes), by least squares, with intervals from the same
draws: a curve that falls as K^-1/2 has slope -0.5.
"""

import hashlib
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Real

from horizonfree._repr import data_frame
from horizonfree._validation import check_known, short_repr
from horizonfree.errors import HorizonfreeError, RunError
from horizonfree.runs import files
from horizonfree.sweeps.spec import Spec, parse
from horizonfree.sweeps.tasks import build_tasks

if TYPE_CHECKING:
    import pandas

SETTINGS_FILE, ROWS_FILE = "sweep.json", "rows.jsonl"
FORMAT = 1  # of the folder
TASK_COLUMNS = ("problem", "explorer", "seconds", "device", "versions", "task")  # equal in all rows of a task
INTEGER_COLUMNS = ("seed", "episodes")
Line = dict[str, Any]
_HEAD, _MIDDLE = b'{"seal": "', b'", '
_DIGEST_LENGTH = 64


@dataclass(frozen=True, eq=False)
class Sweep:
    """Rows as columns: sweep["eps"] is an array with a number for each row.

    `failed`: errors of tasks without rows. `missing`: how many tasks have not been run yet.

    >>> import numpy as np
    >>> rows = {"explorer": np.array(["a", "b", "b"]), "eps": np.array([0.4, 0.3, 0.2]), "seed": np.array([0, 0, 1])}
    >>> sweep = Sweep(Path("sweeps/grid"), None, rows, failed={}, missing=0)
    >>> sweep.where(explorer="b")["eps"].tolist()
    [0.3, 0.2]
    """

    folder: Path
    spec: Spec = field(repr=False)
    columns: Mapping[str, np.ndarray] = field(repr=False)
    failed: Mapping[str, str]
    missing: int

    def __len__(self) -> int:
        return len(self.columns["seed"])

    def __getitem__(self, name: str) -> np.ndarray:
        check_known(name, self.columns, "column")
        return self.columns[name]

    def where(self, **values: Any) -> "Sweep":
        """The rows in which columns have these values: where(explorer="scaled", episodes=300)."""
        mask = np.ones(len(self), bool)
        for name, value in values.items():
            mask &= self[name] == value
        columns = {name: x[mask] for name, x in self.columns.items()}
        return Sweep(self.folder, self.spec, columns, self.failed, self.missing)

    def to_pandas(self, *, named_axes: bool = False) -> "pandas.DataFrame":
        """The rows as a data frame; text is categorical.

        named_axes: the measures alone, with problem, explorer, seed and episodes as a named index.
        """
        if not named_axes:
            return data_frame(self.columns)
        axes = ["problem", "explorer", "seed", "episodes"]
        measures = [*self.spec.measure, *self.spec.records]
        return data_frame({name: self.columns[name] for name in [*axes, *measures]}).set_index(axes)

    def plot(
        self, measure: str = "eps", *, x: str = "episodes", problem: str | None = None, ax: Any = None
    ) -> Any:
        """A measure on Matplotlib axes: medians and quartiles over the seeds, a line for each setting.

        x: "episodes", or a parameter of the problems or option of the explorers that varies, such as "horizon"; then
        the measure is that at the last checkpoint.
        """
        from horizonfree.sweeps.plot import plot_sweep

        return plot_sweep(self, measure, x, problem, ax)


def load_sweep(folder: str | PathLike[str]) -> Sweep:
    """The sweep in a folder, finished or not.

    >>> import tempfile, horizonfree as hf
    >>> folder = tempfile.mkdtemp() + "/sweep"
    >>> settings = {
    ...     "seeds": 2, "checkpoints": [10], "measure": ["eps"],
    ...     "problems": {"river": {"name": "river-swim", "states": 3, "horizon": 4}},
    ...     "explorers": {"uniform": {}},
    ... }
    >>> rows = hf.sweep(settings, folder, workers=1, progress=False)
    >>> hf.load_sweep(folder)["seed"].tolist()
    [0, 1]
    """
    path = files.resolve_path(folder)
    with files.os_errors(path):
        if not (path / SETTINGS_FILE).exists():
            raise RunError(f"{path} holds no sweep")
    return build_sweep(path, read_spec(path), {line["task"]: line for line, _ in read_lines(path)})


def read_spec(path: Path) -> Spec:
    """The specification in the folder of a sweep."""
    settings, _ = files.read_json(path / SETTINGS_FILE)
    if settings.get("format") != FORMAT:
        raise RunError(
            f"{path} has format {short_repr(settings.get('format'))}; this version reads format {FORMAT}"
        )
    try:
        return parse(settings["spec"])
    except (HorizonfreeError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{path / SETTINGS_FILE}: {error}") from None


def build_sweep(path: Path, spec: Spec, lines: Mapping[str, Line]) -> Sweep:
    """The lines of a sweep as one table, in the order of its tasks."""
    names = ["seed", "episodes", *spec.measure, *spec.records]
    parts: list[dict[str, np.ndarray]] = []
    task_values: list[list[Any]] = []
    failed: dict[str, str] = {}
    missing = 0
    for key, task in build_tasks(spec).items():
        line = lines.get(key)
        if line is None:
            missing += 1
        elif "error" in line:
            task_text = f"{task['problem']}, {task['explorer']}, seeds {_seed_range(task['seeds'])}"
            failed[task_text] = str(line["error"])
        else:
            try:
                parts.append(line_arrays(line, names))
                task_values.append([_task_value(line[name]) for name in TASK_COLUMNS])
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                raise RunError(
                    f"{path / ROWS_FILE}: task {key}: {error}; remove its line, and it is run again"
                ) from None
    sizes = [len(part["seed"]) for part in parts]
    types = {name: float if name == "seconds" else object for name in TASK_COLUMNS}
    shared = {
        name: np.repeat(np.array([x[i] for x in task_values], types[name]), sizes)
        for i, name in enumerate(TASK_COLUMNS)
    }
    empty = {name: np.zeros(0, np.int64 if name in INTEGER_COLUMNS else float) for name in names}
    joined = {name: np.concatenate([empty[name], *(part[name] for part in parts)]) for name in names}
    columns = {"problem": shared["problem"], "explorer": shared["explorer"], **joined, **shared}
    return Sweep(path, spec, columns, failed, missing)


def _task_value(value: Any) -> Any:
    """A number, or text, of which all tasks share one object."""
    if value is None or isinstance(value, (int, float)):
        return np.nan if value is None else float(value)
    return sys.intern(value if isinstance(value, str) else json.dumps(value))


def _seed_range(seeds: list[int]) -> str:
    return f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"


class RowWriter:
    """Appends lines to the rows of a folder; `lines` are its present lines by task."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / ROWS_FILE
        lines = list(read_lines(folder)) if self.path.exists() else []
        self.size = lines[-1][1] if lines else 0
        self.lines = {line["task"]: line for line, _ in lines}

    def append(self, line: Mapping[str, Any]) -> None:
        """Append a line, completely or not at all."""
        body = json.dumps(_to_json(line), allow_nan=False).encode()[1:]
        seal = hashlib.sha256(body).hexdigest().encode()
        data = _HEAD + seal + _MIDDLE + body + b"\n"
        if not files.append_bytes(self.path, self.size, data):
            raise RunError(f"{self.path} became shorter: another process changed it")
        self.size += len(data)
        self.lines[line["task"]] = json.loads(b"{" + body)  # as `read_lines` reads it


def read_lines(folder: Path) -> Iterator[tuple[Line, int]]:
    """The complete lines of a folder, each with the position of its end; raises RunError for a damaged one."""
    path = folder / ROWS_FILE
    data = files.read_bytes(path) if path.exists() else b""
    start = number = 0
    while (end := data.find(b"\n", start)) >= 0:
        number += 1
        yield _parse_line(memoryview(data)[start:end], path, number), end + 1
        start = end + 1


def _parse_line(text: memoryview, path: Path, number: int) -> Line:
    body = bytes(text[len(_HEAD) + _DIGEST_LENGTH + len(_MIDDLE) :])
    head = _HEAD + hashlib.sha256(body).hexdigest().encode() + _MIDDLE
    try:
        line = json.loads(b"{" + body) if text[: len(head)] == head else None
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, dict) or not isinstance(line.get("task"), str):
        raise RunError(f"{path} is damaged in line {number}; remove that line, and its task is run again")
    return line


def line_arrays(line: Line, columns: Sequence[str]) -> dict[str, np.ndarray]:
    """The columns of a line as arrays; raises ValueError if they are not those of the sweep."""
    rows = line["rows"]
    if not isinstance(rows, dict) or list(rows) != list(columns):
        raise ValueError(f"its columns are not {', '.join(columns)}")
    arrays = {}
    for name, values in rows.items():
        if not isinstance(values, list) or len(values) != len(rows["seed"]):
            raise ValueError(f"column {name} is not as long as the others")
        types = {int} if name in INTEGER_COLUMNS else {int, float, str, type(None)}
        if not set(map(type, values)) <= types:
            raise ValueError(f"column {name} holds what is no number")
        arrays[name] = np.array(values, np.int64 if name in INTEGER_COLUMNS else np.float64)
    return arrays


def _to_json(value: Any) -> Any:
    """JSON data: nan as null, infinities as text that NumPy reads."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {key: _to_json(x) for key, x in value.items()}
    return [_to_json(x) for x in value] if isinstance(value, list) else value


RESAMPLES = 1000
TAIL_PERCENT = 2.5  # on either side of an interval
MAX_DRAWS = 2**22  # numbers that are drawn in one array


class Interval(NamedTuple):
    """A value and its 95 % interval; nan if there is none."""

    value: float
    low: float
    high: float


class Curve(NamedTuple):
    """The medians of a measure over the seeds of one setting at every checkpoint, with their intervals."""

    episodes: Int[np.ndarray, " C"]
    median: Float[np.ndarray, " C"]
    low: Float[np.ndarray, " C"]
    high: Float[np.ndarray, " C"]
    seeds: int
    slope: Interval

    def indices(self) -> dict[int, int]:
        """The index of each number of episodes."""
        return {int(k): i for i, k in enumerate(self.episodes)}


def curves(sweep: Sweep, measure: str, problem: str) -> dict[str, Curve]:
    """The curve of every explorer on a problem, without those that have no numbers."""
    rows = sweep.where(problem=problem)
    result = {name: median_curve(rows.where(explorer=name), measure) for name in sweep.spec.explorers}
    return {name: curve for name, curve in result.items() if curve is not None}


def median_curve(setting: Sweep, measure: str) -> Curve | None:
    """The curve of the rows of one setting, from the seeds that have a number at every checkpoint."""
    episodes, column = np.unique(setting["episodes"], return_inverse=True)
    seeds, row = np.unique(setting["seed"], return_inverse=True)
    values = np.full((len(seeds), len(episodes)), np.nan)
    values[row, column] = setting[measure]
    values = values[~np.isnan(values).any(axis=1)]
    if not len(values):
        return None
    resampled = bootstrap_medians(values)
    low, high = np.percentile(resampled, [TAIL_PERCENT, 100 - TAIL_PERCENT], axis=0)
    median = np.median(values, axis=0)
    return Curve(episodes, median, low, high, len(values), log_log_slope(episodes, median, resampled))


def bootstrap_medians(values: Float[np.ndarray, "S C"]) -> Float[np.ndarray, "R C"]:
    """Medians of seeds drawn with replacement, with a fixed random seed."""
    S, C = values.shape
    rng, parts, num_left = np.random.default_rng(0), [], RESAMPLES
    while num_left:
        count = max(1, min(num_left, MAX_DRAWS // (S * C)))
        parts.append(np.median(values[rng.integers(S, size=(count, S))], axis=1))
        num_left -= count
    return np.concatenate(parts)


def log_log_slope(
    sizes: Real[np.ndarray, " C"], median: Float[np.ndarray, " C"], resampled: Float[np.ndarray, "R C"]
) -> Interval:
    """The slope of log(median) against log(sizes)."""
    if len(sizes) < 2 or not (median > 0).all():
        return Interval(np.nan, np.nan, np.nan)
    x = np.log(sizes) - np.log(sizes).mean()
    with np.errstate(divide="ignore"):
        slopes = np.log(np.vstack([median, resampled])) @ x / (x @ x)
    usable = slopes[1:][np.isfinite(slopes[1:])]
    low, high = np.percentile(usable, [TAIL_PERCENT, 100 - TAIL_PERCENT]) if len(usable) else (np.nan, np.nan)
    return Interval(float(slopes[0]), float(low), float(high))
