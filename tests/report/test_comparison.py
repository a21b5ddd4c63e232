"""Several runs side by side, and figures as files."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from horizonfree import report
from horizonfree.errors import OptionError
from horizonfree.report import facts, page
from horizonfree.report import facts as ft
from horizonfree.report.page import summary_row
from horizonfree.runs.run import Run

from .example_runs import grid, rejected_run
from .reading import stands_alone

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@pytest.fixture(scope="module")
def pair(run: Run) -> dict[str, Run]:
    return {"design": run, "random": grid(70, explorer="uniform")}


def test_a_comparison_ranks_by_what_is_proved(tmp_path: Path, pair: dict[str, Run]) -> None:
    rows = report.compare(pair)
    assert [row["run"] for row in rows] == ["design", "random"]
    for row in rows:
        assert row["certified_gap"] == pair[row["run"]].certificate().eps
    best = min(rows, key=lambda row: row["certified_gap"])["run"]
    page = stands_alone(report.write_comparison(pair, tmp_path / "c.html").read_text(encoding="utf-8"))
    smallest, other = sorted(row["certified_gap"] for row in rows)
    assert other > 1.2 * smallest
    assert f"{best} has the smallest" in page.text
    assert "One run each, seeds 0, 0" in page.text
    assert "different problems" not in page.text


def test_runs_that_chance_may_order_have_no_winner(tmp_path: Path, run: Run) -> None:
    """One run under two names, then gaps that differ by 19 and by 21 percent."""
    text = report.write_comparison({"one": run, "two": run}, tmp_path / "c.html").read_text(encoding="utf-8")
    assert "one, two have the smallest" in stands_alone(text).text
    assert 'class="best"' not in text
    facts = {name: ft.compute_facts(run) for name in ("one", "two")}
    eps = facts["one"].certificate.eps
    for times, ahead in ((1.19, ["one", "two"]), (1.21, ["one"])):
        certificate = replace(facts["two"].certificate, eps=times * eps)
        assert page._best_runs(facts | {"two": replace(facts["two"], certificate=certificate)}) == ahead


def test_a_comparison_of_different_problems_says_so(tmp_path: Path, run: Run) -> None:
    text = report.write_comparison({"a": run, "b": rejected_run()}, tmp_path / "c.html").read_text(
        encoding="utf-8"
    )
    page = stands_alone(text)
    assert "different problems" in page.text
    assert "rejected" in page.text
    assert "true, worst goal" not in page.text  # the truth of logged episodes is not known


def test_a_loss_is_never_told_below_zero(run: Run) -> None:
    run_facts = ft.compute_facts(run, 0.05)
    rounded = facts.Moment(run_facts.episodes, 0.5, 0.0, 1.0, true_gap=-2.776e-17)
    assert summary_row(replace(run_facts, history=[rounded]))["worst_true_gap"] == 0


def test_nothing_to_compare_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="nothing to compare"):
        report.write_comparison({}, tmp_path / "c.html")


def test_figures_are_written_as_svg_and_png(tmp_path: Path, run: Run, figures: "dict[str, Figure]") -> None:
    names = {"gap", "robustness", "states", "weights", "records", "plan-1", "plan-2", "plan-3", "plan-4"}
    assert set(figures) == names
    paths = report.write_figures(run, tmp_path / "figures")
    assert {path.name for path in paths} == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    for path in paths:
        start = path.read_bytes()[:8]
        assert start == b"\x89PNG\r\n\x1a\n" if path.suffix == ".png" else start.startswith(b"<?xml")
    with pytest.raises(OptionError, match="format is 'pdf'"):
        report.write_figures(run, tmp_path, formats=["pdf"])
