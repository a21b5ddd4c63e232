"""The figures of a run and of comparisons, as Matplotlib figures or as files."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._plots import display_text, set_ticks, thin_ticks
from horizonfree._validation import check_choice
from horizonfree.problems.problem import Problem
from horizonfree.report import theme
from horizonfree.report.facts import (
    Example,
    Facts,
    Moment,
    compute_facts,
    example_rewards,
    is_wide,
    marked_starts,
)
from horizonfree.report.theme import ACCENT, CELL, INK, MUTED, ON_COLOR, WARM, colormap
from horizonfree.runs.constrained import Constraint
from horizonfree.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FORMATS = ("svg", "png")


def figures(run: Run, *, delta: float = 0.05, constraints: Sequence[Constraint] = ()) -> dict[str, "Figure"]:
    """The figures of a report: "gap", "states", "weights", "records", "robustness", "trade-off", "plan-1", ..."""
    return draw_all(compute_facts(run, delta, constraints=constraints))


def draw_all(facts: Facts) -> dict[str, "Figure"]:
    """The figures of facts."""
    with theme.style():
        drawn = {
            "gap": gaps({facts.explorer: facts.history}, facts.has_truth, facts.worst_goal, facts.forecast),
            "states": states(facts),
            "weights": weights(facts),
            "records": records(facts),
            "robustness": robustness(facts),
            "trade-off": trade_off(facts),
        }
        for i, example in enumerate(facts.examples):
            drawn[f"plan-{i + 1}"] = plan(facts.problem, example)
    return {name: figure for name, figure in drawn.items() if figure is not None}


class Picture(NamedTuple):
    """A figure and its SVG."""

    figure: "Figure"
    svg: str


def pictures(facts: Facts) -> dict[str, Picture]:
    """The figures of facts with their SVG."""
    return {name: Picture(figure, theme.to_svg(figure, name)) for name, figure in draw_all(facts).items()}


def write_figures(
    run: Run,
    folder: str | Path,
    *,
    formats: Sequence[str] = FORMATS,
    delta: float = 0.05,
    constraints: Sequence[Constraint] = (),
) -> list[Path]:
    """Write every figure into a folder; formats: "svg", "png"; constraints: as for `write_report`."""
    for kind in formats:
        check_choice(kind, "format", FORMATS)
    Path(folder).mkdir(parents=True, exist_ok=True)
    return write_pictures(pictures(compute_facts(run, delta, constraints=constraints)), folder, formats)


def write_pictures(
    drawn: Mapping[str, Picture], folder: str | Path, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Write drawn figures."""
    folder, paths = Path(folder), []
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in drawn.items():
        for kind in formats:
            path = folder / f"{name}.{kind}"
            if kind == "svg":
                path.write_text(picture.svg, encoding="utf-8")
            else:
                theme.write_png(picture.figure, path)
            paths.append(path)
    return paths


# Drawing. Matplotlib is imported when the first figure is drawn.


ARROWS = {
    "up": (0, -1), "right": (1, 0), "down": (0, 1), "left": (-1, 0),
    "north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0),
}  # fmt: skip
MAX_ARROWS = 1600  # cells; larger maps are drawn without arrows
MIN_PROBABILITY = 0.05  # of a policy's action; rarer ones are not drawn
MAX_NAMES = 24  # states; with more, bars have no names
MAX_WEIGHTS = 24  # intervals in the figure of the weights
MIN_GAP = 1e-6  # suboptimality; smaller values are drawn at this one
WIDTH_INCHES = 7.2  # of a figure
BAR_INCHES = 0.45  # height of the colour bar below a map


def figure(
    height: float, columns: int = 1, rows: int = 1, width: float = WIDTH_INCHES
) -> tuple["Figure", Any]:
    """An empty figure without any global state, and its axes [rows, columns]."""
    from matplotlib.figure import Figure

    fig = Figure(figsize=(width, height))
    return fig, fig.subplots(rows, columns, squeeze=False)


