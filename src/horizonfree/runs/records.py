"""The records of a run as JSON lines, one per episode, and back to the bit."""

import json
from collections.abc import Mapping

import numpy as np

from horizonfree.runs.run import Run


def to_lines(run: Run, since: int) -> bytes:
    """The records after so many episodes; numbers keep every bit, those that are not finite are words."""
    names = list(run.records)
    columns = [run.records[name][since:].tolist() for name in names]
    episodes = zip(*columns) if names else ((),) * (run.episodes - since)
    lines = []
    for episode, numbers in enumerate(episodes, since + 1):
        entry = {name: x if abs(x) < np.inf else str(x) for name, x in zip(names, numbers)}
        lines.append(json.dumps({"episode": episode} | entry, allow_nan=False) + "\n")
    return "".join(lines).encode()


def from_lines(lines: bytes, types: Mapping[str, str], episodes: int) -> dict[str, np.ndarray]:
    """The records of so many episodes; refuses what `to_lines` does not write."""
    entries = [json.loads(line) for line in lines.splitlines()]
    if [x["episode"] for x in entries] != list(range(1, episodes + 1)):
        raise ValueError(f"the records are not of episodes 1 to {episodes}")
    return {
        name: _column([x[name] for x in entries], name, np.dtype(str(kind))) for name, kind in types.items()
    }


def _column(entries: list[float | str], name: str, kind: np.dtype) -> np.ndarray:
    """Numbers of a type that holds every one of them, which cannot be written to."""
    if kind.kind not in "fiub" or kind.shape:
        raise ValueError(f"{name} is of type {kind}; records are real numbers")
    numbers = np.array([float(x) for x in entries])
    with np.errstate(invalid="ignore"):
        column = numbers.astype(kind)
    if not np.array_equal(column, numbers, equal_nan=kind.kind == "f"):
        raise ValueError(f"{name} holds numbers that are not of type {kind}")
    column.flags.writeable = False
    return column
