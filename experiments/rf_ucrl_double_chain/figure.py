"""Tables and the figure of the README from the rows: `python experiments/rf_ucrl_double_chain/figure.py`."""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "shared"))

from shared import load, values

COLOURS = {
    "RF-UCRL": "#d1570a",
    "RF-UCRL, steps pooled": "#1f6feb",
    "random actions": "#8b949e",
    "generative model": "#2da44e",
}


def numbers(rows: list[dict], field: str, sampler: str, episodes: int) -> np.ndarray:
    """One entry, or one list, per seed."""
    return np.array([row[field] for row in rows if (row["sampler"], row["episodes"]) == (sampler, episodes)])


def error_table(rows: list[dict], field: str, title: str) -> str:
    episodes = values(rows, "episodes")
    lines = [
        f"| {title} | " + " | ".join(f"K={k}" for k in episodes) + " |",
        "|---" * (len(episodes) + 1) + "|",
    ]
    for sampler in COLOURS:
        cells = [f"{np.median(numbers(rows, field, sampler, k)):.3f}" for k in episodes]
        lines.append(f"| {sampler} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def visit_table(rows: list[dict]) -> str:
    """Where the visits went after the last checkpoint; means over seeds."""
    last = values(rows, "episodes")[-1]
    head = f"| K={last}, mean of seeds | an end | a quarter | the middle | entropy, of log 31 = 3.43 |"
    lines = [head + " pairs without visits |", "|---" * 6 + "|"]
    for sampler in COLOURS:
        visits = numbers(rows, "visits", sampler, last)
        p = visits / visits.sum(1, keepdims=True)
        entropy = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(1).mean()
        mean, middle = visits.mean(0), visits.shape[1] // 2
        places = [mean[[0, -1]].mean(), mean[[middle // 2, -1 - middle // 2]].mean(), mean[middle]]
        cells = [f"{x:,.0f}" for x in places] + [f"{entropy:.2f}"]
        unvisited = numbers(rows, "unvisited", sampler, last).mean()
        lines.append(f"| {sampler} | " + " | ".join(cells) + f" | {unvisited:.1f} |")
    return "\n".join(lines)


def draw(rows: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "chain"
    import matplotlib.pyplot as plt

    episodes = values(rows, "episodes")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for sampler, colour in COLOURS.items():
        errors = np.array([numbers(rows, "suite_error", sampler, k) for k in episodes])
        left.loglog(episodes, np.median(errors, 1), "o-", color=colour, label=sampler, markersize=4)
        left.fill_between(episodes, errors.min(1), errors.max(1), color=colour, alpha=0.15, linewidth=0)
        visits = numbers(rows, "visits", sampler, episodes[-1]).mean(0)
        right.semilogy(range(len(visits)), np.maximum(visits, 1), "-", color=colour)
    left.set_title("largest |V_hat* - V*| of 62 rewards (range of seeds)", fontsize=10)
    right.set_title(f"visits of a state in {episodes[-1]:,} episodes (mean of seeds)", fontsize=10)
    left.set_xlabel("episodes")
    right.set_xlabel("state")
    left.legend(fontsize=8, frameon=False)
    for axis in (left, right):
        axis.grid(alpha=0.25, linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, facecolor="white", metadata={"Date": None})


if __name__ == "__main__":
    stored_rows = load(HERE / "results" / "rows.jsonl")
    print(error_table(stored_rows, "suite_error", "largest error of 62 rewards, median of seeds"), end="\n\n")
    print(error_table(stored_rows, "suite_loss", "largest true loss of their plans"), end="\n\n")
    print(
        error_table(stored_rows, "paper_error", "error for the reward of the paper, V* = 1.947"), end="\n\n"
    )
    print(visit_table(stored_rows))
    draw(stored_rows, HERE / "results" / "chain.svg")
