"""Tables and the figure of the README from the rows: `python experiments/rf_express_rooms/figure.py`."""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "shared"))

from shared import load

COLOURS = {
    "RF-Express": "#d1570a",
    "RF-UCRL": "#1f6feb",
    "RF-Express, steps pooled": "#d1570a",
    "RF-UCRL, steps pooled": "#1f6feb",
    "tabular-design": "#2da44e",
    "random actions": "#8b949e",
}
SHOWN = (100, 500, 1_000, 2_000, 5_000, 10_000, 20_000)  # episodes, in the tables


def numbers(rows: list[dict], field: str, explorer: str) -> dict[int, np.ndarray]:
    """Episodes -> one entry per seed."""
    values: dict[int, list] = {}
    for row in rows:
        if row["explorer"] == explorer:
            values.setdefault(row["episodes"], []).append(row[field])
    return {k: np.array(x) for k, x in values.items()}


def table(rows: list[dict], field: str, title: str, form: str) -> str:
    """Medians, and in brackets the smallest and the largest of the seeds."""
    lines = [f"| {title} | " + " | ".join(f"K={k:,}" for k in SHOWN) + " |", "|---" * (len(SHOWN) + 1) + "|"]
    for explorer in COLOURS:
        values = numbers(rows, field, explorer)
        cells = [
            f"{np.median(x):{form}} ({x.min():{form}} to {x.max():{form}})" for x in map(values.get, SHOWN)
        ]
        lines.append(f"| {explorer} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(rows: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "rooms"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9.4, 3.7), layout="constrained")
    reach = rows[0]["in_reach"]
    for axis, field, top in zip(axes, ("states", "entropy"), (reach, np.log2(reach))):
        axis.axhline(top, color="#8b949e", linewidth=0.8, linestyle=":")
        for explorer, colour in COLOURS.items():
            values = numbers(rows, field, explorer)
            k, x = list(values), np.array(list(values.values()))
            style = "--" if "pooled" in explorer else "-"
            axis.semilogx(k, np.median(x, 1), style, color=colour, label=explorer, linewidth=1.4)
            axis.fill_between(k, x.min(1), x.max(1), color=colour, alpha=0.12, linewidth=0)
        axis.set_xlabel("episodes")
        axis.grid(alpha=0.25, linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_title(f"states visited, of {reach} in reach (range of seeds)", fontsize=10)
    axes[1].set_title("entropy of the visits, bits", fontsize=10)
    axes[0].legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(0, 0.97))
    figure.savefig(path, facecolor="white", metadata={"Date": None})


if __name__ == "__main__":
    stored_rows = load(HERE / "results" / "rows.jsonl")
    print(table(stored_rows, "states", "states visited, median of seeds (range)", ".0f"), end="\n\n")
    print(table(stored_rows, "entropy", "entropy of the visits in bits", ".2f"))
    draw(stored_rows, HERE / "results" / "rooms.svg")
