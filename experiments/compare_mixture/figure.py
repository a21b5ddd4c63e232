"""Tables and the figure from the rows: python experiments/compare_mixture/figure.py"""

from pathlib import Path

import horizonfree as hf
from horizonfree._plots import save_figure
from horizonfree.batch.compare import medians, plot_comparison

HERE = Path(__file__).parent
CURVES = ("gap", "own_gap", "eps")


def load() -> list[dict]:
    sweep = hf.load_sweep(HERE / "results")
    names = ("explorer", "seed", "episodes", *CURVES)
    return [dict(zip(names, row)) for row in zip(*(sweep[name].tolist() for name in names))]


def table(rows: list[dict], curve: str) -> str:
    """Medians over the seeds, best at the end first."""
    values = medians(rows, curve)
    looks = sorted(next(iter(values.values())))
    lines = ["| explorer | " + " | ".join(f"K={k}" for k in looks) + " |", "|---" * (len(looks) + 1) + "|"]
    for name in sorted(values, key=lambda name: values[name][looks[-1]]):
        lines.append(f"| {name} | " + " | ".join(f"{values[name][k]:.3g}" for k in looks) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sweep = load()
    for curve in CURVES:
        print(curve, table(sweep, curve), sep="\n\n", end="\n\n")
    save_figure(plot_comparison(sweep), HERE / "results" / "compare.svg")
