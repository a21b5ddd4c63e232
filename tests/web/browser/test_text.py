"""What the playground says: where the episodes are from, bounds, the line under the map, links that do not fit."""

import re
from typing import Any

import pytest

from horizonfree.guarantees.certificate import interval, round_up

from .conftest import Playground, wait_for, wait_until_settled
from .test_playground import Picture, Visit, cell, drag, painted, plan

LEFT_OUT = "Parts of the link do not fit this run and were left out: "


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, "20 steps an episode, 150 episodes without a reward. Explorer: optimal-design. "),
        (
            {"explorer": "ucrl-vtr", "uses_reward": True, "episodes": 30},
            "30 episodes for one reward. Explorer: ucrl-vtr. ",
        ),
        ({"is_logged": True, "episodes": 1}, "20 steps an episode, 1 logged episode. "),
        ({"explorer": "chen2022 (reconstruction)"}, "Explorer: chen2022 (reconstruction). "),
    ],
)
def test_the_header_says_where_the_episodes_are_from(
    grid: Playground, visit: Visit, facts: dict[str, Any], expected: str
) -> None:
    page = visit(grid.address)
    page.route("**/api/problem", lambda route: route.fulfill(json=route.fetch().json() | facts))
    page.reload()
    wait_until_settled(page)
    header = page.inner_text("#about")
    assert expected in header
    assert ("without a reward" in header) == (facts.keys() <= {"explorer"})
    assert ("Explorer:" in header) == ("is_logged" not in facts)


def test_bounds_are_never_rounded_down_and_tiny_ones_are_shown(grid: Playground, visit: Visit) -> None:
    page = visit(grid.address)
    expected = {0: "0", 2.001e-11: "2.01e-11", 2e-11: "2e-11", 1e-9: "1e-9", 9.995e-7: "0.000001"}
    expected |= {
        1e-6: "0.000001",
        1.2e-6: "0.000002",
        0.0413001: "0.0414",
        0.561: "0.561",
        0.9999: "1",
        1: "1",
    }
    actual = page.evaluate(
        "(xs) => import('/text.js').then(({ bound }) => xs.map((x) => bound(x)))", list(expected)
    )
    assert actual == list(expected.values())


INTERVALS = {
    (0.6532, 0.7581): "[0.65, 0.76]",
    (0.65, 0.76): "[0.65, 0.76]",
    (0, 1): "[0, 1]",
    (0.00631, 0.03454): "[0.006, 0.035]",
    (0.70912341, 0.70912347): "[0.709123, 0.709124]",
    (1.1e-9, 1.3e-9): "[0, 0.000001]",
    (0.9951, 1): "[0.9951, 1]",
    (0.3, 0.3): "[0.300000, 0.300000]",
}


def test_intervals_are_rounded_outwards_as_in_reports(grid: Playground, visit: Visit) -> None:
    page = visit(grid.address)
    script = "(xs) => import('/text.js').then(({ interval }) => xs.map(([a, b]) => interval(a, b)))"
    assert page.evaluate(script, [list(x) for x in INTERVALS]) == list(INTERVALS.values())
    assert [interval(*x) for x in INTERVALS] == list(INTERVALS.values())


def test_the_value_stands_with_its_interval(grid: Playground, visit: Visit, picture: Picture) -> None:
    page = visit(f"{grid.address}#when=end&paint=27")
    expected = plan(grid, [27])
    text = f"95% confidence interval {interval(expected.value_low, expected.value_high)}."
    assert page.inner_text("#between") == text
    picture(page, "interval")
    page.focus("#start")
    page.keyboard.press("ArrowRight")
    wait_until_settled(page)
    assert page.inner_text("#between").strip() == ""


def test_what_is_proved_of_every_painting_stands_beside_it(grid: Playground, visit: Visit) -> None:
    page = visit(grid.address)
    goals, every_reward = grid.run.certificate(rewards="goals"), grid.run.certificate()
    assert page.inner_text("#goals") == f"All 64 goals: suboptimality at most {round_up(goals.eps):.3g}."
    assert page.inner_text("#goals-need") == f"{goals.forecast}."
    assert (
        page.inner_text("#every")
        == f"Every reward r_h(s, a) of total at most 1: suboptimality at most {round_up(every_reward.eps):.3g}."
    )
    assert page.inner_text("#every-need") == f"{every_reward.forecast}."
    assert page.inner_text("#confidence") == "95% confidence"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (
            {"is_vacuous": True, "forecast": ""},
            "Every reward r_h(s, a) of total at most 1: nothing is certified yet.",
        ),
        ({"is_rejected": True, "summary": "model rejected: so it is"}, ""),
    ],
)
def test_what_is_not_proved_is_not_told(
    grid: Playground, visit: Visit, facts: dict[str, Any], expected: str
) -> None:
    page = visit(grid.address)
    page.route("**/api/problem", lambda route: route.fulfill(json=route.fetch().json() | facts))
    page.reload()
    wait_until_settled(page)
    assert page.is_visible("#certificates") == bool(expected)
    if expected:
        assert page.inner_text("#every") == expected
        assert not page.is_visible("#every-need")
    assert ("Warning: model rejected" in page.inner_text("#about")) == (not expected)


