"""Tables and figures of the README from the rows: `python experiments/reproduce/figure.py [FOLDER]`."""

import sys
from itertools import product
from pathlib import Path

import numpy as np
from draw import FIGURES, draw
from minimax import WRONG, failures
from read import (
    HERE,
    NUMBERS,
    STEP_TARGETS,
    TARGET,
    TARGETS,
    chosen,
    exponent,
    last,
    needed,
    own_scale,
    per_seed,
    read,
    said,
    shown,
    stepwise,
    table,
    told,
    values,
    violations,
)

from horizonfree import theory

HARD_HORIZON, HARD_BOUND = 6, 1.1  # of the problems of E4


def middle(found: list) -> float:
    usable = [x for x in found if x is not None and np.isfinite(x)]
    return float(np.median(usable)) if usable else np.nan


def number(x: float) -> str:
    return "" if np.isnan(x) else f"{x:.3g}"


def horizon(folder: Path) -> str:
    """E1: exponents in H of every number at the last checkpoint, medians at the smallest and the largest H."""
    out, everything = [], read("E1", folder)
    for kind in values(everything, "kind"):
        rows = chosen(everything, kind=kind)
        lines = []
        for explorer in values(rows, "explorer"):
            mine = chosen(rows, explorer=explorer)
            cells = []
            for field in NUMBERS:
                sizes, samples = per_seed(last(mine), field, "horizon")
                ends = [middle(samples[i]) for i in (0, -1)]
                text = " to ".join(number(x) for x in ends) + " " + said(exponent(sizes, samples))
                cells.append("" if np.isnan(ends).all() else text)
            lines.append(
                [
                    shown(explorer),
                    *cells,
                    said(exponent(*needed(mine, "horizon", TARGET, "eps"))),
                    violations(mine),
                ]
            )
        heads = [kind, *NUMBERS.values(), f"episodes to {TARGET} certified", "truth outside"]
        out.append(table(heads, lines))
    return "\n\n".join(out)


def dimension(folder: Path) -> str:
    """E2: episodes to a certificate and to a true gap, against d."""
    rows, out = read("E2", folder), []
    dims = sorted(values(rows, "dim"))
    for field, target in TARGETS.items():
        lines = []
        for explorer in values(rows, "explorer"):
            mine = chosen(rows, explorer=explorer)
            sizes, samples = needed(mine, "dim", target, field)
            cells = [told(chosen(mine, dim=x), target, field) if x in sizes else "" for x in dims]
            lines.append([shown(explorer), *cells, said(exponent(sizes, samples)), violations(mine)])
        heads = [f"episodes to {field} <= {target}", *(f"d = {x:.0f}" for x in dims)]
        out.append(table([*heads, "exponent", "truth outside"], lines))
    return "\n\n".join(out)


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
    """E4: wrong signs, failures and losses, by dimension and by multiple of K0; then the bounds they stand between."""
    rows, lines, bounds = read("E4", folder), [], []
    dims, multiples = sorted(values(rows, "dim")), sorted(values(rows, "multiple"))
    for explorer, d in product(values(rows, "explorer"), dims):
        mine, cells = chosen(rows, explorer=explorer, dim=d), []
        if not mine:
            continue
        for here in (chosen(mine, multiple=m) for m in multiples):
            wrong = np.mean([row["wrong"] for row in here]) / (d - 1)
            lost = np.mean([row["wrong"] * row["unit"] / row["eps_0"] for row in here])
            cells.append(f"{wrong:.3f}, {failures(here):.2f}, {lost:.2f}")
        lines.append([explorer, f"{d:.0f}", *cells])
    for d in map(int, dims):
        eps = chosen(rows, dim=d)[0]["eps_0"]
        upper = theory.sample_complexity(eps, 0.05, d, HARD_HORIZON, HARD_BOUND)
        bounds.append(
            [d, f"{eps:.4f}", 3 * d**2, f"{WRONG:.3f}", f"{upper:.2g}", f"{upper / (3 * d**2):.2g}"]
        )
    heads = [f"K = {m} K0: share of wrong signs, failures, mean loss / eps_0" for m in multiples]
    edges = ["d", "eps_0", "K0: fewer are never enough", "wrong signs at K0, at least"]
    edges += ["episodes that the theorem asks for", "over K0"]
    return table(["explorer", "d", *heads], lines) + "\n\n" + table(edges, bounds)


