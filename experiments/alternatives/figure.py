"""Rows -> table on the screen and results/figure.svg: the evidence against the class, week by week.

python experiments/alternatives/figure.py
"""

import json
from collections import defaultdict
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent / "results"
WEEK = 32  # where the line is labelled
REFUTED = np.log10(20)  # of the mean e-value, at delta = 0.05


def mean_e(row: dict) -> float:
    """The logarithm of the mean e-value, to base 10."""
    found = np.array(list(row["log10_e"].values()))
    return float(np.log10((10.0 ** (found - found.max())).mean()) + found.max())


def main() -> None:
    """Draw."""
    rows = [json.loads(line) for line in (HERE / "rows.jsonl").read_text().splitlines()]
    worlds: dict = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if "world" in row:
            worlds[row["world"]][row["episodes"]].append(row)
    figure, axes = plt.subplots(figsize=(8.5, 4))
    for world, by_weeks in worlds.items():
        for weeks, found in sorted(by_weeks.items()):
            print(
                f"{world:26} {weeks:4} episodes: refuted {sum(x['refuted'] for x in found)} of {len(found)}"
            )
        if len(by_weeks) > 1:
            weeks = sorted(by_weeks)
            middle = [np.median([mean_e(x) for x in by_weeks[k]]) for k in weeks]
            axes.plot(weeks, middle, marker="o", label=world)
    axes.axhline(REFUTED, color="black", linestyle=":", linewidth=1)
    axes.text(WEEK, REFUTED, "refuted above", ha="left", va="bottom", fontsize=8)
    axes.set(xlabel="weeks", ylabel="log10 of the mean e-value, median of seeds", yscale="symlog")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.tight_layout()
    figure.savefig(HERE / "figure.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
