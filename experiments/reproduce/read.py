"""The rows of the experiments for tables and figures: one dictionary per row, and what they say of a setting."""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "shared"))

from run import stored
from scales import split
from shared import chosen, exponent, unfolded, values

from horizonfree.explorers.registry import label
from horizonfree.sweeps.results import Interval

__all__ = ["chosen", "exponent", "values"]


NUMBERS = {  # of E1
    "V_hat_best": "V_hat",
    "U_best": "U",
    "total_variance": "T",
    "claim": "own claim",
    "eps": "certificate",
    "gap_any": "worst true gap",
    "own_gap": "worst true gap, own plans",
}
TARGET = 0.5  # of a certificate, for E1
TARGETS = {"eps": 0.65, "gap": 0.001}  # E2: between the first checkpoint and the last for most dimensions
STEP_TARGETS = {"step_eps": 4.0, "step_gap": 0.1}  # of rewards in [0, 1] per step


def read(experiment: str, folder: Path = HERE / "results") -> list[dict]:
    """Every row with its problem, the kind and the sizes of it, and its explorer."""
    out = []
    for line in stored(folder):
        if line["experiment"] == experiment:
            kind, sizes = split(line["problem"])
            shared = {"problem": line["problem"], "kind": kind, "explorer": line["explorer"]}
            out += [shared | sizes | row for row in unfolded(line["rows"])]
    return sorted(out, key=lambda row: row["seed"])


def per_seed(rows: list[dict], field: str, size: str) -> tuple[list[float], list[list[float]]]:
    """The sizes, and for each a number of every seed."""
    sizes = sorted(values(rows, size))
    return sizes, [[row.get(field) for row in chosen(rows, **{size: x})] for x in sizes]


def episodes_to(rows: list[dict], target: float, field: str) -> list[dict]:
    """For each seed: after how many episodes a number was at most the target, and stayed so.

    Between two checkpoints the logarithms are joined by a line. 0: at the first one already; infinity: never.
    """
    out = []
    for seed in values(rows, "seed"):
        mine = sorted(chosen(rows, seed=seed), key=lambda row: row["episodes"])
        K = np.array([row["episodes"] for row in mine], float)
        y = np.maximum([row[field] for row in mine], 1e-9)
        above = np.flatnonzero(y > target)
        first = 0 if not len(above) else above[-1] + 1
        if first == len(y):
            found = np.inf
        elif first == 0:
            found = 0.0
        else:
            low, high = np.log(y[first - 1]), np.log(y[first])
            share = (low - np.log(target)) / (low - high)
            found = float(np.exp(np.log(K[first - 1]) + share * (np.log(K[first]) - np.log(K[first - 1]))))
        out.append(mine[-1] | {"needed": found})
    return out


def needed(rows: list[dict], size: str, target: float, field: str) -> tuple[list, list]:
    """Episodes to a target: sizes, and a number of every seed."""
    sizes = sorted(values(rows, size)) if rows else []
    return sizes, [
        [x["needed"] for x in episodes_to(chosen(rows, **{size: n}), target, field)] for n in sizes
    ]


def last(rows: list[dict]) -> list[dict]:
    """Those of the last checkpoint."""
    return chosen(rows, episodes=max(row["episodes"] for row in rows))


def stepwise(folder: Path) -> list[dict]:
    """E6: numbers of rewards in [0, 1] per step are H times those of total 1; every setting at its own scale."""
    rows, out = read("E6", folder), []
    for row in rows:
        row |= {"step_eps": row["horizon"] * row["eps"], "step_gap": row["horizon"] * row["own_gap"]}
    for problem in values(rows, "problem"):
        for explorer in values(rows, "explorer"):
            out += own_scale(chosen(rows, problem=problem, explorer=explorer))
    return out


def told(rows: list[dict], target: float, field: str) -> str:
    """The median of the episodes to a target; where it is not known, on which side of the checkpoints it lies."""
    looks = values(rows, "episodes")
    found = float(np.median([row["needed"] for row in episodes_to(rows, target, field)]))
    return f"< {min(looks)}" if found == 0 else f"> {max(looks)}" if np.isinf(found) else f"{found:.0f}"


def violations(rows: list[dict]) -> str:
    """In how many runs the truth was outside a ball at some time."""
    last = max((row["episodes"] for row in rows), default=0)
    known = [
        row["worst_ratio"] for row in rows if row["episodes"] == last and row.get("worst_ratio") is not None
    ]
    return f"{sum(x > 1 for x in known)}/{len(known)}" if known else ""


def own_scale(rows: list[dict]) -> list[dict]:
    """Rows of a grid of scales: seeds below 10 choose the smallest that covers, the others are kept at it."""
    known = [row for row in rows if row["scale"] is not None]
    if not known:
        return [row for row in rows if row["seed"] >= 10]
    first = [row for row in known if row["seed"] < 10] or known
    tried = sorted(values(first, "scale"))
    kept = tried[-1]
    for x in reversed(tried):
        if max(row["worst_ratio"] for row in chosen(first, scale=x)) > 1:
            break
        kept = x
    rest = [row for row in known if row["seed"] >= 10] or known
    return chosen(rest, scale=kept)


def said(x: Interval) -> str:
    """An exponent with its interval."""
    return "" if np.isnan(x.value) else f"{x.value:+.2f} [{x.low:+.2f}, {x.high:+.2f}]"


def table(heads: list[str], lines: list[list[str]]) -> str:
    """As Markdown."""
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def shown(name: str) -> str:
    """An explorer's name; reconstructions say so."""
    return label(name)
