"""The figures of a report, from its facts. Matplotlib is loaded when the first one is drawn."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.problems.problem import Problem
from horizonfree.report.facts import Example, Facts, is_wide, ringed
from horizonfree.report.history import Moment
from horizonfree.report.theme import ACCENT, CELL, INK, MUTED, ON, WARM, colormap, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ARROWS = {
    "up": (0, -1), "right": (1, 0), "down": (0, 1), "left": (-1, 0),
    "north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0),
}  # fmt: skip
MOST_ARROWS = 1600  # cells; beyond, arrows are specks
MOST_NAMES = 24  # states whose names stand below their bars
MOST_WEIGHTS = 24  # intervals that one figure can hold
SMALLEST = 1e-6  # gaps below this are drawn there
WIDTH = 7.2  # inches
BAR = 0.45  # inches for the bar below a map


def figure(height: float, columns: int = 1, rows: int = 1, width: float = WIDTH) -> tuple["Figure", Any]:
    """An empty figure without any global state, and its axes [rows, columns]."""
    from matplotlib.figure import Figure

    fig = Figure(figsize=(width, height))
    return fig, fig.subplots(rows, columns, squeeze=False)


def gaps(
    histories: dict[str, list[Moment]],
    has_truth: bool,
    worst_goal: str,
    ahead: Sequence[tuple[float, float]] = (),
) -> "Figure":
    """The certified gap against episodes, and beside it the true one where it is known, on one scale; one line per run.

    `worst_goal` says what the true one is the loss at. `ahead`: a forecast, in place of the true gap.
    """
    has_truth = has_truth and not ahead
    fig, axes = figure(2.9, 2 if has_truth else 1)
    colors, dashes = (ACCENT, WARM, MUTED, INK), ("-", "--", ":")
    for i, (name, history) in enumerate(histories.items()):
        k = [m.episodes for m in history]
        line = {"color": colors[i % 4], "linestyle": dashes[i // 4 % 3], "marker": "o", "markersize": 4.5}
        axes[0, 0].plot(k, [m.eps for m in history], label=written(name), **line)
        if has_truth:
            true = [max(m.true_gap, SMALLEST) for m in history]
            axes[0, 1].plot(k, true, label=written(name), markerfacecolor=CELL, **line)
    if ahead:
        axes[0, 0].plot(*zip(*ahead), color=ACCENT, linestyle="--", linewidth=1.1)
    ticks = sorted({m.episodes for history in histories.values() for m in history})
    ticks = [ticks[-1] * times for times in (1, 3, 10, 30, 100)] if ahead else ticks
    for ax in axes.flat:
        ax.set(xscale="log", xlabel="episodes")
        plain(ax.xaxis, spread(ticks))
    lowest = min(line.get_ydata().min() for ax in axes.flat for line in ax.lines)
    bottom = math.floor(math.log10(max(lowest, SMALLEST)))
    for ax in axes.flat:
        ax.axhline(1, color=MUTED, linewidth=0.8, zorder=0)
        ax.set(yscale="log", ylim=(10.0 ** min(bottom, -1) / 1.5, 1.5))
        plain(ax.yaxis, [10.0**power for power in range(min(bottom, -1), 1)])
    axes[0, 0].set(title="certified suboptimality, every reward", ylabel="suboptimality, of a total of 1")
    if has_truth:
        axes[0, 1].set(title=f"really lost, at the {worst_goal}")
    if len(histories) > 1:
        axes[0, 0].legend(loc="lower left", fontsize=8.5)
    return fig


def records(facts: Facts) -> "Figure | None":
    """What the explorer reported, episode by episode."""
    shown = {
        name: x for name, x in facts.records.items() if np.isfinite(x).any() and np.ptp(x[np.isfinite(x)]) > 0
    }
    if not shown:
        return None
    columns = min(3, len(shown))
    lines = math.ceil(len(shown) / columns)
    fig, axes = figure(1.9 * lines, columns, lines)
    for ax, (name, x) in zip(axes.flat, shown.items()):
        ax.plot(np.arange(1, len(x) + 1), x, color=ACCENT, linewidth=1.1)
        ax.set(title=written(name.replace("_", " ")), xlabel="episode")
        if (x > 0).all() and x.max() > 50 * x.min():
            ax.set_yscale("log")
    for ax in axes.flat[len(shown) :]:
        ax.set_axis_off()
    return fig


def robustness(facts: Facts) -> "Figure | None":
    """The certified gap against how far transition laws may be from the class; every reward, and the first example."""
    if facts.robustness is None:
        return None
    fig, ((ax,),) = figure(2.6)
    names, colors = ("every reward", facts.examples[0].title.lower()), (ACCENT, WARM)
    for found, name, color in zip(facts.robustness, names, colors):
        ax.plot(found.zetas, found.gaps, color=color, label=name)
    low = facts.robustness[0].zeta_low
    if low > 0:
        ax.axvspan(0, low, color=MUTED, alpha=0.15, linewidth=0, label="refuted by the data")
    ax.set(xlabel="misspecification: how far laws may be from those of one parameter")
    ax.set(title="certified suboptimality", ylim=(0, 1.06), xlim=(0, 0.11))
    ax.set_xscale("symlog", linthresh=1e-3)
    plain(ax.xaxis, [0, 0.001, 0.003, 0.01, 0.03, 0.1])
    ax.axhline(1, color=MUTED, linewidth=0.8, zorder=0)
    ax.legend(loc="center left", fontsize=8.5)
    return fig


def states(facts: Facts) -> "Figure":
    """Visits and what is still in doubt, state by state: as maps, or as bars where states have no cells."""
    titles = "visits", "how far a probability may be off"
    share, units = (facts.visits.astype(float), facts.doubt), ("steps", "probability")
    if not facts.has_cells:
        fig, axes = figure(3.4, 1, 2)
        for ax, title, x, unit, color in zip(axes[:, 0], titles, share, units, (ACCENT, WARM)):
            ax.bar(np.arange(len(x)), np.nan_to_num(x), color=color, width=0.85)
            ax.set(title=title, xlabel="state", ylabel=unit)
            if facts.problem.layout.get("states") and len(x) <= MOST_NAMES:
                names = [written(facts.problem.state_name(s)) for s in range(len(x))]
                ax.set_xticks(np.arange(len(x)), names, rotation=0 if len(x) <= 8 else 60)
                ax.set_xlabel("")
        return fig
    side_by_side = 1 if facts.is_wide else 2
    height = _height(facts.problem, WIDTH / side_by_side) + BAR
    fig, axes = figure(height * (2 // side_by_side), side_by_side, 2 // side_by_side)
    for ax, title, x, unit, color in zip(axes.flat, titles, share, units, (ACCENT, WARM)):
        top = float(np.nanmax(x)) if np.isfinite(x).any() else 0.0
        board(ax, facts.problem, x / (top or 1.0), color)
        ax.set_title(title, fontsize=9.5)
        scale(ax, color, 0, top, unit)
    return fig


def plan(problem: Problem, example: Example) -> "Figure | None":
    """The first step of a plan: value as colour, action as arrow; None where states have no cells."""
    if problem.layout.get("cells") is None:
        return None
    width = WIDTH if is_wide(problem) else WIDTH / 3
    fig, ((ax,),) = figure(_height(problem, width) + BAR, width=width)
    low, high = float(example.V.min()), float(example.V.max())
    shades = (example.V - low) / (high - low) if high > low else np.ones_like(example.V)
    board(ax, problem, shades, ACCENT)
    _actions(ax, problem, example.policy, shades, example.V > 1e-9 * high)
    for s in example.states:
        _outline(ax, problem.layout["cells"][s])
    scale(ax, ACCENT, low, high, "value")
    return fig


def scale(ax: Any, color: str, low: float, high: float, unit: str) -> None:
    """A bar below a map that says which number each shade stands for."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    if not high > low:
        return
    shades = ScalarMappable(Normalize(low, high), colormap(color))
    bar = ax.get_figure().colorbar(
        shades, ax=ax, orientation="horizontal", fraction=0.05, pad=0.03, aspect=40
    )
    digits = next((d for d in range(3, 9) if f"{low:.{d}g}" != f"{high:.{d}g}"), 9)
    bar.set_ticks([low, high], labels=[f"{low:.{digits}g}", f"{high:.{digits}g}"], fontsize=7.5)
    bar.set_label(unit, fontsize=7.5, labelpad=-8)
    bar.outline.set_visible(False)


