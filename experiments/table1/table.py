"""Table 1, measured: `python experiments/table1/table.py [FOLDER]` writes it as Markdown, as HTML and as a figure.

Exponents are those of ../shared/exponents.py; each size has one instance, so intervals describe this instance. "?":
fewer than three sizes have at most a tenth of their runs censored. Ranks come from ten instances of one size: among the
explorers of a class on one instance, 1 for the smallest number; median and range over instances.
Episodes: until the worst true gap of 2 S + 32 rewards of total 1 is at most eps, and stays so (rewards per step: add 2
to the exponent of H, as the paper's rates for them count it). 1/eps: minus the inverse of the exponent of the gap in K.
"""

import html
import sys
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "reproduce"))

from read import chosen, exponent, last, needed, read, samples, shown, table, told, values

from horizonfree import theory
from horizonfree.explorers.registry import current_name, find_entry

EPS = {  # of the true gap ("gap") and of the certificate ("eps"): where they are met between two checkpoints
    "mixture": {"gap": 0.001, "eps": 0.5},
    "tabular": {"gap": 0.01, "eps": 0.62},
    "linear": {"gap": 0.005, "eps": 0.8},
}
KINDS = {  # class: the problems on which each size varies
    "mixture": {"H": ("mixture", "horizon"), "d": ("dimension", "dim")},
    "tabular": {"H": ("tables-H", "horizon"), "S": ("tables-S", "states"), "A": ("tables-A", "actions")},
    "linear": {"H": ("linear-H", "horizon"), "d": ("linear-d", "blocks")},
}
OURS = {"mixture": ("ucrl-rfe", "information", "uniform"), "tabular": ("tabular-design", "uniform")}
OURS |= {"linear": ("lsvi-rfe", "linear-design", "uniform")}
HEADS = [
    "row of the paper",
    "its rate",
    "explorer",
    "exponent of H: true gap / certificate",
    "of d (or S; A)",
    "of 1/eps, true gap",
    "episodes to eps: true gap / certificate",
    "certified at the end",
]
HEADS += ["CPU s per 1,000 episodes", "constants"]
HEADS += ["at the end on several instances, median and range: true gap, rank / certificate, rank"]
NOT = "not measured"
WHAT = ("true gap", "certificate")


def printed(row) -> str:
    kind = "" if row.kind == "upper" else ", lower bound"
    return f"{row.order} ({row.scale}{kind})"


def ranks(rows: list[dict], model: str) -> dict[str, str]:
    """For each explorer the true gap and the certificate on several instances, and its rank in the class.

    The number of an instance is the median over its seeds; ties share a rank.
    """
    rows = chosen(rows, kind=KINDS[model]["H"][0])
    names, out = values(rows, "explorer"), []
    for field in EPS[model]:
        tables = [samples(chosen(rows, explorer=x), field, "episodes")[1][0] for x in names]
        numbers = np.minimum([np.median(x, 1) for x in tables], 1.0)  # infinity: a certificate at its cap
        out.append([middle_and_range(x) for x in numbers])
        out.append([middle_and_range(x) for x in rankdata(numbers, axis=0)])
    return {
        current_name(x): f"{gap}, rank {gap_rank} / {eps}, rank {eps_rank}"
        for x, gap, gap_rank, eps, eps_rank in zip(names, *out)
    }


def middle_and_range(x: np.ndarray) -> str:
    return f"{np.median(x):.3g} ({x.min():.3g} to {x.max():.3g})"


def measured(rows: list[dict], model: str, explorer: str) -> list[str]:
    """The measured cells of an explorer, but for those of several instances."""
    sizes = KINDS[model]
    found = {}
    for name, (kind, size) in sizes.items():
        mine = chosen(rows, kind=kind, explorer=explorer)
        slopes = [exponent(*needed(mine, size, eps, field)) for field, eps in EPS[model].items()]
        found[name] = " / ".join(map(str, slopes))
    kind, size = sizes["H"]
    mine = chosen(rows, kind=kind, explorer=explorer)
    if not mine:
        return [NOT] * 7
    first = chosen(mine, **{size: sorted(values(mine, size))[:2][-1]})
    in_K = exponent(*samples(first, "gap", "episodes"))
    is_known = in_K.high < 0
    inverse = f"{-1 / in_K.value:.2f} [{-1 / in_K.low:.2f}, {-1 / in_K.high:.2f}]" if is_known else "?"
    inverse += ", bent" if in_K.is_bent else ""
    end = last(first)
    rest = "; ".join(f"{name}: {found[name]}" for name in sizes if name != "H")
    met = [told(first, eps, field) for field, eps in EPS[model].items()]
    cost = np.median([1000 * row["cpu_per_run"] / row["episodes"] for row in end])
    return [
        found["H"],
        rest,
        inverse,
        " / ".join(met),
        f"{np.median([row['eps'] for row in end]):.3f}",
        f"{cost:.2g}",
        constants(explorer),
    ]


