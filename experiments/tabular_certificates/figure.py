"""Tables and the figure of the README from the rows: `python experiments/tabular_certificates/figure.py`."""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "shared"))

from shared import chosen, load, median, values


def small(x: float) -> str:
    """A true gap: what rounding leaves counts as none."""
    return "0" if x < 1e-12 else f"{x:.5f}"


def gaps(rows: list[dict]) -> str:
    """Median over seeds of what is certified, and the largest true gap of any seed."""
    true = max(row["true_max"] for row in rows)
    cell = f"{median(rows, 'goal_median'):.4f} / {median(rows, 'goal_max'):.4f}"
    return f"{median(rows, 'eps'):.3f} | {cell} | {small(true)}"


def design_table(rows: list[dict]) -> str:
    rows = chosen(rows, kind="design")
    lines = [
        "| problem, seeds, rewards | support | episodes | every reward | one reward: median / largest | true |"
    ]
    lines.append("|---" * 6 + "|")
    for label in values(rows, "label"):
        label_rows = chosen(rows, label=label)
        name = f"{label}, {len(values(label_rows, 'seed'))}, {label_rows[0]['rewards']}"
        for support in values(label_rows, "support"):
            for k in values(label_rows, "episodes"):
                matches = chosen(label_rows, support=support, episodes=k)
                lines.append(f"| {name} | {support} | {k:,} | {gaps(matches)} |")
    return "\n".join(lines)


def bound(row: dict) -> str:
    """E or W at the start, as the paper has it, for rewards in [0, 1] at every step."""
    return ", ".join(f"{key} = {value:.3g}" for key, value in row["parts"].items() if key != "U")


def papers_table(rows: list[dict]) -> str:
    rows = chosen(rows, kind="papers")
    head = (
        "| problem | explorer | episodes | its own claim | its bound | ours of the same data: every reward |"
    )
    lines = [head + " its plans: median / largest | true |", "|---" * 8 + "|"]
    for label in values(rows, "label"):
        for explorer in values(rows, "explorer"):
            for row in chosen(rows, label=label, explorer=explorer):
                cell = f"{row['claim']:.3f} | {bound(row)}"
                lines.append(f"| {label} | {explorer} | {row['episodes']:,} | {cell} | {gaps([row])} |")
    return "\n".join(lines)


LINES = {  # field, colour, name
    "eps": ("#1f6feb", "every reward"),
    "goal_max": ("#d1570a", "one reward, largest"),
    "goal_median": ("#2da44e", "one reward, median"),
    "true_max": ("#8b949e", "true, largest"),
}
FLOOR = 1e-5  # true gaps below are drawn here


def draw(rows: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "tabular"
    import matplotlib.pyplot as plt

    design, papers = chosen(rows, kind="design"), chosen(rows, kind="papers")
    labels = [
        label for label in values(design, "label") if len(values(chosen(design, label=label), "episodes")) > 1
    ]
    figure, axes = plt.subplots(1, len(labels), figsize=(11, 3.6), layout="constrained", sharey=True)
    for axis, label in zip(axes, labels):
        label_rows = chosen(design, label=label)
        ks = values(label_rows, "episodes")
        for support, style in {"any": "o-", "given": ".--"}.items():
            for field, (colour, name) in LINES.items():
                matches = [chosen(label_rows, support=support, episodes=k) for k in ks]
                combine = max if field == "true_max" else np.median
                y = [max(float(combine([row[field] for row in group])), FLOOR) for group in matches]
                text = name if support == "any" else None
                axis.loglog(ks, y, style, color=colour, label=text, markersize=4, linewidth=1.2)
        claims = chosen(papers, label=label)
        if claims:
            y = [min(row["claim"] for row in chosen(claims, episodes=k)) for k in ks]
            axis.loglog(ks, y, "x:", color="black", label="best claim of RF-UCRL, RF-Express", markersize=5)
        axis.set_title(label, fontsize=10)
        axis.set_xlabel("episodes")
        axis.grid(alpha=0.25, linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("a plan loses at most")
    axes[0].legend(fontsize=7, frameon=False, loc="lower left")
    figure.savefig(path, facecolor="white", metadata={"Date": None})


if __name__ == "__main__":
    stored_rows = load(HERE / "results" / "rows.jsonl")
    print(design_table(stored_rows), papers_table(stored_rows), sep="\n\n")
    draw(stored_rows, HERE / "results" / "gaps.svg")