def gaps(
    histories: dict[str, list[Moment]],
    has_truth: bool,
    worst_goal: str,
    forecast: Sequence[tuple[float, float]] = (),
) -> "Figure":
    """Certified and, if known, true suboptimality against episodes; one line per run.

    worst_goal: the goals of the true one. forecast: a curve in place of the true one.
    """
    has_truth = has_truth and not forecast
    fig, axes = figure(2.9, 2 if has_truth else 1)
    colors, dashes = (ACCENT, WARM, MUTED, INK), ("-", "--", ":")
    for i, (name, history) in enumerate(histories.items()):
        k = [m.episodes for m in history]
        line = {"color": colors[i % 4], "linestyle": dashes[i // 4 % 3], "marker": "o", "markersize": 4.5}
        axes[0, 0].plot(k, [m.eps for m in history], label=display_text(name), **line)
        if has_truth:
            true = [max(m.true_gap, MIN_GAP) for m in history]
            axes[0, 1].plot(k, true, label=display_text(name), markerfacecolor=CELL, **line)
    if forecast:
        axes[0, 0].plot(*zip(*forecast), color=ACCENT, linestyle="--", linewidth=1.1)
    ticks = sorted({m.episodes for history in histories.values() for m in history})
    ticks = [ticks[-1] * times for times in (1, 3, 10, 30, 100)] if forecast else ticks
    for ax in axes.flat:
        ax.set(xscale="log", xlabel="episodes")
        set_ticks(ax.xaxis, thin_ticks(ticks))
    lowest = min(line.get_ydata().min() for ax in axes.flat for line in ax.lines)
    bottom = math.floor(math.log10(max(lowest, MIN_GAP)))
    for ax in axes.flat:
        ax.axhline(1, color=MUTED, linewidth=0.8, zorder=0)
        ax.set(yscale="log", ylim=(10.0 ** min(bottom, -1) / 1.5, 1.5))
        set_ticks(ax.yaxis, [10.0**power for power in range(min(bottom, -1), 1)])
    axes[0, 0].set(title="certified suboptimality, every reward", ylabel="suboptimality, of a total of 1")
    if has_truth:
        axes[0, 1].set(title=f"true suboptimality, {worst_goal}")
    if len(histories) > 1:
        axes[0, 0].legend(loc="lower left", fontsize=8.5)
    return fig


def records(facts: Facts) -> "Figure | None":
    """The records of the explorer against episodes, one panel each; None if all are constant."""
    varying = {
        name: x for name, x in facts.records.items() if np.isfinite(x).any() and np.ptp(x[np.isfinite(x)]) > 0
    }
    if not varying:
        return None
    columns = min(3, len(varying))
    lines = math.ceil(len(varying) / columns)
    fig, axes = figure(1.9 * lines, columns, lines)
    for ax, (name, x) in zip(axes.flat, varying.items()):
        ax.plot(np.arange(1, len(x) + 1), x, color=ACCENT, linewidth=1.1)
        ax.set(title=display_text(name.replace("_", " ")), xlabel="episode")
        if (x > 0).all() and x.max() > 50 * x.min():
            ax.set_yscale("log")
    for ax in axes.flat[len(varying) :]:
        ax.set_axis_off()
    return fig


def robustness(facts: Facts) -> "Figure | None":
    """Certified suboptimality against misspecification, for every reward and for the first example."""
    if facts.robustness is None:
        return None
    fig, ((ax,),) = figure(2.6)
    first, colors = example_rewards(facts.problem)[0][0], (ACCENT, WARM)
    names = "every reward", first.lower()
    for curve, name, color in zip(facts.robustness, names, colors):
        ax.plot(curve.zetas, curve.gaps, color=color, label=name)
    low = facts.robustness[0].zeta_low
    if low > 0:
        ax.axvspan(0, low, color=MUTED, alpha=0.15, linewidth=0, label="refuted by the data")
    ax.set(xlabel="misspecification (total variation)")
    ax.set(title="certified suboptimality", ylim=(0, 1.06), xlim=(0, 0.11))
    ax.set_xscale("symlog", linthresh=1e-3)
    set_ticks(ax.xaxis, [0, 0.001, 0.003, 0.01, 0.03, 0.1])
    ax.axhline(1, color=MUTED, linewidth=0.8, zorder=0)
    ax.legend(loc="center left", fontsize=8.5)
    return fig


def trade_off(facts: Facts) -> "Figure | None":
    """Value against the cost of the first constraint, with the certified band and the bound."""
    limits = facts.limits
    if limits is None or limits.cost is None or limits.trade_off is None:
        return None
    fig, ((ax,),) = figure(2.9)
    limits.trade_off.draw(ax, (ACCENT, WARM, MUTED))
    ax.axvline(limits.cost.bound, color=INK, linewidth=1.0, linestyle="--", label="the bound asked for")
    ax.set_xlabel(display_text(f"bound of {limits.cost.name}"))
    ax.set_title(f"best value within it: {example_rewards(facts.problem)[0][0].lower()}")
    ax.set_ylabel("")
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8.5)
    return fig


def states(facts: Facts) -> "Figure":
    """Visits and uncertainty of the states: as maps, or as bars if states are not cells."""
    titles = "visits", "uncertainty of transition probabilities"
    share, units = (facts.visits.astype(float), facts.uncertainty), ("steps", "probability")
    if not facts.has_cells:
        fig, axes = figure(3.4, 1, 2)
        for ax, title, x, unit, color in zip(axes[:, 0], titles, share, units, (ACCENT, WARM)):
            ax.bar(np.arange(len(x)), np.nan_to_num(x), color=color, width=0.85)
            ax.set(title=title, xlabel="state", ylabel=unit)
            if facts.problem.layout.get("states") and len(x) <= MAX_NAMES:
                names = [display_text(facts.problem.state_name(s)) for s in range(len(x))]
                ax.set_xticks(np.arange(len(x)), names, rotation=0 if len(x) <= 8 else 60)
                ax.set_xlabel("")
        return fig
    side_by_side = 1 if facts.is_wide else 2
    height = _height(facts.problem, WIDTH_INCHES / side_by_side) + BAR_INCHES
    fig, axes = figure(height * (2 // side_by_side), side_by_side, 2 // side_by_side)
    for ax, title, x, unit, color in zip(axes.flat, titles, share, units, (ACCENT, WARM)):
        top = float(np.nanmax(x)) if np.isfinite(x).any() else 0.0
        draw_map(ax, facts.problem, x / (top or 1.0), color)
        ax.set_title(title, fontsize=9.5)
        scale(ax, color, 0, top, unit)
    return fig


def plan(problem: Problem, example: Example) -> "Figure | None":
    """The first step of a plan: values as colours, actions as arrows; None if states are not cells."""
    if problem.layout.get("cells") is None:
        return None
    width = WIDTH_INCHES if is_wide(problem) else WIDTH_INCHES / 3
    fig, ((ax,),) = figure(_height(problem, width) + BAR_INCHES, width=width)
    low, high = float(example.V.min()), float(example.V.max())
    shades = (example.V - low) / (high - low) if high > low else np.ones_like(example.V)
    draw_map(ax, problem, shades, ACCENT)
    _draw_actions(ax, problem, example.policy, shades, example.V > 1e-9 * high)
    for s in example.states:
        _outline(ax, problem.layout["cells"][s])
    scale(ax, ACCENT, low, high, "value")
    return fig


def scale(ax: Any, color: str, low: float, high: float, unit: str) -> None:
    """A colour bar below a map."""
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
    intervals = facts.intervals
    if intervals is None or not intervals.is_learnable.any():
        return None
    order = np.flatnonzero(intervals.is_learnable)
    widest = np.argsort((intervals.low - intervals.high)[order], kind="stable")[:MAX_WEIGHTS]
    order = np.sort(order[widest])
    fig, ((ax,),) = figure(0.7 + 0.2 * len(order))
    y, names = np.arange(len(order)), [display_text(facts.problem.weight_name(int(i))) for i in order]
    ax.hlines(y, intervals.low[order], intervals.high[order], color=ACCENT, linewidth=5, alpha=0.35)
    ax.plot(intervals.estimate[order], y, "o", color=ACCENT, markersize=4.5, label="estimate and interval")
    if facts.truth is not None:
        ax.plot(facts.truth[order], y, "o", color=WARM, markerfacecolor="none", markersize=8, label="truth")
    ax.set(yticks=y, yticklabels=names, ylim=(len(order) - 0.4, -0.6))
    ax.grid(axis="y", visible=False)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=8.5)
    return fig


def draw_map(ax: Any, problem: Problem, x: Float[np.ndarray, " S"], color: str) -> None:
    """States as cells in shades of a colour for x in [0, 1]; nan is empty; starts have rings."""
    from matplotlib.patches import Circle

    cells = np.asarray(problem.layout["cells"])
    columns, lines = (cells.max(axis=0) + 1).tolist()
    image = np.full((lines, columns), np.nan)
    image[cells[:, 1], cells[:, 0]] = x
    edges = np.arange(columns + 1) - 0.5, np.arange(lines + 1) - 0.5
    is_large = image.size > MAX_ARROWS
    border = {"edgecolor": "none"} if is_large else {"edgecolor": ON_COLOR, "linewidth": 0.6}
    shades = {"cmap": colormap(color), "vmin": 0, "vmax": 1, "rasterized": is_large}
    ax.pcolormesh(*edges, np.ma.masked_invalid(image), **shades, **border)
    ax.set(aspect="equal", xlim=(-0.5, columns - 0.5), ylim=(lines - 0.5, -0.5))
    ax.set_axis_off()
    for s in marked_starts(problem):
        if s < len(cells):  # the ring surrounds the arrow or the text
            ax.add_patch(Circle(cells[s].tolist(), 0.43, fill=False, color=INK, linewidth=1.0))


def _draw_actions(
    ax: Any,
    problem: Problem,
    policy: Float[np.ndarray, "S A"],
    x: Float[np.ndarray, " S"],
    has_value: Bool[np.ndarray, " S"],
) -> None:
    """Draw the actions of the states where `has_value`; x: their shades, for the contrast.

    Of several actions in a state, the length of an arrow grows with its probability.
    """
    cells = np.asarray(problem.layout["cells"])
    if len(cells) > MAX_ARROWS:
        return
    names = problem.layout.get("actions") or [str(a) for a in range(problem.num_actions)]
    columns = int(cells[:, 0].max()) + 1
    letters = max(1, int(2 * _arrow_points(ax, columns) / 5)) if len(cells) > columns else 8
    for s in np.flatnonzero(has_value[: len(cells)]):
        color = ON_COLOR if x[s] > 0.55 else INK
        actions = np.flatnonzero(policy[s] >= MIN_PROBABILITY)
        if not all(str(names[a]) in ARROWS for a in actions):
            likeliest = int(policy[s].argmax())
            last = str(names[likeliest]).split()[-1:] or [str(likeliest)]  # a name may be empty
            word = display_text(last[0][:letters])
            ax.text(*cells[s], word, ha="center", va="center", fontsize=7, color=color)
            continue
        for a in actions:
            move, share = np.array(ARROWS[str(names[a])]), float(policy[s, a])
            is_sure = len(actions) == 1
            tail = cells[s] - 0.3 * move if is_sure else cells[s]
            head = cells[s] + (0.3 if is_sure else 0.2 + 0.25 * share) * move
            size = (0.8 if is_sure else 0.4 + 0.4 * share) * _arrow_points(ax, columns)
            arrow = {"arrowstyle": "-|>", "color": color, "mutation_scale": size, "linewidth": 0.8}
            ax.annotate("", head, tail, arrowprops=arrow | {"shrinkA": 0, "shrinkB": 0})


def _outline(ax: Any, cell: Int[np.ndarray, " 2"]) -> None:
    from matplotlib.patches import Rectangle

    ax.add_patch(
        Rectangle((cell[0] - 0.5, cell[1] - 0.5), 1, 1, fill=False, color=WARM, linewidth=2, clip_on=False)
    )


def _arrow_points(ax: Any, columns: int) -> float:
    """The size of an arrow in points: half a cell, at most 14."""
    side_by_side = int(ax.get_subplotspec().get_gridspec().ncols)
    return min(14.0, 36.0 * float(ax.get_figure().get_size_inches()[0]) / side_by_side / columns)


def _height(problem: Problem, width: float) -> float:
    columns, lines = np.asarray(problem.layout["cells"]).max(axis=0) + 1
    return float(np.clip(width * lines / columns, 0.7, 12))
