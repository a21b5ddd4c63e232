"""Tables and the figure of the README from the rows: `python experiments/certificates/figure.py`."""

from pathlib import Path

import numpy as np

import horizonfree as hf

HERE = Path(__file__).parent
FIELDS = {
    "eps": "every reward",
    "reward_median": "goal rewards, median",
    "reward_max": "goal rewards, largest",
    "gap": "largest true gap on them",
}
SETTINGS = {
    "information": "information, anytime",
    "information-declared": "information, declared",
    "hf-ucrl-rfe++": "hf-ucrl-rfe++, anytime",
    "uniform": "uniform, anytime",
}


def median(sweep: hf.Sweep, field: str, **conditions: object) -> float:
    return float(np.median(sweep.where(**conditions)[field]))


def table(corner: str, titles: list[str], rows: dict[str, list[str]]) -> str:
    lines = [f"| {corner} | " + " | ".join(titles) + " |", "|---" * (len(titles) + 1) + "|"]
    return "\n".join([*lines, *(f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows.items())])


def gap_table(sweep: hf.Sweep) -> str:
    looks = sweep.spec.checkpoints
    rows = {
        f"{label}: {meaning}": [f"{median(sweep, field, explorer=name, episodes=k):.4f}" for k in looks]
        for name, label in SETTINGS.items()
        for field, meaning in FIELDS.items()
    }
    return table("median of seeds", [f"K={k}" for k in looks], rows)


def horizon_table(sweep: hf.Sweep) -> str:
    places = sweep.spec.problems
    rows = {
        f"K={k}": [f"{median(sweep, 'eps', episodes=k, problem=x):.3f}" for x in places]
        for k in sweep.spec.checkpoints
    }
    return table("uniform eps", [f"H={x['horizon']}" for x in places.values()], rows)


def design_table(sweep: hf.Sweep) -> str:
    explorers = list(sweep.spec.explorers)
    rows = {
        x: [f"{median(sweep, 'efficiency', problem=x, explorer=e):.3f}" for e in explorers]
        for x in sweep.spec.problems
    }
    return table("K T / q at K=300", explorers, rows)


def draw(sweep: hf.Sweep, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    checkpoints = sweep.spec.checkpoints
    names = {
        "information": "information (optimal design)",
        "hf-ucrl-rfe++": "HF-UCRL-RFE++",
        "uniform": "random actions",
    }
    colours = {"information": "#1f6feb", "hf-ucrl-rfe++": "#d1570a", "uniform": "#8b949e"}
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharex=True)
    for axis, field, title in zip(
        axes,
        ("eps", "reward_median"),
        ("certified for every reward at once", "certified for goal rewards (median of 64)"),
    ):
        for explorer, colour in colours.items():
            y = [median(sweep, field, explorer=explorer, episodes=k) for k in checkpoints]
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
    gap, horizon, design = (hf.load_sweep(HERE / "results" / name) for name in ("gap", "horizon", "design"))
    print(gap_table(gap), horizon_table(horizon), design_table(design), sep="\n\n")
    images = HERE.parent.parent / "docs" / "images"
    images.mkdir(exist_ok=True)
    draw(gap, images / "certificates.svg")
