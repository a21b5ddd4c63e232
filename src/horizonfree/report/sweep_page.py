"""The page of a sweep: medians over seeds against episodes, a figure and a table for each problem and measure."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from horizonfree.explorers.registry import label
from horizonfree.report import draw, theme
from horizonfree.report.page import environment, write_text
from horizonfree.sweeps.measures import MEASURES
from horizonfree.sweeps.results import Sweep
from horizonfree.sweeps.summary import Curve, curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = (theme.ACCENT, theme.WARM, theme.MUTED, theme.INK)
DASHES = ("-", "--", ":")
MARKERS = ("o", "s", "^", "D")
STROKES = {"-": "none", "--": "6 3", ":": "2 2"}
WIDE = 20  # ratio of the largest to the smallest number from which on an axis is logarithmic
DETAILS = {
    "reward_max",
    "reward_median",
    "gap",
    "own_gap",
}  # measures that are about the rewards of the sweep
OF_REWARDS = {
    "suite": "every state, to be there at the end and to stay there",
    "goals": "every state, to be there at the end",
    "occupancies": "every state, to stay there",
}


class Look(NamedTuple):
    """How a setting is drawn."""

    color: str
    dash: str
    marker: str


class Part(NamedTuple):
    """One measure on one problem: its figure and its table."""

    measure: str
    meaning: str
    figure: str
    looks: list[int]
    curves: dict[str, Curve]
    has_slope: bool


def write_sweep(found: Sweep, path: str | Path) -> Path:
    """Write the page of a sweep, finished or not; returns where it is."""
    spec = found.spec
    looks = {name: look_of(i) for i, name in enumerate(spec.explorers)}
    number = {name: i for i, name in enumerate(looks)}
    measures = [*spec.measure, *spec.records]
    parts = {
        place: [x for name in measures if (x := _part(found, place, name, looks))] for place in spec.problems
    }
    text = (
        environment()
        .get_template("sweep.html")
        .render(
            sweep=found,
            spec=spec,
            parts=parts,
            number=number,
            names={name: _shown(name, table) for name, table in spec.explorers.items()},
            swatch={name: _swatch(look) for name, look in looks.items()},
            rewards=OF_REWARDS[spec.rewards] if DETAILS & set(spec.measure) else None,
            seconds=float(_once(found, "seconds").sum()),
            devices=sorted(set(found["device"])),
            versions=[_versions(x) for x in sorted(set(found["versions"]))],
        )
    )
    return write_text(path, text)


def look_of(i: int) -> Look:
    """The colours first, then dashes, then markers: 48 settings are told apart."""
    color, dash = COLORS[i % len(COLORS)], DASHES[i // len(COLORS) % len(DASHES)]
    return Look(color, dash, MARKERS[i // (len(COLORS) * len(DASHES)) % len(MARKERS)])


def figure_of(found: dict[str, Curve], looks: dict[str, Look], title: str) -> "Figure":
    """Medians as lines, their intervals as bands; each setting is of a class of its own, so that it can be hidden."""
    fig, ((ax,),) = draw.figure(2.9, width=5.4)
    for i, name in enumerate(looks):
        if name not in found:
            continue
        curve, (color, dash, marker) = found[name], looks[name]
        line = ax.plot(curve.episodes, curve.median, dash, color=color, marker=marker, markersize=4)[0]
        band = ax.fill_between(curve.episodes, curve.low, curve.high, color=color, alpha=0.13, linewidth=0)
        line.set_gid(f"is-setting-{i}")
        band.set_gid(f"is-setting-{i}")
    _scale(ax, np.concatenate([(x.median, x.low) for x in found.values()], axis=1))
    ax.set_xscale("log")
    draw.plain(ax.xaxis, draw.spread(sorted({int(k) for x in found.values() for k in x.episodes})))
    ax.set(title=title, xlabel="episodes")
    return fig


def _scale(ax: "Axes", values: np.ndarray) -> None:
    """Logarithmic where numbers differ much; where some are 0, linear below the smallest median that is not."""
    median = values[0]
    if not (values >= 0).all() or median.max() <= WIDE * max(median.min(), draw.SMALLEST):
        return
    if values.min() > draw.SMALLEST:
        ax.set_yscale("log")
        return
    ax.set_yscale("symlog", linthresh=float(median[median > draw.SMALLEST].min()))
    ax.set_ylim(bottom=0)


def _part(found: Sweep, place: str, measure: str, looks: dict[str, Look]) -> Part | None:
    """None where no setting has numbers."""
    drawn = curves(found, measure, place)
    if not drawn:
        return None
    meaning = MEASURES.get(measure, "what the explorer reports")
    with theme.style():
        told = f"{measure} against episodes"
        svg = theme.to_svg(figure_of(drawn, looks, theme.written(measure)), told)
        figure = theme.inline_svg(svg, told)
    episodes = sorted({int(k) for x in drawn.values() for k in x.episodes})
    return Part(measure, meaning, figure, episodes, drawn, measure in found.spec.slopes)


def _shown(name: str, table: Mapping[str, Any]) -> str:
    """The name of a setting, with its algorithm where that is another, as `label` shows it with these options."""
    algorithm = label(table["name"], table)
    return algorithm if name == table["name"] else f"{name}: {algorithm}"


def _swatch(look: Look) -> str:
    """A piece of the line."""
    color = f"var({theme.VARIABLES[look.color]})"
    dash = STROKES[look.dash]
    return (
        f'<svg class="swatch" viewBox="0 0 28 8" aria-hidden="true"><path d="M1 4H27" stroke="{color}" '
        f'stroke-width="2.4" stroke-dasharray="{dash}"/></svg>'
    )


def _versions(text: str) -> str:
    return ", ".join(f"{name} {version}" for name, version in json.loads(text).items())


def _once(found: Sweep, column: str) -> np.ndarray:
    """The column with one entry for each task."""
    _, first = np.unique(found["task"].astype(str), return_index=True)
    return found[column][first]
