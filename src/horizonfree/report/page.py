"""Facts and figures on one page: a single HTML file that asks for nothing outside itself."""

import errno
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import confidence_of, interval, round_up, rounded_up
from horizonfree.guarantees.meanings import MEANINGS
from horizonfree.report import draw, theme
from horizonfree.report.facts import Example, Facts, facts, ringed
from horizonfree.report.figures import Picture, pictures
from horizonfree.report.seen import of_gaps, seen
from horizonfree.runs.credible import Likely
from horizonfree.runs.recipes import versions
from horizonfree.runs.run import Run

if TYPE_CHECKING:
    from jinja2 import Environment

LONG = 12  # entries of a list that is written out
CHANCE = (
    0.2  # seeds of one explorer differ by so much (a deviation of 4 to 8 % each, experiments/certificates)
)


def write_report(run: Run, path: str | Path, *, delta: float = 0.05) -> Path:
    """Write the report of a run at confidence 1 - delta; returns where it is."""
    check_target(path)
    return write_page(facts(run, delta), path)


def write_page(
    found: Facts,
    path: str | Path,
    drawn: Mapping[str, Picture] | None = None,
    decision: Mapping[str, Any] | None = None,
) -> Path:
    """The report of facts and pictures that are computed already; decision: of report/decision.py, shown first."""
    said = seen(found)
    drawn = pictures(found) if drawn is None else drawn
    images = {name: theme.inline_svg(picture.svg, said[name]) for name, picture in drawn.items()}
    told = {"decision": decision, "facts": found, "rings": ringed(found.problem), "meanings": MEANINGS}
    text = environment().get_template("report.html").render(figures=images, **told)
    return write_text(path, text)


def write_comparison(runs: Mapping[str, Run], path: str | Path, *, delta: float = 0.05) -> Path:
    """Write several runs side by side; the keys are the names that the page gives them."""
    check_target(path)
    return write_beside(side_by_side(runs, delta), path)


def write_beside(found: Mapping[str, Facts], path: str | Path) -> Path:
    """The comparison of facts that are already there."""
    has_truth = all(x.has_truth for x in found.values())
    measured = {x.worst_goal for x in found.values()}
    worst_goal = measured.pop() if len(measured) == 1 else "worst goal scored"
    with theme.style():
        histories = {name: x.history for name, x in found.items()}
        figure = draw.gaps(histories, has_truth, worst_goal)
    problems = sorted({_problem_line(x) for x in found.values()})
    text = (
        environment()
        .get_template("compare.html")
        .render(
            runs=found,
            table={name: summary(x) for name, x in found.items()},
            best=_ahead(found),
            figure=theme.inline_svg(theme.to_svg(figure, "gaps"), of_gaps(histories, has_truth, worst_goal)),
            problems=problems,
            delta=next(iter(found.values())).delta,
            has_truth=has_truth,
            worst_goal=worst_goal,
            versions=versions(),
        )
    )
    return write_text(path, text)


def compare(runs: Mapping[str, Run], *, delta: float = 0.05) -> list[dict[str, Any]]:
    """The table of a comparison, one row per run, in plain numbers; None where a number does not exist."""
    return rows_of(side_by_side(runs, delta))


def rows_of(found: Mapping[str, Facts]) -> list[dict[str, Any]]:
    """The same of facts that are already there."""
    return [{"run": name} | summary(x) for name, x in found.items()]


def summary(found: Facts) -> dict[str, Any]:
    """One run in a row."""
    now = found.now
    return {
        "problem": found.problem.name,
        "explorer": found.explorer,
        "episodes": found.episodes,
        "certified_gap": found.certificate.eps,
        "words": found.certificate.words,
        "forecast": found.certificate.forecast,
        "goals_gap": found.family.eps,
        "goals_words": found.family.words,
        "worst_true_gap": None if np.isnan(now.true_gap) else max(0.0, now.true_gap),
        "goals": len(found.goals.every),
        "goals_scored": len(found.goals.scored) if found.has_truth else None,
        "doubt": now.doubt,
        "inefficiency": None if np.isnan(now.inefficiency) else now.inefficiency,
        "seed": found.seed,
    }


def side_by_side(runs: Mapping[str, Run], delta: float) -> dict[str, Facts]:
    """What a comparison needs of several runs."""
    if not runs:
        raise OptionError("there is nothing to compare; give at least one run")
    return {name: facts(run, delta, has_robustness=False) for name, run in runs.items()}


def _ahead(found: Mapping[str, Facts]) -> list[str]:
    """The runs of the smallest gap for every reward: those within a fifth of it, which chance may order so."""
    proved = {name: x.certificate.eps for name, x in found.items() if not x.certificate.is_vacuous}
    return [name for name, eps in proved.items() if eps <= (1 + CHANCE) * min(proved.values())]


def _problem_line(found: Facts) -> str:
    p = found.problem
    return f"{p.name}: {p.num_states} states, {p.num_actions} actions, {p.horizon} steps an episode"


@cache
def environment() -> "Environment":
    """The templates, and how numbers are written in them."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    made = Environment(
        loader=PackageLoader("horizonfree.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "svg": Markup,
        "number": number,
        "bound": bound,
        "between": between,
        "interval": _interval,
        "likely_between": likely_between,
        "confidence": confidence_of,
        "sentence": sentence,
        "setting": setting,
    }
    return made


def number(x: float | None) -> str:
    """A number for people: about three digits, and no exponents."""
    if x is None or np.isnan(x):
        return "–"
    if 0 < abs(x) < 1e-6:
        return "under 0.000001"
    if abs(x) >= 100 or x == int(x):
        return f"{x:,.0f}"
    return f"{x:.{max(0, 2 - math.floor(math.log10(abs(x))))}f}" if abs(x) >= 1e-3 else f"{x:.6f}".rstrip("0")


def bound(x: float) -> str:
    """A bound for people, rounded up; tiny ones with an exponent."""
    return rounded_up(x) if x < 1e-6 else number(round_up(x, finest=1e-6))


def likely_between(found: Likely) -> str:
    """The credible interval of a plan's value."""
    return interval(found.low, found.high)


def between(found: Example) -> str:
    """The interval of a plan's value."""
    return interval(found.value_low, found.value_high)


def _interval(ends: list[float] | None) -> str:
    """The ends of an interval, rounded outwards."""
    return "–" if ends is None else interval(*ends)


def sentence(words: str) -> str:
    """The words of a certificate as a sentence after "nothing is proved"."""
    words = words.removeprefix("vacuous: ")
    return words[:1].upper() + words[1:]


def setting(x: Any) -> str:
    """The value of an option; arrays by their shape, long lists by their length."""
    if isinstance(x, (list, tuple)) and len(x) > LONG:
        return f"list of {len(x)}"
    return f"array {list(x.shape)}" if isinstance(x, np.ndarray) else str(x)


def write_text(path: str | Path, text: str) -> Path:
    """The whole file or nothing; an error names the file that was asked for."""
    path = Path(path)
    with _beside(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="replace")  # a lone surrogate is no letter
        partial.replace(path)
    return path


def check_target(path: str | Path) -> None:
    """Refuse a place where no file can be written, before what takes long; folders on the way are made."""
    with _beside(Path(path)) as partial:
        partial.touch()


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A file to be written in place of another, gone in the end; errors name the other."""
    partial = path.parent / f".{path.name}.{os.getpid()}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        try:
            yield partial
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
