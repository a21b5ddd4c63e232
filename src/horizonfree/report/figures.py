"""The figures of a run by name, as Matplotlib figures or as files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from horizonfree._validation import check_choice
from horizonfree.report import draw, theme
from horizonfree.report.facts import Facts, compute_facts
from horizonfree.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("svg", "png")


def figures(run: Run, *, delta: float = 0.05) -> dict[str, "Figure"]:
    """The figures of a report: "gap", "states", "weights", "records", "robustness", "plan-1" to "plan-3"."""
    return draw_all(compute_facts(run, delta))


def draw_all(facts: Facts) -> dict[str, "Figure"]:
    """The figures of facts."""
    with theme.style():
        drawn = {
            "gap": draw.gaps(
                {facts.explorer: facts.history}, facts.has_truth, facts.worst_goal, facts.forecast
            ),
            "states": draw.states(facts),
            "weights": draw.weights(facts),
            "records": draw.records(facts),
            "robustness": draw.robustness(facts),
        }
        for i, example in enumerate(facts.examples):
            drawn[f"plan-{i + 1}"] = draw.plan(facts.problem, example)
    return {name: figure for name, figure in drawn.items() if figure is not None}


class Picture(NamedTuple):
    """A figure and its SVG."""

    figure: "Figure"
    svg: str


def pictures(facts: Facts) -> dict[str, Picture]:
    """The figures of facts with their SVG."""
    return {name: Picture(figure, theme.to_svg(figure, name)) for name, figure in draw_all(facts).items()}


def write_figures(
    run: Run, folder: str | Path, *, formats: Sequence[str] = FORMATS, delta: float = 0.05
) -> list[Path]:
    """Write every figure into a folder; formats: "svg", "png"."""
    for kind in formats:
        check_choice(kind, "format", FORMATS)
    Path(folder).mkdir(parents=True, exist_ok=True)
    return write_pictures(pictures(compute_facts(run, delta)), folder, formats)


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
