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
    log10_e = np.array(list(row["log10_e"].values()))
    return float(np.log10((10.0 ** (log10_e - log10_e.max())).mean()) + log10_e.max())


def main() -> None:
    """Draw."""
    rows = [json.loads(line) for line in (HERE / "rows.jsonl").read_text().splitlines()]
    systems: dict = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if "world" in row:
            systems[row["world"]][row["episodes"]].append(row)
    figure, axes = plt.subplots(figsize=(8.5, 4))
    for system, by_weeks in systems.items():
        for weeks, week_rows in sorted(by_weeks.items()):
            print(
                f"{system:26} {weeks:4} episodes: refuted {sum(x['refuted'] for x in week_rows)} of {len(week_rows)}"
            )
        if len(by_weeks) > 1:
            weeks = sorted(by_weeks)
            middle = [np.median([mean_e(x) for x in by_weeks[k]]) for k in weeks]
            axes.plot(weeks, middle, marker="o", label=system)
    axes.axhline(REFUTED, color="black", linestyle=":", linewidth=1)
    axes.text(WEEK, REFUTED, "refuted above", ha="left", va="bottom", fontsize=8)
    axes.set(xlabel="weeks", ylabel="log10 of the mean e-value, median of seeds", yscale="symlog")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.tight_layout()
    figure.savefig(HERE / "figure.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
