"""The rows of the experiments for tables and figures: one dictionary per row, and what they say of a setting."""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "shared"))

from exponents import censored, crossing, exponent
from run import stored
from scales import split
from shared import chosen, unfolded, values

from horizonfree.explorers.registry import EXPLORERS, current_name, label

__all__ = ["chosen", "exponent", "values"]


NUMBERS = {  # of E1
    "V_hat_best": "V_hat",
    "U_best": "U",
    "claim": "own claim",
    "eps": "certificate",
    "gap_any": "worst true gap",
    "own_gap": "worst true gap, own plans",
}
CAPPED = ("V_hat", "V_hat_best", "relaxed", "U_best", "claim", "eps", "width")  # at 1
ROUNDING = 1e-12  # what is smaller is 0
TARGETS = {"eps": 0.65, "gap": 0.001}  # E2: between the first checkpoint and the last for most dimensions
STEP_TARGETS = {"step_eps": 4.0, "step_gap": 0.1, "step_own_gap": 0.1}  # of rewards in [0, 1] per step


def read(experiment: str, folder: Path = HERE / "results") -> list[dict]:
    """Every row with its problem, the kind and the sizes of it, and its explorer."""
    out = []
    for line in stored(folder):
        if line["experiment"] == experiment:
            kind, sizes = split(line["problem"])
            shared = {"problem": line["problem"], "kind": kind, "explorer": line["explorer"]}
            out += [shared | sizes | row for row in unfolded(line["rows"])]
    return sorted(out, key=lambda row: row["seed"])


def samples(rows: list[dict], field: str, size: str) -> tuple[list[float], np.ndarray]:
    """The sizes, and a number of every run, [sizes, instances, seeds]; nan: there is none. Caps count as censored."""
    sizes = sorted(values(rows, size)) if rows else []
    instances = sorted({row.get("instance", 0) for row in rows})
    seeds = sorted({row["seed"] for row in rows})
    table = np.full((len(sizes), len(instances), len(seeds)), np.nan)
    for row in rows:
        if row.get(field) is not None:
            place = sizes.index(row[size]), instances.index(row.get("instance", 0)), seeds.index(row["seed"])
            table[place] = row[field]
    return sizes, censored(table, cap=1.0 if field in CAPPED else np.inf, floor=ROUNDING)


def episodes_to(rows: list[dict], target: float, field: str) -> list[dict]:
    """For each run the number of episodes after which a number was at most the target, and stayed so."""
    runs: dict[tuple, list[dict]] = {}
    for row in rows:
        runs.setdefault((row.get("instance", 0), row["seed"]), []).append(row)
    out = []
    for mine in runs.values():
        mine = sorted(mine, key=lambda row: row["episodes"])
        K, y = (np.array([row[name] for row in mine], float) for name in ("episodes", field))
        out.append(mine[-1] | {"needed": crossing(K, y, target)})
    return out


def needed(rows: list[dict], size: str, target: float, field: str) -> tuple[list[float], np.ndarray]:
    """Episodes to a target: sizes, and a number of every run; 0 and infinity are censored."""
    sizes = sorted(values(rows, size)) if rows else []
    found = [row for n in sizes for row in episodes_to(chosen(rows, **{size: n}), target, field)]
    return samples(found, "needed", size)


def with_width(rows: list[dict]) -> list[dict]:
    """Rows with what the algorithm itself says of its error: V_hat, or U where it has no V_hat."""
    return [row | {"width": row.get("V_hat", row.get("relaxed"))} for row in rows]


def last(rows: list[dict]) -> list[dict]:
    """Those of the last checkpoint."""
    return chosen(rows, episodes=max(row["episodes"] for row in rows))


def stepwise(folder: Path) -> list[dict]:
    """E6: numbers of rewards in [0, 1] per step are H times those of total 1; every setting at its own scale."""
    rows, out = read("E6", folder), []
    for row in rows:
        fields = {"step_eps": "eps", "step_gap": "gap", "step_own_gap": "own_gap"}
        row |= {name: row["horizon"] * row[field] for name, field in fields.items()}
    for problem in values(rows, "problem"):
        for explorer in values(rows, "explorer"):
            out += own_scale(chosen(rows, problem=problem, explorer=explorer))
    return out


def told(rows: list[dict], target: float, field: str) -> str:
    """The median of the episodes to a target; where it is not known, on which side of the checkpoints it lies."""
    looks = values(rows, "episodes")
    found = [row["needed"] for row in episodes_to(rows, target, field)]
    low, high = (float(np.quantile(found, 0.5, method=x)) for x in ("lower", "higher"))
    if low == 0:
        return f"< {min(looks)}"
    return f"> {max(looks)}" if np.isinf(high) else f"{(low + high) / 2:.0f}"


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


def table(heads: list[str], lines: list[list[str]]) -> str:
    """As Markdown."""
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def shown(name: str) -> str:
    """An explorer's name; reconstructions say so. Names of settings stay."""
    return label(name) if current_name(name) in EXPLORERS else name
