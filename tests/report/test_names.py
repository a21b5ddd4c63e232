"""Names in pictures are shown letter by letter, also where Matplotlib would interpret them."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from horizonfree import report
from horizonfree._plots import display_text, save_figure
from horizonfree.batch.compare import plot_comparison
from horizonfree.explorers.registry import EXPLORERS
from horizonfree.report import draw, page, theme
from horizonfree.report.draw import Picture, pictures, write_pictures
from horizonfree.report.facts import Facts, compute_facts
from horizonfree.runs.run import Run

from .example_runs import river
from .reading import stands_alone

NAMES = [
    "$5",
    "$a$",
    "a$b$c",
    r"\$x",
    r"$\frac{1}{0}$",
    "_x",
    "__",
    "$_$",
    "",
    " ",
    "\ud800x",
    "a\udfff",
    "<b>&amp;",
]
FOREIGN = "日本"  # browsers have a font for it, Matplotlib warns
CONTROL = ["a\0b", "\x01", "a\nb", "\x1b[31m", "\ufffe", "a\tb", "\x7f", "\x85"]


def letters(name: str) -> str:
    """A name as a picture can hold it: no half letters, no control characters."""
    return re.sub(r"[\0-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "?", name)


def texts(svg: str) -> list[str]:
    """Every text in a picture, which is well-formed, without letters of no width."""
    root = ElementTree.fromstring(svg)
    contents = ("".join(x.itertext()) for x in root.iter() if x.tag.rpartition("}")[2] == "text")
    return [text.replace("\u200b", "").strip() for text in contents]


def drawn_texts(svg: str) -> set[str]:
    """Every text in a picture whose letters are drawn as shapes: Matplotlib notes it beside them."""
    ElementTree.fromstring(svg)
    return {x.replace("\u200b", "") for x in re.findall("<!-- (.*?) -->", svg)}


def svgs(page: str) -> Iterator[str]:
    return iter(re.findall(r"<svg.*?</svg>", page, re.DOTALL))


@cache
def grid_facts() -> Facts:
    """The facts of a problem with cells; they do not depend on names."""
    return compute_facts(river())


def facts_with_names(*actions: str, name: str = "river") -> Facts:
    """The facts of the grid with these names of its actions and of the problem."""
    problem = grid_facts().problem
    return replace(
        grid_facts(), problem=replace(problem, name=name, layout=problem.layout | {"actions": [*actions]})
    )


def plans(facts: Facts) -> dict[str, Picture]:
    """Figures with the names of actions."""
    with theme.style():
        figures = {f"plan-{i + 1}": draw.plan(facts.problem, x) for i, x in enumerate(facts.examples)}
    return {name: Picture(figure, theme.to_svg(figure, name)) for name, figure in figures.items()}


@pytest.fixture(scope="module")
def write_page(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The page of a problem in which everything has one name; only the figures of plans show it."""
    default_pictures = pictures(grid_facts())

    @cache
    def write(name: str) -> str:
        facts = facts_with_names(name, name, name=name)
        path = page.write_page(
            facts, tmp_path_factory.mktemp("named") / "r.html", default_pictures | plans(facts)
        )
        return path.read_text(encoding="utf-8")

    return write


@pytest.fixture(scope="module")
def facts_of_grid(run: Run) -> Facts:
    return compute_facts(run)


@pytest.fixture
def _stub_facts(facts_of_grid: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page is about the grid, whose facts are found once."""
    monkeypatch.setattr(page, "compute_facts", lambda *_, **__: facts_of_grid)


@pytest.mark.usefixtures("_stub_facts")
@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_comparison_shows_every_name_letter_by_letter(
    run: Run, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """The page has a row for it, and the picture a line in its legend."""
    for name in (*NAMES, *CONTROL, FOREIGN):
        with subtests.test(ascii(name)):
            path = report.write_comparison({"first": run, name: run}, tmp_path / "c.html")
            text = path.read_text(encoding="utf-8")
            stands_alone(text)
            (picture,) = svgs(text)
            labels = texts(picture)
            assert "first" in labels
            assert letters(name).strip() in labels


def test_names_that_begin_with_an_underscore_are_in_the_legend(run: Run, tmp_path: Path) -> None:
    text = report.write_comparison({"_x": run, "_y": run, "$5": run}, tmp_path / "c.html").read_text("utf-8")
    (picture,) = svgs(text)
    assert [x for x in texts(picture) if x in ("_x", "_y", "$5")] == ["_x", "_y", "$5"]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_report_is_complete_and_shows_the_names_of_actions(
    write_page: Callable[[str], str], subtests: pytest.Subtests
) -> None:
    """An action without a name is its number; of several words the last is shown, of long ones the beginning."""
    for name in (*NAMES, *CONTROL, FOREIGN):
        with subtests.test(ascii(name)):
            text = write_page(name)
            assert text.rstrip().endswith("</html>")
            stands_alone(text)
            labels = [text for picture in svgs(text) for text in texts(picture)]
            parts = name.split()
            if parts:
                assert any(text and letters(parts[-1]).startswith(text) for text in labels), labels
            else:
                assert {"0", "1"} & set(labels)


@pytest.mark.parametrize("names", [["$a$", "$"], ["_x", ""], ["\ud800", "a$b"], ["\0", "\x1b"]], ids=ascii)
def test_figures_are_written_in_both_formats(names: list[str], tmp_path: Path) -> None:
    for path in write_pictures(plans(facts_with_names(*names)), tmp_path):
        if path.suffix == ".svg":
            assert texts(path.read_text(encoding="utf-8"))
        else:
            assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["_x", "$5", "$a$", "a$b$c", "\ud800x"], ids=ascii)
@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_contest_shows_every_explorer(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXPLORERS, name, EXPLORERS["uniform"])
    rows: list[dict[str, Any]] = [
        {"explorer": explorer, "seed": seed, "episodes": k, "gap": 1 / k, "eps": 1.0}
        for explorer in ("optimal-design", name, "chen2022")
        for seed in (0, 1)
        for k in (1, 2)
    ]
    path = tmp_path / f"figure.{kind}"
    save_figure(plot_comparison(rows), path)
    if kind == "svg":
        assert {"optimal-design", letters(name)} <= drawn_texts(path.read_text(encoding="utf-8"))


def test_the_words_of_a_figure_are_not_changed() -> None:
    assert display_text("hf-ucrl-rfe++ (reconstruction)") == "hf-ucrl-rfe++ (reconstruction)"
    assert display_text("a_b") == "a_b"
    assert display_text("$5") == r"\$5"
    assert display_text("_x") == "\u200b_x"
    assert display_text("") == " "
    assert display_text("\ud800\0a\n") == "??a?"
