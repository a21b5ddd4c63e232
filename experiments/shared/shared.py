"""What the figures of several experiments share: rows of JSON lines, and exponents with their intervals."""

import json
from pathlib import Path

import numpy as np

from horizonfree.sweeps.results import Interval, bootstrap_medians, log_log_slope


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


def exponent(sizes: list[float], samples: list[list[float]]) -> Interval:
    """The slope of log(median) against log(size), with its bootstrap interval over seeds.

    samples: for each size a number of every seed, in the same order. Sizes at which the median is not a positive number
    do not count: 0 and infinity stand for what was too early and too late to be measured.
    """
    full = [i for i, x in enumerate(samples) if x and None not in x]
    usable = [i for i in full if 0 < np.median(samples[i]) < np.inf]
    if len(usable) < 2:
        return Interval(np.nan, np.nan, np.nan)
    number = min(len(samples[i]) for i in usable)
    table = np.array([samples[i][:number] for i in usable], float).T
    at = np.array([sizes[i] for i in usable], float)
    with np.errstate(invalid="ignore"):  # draws without a number are left out
        return log_log_slope(at, np.median(table, axis=0), bootstrap_medians(table))


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
