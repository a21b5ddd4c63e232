"""The rows of a sweep on disk: a line of JSON for every finished task, with its rows as columns.

    {"seal": "...", "task": "...", "problem": "grid", "explorer": "scaled", "seconds": 1.2, "device": "cpu",
     "memory": 350000000, "versions": {...}, "rows": {"seed": [0, 0], "episodes": [10, 20], "eps": [0.9, 0.8]}}
    {"seal": "...", "task": "...", "problem": "grid", "explorer": "scaled", "error": "...", "tries": 2}

A line is put at the end in one piece and flushed to the disk. What was cut short has no end of line, and is cut off
when the sweep goes on; every other line carries the SHA-256 of its other bytes. Of several lines for a task the last
one counts. Numbers are written so that they are read back to the last bit; null is a number that does not exist.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from horizonfree.errors import RunError
from horizonfree.runs import files

ROWS = "rows.jsonl"
Line = dict[str, Any]
WHOLE = ("seed", "episodes")  # columns of whole numbers
_HEAD, _MIDDLE = b'{"seal": "', b'", '
_HEX = 64


class Writer:
    """Puts lines at the end of the file of a folder; `lines` are those that are there, by task."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / ROWS
        lines = list(read_lines(folder)) if self.path.exists() else []
        self.size = lines[-1][1] if lines else 0
        self.lines = {line["task"]: line for line, _ in lines}

    def put(self, line: Mapping[str, Any]) -> None:
        """One more line, whole or not at all."""
        body = json.dumps(_plain(line), allow_nan=False).encode()[1:]
        seal = hashlib.sha256(body).hexdigest().encode()
        data = _HEAD + seal + _MIDDLE + body + b"\n"
        if not files.append(self.path, self.size, data):
            raise RunError(f"{self.path} became shorter while it was written; somebody changed it")
        self.size += len(data)
        self.lines[line["task"]] = json.loads(b"{" + body)  # as it will be read


def read_lines(folder: Path) -> Iterator[tuple[Line, int]]:
    """The whole lines of a folder, each with the place where it ends; a damaged one is refused."""
    path = folder / ROWS
    data = files.read(path) if path.exists() else b""
    start = number = 0
    while (end := data.find(b"\n", start)) >= 0:
        number += 1
        yield _line(memoryview(data)[start:end], path, number), end + 1
        start = end + 1


def _line(text: memoryview, path: Path, number: int) -> Line:
    body = bytes(text[len(_HEAD) + _HEX + len(_MIDDLE) :])
    head = _HEAD + hashlib.sha256(body).hexdigest().encode() + _MIDDLE
    try:
        found = json.loads(b"{" + body) if text[: len(head)] == head else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("task"), str):
        raise RunError(f"{path} is damaged in line {number}; remove that line, and its task is run again")
    return found


def arrays(line: Line, columns: Sequence[str]) -> dict[str, np.ndarray]:
    """The columns of a line, each of its type and all of one length; refused where they are not those of the sweep."""
    rows = line["rows"]
    if not isinstance(rows, dict) or list(rows) != list(columns):
        raise ValueError(f"its columns are not {', '.join(columns)}")
    found = {}
    for name, values in rows.items():
        if not isinstance(values, list) or len(values) != len(rows["seed"]):
            raise ValueError(f"column {name} is not as long as the others")
        kinds = {int} if name in WHOLE else {int, float, str, type(None)}
        if not set(map(type, values)) <= kinds:
            raise ValueError(f"column {name} holds what is no number")
        found[name] = np.array(values, np.int64 if name in WHOLE else np.float64)
    return found


def _plain(value: Any) -> Any:
    """What JSON can hold: no number is null, infinity is a word that NumPy reads."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {key: _plain(x) for key, x in value.items()}
    return [_plain(x) for x in value] if isinstance(value, list) else value
