"""What the figures of several experiments share: rows of JSON lines. Exponents are in exponents.py."""

import json
from pathlib import Path

import numpy as np


def load(path: Path) -> list[dict]:
    """One row for each line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def values(rows: list[dict], field: str) -> list:
    """What a field is, in the order in which it came."""
    return list(dict.fromkeys(row[field] for row in rows))


def chosen(rows: list[dict], **where: object) -> list[dict]:
    """The rows whose fields are these."""
    return [row for row in rows if all(row[key] == value for key, value in where.items())]


def median(rows: list[dict], field: str) -> float:
    """Of a field over rows; nan where there is no number."""
    found = [row[field] for row in rows if row.get(field) is not None]
    return float(np.median(found)) if found else np.nan


def folded(rows: list[dict]) -> dict[str, list]:
    """Rows as columns: as they are stored. A column of several rows that is all the same is stored as one entry."""
    names = dict.fromkeys(key for row in rows for key in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    return {name: x[:1] if all(y == x[0] for y in x) and name != "seed" else x for name, x in columns.items()}


def unfolded(columns: dict[str, list]) -> list[dict]:
    """Columns as rows; seeds are never one entry for several rows."""
    number = max(map(len, columns.values()), default=0)
    full = {name: x * number if len(x) == 1 else x for name, x in columns.items()}
    return [dict(zip(full, row)) for row in zip(*full.values())]
