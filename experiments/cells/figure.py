"""Table and figure from the rows: `python experiments/cells/figure.py`. Nothing is run again."""

import json
import math
import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

HERE = Path(__file__).parent
COLORS = ("#862e9c", "#2b8a3e", "#d9480f", "#1f6feb")


def load() -> list[dict[str, Any]]:
    """The rows, by problem, episodes and bins."""
    rows = [json.loads(line) for line in (HERE / "results" / "rows.jsonl").read_text().splitlines()]
    order = {"thermostat": 0, "robot": 1}
    return sorted(rows, key=lambda x: (order[x["problem"]], x["episodes"], x["bins"]))


def table(rows: list[dict[str, Any]]) -> str:
    """Gaps and intervals, rounded outwards to a hundredth."""
    heads = [
        "problem",
        "episodes",
        "bins",
        "radius",
        "gap",
        "interval",
        "true",
        "floor, every reward",
        "gap, cells taken to be exact",
        "interval",
        "true",
    ]
    lines = [heads, ["---"] * len(heads)]
    for row in rows:
        lipschitz_row, exact = row["lipschitz"], row["exact"]
        lines.append(
            [
                row["problem"],
                f"{row['episodes']:,}",
                str(row["bins"]),
                f"{row['zeta']:.3f}",
                round_up(lipschitz_row["gap"]),
                interval(lipschitz_row["low"], lipschitz_row["high"]),
                f"{lipschitz_row['driven']:.3f}",
                f"{row['floor']:.2f}",
                round_up(exact["gap"]),
                interval(exact["low"], exact["high"]),
                f"{exact['driven']:.3f}",
            ]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def round_up(x: float) -> str:
    """Rounded up to a hundredth, so that it stays proved."""
    return f"{math.ceil(100 * x - 1e-9) / 100:.2f}"


def interval(low: float, high: float) -> str:
    """Rounded outwards."""
    return f"{math.floor(100 * low + 1e-9) / 100:.2f} to {round_up(high)}"


def draw(rows: list[dict[str, Any]]) -> Figure:
    """The certified gap against bins, a line for each number of episodes."""
    fig = Figure(figsize=(9.2, 3.6), layout="constrained", facecolor="white")
    axes = fig.subplots(1, 2, sharey=True)
    for axis, name in zip(axes, ("thermostat", "robot")):
        problem_rows = [row for row in rows if row["problem"] == name]
        counts = sorted({row["episodes"] for row in problem_rows})
        for color, count in zip(COLORS[-len(counts) :], counts):
            line = [row for row in problem_rows if row["episodes"] == count]
            bins = [row["bins"] for row in line]
            axis.plot(
                bins,
                [row["lipschitz"]["gap"] for row in line],
                "o-",
                color=color,
                label=f"{count:,} episodes",
            )
            axis.plot(bins, [row["exact"]["gap"] for row in line], ":", color=color)
        axis.set_xscale("log")
        axis.set_xticks(bins, [str(x) for x in bins])
        axis.minorticks_off()
        axis.set_xlabel("bins of each coordinate")
        axis.set_title(name, fontsize=10)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("certified gap of the plan")
    axes[0].set_ylim(-0.02, 1.05)
    axes[1].legend(frameon=False, fontsize=8)
    return fig


if __name__ == "__main__":
    stored_rows = load()
    print(table(stored_rows), file=sys.stdout)
    draw(stored_rows).savefig(HERE / "results" / "figure.svg", metadata={"Date": None})
    draw(stored_rows).savefig(HERE.parents[1] / "docs" / "images" / "cells.svg", metadata={"Date": None})
