"""Tables and figures of the README from the rows: `python experiments/reproduce/figure.py [FOLDER]`."""

import sys
from itertools import product
from pathlib import Path

import numpy as np
from draw import FIGURES, draw
from minimax import SHARE, WRONG, failures, until_right
from read import (
    HERE,
    NUMBERS,
    STEP_TARGETS,
    TARGETS,
    chosen,
    exponent,
    last,
    needed,
    own_scale,
    read,
    samples,
    shown,
    stepwise,
    table,
    told,
    values,
    violations,
    with_width,
)

from horizonfree import theory

HARD_HORIZON, HARD_BOUND = 6, 1.1  # of the problems of E4


def middle(found: np.ndarray | list) -> float:
    """The median; censored values are 0 and infinity."""
    usable = [x for x in np.ravel(found) if x is not None and not np.isnan(x)]
    return float(np.median(usable)) if usable else np.nan


def number(x: float) -> str:
    return "" if np.isnan(x) else "cap" if np.isinf(x) else f"{x:.3g}"


def ends(sizes: list[float], found: np.ndarray) -> str:
    """The medians at the smallest and the largest size, and the exponent."""
    texts = [number(middle(found[i])) for i in (0, -1)]
    return f"{texts[0]} to {texts[1]}, {exponent(sizes, found)}" if all(texts) else ""


def horizon(folder: Path) -> str:
    """E1: exponents in H of every number at the last checkpoint, medians at the smallest and the largest H."""
    out, everything = [], read("E1", folder)
    for kind in values(everything, "kind"):
        rows = chosen(everything, kind=kind)
        lines = []
        for explorer in values(rows, "explorer"):
            mine = chosen(rows, explorer=explorer)
            cells = [ends(*samples(last(mine), field, "horizon")) for field in NUMBERS]
            lines.append([shown(explorer), *cells, violations(mine)])
        out.append(table([kind, *NUMBERS.values(), "truth outside"], lines))
    return "\n\n".join(out)


def horizon_instances(folder: Path) -> str:
    """E1 on several instances: exponents in H after the last episode, and those of single instances."""
    fields = {"width": "V_hat or U", "eps": "certificate", "gap": "worst true gap"}
    out, everything = [], with_width(read("E1_instances", folder))
    for kind in values(everything, "kind"):
        rows = chosen(everything, kind=kind)
        lines = []
        for explorer in values(rows, "explorer"):
            mine = last(chosen(rows, explorer=explorer))
            cells = []
            for field in fields:
                found = samples(mine, field, "horizon")
                cells += [ends(*found), exponent(*found).spread]
            lines.append([shown(explorer), *cells, violations(mine)])
        heads = [x for title in fields.values() for x in (title, "single instances")]
        out.append(table([kind, *heads, "truth outside"], lines))
    return "\n\n".join(out)


def dimension(folder: Path) -> str:
    """E2: episodes to a certificate and to a true gap, against d."""
    rows, out = read("E2", folder), []
    dims = sorted(values(rows, "dim"))
    for field, target in TARGETS.items():
        lines = []
        for explorer in values(rows, "explorer"):
            mine = chosen(rows, explorer=explorer)
            found = needed(mine, "dim", target, field)
            cells = [told(chosen(mine, dim=x), target, field) if x in found[0] else "" for x in dims]
            slope = exponent(*found)
            lines.append([shown(explorer), *cells, slope, slope.spread, violations(mine)])
        heads = [f"episodes to {field} <= {target}", *(f"d = {x:.0f}" for x in dims)]
        out.append(table([*heads, "exponent", "single instances", "truth outside"], lines))
    return "\n\n".join(out)


