"""The page of a report: it says what matters and stands alone."""

import html
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import horizonfree as hf
from horizonfree import report
from horizonfree.explorers.registry import ExplorerSpec, make_explorer
from horizonfree.guarantees.certificate import MEANINGS
from horizonfree.report import facts
from horizonfree.report import facts as ft
from horizonfree.report.draw import draw_all
from horizonfree.report.page import bound, number, write_page
from horizonfree.runs.run import Run

from .example_runs import grid, logged, rejected_run, river, run_of_known_kernel, unlabelled
from .reading import Page, stands_alone

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Figures = dict[str, "Figure"]


WRITTEN = [
    (0.0, "0"),
    (0.5614, "0.561"),
    (12.345, "12.3"),
    (1234.5, "1,234"),
    (3.0, "3"),
    (6.98e-5, "0.00007"),
] + [(1e-9, "under 0.000001"), (float("nan"), "–"), (None, "–"), (0.001, "0.00100"), (99.96, "100.0")]


def test_numbers_are_written_for_people(subtests: pytest.Subtests) -> None:
    for x, text in WRITTEN:
        with subtests.test(text):
            assert number(x) == text


def test_bounds_are_never_rounded_down(subtests: pytest.Subtests) -> None:
    for x in [0.0, 2.001e-11, 1e-9, 9.995e-7, 3e-6, 0.000999, 0.041, 0.0413001, 0.56139, 0.99951, 1.0]:
        with subtests.test(x=x):
            assert x <= float(bound(x)) <= max(1.011 * x, x + 1e-6 if x >= 1e-6 else 0.0)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            grid,
            [
                "Misspecified models",
                "0.5",
                "of total at most 1: suboptimality at most",
                "true suboptimality at the worst goal",
                "End in cell",
                "zoned-grid",
            ],
        ),
        (run_of_known_kernel, ["Nothing is unknown", "suboptimality at most"]),
        (
            rejected_run,
            ["The data contradict the model class", "model rejected", "if the model class were correct"],
        ),
        (logged, ["river", "50 logged episodes", "estimated from logged episodes"]),
        (unlabelled, ["random-mixture", "uniform"]),
    ],
)
def test_a_report_says_what_matters_and_stands_alone(
    tmp_path: Path, make: Callable[[], Run], expected: list[str]
) -> None:
    run = make()
    path = report.write_report(run, tmp_path / "deep" / "report.html")
    text = path.read_text(encoding="utf-8")
    page = stands_alone(text)
    for sentence in [
        *expected,
        f"{run.problem.name}: {run.episodes} ",
        "Settings and versions",
        "numpy",
        "Plans for single rewards",
    ]:
        assert sentence in page.text
    assert list(path.parent.iterdir()) == [path]
    if not run.is_simulated:
        assert "true suboptimality at" not in page.text
        assert "truth" not in page.text
        assert "without a reward" not in page.text
        assert "used in the exploration" not in page.text


def test_every_figure_says_what_is_seen(text: str, run: Run, figures: Figures) -> None:
    """Its alternative text has the numbers that it shows."""
    labels = [html.unescape(label) for label in re.findall(r'<svg role="img" aria-label="([^"]*)"', text)]
    assert len(labels) == len(figures)
    for figure_text in (
        f"{run.certificate().eps:.3g} after {run.episodes:,}",
        f"{run.weights[0]:.3g}, from",
        "Visits of",
    ):
        assert sum(figure_text in label for label in labels) == 1
    assert sum("First action at the start" in label for label in labels) == 4


def test_maps_have_a_bar_from_the_lowest_to_the_highest_value(run: Run, figures: Figures) -> None:
    for i, (title, states, table) in enumerate(ft.example_rewards(run.problem)):
        example = ft.example(run, title, states, table, 0.05)
        bar = figures[f"plan-{i + 1}"].axes[1]
        low, high = (float(label.get_text()) for label in bar.get_xticklabels())
        assert low == pytest.approx(example.V.min(), rel=5e-3)
        assert high == pytest.approx(example.V.max(), rel=5e-3)
        (mesh,) = figures[f"plan-{i + 1}"].axes[0].collections
        assert mesh.get_array().min() == 0
        assert mesh.get_array().max() == 1


def test_both_charts_of_losses_have_one_scale(figures: Figures) -> None:
    left, right = figures["gap"].axes
    assert left.get_ylim() == right.get_ylim()
    assert left.get_yscale() == right.get_yscale() == "log"
    assert left.get_ylabel() == "suboptimality, of a total of 1"
    for axis in (left, right):
        for line in axis.lines:
            assert axis.get_ylim()[0] < min(line.get_ydata()) <= max(line.get_ydata()) < axis.get_ylim()[1]


def test_what_is_likely_is_called_not_proved(text: str, run: Run) -> None:
    assert text.count(f"with posterior probability 0.95; {run.posterior().label}") == 4


