"""What a report says and marks where the first state is drawn."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.patches import Circle

import horizonfree as hf
from horizonfree.planning import evaluate
from horizonfree.report import facts
from horizonfree.report import facts as ft
from horizonfree.report.draw import draw_all
from horizonfree.report.page import setting, write_page
from horizonfree.runs.run import Run

from .example_runs import run_with_starts, unlabelled
from .reading import Page, stands_alone

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@pytest.fixture(scope="module")
def two_starts() -> Run:
    return run_with_starts((1, 8))


@pytest.fixture(scope="module")
def all_starts() -> Run:
    return run_with_starts(range(16))


@cache
def compute_run_facts(run: Run) -> ft.Facts:
    return ft.compute_facts(run)


@cache
def draw_figures(run: Run) -> "dict[str, Figure]":
    return draw_all(compute_run_facts(run))


def write_page_of(run: Run, folder: Path) -> Page:
    return stands_alone(write_page(compute_run_facts(run), folder / "r.html").read_text(encoding="utf-8"))


def rings(run: Run, name: str) -> list[list[float]]:
    """The cells with a ring in the first map of a figure."""
    patches = draw_figures(run)[name].axes[0].patches
    return [list(ring.center) for ring in patches if isinstance(ring, Circle)]


@pytest.mark.parametrize("name", ["states", "plan-1"])
def test_every_possible_start_has_a_ring(two_starts: Run, name: str) -> None:
    assert rings(two_starts, name) == [[1, 0], [0, 2]]


def test_rings_that_say_nothing_are_left_out(all_starts: Run) -> None:
    assert rings(all_starts, "states") == []


@pytest.mark.parametrize("max_rings", [1, 2])
def test_a_great_many_rings_are_left_out(
    two_starts: Run, max_rings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ft, "MAX_MARKED_STARTS", max_rings)
    assert ft.marked_starts(two_starts.problem) == ([1, 8] if max_rings == 2 else [])


def test_a_fixed_start_has_its_ring_however_few_states_there_are(run: Run) -> None:
    assert rings(run, "states") == [[0, 0]]
    one_state = hf.Mixture.from_kernels(np.ones((1, 1, 1, 1)), horizon=1)
    assert ft.marked_starts(one_state) == [0]


def test_the_page_says_where_episodes_start(
    two_starts: Run, all_starts: Run, run: Run, tmp_path: Path
) -> None:
    text = write_page_of(two_starts, tmp_path).text
    assert "Rings are possible starts; empty cells are unreachable" in text
    assert "start one of 2 states, drawn " in text
    assert "The ring is the start" not in text
    text = write_page_of(all_starts, tmp_path).text
    assert "An episode starts in one of 16 states, drawn. Empty cells are unreachable" in text
    assert "Rings" not in text
    text = write_page_of(run, tmp_path).text
    assert "The ring is the start; empty cells are unreachable" in text
    assert "start cell (0, 0) " in text
    assert "drawn." not in text


def test_states_without_places_have_a_sentence_instead_of_rings(two_starts: Run, tmp_path: Path) -> None:
    without_layout = replace(two_starts, problem=replace(two_starts.problem, layout={}))
    text = write_page_of(without_layout, tmp_path).text
    assert "An episode starts in one of 2 states, drawn. " in text
    assert "places cannot be reached" not in text
    assert "An episode starts in" not in write_page_of(unlabelled(), tmp_path).text


def test_values_are_means_over_the_starts(two_starts: Run) -> None:
    kernel = two_starts.problem.kernel()
    for x, (_, _, table) in zip(
        compute_run_facts(two_starts).examples, ft.example_rewards(two_starts.problem)
    ):
        assert x.value == pytest.approx(x.V[[1, 8]].mean())
        assert x.best is not None
        assert x.loss is not None
        true = evaluate(kernel, table, two_starts.plan(table).policy)[0, [1, 8]].mean()
        assert x.loss == pytest.approx(max(0.0, x.best - true), abs=1e-12)


def test_the_worst_true_gap_is_a_mean_over_the_starts(two_starts: Run) -> None:
    goals = facts.goals(two_starts)
    gaps = [hf.true_gap(two_starts.problem, goal, two_starts.plan(goal).policy) for goal in goals]
    assert facts.history_of(two_starts, 0.05)[-1].true_gap == pytest.approx(max(0.0, *gaps), abs=1e-9)


def test_examples_differ_where_every_state_is_a_start(all_starts: Run) -> None:
    near_states, far_states, stay = (states for _, states, _ in ft.example_rewards(all_starts.problem))
    assert near_states == stay != far_states


@pytest.mark.parametrize(
    ("x", "text"), [([0.5] * 16, "list of 16"), ([1, 2], "[1, 2]"), (np.zeros((2, 3)), "array [2, 3]")]
)
def test_a_long_setting_is_told_by_its_length(x: object, text: str) -> None:
    assert setting(x) == text


def test_the_start_of_a_recipe_is_not_written_out(two_starts: Run, tmp_path: Path) -> None:
    text = write_page_of(two_starts, tmp_path).text
    assert "start list of 16 " in text
    assert "0.0, 0.5" not in text
