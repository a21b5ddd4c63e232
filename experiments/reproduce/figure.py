"""Tables and the figure of the README from the rows: `python experiments/reproduce/figure.py [FOLDER]`."""

import sys
from pathlib import Path

import numpy as np
from minimax import failures
from read import (
    HERE,
    chosen,
    episodes_to,
    exponent,
    own_scale,
    per_seed,
    read,
    said,
    shown,
    table,
    told,
    values,
    violations,
)

from horizonfree import theory

NUMBERS = {  # of E1
    "V_hat_best": "V_hat",
    "U_best": "U",
    "total_variance": "T",
    "claim": "own claim",
    "eps": "certificate",
    "gap_any": "worst true gap",
    "own_gap": "worst true gap, own plans",
}
TARGET = 0.5  # certified, for episodes to eps
SHOWN = ("hf-ucrl-rfe++", "information", "ucrl-rfe+", "chen2022")


def middle(found: list) -> float:
    usable = [x for x in found if x is not None and np.isfinite(x)]
    return float(np.median(usable)) if usable else np.nan


def number(x: float) -> str:
    return "" if np.isnan(x) else f"{x:.3g}"


def needed(rows: list[dict], size: str, target: float, field: str = "eps") -> tuple[list, list]:
    """Episodes to a target: sizes, and a number of every seed."""
    sizes = sorted(values(rows, size))
    return sizes, [
        [x["needed"] for x in episodes_to(chosen(rows, **{size: n}), target, field)] for n in sizes
    ]


def horizon(folder: Path) -> str:
    """E1: exponents in H of every number at the last checkpoint, medians at the smallest and the largest H."""
    out, everything = [], read("E1", folder)
    for kind in values(everything, "kind"):
        rows = chosen(everything, kind=kind)
        lines = []
        for explorer in values(rows, "explorer"):
            mine = chosen(rows, explorer=explorer)
            last = chosen(mine, episodes=max(row["episodes"] for row in mine))
            cells = []
            for field in NUMBERS:
                sizes, samples = per_seed(last, field, "horizon")
                ends = [middle(samples[i]) for i in (0, -1)]
                text = " to ".join(number(x) for x in ends) + " " + said(exponent(sizes, samples))
                cells.append("" if np.isnan(ends).all() else text)
            lines.append(
                [shown(explorer), *cells, said(exponent(*needed(mine, "horizon", TARGET))), violations(mine)]
            )
        heads = [kind, *NUMBERS.values(), f"episodes to {TARGET} certified", "truth outside"]
        out.append(table(heads, lines))
    return "\n\n".join(out)


def dimension(folder: Path) -> str:
    """E2: episodes to a certificate, against d."""
    rows, lines = read("E2", folder), []
    for explorer in values(rows, "explorer"):
        mine = chosen(rows, explorer=explorer)
        sizes, samples = needed(mine, "dim", TARGET)
        cells = [told(chosen(mine, dim=x), TARGET, "eps") for x in sizes]
        lines.append([shown(explorer), *cells, said(exponent(sizes, samples)), violations(mine)])
    heads = [f"episodes to {TARGET} certified", *(f"d = {x:.0f}" for x in sorted(values(rows, "dim")))]
    return table([*heads, "exponent", "truth outside"], lines)


def rate(folder: Path) -> str:
    """E3: exponents in K of V_hat_k, of its sum and of the other curves, where they are below their caps."""
    out, rows = [], read("E3", folder)
    for kind in values(rows, "kind"):
        lines = []
        for explorer in values(chosen(rows, kind=kind), "explorer"):
            mine = chosen(rows, kind=kind, explorer=explorer)
            cells = []
            for field in ("V_hat", "V_hat_sum", "k_star", "eps", "gap", "own_gap"):
                sizes, samples = per_seed(mine, field, "episodes")
                keep = [
                    i
                    for i, x in enumerate(samples)
                    if field in ("k_star",) or middle(x) < 0.95 or "sum" in field
                ]
                if field == "V_hat_sum":  # where V_hat itself has left its cap
                    first = [middle(x) for x in per_seed(mine, "V_hat", "episodes")[1]]
                    keep = [i for i in keep if first[i] < 0.95]
                cells.append(said(exponent([sizes[i] for i in keep], [samples[i] for i in keep])))
            lines.append([shown(explorer), *cells, violations(mine)])
        heads = [kind, "V_hat_k", "sum of V_hat", "k*", "certificate", "gap", "own gap", "truth outside"]
        out.append(table(heads, lines))
    K = 6400
    A1, A2 = theory.coefficients(K, 0.05, 4, 16, 2.0)
    out.append(
        f"theory.coefficients at K = {K}, d = 4, H = 16, B = 2: A1 = {A1:.3g}, A2 = {A2:.3g}: sum <= A1 + A2 sqrt(K)"
    )
    return "\n\n".join(out)


def minimax_table(folder: Path) -> str:
    """E4: wrong signs and failures, by dimension and by multiple of K0."""
    rows, lines = read("E4", folder), []
    for explorer in values(rows, "explorer"):
        for d in sorted(values(rows, "dim")):
            mine = chosen(rows, explorer=explorer, dim=d)
            cells = []
            for m in sorted(values(mine, "multiple")):
                here = chosen(mine, multiple=m)
                wrong = np.mean([row["wrong"] for row in here]) / (d - 1)
                cells.append(f"{wrong:.3f}, {failures(here):.2f}")
            lines.append([explorer, f"{d:.0f}", *cells])
    heads = [f"K = {m} K0" for m in sorted(values(rows, "multiple"))]
    return table(["explorer", "d", *(f"{x}: share of wrong signs, failures" for x in heads)], lines)


