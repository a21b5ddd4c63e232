"""Which scale an explorer is given, from the rows of the tuning: other truths, the same sizes, one budget for all.

Covering: the smallest scale that was tried from which on no run of any seed had the truth outside a ball. Tuned: the
one with the smallest median certificate of the evidence after the last episode (true gaps settle what is within 0.005).
Between two sizes that were tried the logarithm is interpolated in that of the size; beyond them the nearest counts.
"""

import numpy as np
from shared import unfolded

NEAR = 0.005


def scale(lines: list[dict], rule: str, problem: str, explorer: str) -> float | None:
    """For an explorer on a problem, "river horizon=64"; for "tables-H" that of "tables". None: the default stays."""
    label, sizes = split(problem)
    found: dict[str, dict[float, float]] = {}
    for where, rows in settings(lines, explorer).items():
        kind, tried = split(where)
        if kind == label.split("-")[0]:
            (name, size), *_ = [*tried.items(), ("", 1.0)]
            found.setdefault(name, {})[size] = {"covering": covering, "tuned": tuned}[rule](rows)
    for name, by_size in found.items():
        at = sorted(by_size)
        there = sizes.get(name, at[0])
        return float(np.exp(np.interp(np.log(there), np.log(at), [np.log(by_size[x]) for x in at])))
    return None


def split(problem: str) -> tuple[str, dict[str, float]]:
    """ "river horizon=64" as ("river", {"horizon": 64})."""
    label, *rest = problem.split(" ")
    return label, {key: float(value) for key, value in (pair.split("=") for pair in rest)}


def settings(lines: list[dict], explorer: str) -> dict[str, list[dict]]:
    """The rows of the tuning of an explorer, by problem."""
    found: dict[str, list[dict]] = {}
    for line in lines:
        if line["experiment"] == "tuning" and line["explorer"] == explorer:
            rows = [row for row in unfolded(line["rows"]) if row.get("scale") is not None]
            if rows:
                found.setdefault(line["problem"], []).extend(rows)
    return found


def covering(rows: list[dict]) -> float:
    """The smallest scale from which on the truth was never outside; without balls, 1."""
    if rows[0].get("worst_ratio") is None:
        return 1.0
    tried = sorted({row["scale"] for row in rows})
    kept = tried[-1]
    for x in reversed(tried):
        if max(row["worst_ratio"] for row in rows if row["scale"] == x) > 1:
            break
        kept = x
    return kept


def tuned(rows: list[dict]) -> float:
    """The scale of the smallest median certificate; among those, of the smallest median gap."""
    last = max(row["episodes"] for row in rows)
    at_end = [row for row in rows if row["episodes"] == last]

    def middle(x: float, field: str) -> float:
        return float(np.median([row[field] for row in at_end if row["scale"] == x]))

    tried = sorted({row["scale"] for row in at_end})
    least = min(middle(x, "eps") for x in tried)
    return min((x for x in tried if middle(x, "eps") <= least + NEAR), key=lambda x: middle(x, "gap"))