def moments(folder: Path) -> str:
    """E5: V_hat and own gaps of every setting at its own covering scale."""
    rows, lines = read("E5", folder), []
    for problem in values(rows, "problem"):
        for explorer in values(chosen(rows, problem=problem), "explorer"):
            mine = own_scale(chosen(rows, problem=problem, explorer=explorer))
            end = last(mine)
            fields = ("V_hat", "relaxed", "own_gap", "gap_tilde", "gap_hat", "gap_both", "eps")
            cells = [number(middle([row[field] for row in end])) for field in fields]
            lines.append([problem, explorer, f"{end[0]['scale']:g}", *cells, violations(mine)])
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


def search(folder: Path) -> str:
    """E5_search: V_hat of every setting after the last episode, over that of the full algorithm with the same seed."""
    rows, lines = last(read("E5_search", folder)), []
    for problem in values(rows, "problem"):
        mine = chosen(rows, problem=problem)
        full = {row["seed"]: row["V_hat"] for row in chosen(mine, explorer="full")}
        cells = [number(middle(list(full.values())))]
        for setting in values(rows, "explorer"):
            there = chosen(mine, explorer=setting)
            ratios = [row["V_hat"] / full[row["seed"]] for row in there if row["seed"] in full]
            if setting != "full":
                cells.append(f"{min(ratios):.3f} to {max(ratios):.3f}" if ratios else "")
        lines.append([problem, *cells, violations(mine)])
    others = [f"{x} / full" for x in values(rows, "explorer") if x != "full"]
    return table(["problem", "V_hat, full", *others, "truth outside"], lines)


def per_step(folder: Path) -> str:
    """E6: rewards in [0, 1] per step: episodes until H times the number is at most a target."""
    rows, lines = stepwise(folder), []
    for kind, explorer in product(values(rows, "kind"), values(rows, "explorer")):
        mine = chosen(rows, kind=kind, explorer=explorer)
        for field, target in STEP_TARGETS.items():
            sizes, samples = needed(mine, "horizon", target, field)
            cells = [told(chosen(mine, horizon=x), target, field) for x in sizes]
            slope = said(exponent(sizes, samples))
            lines.append([kind, shown(explorer), f"{field} <= {target}", *cells, slope, violations(mine)])
    heads = [f"H = {x:.0f}" for x in sorted(values(rows, "horizon"))]
    return table(["d", "explorer", "episodes to", *heads, "exponent in H", "truth outside"], lines)


def proof(folder: Path) -> str:
    """E7: the largest share of its bound that a sum reached, in any run and order."""
    rows, lines = read("E7", folder), []
    for explorer in values(rows, "explorer"):
        for name in values(rows, "sum"):
            mine = chosen(rows, explorer=explorer, sum=name)
            by_kind = [[row["share"] for row in chosen(mine, kind=x)] for x in values(rows, "kind")]
            lines.append([explorer, name, *(number(max(x, default=np.nan)) for x in by_kind)])
    return table(["constants", "sum", *values(rows, "kind")], lines)


PARTS = {
    "E1": horizon,
    "E2": dimension,
    "E3": rate,
    "E4": minimax_table,
    "E5_search": search,
    "E5": moments,
    "E6": per_step,
    "E7": proof,
}

if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "results"
    told_of = []
    for name, part in PARTS.items():
        if read(name, where):
            told_of.append(f"## {name}\n\n{part(where)}\n")
            if name in FIGURES:
                draw(name, where)
    (where / "tables.md").write_text("\n".join(told_of))
    print("\n".join(told_of))
