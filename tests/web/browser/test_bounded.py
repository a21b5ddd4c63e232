"""States to be avoided, in a real browser: marked by hand, by keyboard, by link and in a table."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import horizonfree as hf

from .conftest import Playground, wait_for, wait_until_settled
from .test_playground import Picture, Visit, cell, drag, painted, value
from .test_text import LEFT_OUT

if TYPE_CHECKING:
    from playwright.sync_api import Page

MARKS = "#when=end&paint=63&avoid=20,27-29,35&bound=0.05"
# The cells of an 8 x 8 map that are red inside, away from their frames.
HATCHED = """() => {
  const board = document.getElementById('board'), size = board.width / 8, inside = [0.2, 0.8];
  const { data } = board.getContext('2d').getImageData(0, 0, board.width, board.height);
  const isRed = (x, y) => data[4 * (y * board.width + x)] - data[4 * (y * board.width + x) + 2] > 20;
  const [from, to] = inside.map((part) => Math.floor(part * size));
  const rows = Array.from({ length: to - from }, (_, i) => from + i);
  const isHatched = (s) => rows.some((y) => rows.some((x) => isRed((s % 8) * size + x, Math.floor(s / 8) * size + y)));
  return [...Array(64).keys()].filter(isHatched);
}"""


def plan_within(playground: Playground, states: list[int], bound: float, reward: Any = None) -> Any:
    problem = playground.run.problem
    goal = hf.goal(problem, 63) if reward is None else reward
    return playground.run.plan(goal, constraints=[hf.at_most(hf.reach(problem, states), bound)])


def mark(page: "Page") -> None:
    """Take the brush for marks."""
    page.locator("input[name=brush][value=avoid]").check(force=True)


def test_marked_states_are_avoided_within_the_bound(grid: Playground, visit: Visit, picture: Picture) -> None:
    page = visit(f"{grid.address}#when=end&paint=63")
    assert not page.is_visible("#bounded")
    mark(page)
    drag(page, 27, 29)
    assert page.url.endswith("#when=end&paint=63&avoid=27-29&bound=0.05")
    plan = plan_within(grid, [27, 28, 29], 0.05)
    assert page.inner_text("#status") == f"{plan.status.capitalize()}."
    assert page.inner_text("#risk") == f"Ever in a marked state: {plan.constraints[0].summary()}."
    assert page.inner_text("#proof").lower() == f"{plan.certificate.summary()}.".lower()
    assert value(page) == pytest.approx(plan.value, rel=6e-3)
    assert "known because this problem is simulated" in page.inner_text("#truth")
    assert page.evaluate(HATCHED) == [27, 28, 29]
    page.locator("input[name=shows][value=actions]").check(force=True)
    page.mouse.move(*cell(page, 28))
    assert "to be avoided" in page.inner_text("#here")
    picture(page, "avoid")
    page.fill("#bound", "0.5")
    page.press("#bound", "Enter")
    wait_until_settled(page)
    assert page.inner_text("#risk").endswith(
        f"{plan_within(grid, [27, 28, 29], 0.5).constraints[0].summary()}."
    )
    drag(page, 27)  # a second stroke takes the mark away
    assert "avoid=28-29&bound=0.5" in page.url
    page.click("#undo")
    page.click("#undo")
    assert "avoid=27-29&bound=0.05" in page.url
    wait_until_settled(page)
    page.click("#unmark")
    wait_until_settled(page)
    assert page.url.endswith("#when=end&paint=63")
    assert page.is_hidden("#bounded")
    assert page.is_disabled("#unmark")
    free = grid.run.plan(hf.goal(grid.run.problem, 63))
    assert value(page) == pytest.approx(free.value, rel=6e-3)
    assert "Likely: value in" in page.inner_text("#likely")


def test_a_link_keeps_marks_and_bound(grid: Playground, visit: Visit) -> None:
    page = visit(f"{grid.address}{MARKS}")
    assert page.url.endswith(MARKS)
    assert not page.is_visible("#misfits")
    assert page.input_value("#bound") == "0.05"
    risk_before = page.inner_text("#risk")
    page.reload()
    wait_until_settled(page)
    assert page.inner_text("#risk") == risk_before
    assert page.inner_text("#avoid-note").startswith("5 states marked.")


@pytest.mark.parametrize(
    ("fragment", "expected", "left_out"),
    [
        ("avoid=3,99&bound=0.1", "&avoid=3&bound=0.1", "avoid=99"),
        ("avoid=3x0.5,4&bound=2", "&avoid=4&bound=0.05", "avoid=3x0.5, bound=2"),
        ("avoid=-1&bound=nan", "", "avoid=-1, bound=nan"),
        ("avoid=<b>,7", "&avoid=7&bound=0.05", "avoid=<b>"),
        ("bound=0.2", "", ""),
    ],
)
def test_marks_of_a_link_that_do_not_fit_are_left_out_and_told(
    grid: Playground, visit: Visit, fragment: str, expected: str, left_out: str
) -> None:
    page = visit(f"{grid.address}#when=end&paint=63&{fragment}")
    assert page.url.endswith(f"#when=end&paint=63{expected}")
    assert page.inner_text("#misfits") == (f"{LEFT_OUT}{left_out}." if left_out else "")


def test_marks_and_rewards_of_one_state_and_the_eraser(grid: Playground, visit: Visit) -> None:
    page = visit(f"{grid.address}#when=end&paint=62-63")
    mark(page)
    drag(page, 63)
    assert page.url.endswith("#when=end&paint=62-63&avoid=63&bound=0.05")
    reward = hf.goal(grid.run.problem, [62, 63])
    assert value(page) == pytest.approx(plan_within(grid, [63], 0.05, reward).value, rel=6e-3)
    page.locator("input[name=brush][value='0']").check(force=True)
    drag(page, 63)
    assert page.url.endswith("#when=end&paint=62")
    mark(page)
    page.click("#fill")
    wait_until_settled(page)
    assert "avoid=0-63" in page.url
    assert page.inner_text("#status") == "Infeasible."
    assert "No policy satisfies the constraints" in page.inner_text("#proof")
    assert painted(page) == "62"
    assert "is in a marked state at step 1." in page.inner_text("#episode")


def test_the_keyboard_marks_and_hears_what_it_did(grid: Playground, visit: Visit) -> None:
    page = visit(f"{grid.address}#when=end&paint=9")
    page.focus("input[name=brush]:checked")
    for _ in range(8):  # one group with the brushes of rewards
        if page.evaluate("document.activeElement.value") == "avoid":
            break
        page.keyboard.press("ArrowRight")
    assert page.locator("input[name=brush]:checked").get_attribute("value") == "avoid"
    page.focus("#board")
    for key in ("ArrowRight", "ArrowDown", "Space", "Shift+ArrowRight"):
        page.keyboard.press(key)
    assert page.url.endswith("#when=end&paint=9&avoid=9-10&bound=0.05")
    assert page.inner_text("#here").startswith("cell (2, 1) · reward 0 · to be avoided")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Delete")
    assert page.url.endswith("#when=end&paint=&avoid=10&bound=0.05")
    assert page.get_by_label("Probability to be in one of them, at most").get_attribute("id") == "bound"


@pytest.mark.parametrize("bound", ["2", "-1", ""])
def test_a_bound_that_is_no_probability_is_refused(grid: Playground, visit: Visit, bound: str) -> None:
    page = visit(f"{grid.address}{MARKS}")
    page.fill("#bound", bound)
    page.press("#bound", "Tab")
    assert page.inner_text("#working") == "The bound must lie between 0 and 1: it is a probability."
    assert page.input_value("#bound") == "0.05"


def test_what_decides_and_what_is_in_doubt(grid: Playground, visit: Visit, picture: Picture) -> None:
    page = visit(f"{grid.address}#when=end&paint=63&avoid=20,27&bound=0.0005")
    plan = plan_within(grid, [20, 27], 0.0005)
    assert plan.status == "undecided"
    assert page.inner_text("#status") == "Undecided."
    assert page.inner_text("#forecast").lower() == f"{plan.certificate.forecast}.".lower()
    picture(page, "avoid-undecided")
    page.focus("#start")
    page.keyboard.press("ArrowRight")
    wait_until_settled(page)
    assert re.match(
        r"Ever in a marked state: [\d.]+ from here; from the start of the problem 0\.",
        page.inner_text("#risk"),
    )


def test_what_is_drawn_is_drawn_as_arrows_and_named(grid: Playground, visit: Visit, picture: Picture) -> None:
    """Of each action the probability; also after a marked state, where the plan does something else."""
    page = visit(f"{grid.address}{MARKS}")
    plan = plan_within(grid, [20, 27, 28, 29, 35], 0.05)
    steps, rows = np.nonzero((plan.policy[:, :64] > 0.05).sum(-1) > 1)
    assert len(steps)
    step, s = int(steps[0]), int(rows[0])
    page.goto(f"{grid.address}{MARKS}&step={step}")
    page.reload()
    wait_until_settled(page)
    page.locator("input[name=shows][value=actions]").check(force=True)
    page.mouse.move(*cell(page, s))
    names, rule = grid.run.problem.layout["actions"], plan.policy[step, s]
    for a in np.flatnonzero(rule >= 0.05):
        assert f"{names[a]} {100 * rule[a]:.3g}"[:6] in page.inner_text("#here")
    picture(page, "avoid-drawn")
    page.locator("input[name=memory][value=after]").check(force=True)
    wait_until_settled(page)
    other = plan.policy[step, 64:].argmax(-1)
    state = int(np.flatnonzero(other != plan.policy[step, :64].argmax(-1))[0])
    page.mouse.move(*cell(page, state))
    assert page.inner_text("#here").endswith(f"· {names[other[state]]}")


def test_a_stroke_of_marks_asks_once(grid: Playground, visit: Visit) -> None:
    """Such plans take longer; an episode then shows what the plan does after a marked state."""
    page = visit(f"{grid.address}{MARKS}")
    requests: list[str] = []
    page.on("request", lambda x: requests.append(x.post_data or "") if x.url.endswith("api/plan") else None)
    mark(page)
    drag(page, 0, 7, steps=10)
    assert [json.loads(x)["avoid"] for x in requests] == [[0, 1, 2, 3, 4, 5, 6, 7, 20, 27, 28, 29, 35]]
    page.click("#play")
    wait_for(page, "document.getElementById('step').value >= 2")
    wait_for(page, "document.querySelector('input[name=memory]:checked').value === 'after'")


def test_states_without_places_are_marked_in_the_table(
    mixture: Playground, visit: Visit, picture: Picture
) -> None:
    page = visit(f"{mixture.address}#when=end&paint=5", viewport={"width": 390, "height": 844})
    page.get_by_label("avoid state 7", exact=True).check()
    wait_until_settled(page)
    assert page.url.endswith("#when=end&paint=5&avoid=7&bound=0.05")
    plan = plan_within(mixture, [7], 0.05, hf.goal(mixture.run.problem, 5))
    assert page.inner_text("#status") == f"{plan.status.capitalize()}."
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    picture(page, "avoid-table")


def test_where_it_cannot_be_done_the_control_is_off_and_says_why(
    grid: Playground, visit: Visit, picture: Picture
) -> None:
    page = visit(grid.address)
    reason = "Not for this run: nothing is proved."
    page.route(
        "**/api/problem", lambda route: route.fulfill(json=route.fetch().json() | {"bound_refusal": reason})
    )
    page.goto(f"{grid.address}{MARKS}")
    page.reload()
    wait_until_settled(page)
    assert page.inner_text("#avoid-note") == reason
    for control in ("#bound", "#unmark", "input[name=brush][value=avoid]"):
        assert page.is_disabled(control)
    assert page.inner_text("#misfits").startswith(LEFT_OUT + "avoid=20")
    assert page.is_hidden("#bounded")
    picture(page, "avoid-refused")


def test_the_saved_reward_is_said_with_its_bound(grid: Playground, visit: Visit, tmp_path: Path) -> None:
    page = visit(f"{grid.address}{MARKS}", accept_downloads=True)
    with page.expect_download() as download:
        page.click("#save")
    assert download.value.suggested_filename == "zoned-grid-reward.npy"
    assert page.inner_text("#working").endswith("--reward --at-most reach:20,27,28,29,35=0.05.")
