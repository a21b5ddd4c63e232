"""The figures of the README from the rows: lines are medians over seeds, shaded is the middle half of them."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from minimax import WRONG, failures
from read import (
    NUMBERS,
    STEP_TARGETS,
    TARGETS,
    chosen,
    last,
    needed,
    own_scale,
    read,
    samples,
    shown,
    stepwise,
    values,
    with_width,
)

from horizonfree.explorers.registry import current_name

STYLE = {
    "svg.hashsalt": "reproduce",
    "svg.fonttype": "none",
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
}
THICK = ("hf-ucrl-rfe++", "optimal-design", "ucrl-rfe+", "chen2022")
DIMENSIONS = (2, 4, 6, 8)  # of E4, those that are drawn
Samples = tuple[list[float], np.ndarray]  # sizes, and for each a number of every run


def panels(
    path: Path,
    rows: list[dict],
    fields: dict[str, str],
    size: str,
    found: Callable[[list[dict], str], Samples],
    slopes: dict[str, float] | None = None,
) -> None:
    """A column for each kind of problem, a row for each number, a line for each explorer; one kind: numbers in a row.

    found: (rows of an explorer on a problem, field) -> its samples. slopes: of a dotted line for comparison.
    """
    names, kinds = values(rows, "explorer"), values(rows, "kind")
    sizes = sorted(values(rows, size))
    is_row = len(kinds) == 1
    figure, axes = grid(*(1, len(fields)) if is_row else (len(fields), len(kinds)))
    axes = axes.T if is_row else axes
    for (i, (field, title)), (j, kind) in product(enumerate(fields.items()), enumerate(kinds)):
        axis = axes[i, j]
        for n, name in enumerate(names):
            mine = chosen(rows, kind=kind, explorer=name)
            if mine:
                line(axis, name, found(mine, field), f"C{n}")
        if axis.lines:
            widen(axis)
        else:
            axis.text(
                0.5, 0.5, "no number, or all at the cap", transform=axis.transAxes, ha="center", color="0.4"
            )
            axis.set_yticks([])
        if axis.lines and slopes and field in slopes:
            compare(axis, slopes[field])
        axis.set_xscale("log")
        axis.set_xticks(sizes, [f"{x:g}" for x in sizes], fontsize=8)
        axis.set_xticks([], minor=True)
        axis.set_title(kind if i == 0 or is_row else "")
        axis.set_ylabel(title if j == 0 else "")
        axis.set_xlabel(size if i == len(fields) - 1 or is_row else "")
    finish(figure, axes, path)


def line(axis: Any, name: str, found: Samples, colour: str) -> None:
    """Medians against a size; sizes at which the median is censored are left out."""
    known = [(n, x.ravel()) for n, x in zip(*found) if not np.isnan(x).any()]
    quarters = [(n, np.percentile(x, [25, 50, 75], method="inverted_cdf")) for n, x in known]
    usable = [(n, x) for n, x in quarters if 0 < x[1] < np.inf]
    if not usable:
        return
    at = np.array([n for n, _ in usable])
    low, middle, high = np.array([x for _, x in usable]).T
    wide = (
        {"linewidth": 1.6, "alpha": 1.0} if current_name(name) in THICK else {"linewidth": 0.8, "alpha": 0.7}
    )
    axis.loglog(at, middle, ".-", label=shown(name), color=colour, **wide)
    is_finite = np.isfinite(high) & (low > 0)
    axis.fill_between(at[is_finite], low[is_finite], high[is_finite], color=colour, alpha=0.12, linewidth=0)


def widen(axis: Any) -> None:
    """At least a factor of ten from bottom to top, so that what hardly changes looks so."""
    low, high = axis.get_ylim()
    more = max(np.sqrt(10 * low / high), 1.0)
    axis.set_ylim(low / more, high * more)


def compare(axis: Any, slope: float) -> None:
    """A dotted line of this slope through the middle of the panel."""
    x, y = np.array(axis.get_xlim()), np.array(axis.get_ylim())
    centre = np.sqrt(x.prod()), np.sqrt(y.prod())
    axis.plot(
        x, centre[1] * (x / centre[0]) ** slope, ":", color="0.4", linewidth=1, label="slope of the claim"
    )
    axis.set_xlim(*x)
    axis.set_ylim(*y)


def grid(rows: int, columns: int) -> tuple[Any, Any]:
    """Panels that share their sizes."""
    return plt.subplots(
        rows,
        columns,
        figsize=(1.4 + 2.8 * columns, 1.4 + 2.0 * rows),
        layout="constrained",
        sharex="col",
        squeeze=False,
    )


def finish(figure: Any, axes: Any, path: Path) -> None:
    """One legend for all panels, as wide as they are."""
    found: dict[str, Any] = {}
    for axis in axes.flat:
        for handle, name in zip(*axis.get_legend_handles_labels()):
            found.setdefault(name, handle)
    ncols = 4 if figure.get_figwidth() > 7 else 3
    figure.legend(found.values(), found, loc="outside lower center", ncols=ncols, frameon=False, fontsize=8)
    figure.savefig(path, facecolor="white", metadata={"Date": None})
    plt.close(figure)


def horizon(folder: Path) -> None:
    """E1: what grows with H."""
    fields = {name: NUMBERS[name] for name in ("V_hat_best", "eps", "gap_any")}
    rows = read("E1", folder)
    panels(
        folder / "horizon.svg", rows, fields, "horizon", lambda x, field: samples(last(x), field, "horizon")
    )


def dimension(folder: Path) -> None:
    """E2: episodes to a certificate, and to a true gap, against d."""
    fields = {
        "eps": f"episodes to {TARGETS['eps']} certified",
        "gap": f"... to a true gap of {TARGETS['gap']}",
    }
    panels(
        folder / "dimension.svg",
        read("E2", folder),
        fields,
        "dim",
        lambda rows, field: needed(rows, "dim", TARGETS[field], field),
        dict.fromkeys(fields, 2.0),
    )


def rate(folder: Path) -> None:
    """E3: curves against K."""
    fields = {"V_hat": "V_hat_k", "V_hat_sum": "sum of V_hat", "k_star": "k*", "eps": "certificate"}
    slopes = {"V_hat": -0.5, "V_hat_sum": 0.5, "k_star": 1.0, "eps": -0.5}
    panels(
        folder / "rate.svg",
        read("E3", folder),
        fields | {"gap": "worst true gap"},
        "episodes",
        lambda rows, field: samples(rows, field, "episodes"),
        slopes,
    )


def minimax(folder: Path) -> None:
    """E4: wrong signs and failures against K / K0, with the least that any algorithm has at K0."""
    rows = [row for row in read("E4", folder) if row["dim"] in DIMENSIONS]
    dims = sorted(values(rows, "dim"))
    figure, axes = grid(2, len(dims))
    for (n, name), (j, d) in product(enumerate(values(rows, "explorer")), enumerate(dims)):
        by_look = [chosen(rows, explorer=name, dim=d, multiple=m) for m in values(rows, "multiple")]
        at = values(rows, "multiple")
        wrong = [np.mean([row["wrong"] for row in x]) / (d - 1) for x in by_look]
        failed = np.array([failures(x) for x in by_look])
        spread = 1.96 * np.sqrt(failed * (1 - failed) / len(by_look[0]))
        axes[0, j].semilogx(at, wrong, ".-", label=name, color=f"C{n}")
        axes[1, j].errorbar(at, failed, spread, fmt=".-", linewidth=1, color=f"C{n}")
        axes[0, j].set_title(f"d = {d:.0f}")
        axes[1, j].set_xlabel("K / K0")
    for axis in axes[0]:
        axis.plot(1, WRONG, "x", color="0.2", label="on average at least, at K0 (any algorithm)")
    axes[0, 0].set_ylabel("share of wrong signs")
    axes[1, 0].set_ylabel("plans that lose more than eps_0")
    finish(figure, axes, folder / "minimax.svg")


def moments(folder: Path) -> None:
    """E5: V_hat and the true gap of own plans of every setting, each at the scale that covers it."""
    rows = read("E5", folder)
    fields = {"V_hat": "V_hat", "relaxed": "U", "own_gap": "true gap, own plans"}
    problems, settings = values(rows, "problem"), values(rows, "explorer")
    figure, axes = grid(len(fields), len(problems))
    for (i, field), (j, problem), (n, name) in product(
        enumerate(fields), enumerate(problems), enumerate(settings)
    ):
        mine = chosen(rows, problem=problem, explorer=name)
        if not mine:
            continue
        found = [row[field] for row in last(own_scale(mine))]
        low, middle, high = np.percentile(found, [25, 50, 75])
        axes[i, j].errorbar(
            n, middle, [[middle - low], [high - middle]], fmt="o", markersize=4, color=f"C{n}"
        )
        axes[i, j].set_xticks(range(len(settings)), settings, rotation=45, fontsize=8)
        axes[i, j].set_title(problem if i == 0 else "")
        axes[i, j].set_ylabel(fields[field] if j == 0 else "")
    for axis in axes.flat:
        axis.set_ylim(bottom=0)
    finish(figure, axes, folder / "moments.svg")


def per_step(folder: Path) -> None:
    """E6: episodes to a target of rewards per step, against H."""
    fields = {name: f"episodes to {name.replace('_', ' ')} <= {x:g}" for name, x in STEP_TARGETS.items()}
    panels(
        folder / "per_step.svg",
        stepwise(folder),
        fields,
        "horizon",
        lambda rows, field: needed(rows, "horizon", STEP_TARGETS[field], field),
    )


def proof(folder: Path) -> None:
    """E7: every sum of the proof as a share of its bound: the largest of all runs and orders."""
    rows = read("E7", folder)
    names, kinds = values(rows, "sum"), values(rows, "kind")
    figure, axes = grid(1, len(kinds))
    for (j, kind), (n, constants) in product(enumerate(kinds), enumerate(values(rows, "explorer"))):
        mine = chosen(rows, kind=kind, explorer=constants)
        largest = [max((row["share"] for row in chosen(mine, sum=x)), default=np.nan) for x in names]
        axes[0, j].semilogx(largest, range(len(names)), "o", color=f"C{n}", label=f"{constants} constants")
        axes[0, j].axvline(1, color="0.4", linewidth=1)
        axes[0, j].set_yticks(range(len(names)), names if j == 0 else [""] * len(names))
        axes[0, j].set_title(kind)
        axes[0, j].set_xlabel("share of its bound")
    finish(figure, axes, folder / "proof.svg")


def rescaled(folder: Path) -> None:
    """E8: widths and certificates after the last episode, against the number of steps."""
    fields = {"width": "V_hat or U", "eps": "certificate"}
    panels(
        folder / "rescaled.svg",
        [
            row for row in with_width(read("E8", folder)) if row["explorer"] != "ucrl-rfe+"
        ],  # README: its U means nothing
        fields,
        "horizon",
        lambda rows, field: samples(last(rows), field, "horizon"),
    )


def sizes(folder: Path) -> None:
    """E9: V_hat and certificates after the last episode, against S and A."""
    rows = with_width(read("E9", folder))
    fields, kinds = {"width": "V_hat", "eps": "certificate"}, values(rows, "kind")
    figure, axes = grid(len(fields), len(kinds))
    for (i, (field, title)), (j, kind) in product(enumerate(fields.items()), enumerate(kinds)):
        for n, name in enumerate(values(rows, "explorer")):
            line(
                axes[i, j], name, samples(last(chosen(rows, kind=kind, explorer=name)), field, kind), f"C{n}"
            )
        widen(axes[i, j])
        at = sorted(values(chosen(rows, kind=kind), kind))
        axes[i, j].set_xscale("log")
        axes[i, j].set_xticks(at, [f"{x:g}" for x in at], fontsize=8)
        axes[i, j].set_xticks([], minor=True)
        axes[i, j].set_xlabel(kind if i == len(fields) - 1 else "")
        axes[i, j].set_ylabel(title if j == 0 else "")
    finish(figure, axes, folder / "sizes.svg")


FIGURES = {
    "E1": horizon,
    "E2": dimension,
    "E3": rate,
    "E4": minimax,
    "E5": moments,
    "E6": per_step,
    "E7": proof,
    "E8": rescaled,
    "E9": sizes,
}


def draw(name: str, folder: Path) -> None:
    """The figure of an experiment, into the folder of its rows."""
    with matplotlib.rc_context(STYLE):
        FIGURES[name](folder)
