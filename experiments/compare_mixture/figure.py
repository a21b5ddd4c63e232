"""Tables and the figure from the rows: python experiments/compare_mixture/figure.py"""

import json
from pathlib import Path

from horizonfree.compare import medians

HERE = Path(__file__).parent
CURVES = {
    "gap": "worst true gap of the plans, over 128 rewards",
    "eps": "certified for every reward at once",
}
BASELINES = ("uniform", "goal-cycling")
NEED_REWARD = ("hf-ucrl-vtr+", "ucrl-vtr+", "ucrl-vtr")


def load() -> list[dict]:
    return [json.loads(line) for line in (HERE / "results" / "rows.jsonl").read_text().splitlines()]


def table(rows: list[dict], curve: str) -> str:
    """Medians over the seeds, best at the end first."""
    found = medians(rows, curve)
    looks = sorted(next(iter(found.values())))
    lines = ["| explorer | " + " | ".join(f"K={k}" for k in looks) + " |", "|---" * (len(looks) + 1) + "|"]
    for name in sorted(found, key=lambda name: found[name][looks[-1]]):
        lines.append(f"| {name} | " + " | ".join(f"{found[name][k]:.3g}" for k in looks) + " |")
    return "\n".join(lines)


def draw(rows: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["explorer"] for row in rows))
    colours = dict(zip(names, plt.get_cmap("tab10").colors))
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharex=True)
    for axis, (curve, title) in zip(axes, CURVES.items()):
        for name, by_k in medians(rows, curve).items():
            style = ":" if name in BASELINES else "--" if name in NEED_REWARD else "-"
            axis.plot(by_k.keys(), by_k.values(), style, color=colours[name], label=name, linewidth=1.6)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("episodes")
        axis.grid(alpha=0.25, linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_yscale("log")
    axes[0].set_ylabel("loss (the best total is at most 1)")
    axes[1].set_ylim(0.5, 1.02)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    figure.savefig(path, facecolor="white", metadata={"Date": None})


if __name__ == "__main__":
    found = load()
    for curve in ("gap", "own_gap", "eps"):
        print(curve, table(found, curve), sep="\n\n", end="\n\n")
    draw(found, HERE / "results" / "compare.svg")
