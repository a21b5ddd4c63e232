"""Plots of batches, sweeps and comparisons: medians over the seeds with bands, on Matplotlib axes.

Figures are made without pyplot, so that none of its global settings change. Given axes may be those of pyplot.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from horizonfree._extras import needs_extra
from horizonfree._validation import check_known
from horizonfree.batch.compare import LOSS_TOLERANCE, algorithm_name, by_label, explorer_label
from horizonfree.errors import OptionError
from horizonfree.explorers.registry import find_entry, setting_label
from horizonfree.report.draw import set_ticks, thin_ticks
from horizonfree.report.theme import display_text

if TYPE_CHECKING:
    from horizonfree.batch.compare import Row
    from horizonfree.batch.explore import Batch
    from horizonfree.sweeps.results import Sweep

CURVE_TITLES = {
    "gap": "true suboptimality, worst goal",
    "own_gap": "true suboptimality, worst goal, own plans",
    "eps": "certified suboptimality, every reward",
    "efficiency": "K T / q",
    "excess": "above 0: truth outside the set",
}
COMPARED = ("gap", "eps")
BASELINES = ("uniform", "goal-cycling")
SUFFIXES = (".svg", ".pdf", ".png")
BAND = (25, 75)  # percentiles of the seeds
LOG_RATIO = 10.0  # of the largest to the smallest positive number, from which on an axis is logarithmic
DPI = 160
MARGIN = 1.04  # of the largest number, below the top of an axis


def new_axes(columns: int = 1, size: tuple[float, float] = (5.6, 3.8)) -> Any:
    """Axes of a new figure: one, or an array."""
    with needs_extra("report", "figures"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    figure = Figure(figsize=(size[0] * columns, size[1]), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, columns, squeeze=False)[0]
    return axes if columns > 1 else axes[0]


def draw_bands(ax: Any, lines: Mapping[str, Mapping[Any, Any]], styles: Mapping[str, str]) -> None:
    """A line of medians and a band of quartiles for each label: x -> values over the seeds."""
    from matplotlib import colormaps

    colors = cycle(colormaps["tab10"].colors)  # type: ignore[attr-defined]  # a listed colour map
    for (label, by_x), color in zip(lines.items(), colors):
        x = sorted(by_x)
        values = [np.asarray(by_x[k], float) for k in x]
        values = [np.where(np.abs(v) < LOSS_TOLERANCE, 0.0, v) for v in values]
        kept = [v[np.isfinite(v)] for v in values]
        x, kept = [k for k, v in zip(x, kept) if len(v)], [v for v in kept if len(v)]
        if not x:
            continue
        low, middle, high = (np.array([np.percentile(v, q) for v in kept]) for q in (BAND[0], 50, BAND[1]))
        marker = "o" if len(x) < 30 else None
        style = styles.get(label, "-")
        ax.plot(
            x,
            middle,
            style,
            color=color,
            marker=marker,
            markersize=3.5,
            linewidth=1.6,
            label=display_text(label),
        )
        if max(map(len, kept)) > 1:
            ax.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    ax.grid(alpha=0.25, linewidth=0.5)
    ax.spines[["top", "right"]].set_visible(False)
    set_scales(ax)


def set_scales(ax: Any) -> None:
    """Logarithmic axes where the data span a factor of ten; zero is at the bottom, below the smallest number."""
    lines = ax.get_lines()
    if not lines:
        return
    y = np.concatenate([np.asarray(line.get_ydata(), float) for line in lines])
    positive = y[y > 0]
    if len(positive) and (y >= 0).all() and positive.max() > LOG_RATIO * positive.min():
        low = 10.0 ** np.floor(np.log10(positive.min()))
        if (y == 0).any():
            ax.set_yscale("symlog", linthresh=low, linscale=0.5)
            ax.set_ylim(bottom=0)
        else:
            ax.set_yscale("log")
    elif len(y) and (y >= 0).all():
        ax.set_ylim(0, max(ax.get_ylim()[1], MARGIN * y.max()))
    x = np.unique(np.concatenate([np.asarray(line.get_xdata(), float) for line in lines]))
    if len(x) > 1 and x.min() > 0 and x.max() > LOG_RATIO * x.min():
        ax.set_xscale("log")
        set_ticks(ax.xaxis, thin_ticks([int(k) if k == int(k) else k for k in x.tolist()]))


def plot_comparison(rows: "Sequence[Row]", axes: Any = None) -> Any:
    """True and certified suboptimality against episodes, two axes. Dashed: one reward; dotted: baselines."""
    if not rows:
        raise OptionError("there are no rows to plot; no explorer finished")
    axes = new_axes(len(COMPARED)) if axes is None else np.atleast_1d(axes)
    styles = {explorer_label(row): _style(algorithm_name(row)) for row in rows}
    for ax, curve in zip(axes, COMPARED, strict=True):
        draw_bands(ax, by_label(rows, curve), styles)
        ax.set(title=CURVE_TITLES[curve], xlabel="episodes")
    axes[0].set_ylabel("suboptimality, of a total of 1")
    legend(axes[0].get_figure(), axes[0])
    return axes


def _style(algorithm: str) -> str:
    if algorithm in BASELINES:
        return ":"
    return "--" if ":" not in algorithm and "reward" in find_entry(algorithm).options else "-"


def legend(figure: Any, ax: Any) -> None:
    """The labels beside the axes."""
    handles, labels = ax.get_legend_handles_labels()
    if figure is not None and handles:
        figure.legend(handles, labels, loc="outside right center", fontsize=8, frameon=False)


def plot_batch(batch: "Batch", curve: str = "eps", ax: Any = None) -> Any:
    """A curve of a batch against episodes, a line for each problem and explorer with a band over the seeds."""
    check_known(curve, batch.curves, "curve of this batch")
    ax = new_axes() if ax is None else ax
    problems, explorers, _ = batch.shape
    values = np.asarray(batch.curves[curve]).reshape(problems, explorers, -1, len(batch.checkpoints))
    lines = {}
    for p, e in np.ndindex(problems, explorers):
        label = " ".join(filter(None, [*([f"problem {p}"] if problems > 1 else []), batch.explorer_name(e)]))
        lines[label] = {int(k): values[p, e, :, c] for c, k in enumerate(batch.checkpoints)}
    draw_bands(ax, lines, {})
    ax.set(title=CURVE_TITLES.get(curve, curve), xlabel="episodes", ylabel=curve)
    if len(lines) > 1:
        ax.legend(fontsize=8, frameon=False)
    return ax


def plot_sweep(
    sweep: "Sweep", measure: str, x: str = "episodes", problem: str | None = None, ax: Any = None
) -> Any:
    """A measure of a sweep against episodes, or at the last checkpoint against a parameter of its tables."""
    check_known(measure, [*sweep.spec.measure, *sweep.spec.records], "measure of this sweep")
    ax = new_axes() if ax is None else ax
    rows = sweep if problem is None else sweep.where(problem=check_label(problem, sweep.spec.problems))
    lines: dict[str, dict[float, list[float]]] = {}
    last = sweep.spec.checkpoints[-1]
    xs = _positions(sweep, x)
    for name, who, k, value in zip(
        rows["problem"], rows["explorer"], rows["episodes"], rows[measure], strict=True
    ):
        if x != "episodes" and k != last:
            continue
        position = int(k) if x == "episodes" else xs[name, who]
        if position is None:
            continue
        label = _line_label(sweep, name, who, x, is_several=problem is None)
        lines.setdefault(label, {}).setdefault(position, []).append(float(value))
    if not lines:
        raise OptionError(
            f"no setting of this sweep has a number {x!r}; vary it, as in vary = {{ {x} = [10, 20] }}"
        )
    draw_bands(ax, lines, {})
    when = "" if x == "episodes" else f", after {last:,} episodes"
    ax.set(title=f"{CURVE_TITLES.get(measure, measure)}{when}", xlabel=x, ylabel=measure)
    if len(lines) > 1:
        ax.legend(fontsize=8, frameon=False)
    return ax


def check_label(name: str, labels: Iterable[str]) -> str:
    """The label of a problem of a sweep."""
    check_known(name, list(labels), "problem of this sweep")
    return name


def _positions(sweep: "Sweep", x: str) -> dict[tuple[str, str], float | None]:
    """The number x of each setting, from its tables or the defaults of its problem; None where there is none."""
    from horizonfree.problems import problems

    result: dict[tuple[str, str], float | None] = {}
    for name, table in sweep.spec.problems.items():
        spec = problems().get(table["name"])
        defaults = {} if spec is None else {p.name: p.default for p in spec.parameters}
        for who, options in sweep.spec.explorers.items():
            value = ({**defaults, **table, **options}).get(x)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            result[name, who] = value if is_number else None
    return result


def _line_label(sweep: "Sweep", name: str, who: str, x: str, *, is_several: bool) -> str:
    """The label of a setting without the number that is on the axis."""

    def without(text: str) -> str:
        return " ".join(part for part in text.split() if not part.startswith(f"{x}="))

    explorer = setting_label(without(who), sweep.spec.explorers[who])
    several = {without(label) for label in sweep.spec.problems}
    return f"{without(name)}, {explorer}" if is_several and len(several) > 1 else explorer


def save_figure(axes: Any, path: Any) -> None:
    """Write the figure of axes as SVG, PDF or PNG, by the suffix of the file."""
    path = check_suffix(path)
    figure = (axes.flat[0] if hasattr(axes, "flat") else axes).get_figure()
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}[path.suffix.lower()]
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, facecolor="white", dpi=DPI, metadata=metadata)


def check_suffix(path: Any) -> Path:
    """The path of a figure; its suffix must be one of SUFFIXES."""
    path = Path(path).expanduser()
    if path.suffix.lower() not in SUFFIXES:
        raise OptionError(f"{path} has the suffix {path.suffix!r}; a figure is a {', '.join(SUFFIXES)} file")
    return path