def weights(facts: Facts) -> "Figure | None":
    """The parameter with its intervals, widest first when there are many; the truth as a ring."""
    found = facts.intervals
    if found is None or not found.is_learnable.any():
        return None
    order = np.flatnonzero(found.is_learnable)
    widest = np.argsort((found.low - found.high)[order], kind="stable")[:MOST_WEIGHTS]
    order = np.sort(order[widest])
    fig, ((ax,),) = figure(0.7 + 0.2 * len(order))
    y, names = np.arange(len(order)), [written(facts.problem.weight_name(int(i))) for i in order]
    ax.hlines(y, found.low[order], found.high[order], color=ACCENT, linewidth=5, alpha=0.35)
    ax.plot(found.estimate[order], y, "o", color=ACCENT, markersize=4.5, label="estimate and interval")
    if facts.truth is not None:
        ax.plot(facts.truth[order], y, "o", color=WARM, markerfacecolor="none", markersize=8, label="truth")
    ax.set(yticks=y, yticklabels=names, ylim=(len(order) - 0.4, -0.6))
    ax.grid(axis="y", visible=False)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=8.5)
    return fig


def board(ax: Any, problem: Problem, x: Float[np.ndarray, " S"], color: str) -> None:
    """States as cells, each in a shade of a colour for x in [0, 1]; nan is left empty; starts have rings."""
    from matplotlib.patches import Circle

    cells = np.asarray(problem.layout["cells"])
    columns, lines = (cells.max(axis=0) + 1).tolist()
    image = np.full((lines, columns), np.nan)
    image[cells[:, 1], cells[:, 0]] = x
    edges = np.arange(columns + 1) - 0.5, np.arange(lines + 1) - 0.5
    is_large = image.size > MOST_ARROWS
    border = {"edgecolor": "none"} if is_large else {"edgecolor": ON, "linewidth": 0.6}
    shades = {"cmap": colormap(color), "vmin": 0, "vmax": 1, "rasterized": is_large}
    ax.pcolormesh(*edges, np.ma.masked_invalid(image), **shades, **border)
    ax.set(aspect="equal", xlim=(-0.5, columns - 0.5), ylim=(lines - 0.5, -0.5))
    ax.set_axis_off()
    for s in ringed(problem):
        if s < len(cells):  # around an arrow or a word, not through it
            ax.add_patch(Circle(cells[s].tolist(), 0.43, fill=False, color=INK, linewidth=1.0))


