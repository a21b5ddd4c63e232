"""The page of a sweep: medians over seeds against episodes, a figure and a table for each problem and measure."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from horizonfree._plots import display_text, set_ticks, thin_ticks
from horizonfree.explorers.registry import setting_label
from horizonfree.report import draw, theme
from horizonfree.report.page import environment, write_text
from horizonfree.sweeps.results import Curve, Sweep, curves
from horizonfree.sweeps.spec import MEASURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = (theme.ACCENT, theme.WARM, theme.MUTED, theme.INK)
DASHES = ("-", "--", ":")
MARKERS = ("o", "s", "^", "D")
STROKES = {"-": "none", "--": "6 3", ":": "2 2"}
LOG_SCALE_RATIO = 20  # of the largest to the smallest number on a linear axis
REWARD_MEASURES = {"reward_max", "reward_median", "gap", "own_gap"}  # they use the rewards of the sweep
OF_REWARDS = {
    "suite": "ending in each state, and staying in it",
    "goals": "ending in each state",
    "occupancies": "staying in each state",
}


class Style(NamedTuple):
    """The style of a setting."""

    color: str
    dash: str
    marker: str


class Part(NamedTuple):
    """One measure on one problem: its figure and its table."""

    measure: str
    meaning: str
    figure: str
    episodes: list[int]
    curves: dict[str, Curve]
    has_slope: bool


def write_sweep(result: Sweep, path: str | Path) -> Path:
    """Write the page of a sweep, finished or not; returns its path."""
    spec = result.spec
    styles = {name: style_of(i) for i, name in enumerate(spec.explorers)}
    number = {name: i for i, name in enumerate(styles)}
    measures = [*spec.measure, *spec.records]
    parts = {
        problem: [x for name in measures if (x := _part(result, problem, name, styles))]
        for problem in spec.problems
    }
    text = (
        environment()
        .get_template("sweep.html")
        .render(
            sweep=result,
            spec=spec,
            parts=parts,
            number=number,
            names={name: setting_label(name, table) for name, table in spec.explorers.items()},
            swatch={name: _swatch(style) for name, style in styles.items()},
            rewards=OF_REWARDS[spec.rewards] if REWARD_MEASURES & set(spec.measure) else None,
            seconds=float(_per_task(result, "seconds").sum()),
            devices=sorted(set(result["device"])),
            versions=[_versions(x) for x in sorted(set(result["versions"]))],
        )
    )
    return write_text(path, text)


def style_of(i: int) -> Style:
    """Colours first, then dashes, then markers: 48 different styles."""
    color, dash = COLORS[i % len(COLORS)], DASHES[i // len(COLORS) % len(DASHES)]
    return Style(color, dash, MARKERS[i // (len(COLORS) * len(DASHES)) % len(MARKERS)])


def figure_of(by_setting: dict[str, Curve], styles: dict[str, Style], title: str) -> "Figure":
    """Medians as lines, intervals as bands; each setting has a CSS class, so that it can be hidden."""
    fig, ((ax,),) = draw.figure(2.9, width=5.4)
    for i, name in enumerate(styles):
        if name not in by_setting:
            continue
        curve, (color, dash, marker) = by_setting[name], styles[name]
        line = ax.plot(curve.episodes, curve.median, dash, color=color, marker=marker, markersize=4)[0]
        band = ax.fill_between(curve.episodes, curve.low, curve.high, color=color, alpha=0.13, linewidth=0)
        line.set_gid(f"is-setting-{i}")
        band.set_gid(f"is-setting-{i}")
    _scale(ax, np.concatenate([(x.median, x.low) for x in by_setting.values()], axis=1))
    ax.set_xscale("log")
    set_ticks(ax.xaxis, thin_ticks(sorted({int(k) for x in by_setting.values() for k in x.episodes})))
    ax.set(title=title, xlabel="episodes")
    return fig


def _scale(ax: "Axes", values: np.ndarray) -> None:
    """Logarithmic if numbers differ much; with zeros, linear below the smallest positive median."""
    median = values[0]
    if not (values >= 0).all() or median.max() <= LOG_SCALE_RATIO * max(median.min(), draw.MIN_GAP):
        return
    if values.min() > draw.MIN_GAP:
        ax.set_yscale("log")
        return
    ax.set_yscale("symlog", linthresh=float(median[median > draw.MIN_GAP].min()))
    ax.set_ylim(bottom=0)


def _part(result: Sweep, problem: str, measure: str, styles: dict[str, Style]) -> Part | None:
    """None if no setting has numbers."""
    by_setting = curves(result, measure, problem)
    if not by_setting:
        return None
    meaning = MEASURES.get(measure, "record of the explorer")
    with theme.style():
        alt = f"{measure} against episodes"
        svg = theme.to_svg(figure_of(by_setting, styles, display_text(measure)), alt)
        figure = theme.inline_svg(svg, alt)
    episodes = sorted({int(k) for x in by_setting.values() for k in x.episodes})
    return Part(measure, meaning, figure, episodes, by_setting, measure in result.spec.slopes)


def _swatch(style: Style) -> str:
    color = f"var({theme.VARIABLES[style.color]})"
    dash = STROKES[style.dash]
    return (
        f'<svg class="swatch" viewBox="0 0 28 8" aria-hidden="true"><path d="M1 4H27" stroke="{color}" '
        f'stroke-width="2.4" stroke-dasharray="{dash}"/></svg>'
    )


def _versions(text: str) -> str:
    return ", ".join(f"{name} {version}" for name, version in json.loads(text).items())


def _per_task(result: Sweep, column: str) -> np.ndarray:
    """A column with one entry for each task."""
    _, first = np.unique(result["task"].astype(str), return_index=True)
    return result[column][first]
