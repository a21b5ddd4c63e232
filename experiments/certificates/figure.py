"""Tables and the figure of the README from the rows: `python experiments/certificates/figure.py`."""

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def load() -> list[dict]:
    return [json.loads(line) for line in (HERE / "results" / "rows.jsonl").read_text().splitlines()]


def median(rows: list[dict], field: str, **where: object) -> float:
    chosen = [row[field] for row in rows if all(row.get(key) == value for key, value in where.items())]
    return float(np.median(chosen)) if chosen else float("nan")


def values(rows: list[dict], field: str) -> list:
    return list(dict.fromkeys(row[field] for row in rows))


def gap_tables(rows: list[dict]) -> str:
    gap = [row for row in rows if row["kind"] == "gap"]
    checkpoints = sorted(values(gap, "episodes"))
    head = (
        "| median of seeds | "
        + " | ".join(f"K={k}" for k in checkpoints)
        + " |\n|---"
        + "|---" * len(checkpoints)
        + "|"
    )
    lines = [head]
    for explorer in values(gap, "explorer"):
        for bets in ("anytime", "declared"):
            where = {"explorer": explorer, "bets": bets}
            if not any(row["explorer"] == explorer and row["bets"] == bets for row in gap):
                continue
            for field, name in {
                "eps": "every reward",
                "goal_median": "goal rewards, median",
                "goal_max": "goal rewards, largest",
                "true_max": "largest true gap on them",
            }.items():
                cells = [f"{median(gap, field, episodes=k, **where):.4f}" for k in checkpoints]
                lines.append(f"| {explorer}, {bets}: {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def horizon_table(rows: list[dict]) -> str:
    found = [row for row in rows if row["kind"] == "horizon"]
    horizons, checkpoints = sorted(values(found, "horizon")), sorted(values(found, "episodes"))
    lines = [
        "| uniform eps | " + " | ".join(f"H={H}" for H in horizons) + " |",
        "|---" * (len(horizons) + 1) + "|",
    ]
    for k in checkpoints:
        cells = [f"{median(found, 'eps', episodes=k, horizon=H):.3f}" for H in horizons]
        lines.append(f"| K={k} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def design_table(rows: list[dict]) -> str:
    found = [row for row in rows if row["kind"] == "design"]
    problems, explorers = values(found, "problem"), values(found, "explorer")
    lines = ["| K T / q at K=300 | " + " | ".join(explorers) + " |", "|---" * (len(explorers) + 1) + "|"]
    for problem in problems:
        cells = [f"{median(found, 'efficiency', problem=problem, explorer=e):.3f}" for e in explorers]
        lines.append(f"| {problem} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(rows: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    gap = [row for row in rows if row["kind"] == "gap" and row["bets"] == "anytime"]
    checkpoints = sorted(values(gap, "episodes"))
    names = {
        "information": "information (optimal design)",
        "hf-ucrl-rfe++": "HF-UCRL-RFE++",
        "uniform": "random actions",
    }
    colours = {"information": "#1f6feb", "hf-ucrl-rfe++": "#d1570a", "uniform": "#8b949e"}
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharex=True)
    for axis, field, title in zip(
        axes,
        ("eps", "goal_median"),
        ("certified for every reward at once", "certified for goal rewards (median of 64)"),
    ):
        for explorer, colour in colours.items():
            y = [median(gap, field, explorer=explorer, episodes=k) for k in checkpoints]
            axis.loglog(checkpoints, y, "o-", color=colour, label=names[explorer], markersize=4)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("episodes")
        axis.grid(alpha=0.25, which="both", linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
        axis.xaxis.set_major_formatter("{x:,.0f}")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("")
    axes[0].set_yticks([0.2, 0.3, 0.5, 1.0])
    axes[0].set_ylabel("a plan loses at most")
    axes[0].legend(fontsize=8, frameon=False)
    figure.savefig(path, facecolor="white")


if __name__ == "__main__":
    found = load()
    print(gap_tables(found), horizon_table(found), design_table(found), sep="\n\n")
    images = HERE.parent.parent / "docs" / "images"
    images.mkdir(exist_ok=True)
    draw(found, images / "certificates.svg")