def _actions(
    ax: Any,
    problem: Problem,
    policy: Int[np.ndarray, " S"],
    x: Float[np.ndarray, " S"],
    gains: Bool[np.ndarray, " S"],
) -> None:
    """The action of every state that has something to gain, on its shade x."""
    cells = np.asarray(problem.layout["cells"])
    if len(cells) > MOST_ARROWS:
        return
    names = problem.layout.get("actions") or [str(a) for a in range(problem.num_actions)]
    columns = int(cells[:, 0].max()) + 1
    letters = max(1, int(2 * _mark(ax, columns) / 5)) if len(cells) > columns else 8
    for s in np.flatnonzero(gains[: len(cells)]):
        color = ON if x[s] > 0.55 else INK
        name = str(names[policy[s]])
        if name not in ARROWS:
            last = name.split()[-1:] or [str(policy[s])]  # a name may be empty
            word = written(last[0][:letters])
            ax.text(*cells[s], word, ha="center", va="center", fontsize=7, color=color)
            continue
        move = np.array(ARROWS[name])
        tail, head = cells[s] - 0.3 * move, cells[s] + 0.3 * move
        size = 0.8 * _mark(ax, columns)
        arrow = {"arrowstyle": "-|>", "color": color, "mutation_scale": size, "linewidth": 0.8}
        ax.annotate("", head, tail, arrowprops=arrow | {"shrinkA": 0, "shrinkB": 0})


def _outline(ax: Any, cell: Int[np.ndarray, " 2"]) -> None:
    from matplotlib.patches import Rectangle

    ax.add_patch(
        Rectangle((cell[0] - 0.5, cell[1] - 0.5), 1, 1, fill=False, color=WARM, linewidth=2, clip_on=False)
    )


def _mark(ax: Any, columns: int) -> float:
    """Half a cell, in points."""
    side_by_side = int(ax.get_subplotspec().get_gridspec().ncols)
    return min(14.0, 36.0 * float(ax.get_figure().get_size_inches()[0]) / side_by_side / columns)


def _height(problem: Problem, width: float) -> float:
    columns, lines = np.asarray(problem.layout["cells"]).max(axis=0) + 1
    return float(np.clip(width * lines / columns, 0.7, 12))


def spread(ticks: list[int]) -> list[int]:
    """Those of the ticks whose labels do not run into the one before, on a logarithmic axis."""
    kept: list[int] = []
    for k in reversed(ticks):
        if not kept or kept[-1] >= k * max(1.25, (ticks[-1] / ticks[0]) ** 0.12):
            kept.append(k)
    return kept[::-1]


def plain(axis: Any, ticks: Sequence[float]) -> None:
    """Ticks at these numbers, written out."""
    axis.set_ticks(ticks, [f"{x:,}" if x >= 1 else f"{x:.6f}".rstrip("0").rstrip(".") for x in ticks])
    axis.set_ticks([], minor=True)
