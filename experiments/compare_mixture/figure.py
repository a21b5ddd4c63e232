"""Tables and the figure from the rows: python experiments/compare_mixture/figure.py"""

from pathlib import Path

import horizonfree as hf
from horizonfree._plots import save_figure
from horizonfree.batch.compare import medians, plot_comparison

HERE = Path(__file__).parent
CURVES = ("gap", "own_gap", "eps")


def load() -> list[dict]:
    found = hf.load_sweep(HERE / "results")
    names = ("explorer", "seed", "episodes", *CURVES)
    return [dict(zip(names, row)) for row in zip(*(found[name].tolist() for name in names))]


def table(rows: list[dict], curve: str) -> str:
    """Medians over the seeds, best at the end first."""
    found = medians(rows, curve)
    looks = sorted(next(iter(found.values())))
    lines = ["| explorer | " + " | ".join(f"K={k}" for k in looks) + " |", "|---" * (len(looks) + 1) + "|"]
    for name in sorted(found, key=lambda name: found[name][looks[-1]]):
        lines.append(f"| {name} | " + " | ".join(f"{found[name][k]:.3g}" for k in looks) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    found = load()
    for curve in CURVES:
        print(curve, table(found, curve), sep="\n\n", end="\n\n")
    save_figure(plot_comparison(found), HERE / "results" / "compare.svg")
