"""The playground where the first state is drawn: said, marked, chosen instead, kept in links."""

import re
from typing import TYPE_CHECKING

import pytest

import horizonfree as hf
from horizonfree.planning import evaluate

from .conftest import Playground, wait_until_settled
from .test_playground import Picture, Visit, plan, value
from .test_text import LEFT_OUT

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAINT = "#when=end&paint=14"
# The cells of a 4 x 4 map that have the colour of a ring where the top of one would be.
RINGS = """() => {
  const board = document.getElementById('board'), size = board.width / 4;
  const ink = getComputedStyle(document.documentElement).getPropertyValue('--ink').trim();
  const { data } = board.getContext('2d').getImageData(0, 0, board.width, board.height);
  const colour = (x, y) => [...data.slice(4 * (y * board.width + x), 4 * (y * board.width + x) + 3)];
  const top = (s) => colour(Math.floor((s % 4 + 0.5) * size), Math.floor((Math.floor(s / 4) + 0.07) * size));
  const hex = (rgb) => '#' + rgb.map((part) => part.toString(16).padStart(2, '0')).join('');
  return [...Array(16).keys()].filter((s) => hex(top(s)) === ink);
}"""


def rings(page: "Page") -> list[int]:
    states: list[int] = page.evaluate(RINGS)
    return states


def test_a_drawn_start_is_said_and_marked(lake: Playground, visit: Visit, picture: Picture) -> None:
    page = visit(f"{lake.address}{PAINT}")
    assert page.url.endswith(PAINT)
    assert page.inner_text("#start-is") == "one of 2 states, drawn"
    assert page.get_attribute("#start", "aria-valuetext") == "one of 2 states, drawn"
    assert page.input_value("#start") == page.get_attribute("#start", "min") == "-1"
    assert page.inner_text("#ring") == "possible start"
    assert page.inner_text("#start-note") == ""
    assert value(page) == pytest.approx(plan(lake, [14]).value, rel=6e-3)
    match = re.fullmatch(r"This episode starts in (.*) and collects [01]\.", page.inner_text("#episode"))
    assert match
    assert match[1] in ("cell (1, 0)", "cell (0, 2)")
    assert rings(page) == [1, 8]
    picture(page, "drawn")


def test_a_state_can_be_chosen_and_the_draw_again(lake: Playground, visit: Visit) -> None:
    page = visit(f"{lake.address}{PAINT}")
    page.focus("#start")
    page.keyboard.press("ArrowRight")
    wait_until_settled(page)
    expected, reward = plan(lake, [14]), hf.goal(lake.run.problem, 14)
    assert page.url.endswith(f"{PAINT}&start=0")
    assert page.inner_text("#start-is") == "cell (0, 0)"
    assert page.inner_text("#ring") == "start"
    assert "for the start of the problem" in page.inner_text("#start-note")
    assert value(page) == pytest.approx(evaluate(expected.kernel, reward, expected.policy)[0, 0], rel=6e-3)
    assert re.fullmatch(r"This episode collects [01]\.", page.inner_text("#episode"))
    assert rings(page) == [0]
    page.keyboard.press("Home")
    wait_until_settled(page)
    assert page.url.endswith(PAINT)
    assert page.inner_text("#start-is") == "one of 2 states, drawn"
    assert value(page) == pytest.approx(expected.value, rel=6e-3)


@pytest.mark.parametrize(
    ("start", "expected", "left_out"), [("-1", "", ""), ("8", "&start=8", ""), ("-2", "", "start=-2")]
)
def test_links_name_a_state_or_the_draw(
    lake: Playground, visit: Visit, start: str, expected: str, left_out: str
) -> None:
    page = visit(f"{lake.address}{PAINT}&start={start}")
    assert page.url.endswith(f"{PAINT}{expected}")
    assert page.inner_text("#misfits") == (f"{LEFT_OUT}{left_out}." if left_out else "")


def test_another_episode_asks_for_another_draw(lake: Playground, visit: Visit) -> None:
    page = visit(f"{lake.address}{PAINT}")
    with page.expect_request("**/api/plan") as request:
        page.click("#another")
    sent_data = request.value.post_data_json
    assert (sent_data["start"], sent_data["seed"]) == (-1, 1)


def test_the_keyboard_begins_at_a_state_that_can_be_reached(lake: Playground, visit: Visit) -> None:
    page = visit(f"{lake.address}#when=end&paint=")
    page.focus("#board")
    page.keyboard.press("Space")
    wait_until_settled(page)
    first = int(lake.run.problem.space.reachable.argmax())
    assert page.url.endswith(f"paint={first}")


def test_a_great_many_starts_are_counted_and_not_marked(
    lake: Playground, visit: Visit, picture: Picture
) -> None:
    page = visit(lake.address)
    many_starts = {"starts": [], "num_starts": 1300}
    page.route("**/api/problem", lambda route: route.fulfill(json=route.fetch().json() | many_starts))
    page.reload()
    wait_until_settled(page)
    assert page.inner_text("#start-is") == "one of 1,300 states, drawn"
    assert not page.is_visible("#ring")
    assert rings(page) == []
    picture(page, "drawn-many")


def test_starts_are_named_in_a_table(lake: Playground, visit: Visit, picture: Picture) -> None:
    page = visit(lake.address)
    page.route("**/api/problem", lambda route: route.fulfill(json=route.fetch().json() | {"cells": None}))
    page.reload()
    wait_until_settled(page)
    start_names = page.evaluate(
        "[...document.querySelectorAll('tr.start')].map((x) => x.cells[0].textContent)"
    )
    assert start_names == ["1", "8"]
    picture(page, "drawn-table")
    page.locator("#start").press("End")
    wait_until_settled(page)
    start_names = page.evaluate(
        "[...document.querySelectorAll('tr.start')].map((x) => x.cells[0].textContent)"
    )
    assert start_names == ["15"]