def moments(folder: Path) -> str:
    """E5: V_hat and own gaps of every setting at its own covering scale."""
    rows, lines = read("E5", folder), []
    for problem in values(rows, "problem"):
        for explorer in values(rows, "explorer"):
            mine = own_scale(chosen(rows, problem=problem, explorer=explorer))
            last = chosen(mine, episodes=max(row["episodes"] for row in mine))
            fields = ("V_hat", "relaxed", "own_gap", "gap_tilde", "gap_hat", "gap_both", "eps")
            cells = [number(middle([row[field] for row in last])) for field in fields]
            lines.append([problem, explorer, f"{last[0]['scale']:g}", *cells, violations(mine)])
    heads = [
        "problem",
        "setting",
        "scale",
        "V_hat",
        "U",
        "own gap",
        "one family: V",
        "one family: V_hat",
        "both",
    ]
    return table([*heads, "certificate", "truth outside"], lines)


def per_step(folder: Path) -> str:
    """E6: rewards in [0, 1] per step: episodes until H times the number is at most a target."""
    rows, lines = read("E6", folder), []
    for row in rows:
        row |= {"step_eps": row["horizon"] * row["eps"], "step_gap": row["horizon"] * row["own_gap"]}
    for kind in values(rows, "kind"):
        for explorer in values(rows, "explorer"):
            mine = chosen(rows, kind=kind, explorer=explorer)
            kept = [row for H in values(mine, "horizon") for row in own_scale(chosen(mine, horizon=H))]
            for field, target in (("step_eps", 4.0), ("step_gap", 0.1)):
                sizes, samples = needed(kept, "horizon", target, field)
                cells = [told(chosen(kept, horizon=x), target, field) for x in sizes]
                lines.append(
                    [kind, shown(explorer), f"{field} <= {target}", *cells, said(exponent(sizes, samples))]
                )
    heads = [f"H = {x:.0f}" for x in sorted(values(rows, "horizon"))]
    return table(["d", "explorer", "episodes to", *heads, "exponent in H"], lines)


def proof(folder: Path) -> str:
    """E7: the largest share of its bound that a sum reached, in any run and order."""
    rows, lines = read("E7", folder), []
    for explorer in values(rows, "explorer"):
        for name in values(rows, "sum"):
            mine = chosen(rows, explorer=explorer, sum=name)
            cells = [f"{max(row['share'] for row in chosen(mine, kind=x)):.2g}" for x in values(rows, "kind")]
            lines.append([explorer, name, *cells])
    return table(["constants", "sum", *values(rows, "kind")], lines)


def draw(folder: Path, path: Path) -> None:
    """E1: V_hat, the own claim, the certificate and the worst true gap against H; shaded: half of the seeds."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "reproduce"
    import matplotlib.pyplot as plt

    rows = read("E1", folder)
    kinds, fields = values(rows, "kind"), ("V_hat_best", "claim", "eps", "gap_any")
    figure, axes = plt.subplots(
        len(fields),
        len(kinds),
        figsize=(3.2 * len(kinds), 9),
        layout="constrained",
        sharex=True,
        squeeze=False,
    )
    for j, kind in enumerate(kinds):
        for i, field in enumerate(fields):
            axis = axes[i, j]
            for explorer in values(rows, "explorer"):
                mine = chosen(rows, kind=kind, explorer=explorer)
                if not mine:
                    continue
                last = chosen(mine, episodes=max(row["episodes"] for row in mine))
                sizes, samples = per_seed(last, field, "horizon")
                usable = [(n, x) for n, x in zip(sizes, samples) if x and None not in x]
                if usable:
                    low, mid, high = np.array([np.percentile(x, [25, 50, 75]) for _, x in usable]).T
                    at = [n for n, _ in usable]
                    is_shown = explorer in SHOWN
                    style = {"linewidth": 1.6 if is_shown else 0.7, "alpha": 1 if is_shown else 0.6}
                    (line,) = axis.loglog(at, mid, ".-", label=shown(explorer), **style)
                    axis.fill_between(at, low, high, color=line.get_color(), alpha=0.12, linewidth=0)
            axis.grid(alpha=0.25, linewidth=0.5)
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_title(kind if i == 0 else "", fontsize=10)
            axis.set_ylabel(NUMBERS[field] if j == 0 else "")
        axes[-1, j].set_xlabel("H")
    handles, names = max((axis.get_legend_handles_labels() for axis in axes.flat), key=lambda x: len(x[1]))
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(path, facecolor="white", metadata={"Date": None})


PARTS = {
    "E1": horizon,
    "E2": dimension,
    "E3": rate,
    "E4": minimax_table,
    "E5": moments,
    "E6": per_step,
    "E7": proof,
}

if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "results"
    for name, part in PARTS.items():
        if read(name, where):
            print(f"## {name}", part(where), sep="\n\n", end="\n\n")
    if read("E1", where):
        draw(where, where / "horizon.svg")
