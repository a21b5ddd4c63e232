"""Tables and figure from the rows: `python experiments/calibration/figure.py`. Nothing is run again."""

import json
from pathlib import Path

import numpy as np
from scipy.stats import beta

HERE = Path(__file__).parent / "results"
DEFAULT = ("perks", "uniform on the valid parameters")
COLORS = {"mixture": "C0", "table, given": "C1", "table, any": "C2"}


def load(name: str) -> list[dict]:
    return [json.loads(line) for line in (HERE / name).read_text().splitlines()]


def ranks_table(rows: list[dict]) -> str:
    lines = ["| class | quantity | chi-square (19) | p |", "|---|---|---|---|"]
    lines += [f"| {x['class']} | {x['quantity']} | {x['chi2']:.1f} | {x['p']:.3f} |" for x in rows]
    return "\n".join(lines)


def coverage_table(rows: list[dict]) -> str:
    heads = ["problem", "episodes", "prior", "interval covers", "gap covers", "width", "credible gap"]
    heads += ["true gap", "proved width", "proved gap"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for x in rows:
        prior = "uniform" if x["prior"] == DEFAULT[1] else x["prior"]
        n = x["repetitions"]
        cells = [
            x["problem"],
            f"{x['episodes']:,}",
            prior,
            f"{x['interval_covers']}/{n}",
            f"{x['gap_covers']}/{n}",
        ]
        names = ("width", "credible_gap", "true_gap", "proved_width", "proved_gap")
        cells += [f"{x[name]:.4f}" for name in names]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(ranks: list[dict], coverage: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(11, 3.2), layout="constrained")
    for x in ranks:
        bins = np.array(x["bins"])
        sizes = np.histogram(np.arange(99), len(bins), (-0.5, 98.5))[0]
        steps = np.r_[0, np.cumsum(bins) / bins.sum() - np.cumsum(sizes) / 99]
        axes[0].plot(np.linspace(0, 1, len(steps)), steps, color="C0", alpha=0.5, linewidth=1)
    u, n = np.linspace(0, 1, 99)[1:-1], ranks[0]["draws_of_prior"]
    for q in (0.0005, 0.9995):  # pointwise, 99.9 %
        band = beta.ppf(q, n * u, n * (1 - u)) - u
        axes[0].plot(u, band, "--", color="0.4", linewidth=0.8)
    axes[0].set(title="ranks, minus uniform", xlabel="rank / 99", ylim=(-0.12, 0.12))
    default_rows = [x for x in coverage if x["prior"] in DEFAULT]
    for axis, name in zip(axes[1:], ("FrozenLake", "inventory", "river")):
        for kind, color in COLORS.items():
            problem_rows = [x for x in default_rows if x["problem"] == f"{name}, {kind}"]
            K = [x["episodes"] for x in problem_rows]
            for field, style in (("interval_covers", "-o"), ("gap_covers", "--s")):
                share = [x[field] / x["repetitions"] for x in problem_rows]
                label = f"{kind}: {'interval' if style == '-o' else 'gap'}"
                axis.plot(K, share, style, color=color, markersize=4, label=label)
        axis.axhline(0.95, color="0.4", linewidth=0.8)
        axis.set(title=f"{name}: share covered", xlabel="episodes", xscale="log", ylim=(-0.03, 1.03))
    handles = axes[1].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    ranks, coverage = load("ranks.jsonl"), load("coverage.jsonl")
    print(ranks_table(ranks))
    print()
    print(coverage_table(coverage))
    draw(ranks, coverage, HERE / "figure.svg")
