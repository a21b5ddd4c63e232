"""The figures of a run by name, as Matplotlib figures or as files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from horizonfree.errors import OptionError
from horizonfree.report import draw, theme
from horizonfree.report.facts import Facts, facts
from horizonfree.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("svg", "png")


def figures(run: Run, *, delta: float = 0.05) -> dict[str, "Figure"]:
    """Every figure of the run's report: "gap", "states", "weights", "records", "robustness", "plan-1" to "plan-3".

    A figure that has nothing to show is left out.
    """
    return draw_all(facts(run, delta))


def draw_all(found: Facts) -> dict[str, "Figure"]:
    """The figures of facts that are already there."""
    with theme.style():
        drawn = {
            "gap": draw.gaps({found.explorer: found.history}, found.has_truth, found.worst_goal, found.ahead),
            "states": draw.states(found),
            "weights": draw.weights(found),
            "records": draw.records(found),
            "robustness": draw.robustness(found),
        }
        for i, example in enumerate(found.examples):
            drawn[f"plan-{i + 1}"] = draw.plan(found.problem, example)
    return {name: figure for name, figure in drawn.items() if figure is not None}


def write_figures(
    run: Run, folder: str | Path, *, formats: Sequence[str] = FORMATS, delta: float = 0.05
) -> list[Path]:
    """Write every figure into a folder; formats: "svg", "png"."""
    for kind in formats:
        if kind not in FORMATS:
            raise OptionError(f"format is {kind!r}; figures are written as {' or '.join(map(repr, FORMATS))}")
    return write_all(facts(run, delta), folder, formats)


def write_all(found: Facts, folder: str | Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """The figures of facts that are already there, as files."""
    folder, written = Path(folder), []
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in draw_all(found).items():
        for kind in formats:
            path = folder / f"{name}.{kind}"
            if kind == "svg":
                path.write_text(theme.to_svg(figure, name), encoding="utf-8")
            else:
                theme.write_png(figure, path)
            written.append(path)
    return written