def test_the_first_screen_repeats_the_certificate(text: str, run: Run) -> None:
    lead = Page(text[: text.index("<h2>")]).text
    assert f"of total at most 1: suboptimality at most {bound(run.certificate().eps)}, " in lead
    assert "95% confidence, any stopping time" in lead


def test_an_explorer_that_was_given_a_reward_is_not_called_reward_free(tmp_path: Path, run: Run) -> None:
    guided = replace(
        run,
        explorer_spec=ExplorerSpec.of(make_explorer("ucrl-vtr", budget=70, reward=hf.goal(run.problem, 3))),
    )
    text = report.write_report(guided, tmp_path / "r.html").read_text(encoding="utf-8")
    page = stands_alone(text)
    assert "which explores for one reward" in page.text
    assert "without a reward" not in page.text
    assert "array [8, 16, 4]" in page.text


def test_every_part_of_the_certificate_is_explained_and_nothing_else(text: str, run: Run) -> None:
    terms = text[text.index("Terms on this page") : text.index("</details>")]
    explained_terms = set(re.findall(r"<dt>(\w+)</dt>", terms))
    assert set(run.certificate().parts) <= explained_terms
    assert "beta" not in explained_terms  # of linear MDPs
    assert set(run.certificate(method="direct").parts) <= set(MEANINGS)


def test_a_reconstruction_is_called_one(tmp_path: Path, run: Run) -> None:
    chen = replace(run, explorer_spec=ExplorerSpec.of(make_explorer("chen2022")))
    for path in (
        report.write_report(chen, tmp_path / "r.html"),
        report.write_comparison({"a": chen}, tmp_path / "c.html"),
    ):
        text = path.read_text(encoding="utf-8")
        assert "chen2022 (reconstruction)" in text
        assert "chen2022" not in text.replace("chen2022 (reconstruction)", "")
    assert report.compare({"a": chen})[0]["explorer"] == "chen2022 (reconstruction)"


@pytest.mark.usefixtures("undrawn")
def test_thinned_goals_are_counted_where_the_worst_is_told(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_pages() -> tuple[str, str, str]:
        page, comparison_text, facts = tmp_path / "r.html", tmp_path / "c.html", ft.compute_facts(run)
        write_page(facts, page)
        report.write_comparison({"one": run, "two": run}, comparison_text)
        texts = (Page(path.read_text(encoding="utf-8")).text for path in (page, comparison_text))
        return *texts, draw_all(facts)["gap"].axes[1].get_title(loc="left")

    page, comparison_text, title = write_pages()
    assert "true suboptimality at the worst goal;" in page
    assert "true, worst goal " in comparison_text
    assert title == "true suboptimality, worst goal"
    assert "were evaluated" not in page + comparison_text
    monkeypatch.setattr(facts, "MAX_SCORED_GOALS", 5)
    page, comparison_text, title = write_pages()
    assert "true suboptimality at the worst of 5 goals;" in page
    assert "(5 of 16 were evaluated, evenly spaced)" in page
    assert "true, worst of 5 goals " in comparison_text
    assert comparison_text.count("5 of 16 goals were evaluated") == 2
    assert title == "true suboptimality, worst of 5 goals"
    other = river()  # four goals
    report.write_comparison({"many": run, "few": other}, tmp_path / "mixed.html")
    mixed = Page((tmp_path / "mixed.html").read_text(encoding="utf-8")).text
    assert "true, worst goal evaluated " in mixed
    assert mixed.count("goals were evaluated") == 1
    assert [row["goals_scored"] for row in report.compare({"a": run, "b": other, "c": logged()})] == [
        5,
        4,
        None,
    ]


def test_the_same_run_gives_the_same_bytes(tmp_path: Path, text: str, run: Run) -> None:
    assert report.write_report(run, tmp_path / "again.html").read_bytes() == text.encode()


def test_names_are_text_and_never_markup(tmp_path: Path) -> None:
    run = run_of_known_kernel()
    run = replace(run, problem=replace(run.problem, name="<script>alert(1)</script>"))
    stands_alone(report.write_report(run, tmp_path / "r.html").read_text(encoding="utf-8"))
    text = report.write_comparison({"<img src=x>": run}, tmp_path / "c.html").read_text(encoding="utf-8")
    assert "img" not in stands_alone(text).tags


@pytest.mark.usefixtures("undrawn")
def test_a_report_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before anything is computed."""
    target, facts = tmp_path / "report.html", ft.compute_facts(run)
    target.mkdir()
    monkeypatch.setattr("horizonfree.report.page.compute_facts", None)
    for write in (
        partial(report.write_report, run),
        partial(report.write_comparison, {"a": run}),
        partial(write_page, facts),
    ):
        for path in (target, tmp_path):
            with pytest.raises(IsADirectoryError) as error:
                write(path)
            assert error.value.filename == str(path)
    assert list(tmp_path.iterdir()) == [target]