def rate(folder: Path) -> str:
    """E3: exponents in K of V_hat_k, of its sum and of the other curves, where they are below their caps."""
    out, rows = [], read("E3", folder)
    for kind in values(rows, "kind"):
        lines = []
        for explorer in values(chosen(rows, kind=kind), "explorer"):
            mine = chosen(rows, kind=kind, explorer=explorer)
            capped = np.isinf(samples(mine, "V_hat", "episodes")[1])
            cells = []
            for field in ("V_hat", "V_hat_sum", "k_star", "eps", "gap", "own_gap"):
                looks, found = samples(mine, field, "episodes")
                if field == "V_hat_sum":
                    found[capped] = np.inf
                slope = exponent(looks, found)
                single = f"; single: {slope.spread}" if slope.spread else ""
                cells.append("" if np.isnan(found).all() else f"{slope}{single}")
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
    usual = [row for row in rows if row["dim"] > 2]  # at d = 2 there are two truths
    slope, at = until_right(usual, "dim")
    multiple = ", ".join(f"{K / (3 * d**2):.1f}" for K, d in zip(at, sorted(values(usual, "dim"))))
    text = f"All explorers, d > 2: {SHARE} of the signs are wrong at {multiple} times K0; exponent of d in K: {slope}"
    return "\n\n".join([table(["explorer", "d", *heads], lines), table(edges, bounds), text])


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
            sizes, found = needed(mine, "horizon", target, field)
            cells = [told(chosen(mine, horizon=x), target, field) for x in sizes]
            lines.append(
                [
                    kind,
                    shown(explorer),
                    f"{field} <= {target}",
                    *cells,
                    exponent(sizes, found),
                    violations(mine),
                ]
            )
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


def rescaled(folder: Path) -> str:
    """E8: after the last episode, against the number of steps: what the algorithm says itself, and certificates."""
    rows, out = with_width(read("E8", folder)), []
    for kind in values(rows, "kind"):
        lines = []
        for explorer in values(rows, "explorer"):
            mine = chosen(rows, kind=kind, explorer=explorer)
            if not mine:
                continue
            cells = [ends(*samples(last(mine), field, "horizon")) for field in ("width", "eps")]
            at = chosen(mine, horizon=256) or mine
            in_K = exponent(*samples(at, "width", "episodes"))
            outside = [violations(chosen(mine, horizon=x)) for x in sorted(values(mine, "horizon"))]
            lines.append([explorer, *cells, in_K, " ".join(filter(None, outside))])
        heads = [
            kind,
            "V_hat or U, exponent of H",
            "certificate",
            "V_hat or U, exponent of K at H = 256",
        ]
        out.append(table([*heads, "truth outside, by H"], lines))
    return "\n\n".join(out)


def state_action(folder: Path) -> str:
    """E9: V_hat and certificates after the last episode, against S and A."""
    rows, lines = with_width(read("E9", folder)), []
    for kind, explorer in product(values(rows, "kind"), values(rows, "explorer")):
        mine = chosen(rows, kind=kind, explorer=explorer)
        if not mine:
            continue
        mine = last(mine)
        cells = [ends(*samples(mine, field, kind)) for field in ("width", "eps")]
        lines.append([kind, shown(explorer), *cells, violations(mine)])
    return table(["what grows", "explorer", "V_hat", "certificate", "truth outside"], lines)


def hard_eps(folder: Path) -> str:
    """E4_eps: shares of wrong signs against eps_0, and the exponent of 1/eps_0 in the episodes to SHARE of them."""
    rows, lines = read("E4_eps", folder), []
    sizes, multiples = sorted(values(rows, "K0")), sorted(values(rows, "multiple"))
    for explorer in values(rows, "explorer"):
        mine = chosen(rows, explorer=explorer)
        slope, at = until_right(mine, "K0", 0.5)  # 1/eps_0 grows as the root of K0
        for K0, K in zip(sizes, at):
            here = [chosen(mine, K0=K0, multiple=m) for m in multiples]
            shares = [f"{np.mean([row['wrong'] for row in x]) / (x[0]['dim'] - 1):.3f}" for x in here]
            lines.append(
                [explorer, f"{here[0][0]['eps_0']:.4f}", f"{K0:.0f}", *shares, number(K / K0), slope]
            )
    heads = [f"wrong signs at {m:.0f} K0" for m in multiples]
    return table(["explorer", "eps_0", "K0", *heads, f"K / K0 to {SHARE}", "exponent of 1/eps"], lines)


PARTS = {
    "E1": horizon,
    "E1_instances": horizon_instances,
    "E2": dimension,
    "E3": rate,
    "E4": minimax_table,
    "E4_eps": hard_eps,
    "E5_search": search,
    "E5": moments,
    "E6": per_step,
    "E7": proof,
    "E8": rescaled,
    "E9": state_action,
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
