"""Drawing on Matplotlib axes: medians over seeds with bands, and where a policy is.

Figures are made without pyplot, so that none of its global settings change. Given axes may be those of pyplot.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from horizonfree._extras import needs_extra
from horizonfree.errors import OptionError

CURVE_TITLES = {
    "gap": "true suboptimality, worst goal",
    "own_gap": "true suboptimality, worst goal, own plans",
    "eps": "certified suboptimality, every reward",
    "efficiency": "K T / q",
    "excess": "above 0: truth outside the set",
}
SUFFIXES = (".svg", ".pdf", ".png")
BAND = (25, 75)  # percentiles of the seeds
LOG_RATIO = 10.0  # of the largest to the smallest positive number, from which on an axis is logarithmic
LOSS_TOLERANCE = 1e-12  # smaller suboptimality is rounding error, drawn as zero
DPI = 160
MARGIN = 1.04  # of the largest number, below the top of an axis
MAX_MARKED = 30  # points of a line with markers
MAX_STATES = 24  # names of states on an axis
CONTROL = re.compile(r"[\0-\x1f\x7f-\x9f\ufffe\uffff]")


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
    with needs_extra("report", "figures"):
        from matplotlib import colormaps

    medians: list[Float[np.ndarray, " C"]] = []
    colors = cycle(colormaps["tab10"].colors)  # type: ignore[attr-defined]  # a listed colour map
    for (label, by_x), color in zip(lines.items(), colors):
        x = sorted(by_x)
        values = [np.asarray(by_x[k], float) for k in x]
        values = [np.where(np.abs(v) < LOSS_TOLERANCE, 0.0, v) for v in values]
        finite = [v[np.isfinite(v)] for v in values]
        x, finite = [k for k, v in zip(x, finite) if len(v)], [v for v in finite if len(v)]
        if not x:
            continue
        low, middle, high = (np.array([np.percentile(v, q) for v in finite]) for q in (BAND[0], 50, BAND[1]))
        medians += [low, middle, high]
        marker = "o" if len(x) < MAX_MARKED else None
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
            clip_on=False,  # a marker at zero is drawn whole
        )
        if max(map(len, finite)) > 1:
            ax.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    ax.grid(alpha=0.25, linewidth=0.5)
    ax.spines[["top", "right"]].set_visible(False)
    set_scales(ax, medians)


def set_scales(ax: Any, drawn: Sequence[Float[np.ndarray, " C"]] = ()) -> None:
    """Logarithmic axes where the data span a factor of ten; zero is at the bottom, below the smallest number.

    drawn: the numbers on the vertical axis; by default those of the lines.
    """
    lines = ax.get_lines()
    if not lines:
        return
    y = np.concatenate(drawn or [np.asarray(line.get_ydata(), float) for line in lines])
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


def legend(figure: Any, ax: Any) -> None:
    """The labels beside the axes."""
    handles, labels = ax.get_legend_handles_labels()
    if figure is not None and handles:
        figure.legend(handles, labels, loc="outside right center", fontsize=8, frameon=False)


def save_figure(axes: Any, path: Any) -> None:
    """Write the figure of axes as SVG, PDF or PNG, by the suffix of the file."""
    path = check_suffix(path)
    figure = (axes.flat[0] if hasattr(axes, "flat") else axes).get_figure()
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}[path.suffix.lower()]
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, facecolor="white", dpi=DPI, metadata=metadata)


def check_suffix(path: Any) -> Path:
    """The path of a figure; its suffix must be one of SUFFIXES."""
    target: Path = Path(path).expanduser()
    if target.suffix.lower() not in SUFFIXES:
        raise OptionError(
            f"{target} has the suffix {target.suffix!r}; a figure is a {', '.join(SUFFIXES)} file"
        )
    return target


def thin_ticks(ticks: list[int]) -> list[int]:
    """Ticks of a logarithmic axis whose labels do not overlap."""
    result: list[int] = []
    for k in reversed(ticks):
        if not result or result[-1] >= k * max(1.25, (ticks[-1] / ticks[0]) ** 0.12):
            result.append(k)
    return result[::-1]


def set_ticks(axis: Any, ticks: Sequence[float]) -> None:
    """Ticks at these numbers, without exponents."""
    axis.set_ticks(ticks, [f"{x:,}" if x >= 1 else f"{x:.6f}".rstrip("0").rstrip(".") for x in ticks])
    axis.set_ticks([], minor=True)


def display_text(text: str) -> str:
    """A name for Matplotlib without special characters.

    A dollar sign would begin a formula, a leading underscore hides a line in the legend, and SVG files with lone
    surrogates or control characters cannot be opened.
    """
    safe = CONTROL.sub("?", text.encode("utf-8", "replace").decode()).replace("$", r"\$")
    return f"\u200b{safe}" if safe.startswith("_") else safe or " "


def draw_occupancy(ax: Any, occupancy: Float[np.ndarray, "H S"], layout: Mapping[str, Any]) -> None:
    """Where a policy is: the share of time in each cell of a grid, else the probability of states by step."""
    with needs_extra("report", "figures"):
        from matplotlib.ticker import MaxNLocator
    cells = layout.get("cells")
    cells = None if cells is None or 1 in np.ptp(np.asarray(cells), axis=0) + 1 else cells
    share = occupancy.mean(axis=0)
    if cells is not None:
        cells = np.asarray(cells)
        table = np.full(cells.max(axis=0)[::-1] + 1, np.nan)
        table[cells[:, 1], cells[:, 0]] = share[: len(cells)]
        image, label = ax.imshow(table, cmap="Blues", vmin=0), "share of the episode"
        ax.set(xlabel="column", ylabel="row")
    else:
        image, label = ax.imshow(occupancy.T, cmap="Blues", vmin=0, vmax=1, aspect="auto"), "probability"
        ax.set(xlabel="step", ylabel="state")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    names = layout.get("states")
    if cells is None and names and len(names) <= MAX_STATES:
        ax.set_yticks(range(len(names)), [display_text(str(x)) for x in names], fontsize=8)
    ax.get_figure().colorbar(image, ax=ax, label=label)