def constants(explorer: str) -> str:
    options = find_entry(explorer).options
    knob = next((x for x in ("scale", "bonus_scale", "beta") if x in options), None)
    if explorer == "wang2020":
        return "beta; every value tried explored alike"
    return "none" if knob is None else f"{knob}, tuned on other problems"


def lines(folder: Path) -> list[list[str]]:
    """Every row of the paper's table, then what it does not have."""
    rows, out = read("table1", folder), []
    several = read("table1_ranks", folder)
    ranked = {model: ranks(several, model) for model in KINDS}

    def cells(model: str, explorer: str) -> list[str]:
        return [*measured(rows, model, explorer), ranked[model].get(current_name(explorer), NOT)]

    for row in theory.table1():
        has = row.explorer is not None and chosen(rows, explorer=row.explorer)
        found = cells(row.model, row.explorer) if has else [NOT] * len(HEADS[3:])
        name = "none" if row.explorer is None else shown(row.explorer)
        out.append([f"{row.algorithm} ({row.model})", printed(row), name, *found])
    for model, names in OURS.items():
        for name in names:
            if chosen(rows, kind=KINDS[model]["H"][0], explorer=name):
                out.append([f"not in the table ({model})", "", shown(name), *cells(model, name)])
    return out


def page(found: list[list[str]]) -> str:
    """As HTML, in one file."""
    head = "".join(f"<th>{html.escape(x)}</th>" for x in HEADS)
    body = "\n".join("<tr>" + "".join(f"<td>{html.escape(x)}</td>" for x in line) + "</tr>" for line in found)
    style = (
        "body{font:14px sans-serif;margin:2em}td,th{border:1px solid #ccc;padding:4px 8px;text-align:left}"
    )
    style += "table{border-collapse:collapse}th{background:#f3f4f6}"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Table 1, measured</title>'
        f"<style>{style}</style><h1>Table 1, measured</h1>"
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></html>\n"
    )


def draw(folder: Path, path: Path) -> None:
    """Exponents of H: the paper's (rewards of total 1), and the measured ones with their intervals."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "table1"
    import matplotlib.pyplot as plt

    rows = read("table1", folder)
    drawn = []
    for row in theory.table1():
        mine = chosen(rows, kind=KINDS[row.model]["H"][0], explorer=row.explorer) if row.explorer else []
        if not mine or row.scale == "total H":
            continue
        size = KINDS[row.model]["H"][1]
        paper = max(term[0] for term in row.terms) - (2 if row.scale == "per-step" else 0)
        slopes = [exponent(*needed(mine, size, eps, field)) for field, eps in EPS[row.model].items()]
        drawn.append((shown(row.explorer), paper, slopes))
    figure, axis = plt.subplots(figsize=(7, 0.45 * len(drawn) + 1.6), layout="constrained")
    for i, (_, paper, slopes) in enumerate(reversed(drawn)):
        axis.plot(
            paper,
            i,
            "x",
            color="#d1570a",
            label="the paper's upper bound, rewards of total 1",
        )
        for found, colour, up, what in zip(slopes, ("#1f6feb", "#2da44e"), (0.12, -0.12), WHAT):
            if np.isfinite(found.value):
                axis.plot([found.low, found.high], [i + up] * 2, color=colour)
                axis.plot(
                    found.value, i + up, "o", color=colour, markersize=4, label=f"measured: {what}, 95 %"
                )
    axis.set_yticks(range(len(drawn)), [name for name, _, _ in reversed(drawn)])
    axis.set_xlabel("exponent of H in the episodes to eps")
    axis.axvline(0, color="0.7", linewidth=0.8)
    axis.grid(alpha=0.25, linewidth=0.5)
    named = dict(zip(*reversed(axis.get_legend_handles_labels())))
    figure.legend(named.values(), named, loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    figure.savefig(path, facecolor="white", metadata={"Date": None})


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "reproduce" / "results"
    target = where if len(sys.argv) > 1 else HERE / "results"
    target.mkdir(parents=True, exist_ok=True)
    found = lines(where)
    (target / "table1.md").write_text(table(HEADS, found) + "\n")
    (target / "table1.html").write_text(page(found))
    print(table(HEADS, found))
    draw(where, target / "table1.svg")
