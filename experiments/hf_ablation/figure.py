"""Table and figure from the rows: `python experiments/hf_ablation/figure.py`. Nothing is run again."""

from pathlib import Path

import numpy as np

import horizonfree as hf

HERE = Path(__file__).parent
NAMES = ("explorer", "episodes", "own_gap", "gap", "eps", "oracle_calls")


def load() -> list[dict]:
    sweep = hf.load_sweep(HERE / "results")
    return [dict(zip(NAMES, row)) for row in zip(*(sweep[name].tolist() for name in NAMES))]


def interval(x: np.ndarray) -> tuple[float, float, float]:
    """Median, and its distribution-free interval: the 6th and 15th of 20 values cover it with probability 0.96."""
    x = np.sort(x)
    n = len(x)
    low = max(0, round(n / 2 - 0.98 * np.sqrt(n)) - 1)
    return float(np.median(x)), float(x[low]), float(x[n - 1 - low])


def summary(rows: list[dict], field: str) -> dict[str, dict[int, tuple[float, float, float]]]:
    settings = list(dict.fromkeys(row["explorer"] for row in rows))
    checkpoints = sorted({row["episodes"] for row in rows})
    return {
        name: {
            k: interval(
                np.array([row[field] for row in rows if (row["explorer"], row["episodes"]) == (name, k)])
            )
            for k in checkpoints
        }
        for name in settings
    }


def table(rows: list[dict], field: str) -> str:
    medians = summary(rows, field)
    checkpoints = list(next(iter(medians.values())))
    lines = ["| setting | " + " | ".join(f"k={k}" for k in checkpoints) + " | oracle calls |"]
    lines.append("|---" * (len(checkpoints) + 2) + "|")
    for name, by_k in medians.items():
        last = [
            row["oracle_calls"]
            for row in rows
            if (row["explorer"], row["episodes"]) == (name, checkpoints[-1])
        ]
        cells = [f"{m:.4f} [{a:.4f}, {b:.4f}]" for m, a, b in by_k.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {np.median(last):.0f} |")
    return "\n".join(lines)


def draw(rows: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name, by_k in summary(rows, "own_gap").items():
        k = np.array(list(by_k))
        middle, low, high = np.array(list(by_k.values())).T
        (line,) = axis.loglog(k, middle, marker="o", markersize=3, label=name)
        axis.fill_between(k, low, high, color=line.get_color(), alpha=0.12, linewidth=0)
    axis.axhline(0.02, color="0.6", linewidth=0.8, linestyle=":")
    axis.set_xlabel("episodes")
    axis.set_xticks(k, k)
    axis.minorticks_off()
    axis.set_ylabel("worst gap over 128 rewards")
    axis.set_title("zoned-grid 8x8, H = 20: median of 20 seeds and its 96 % interval", fontsize=10)
    axis.legend(fontsize=8, ncols=2, frameon=False)
    figure.savefig(path)


if __name__ == "__main__":
    sweep = load()
    print("Worst gap, planned in the explorer's own estimate\n\n" + table(sweep, "own_gap"))
    print("\nWorst gap, planned in the maximum-likelihood model\n\n" + table(sweep, "gap"))
    print("\nUniform certificate (delta = 0.05)\n\n" + table(sweep, "eps"))
    draw(sweep, HERE / "results" / "figure.svg")