@pytest.mark.parametrize(("gap", "gap_text"), [(3e-10, "3e-10"), (0.04121, "0.0413")])
def test_a_tiny_gap_is_told_as_a_gap(grid: Playground, visit: Visit, gap: float, gap_text: str) -> None:
    page = visit(f"{grid.address}#when=end&paint=")
    page.route("**/api/plan", lambda route: route.fulfill(json=route.fetch().json() | {"gap": gap}))
    drag(page, 9)
    expected = f"Suboptimality at most {gap_text} (95% confidence, any stopping time)."
    assert page.inner_text("#proof") == expected


def test_the_line_under_the_map_follows_the_paint_and_the_plan(grid: Playground, visit: Visit) -> None:
    """The pointer does not move between the strokes."""
    page = visit(f"{grid.address}#when=end&paint=&step=19")
    page.mouse.move(*cell(page, 9))
    assert page.inner_text("#here") == "cell (1, 1) · reward 0"
    page.mouse.down()
    page.mouse.up()
    wait_until_settled(page)
    cell_text = r"cell \(1, 1\) · reward 1 · [\d.]+ % of the time · value "
    assert re.match(f"{cell_text}1 · ", page.inner_text("#here"))
    page.keyboard.press("Control+z")
    wait_until_settled(page)
    assert page.inner_text("#here") == "cell (1, 1) · reward 0"
    page.keyboard.press("Control+Shift+Z")
    page.evaluate(
        "document.getElementById('step').focus({ preventScroll: true })"
    )  # the map stays under the pointer
    page.keyboard.press("Home")
    wait_until_settled(page)
    assert re.match(rf"{cell_text}0\.", page.inner_text("#here"))
    page.mouse.move(*cell(page, 0))
    assert f"value {plan(grid, [9]).value:#.3g}" in page.inner_text("#here")


def test_a_finger_sees_the_line_too(grid: Playground, visit: Visit) -> None:
    page = visit(f"{grid.address}#when=end&paint=", has_touch=True)
    page.locator("#board").dispatch_event("pointerdown", pointer(page, 9))
    assert page.inner_text("#here").startswith("cell (1, 1) · reward 1")


def pointer(page: Any, s: int) -> dict[str, Any]:
    x, y = cell(page, s)
    return {"button": 0, "pointerId": 1, "clientX": x, "clientY": y}


@pytest.mark.parametrize(
    ("paint", "expected", "left_out"),
    [
        ("999", "", "999"),
        ("3x2", "", "3x2"),
        ("garbage", "", "garbage"),
        ("0-1000000000", "", "0-1000000000"),
        ("3,<b>,70,60-99,5x7,6x0.5", "3,6x0.5", "<b>, 70, 60-99, 5x7"),
        ("9-7,63", "63", "9-7"),
        ("1,2,100,101,102,103,104,105", "1-2", "100, 101, 102, 103, 104 and 1 more"),
        ("a" * 99, "", "a" * 24 + "…"),
    ],
)
def test_what_does_not_fit_is_left_out_and_told(
    grid: Playground, visit: Visit, paint: str, expected: str, left_out: str
) -> None:
    page = visit(f"{grid.address}#when=end&paint={paint}")
    assert painted(page) == expected
    assert page.inner_text("#misfits") == f"{LEFT_OUT}{left_out}."


def test_other_parts_that_do_not_fit_are_told_too(grid: Playground, visit: Visit, picture: Picture) -> None:
    page = visit(f"{grid.address}#when=often&paint=3,70&step=999&start=-1")
    assert page.inner_text("#misfits") == f"{LEFT_OUT}70, when=often, step=999, start=-1."
    picture(page, "misfits")
    drag(page, 0)
    assert page.url.endswith("#when=end&paint=0,3")
    page.evaluate("location.hash = '#nonsense'")
    wait_for(page, "document.getElementById('misfits').textContent.includes('nonsense')")
    assert page.inner_text("#misfits") == f"{LEFT_OUT}nonsense."
    assert page.inner_text("#value") != "–"


@pytest.mark.parametrize("paint", ["", "3,5-8x0.25", "7x1e-7", "0-63"])
def test_a_link_that_fits_is_followed_without_a_word(grid: Playground, visit: Visit, paint: str) -> None:
    page = visit(f"{grid.address}#when=along&paint={paint}&step=19&start=63")
    assert page.url.endswith(f"#when=along&paint={paint}&step=19&start=63")
    assert not page.is_visible("#misfits")
