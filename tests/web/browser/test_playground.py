"""The playground in a real browser: painted by hand, by keyboard, by link; light, dark and small."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.planning import evaluate, visits

from .conftest import Playground, wait_for, wait_until_settled

if TYPE_CHECKING:
    from playwright.sync_api import Page

Visit = Callable[..., "Page"]
Picture = Callable[["Page", str], None]


def cell(page: "Page", s: int) -> tuple[float, float]:
    """The middle of a state's cell on the 8 x 8 map."""
    page.locator("#board").scroll_into_view_if_needed()
    box = page.locator("#board").bounding_box()
    assert box is not None
    return box["x"] + (s % 8 + 0.5) * box["width"] / 8, box["y"] + (s // 8 + 0.5) * box["height"] / 8


def drag(page: "Page", *states: int, steps: int = 8) -> None:
    page.mouse.move(*cell(page, states[0]))
    page.mouse.down()
    for s in states[1:]:
        page.mouse.move(*cell(page, s), steps=steps)
    page.mouse.up()
    wait_until_settled(page)


def painted(page: "Page") -> str:
    """The reward as the address holds it."""
    match = re.search(r"paint=([^&]*)", page.url)
    assert match
    return match[1]


def value(page: "Page") -> float:
    return float(page.inner_text("#value"))


def plan(playground: Playground, states: list[int], when: str = "end") -> hf.Plan:
    make = hf.goal if when == "end" else hf.occupancy
    return playground.run.plan(make(playground.run.problem, states))


def test_dragging_paints_and_the_plan_follows(grid: Playground, visit: Visit, picture: Picture) -> None:
    page = visit(f"{grid.address}#when=end&paint=")
    assert page.inner_text("#proof") == "Paint a reward to begin."
    drag(page, 17, 20)
    assert painted(page) == "17-20"
    expected = plan(grid, [17, 18, 19, 20])
    assert value(page) == pytest.approx(expected.value, rel=6e-3)
    match = re.search(r"at most ([\d.]+) \(", page.inner_text("#proof"))
    assert match
    assert expected.gap <= float(match[1]) <= 1.011 * expected.gap
    page.mouse.move(*cell(page, 12))
    action = grid.run.problem.layout["actions"][expected.policy[0, 12]]
    assert page.inner_text("#here").endswith(f"· {action}")
    picture(page, "painted")


def test_a_fast_hand_leaves_no_gaps_and_a_second_stroke_erases(grid: Playground, visit: Visit) -> None:
    page = visit(f"{grid.address}#when=end&paint=")
    drag(page, 0, 63, steps=1)
    assert painted(page) == ",".join(str(9 * i) for i in range(8))
    drag(page, 0, 27)
    assert painted(page) == "36,45,54,63"
    page.locator("input[name=brush][value='0.5']").check(force=True)
    drag(page, 36)
    assert painted(page) == "36x0.5,45,54,63"
    page.locator("input[name=brush][value='0']").check(force=True)
    drag(page, 63)
    assert painted(page) == "36x0.5,45,54"


def test_where_the_plan_spends_its_time_is_shown_first(grid: Playground, visit: Visit) -> None:
    """The legend has the longest time; on request the lowest and the highest value of the step."""
    page = visit(f"{grid.address}#when=end&paint=36")
    wait_until_settled(page)
    expected, problem = plan(grid, [36]), grid.run.problem
    time = visits(expected.kernel, expected.policy, problem.start).sum(axis=(0, 2)) / problem.horizon
    assert page.inner_text("#low") == "time: 0"
    match = re.fullmatch(r"([\d.]+) % of the steps", page.inner_text("#high"))
    assert match
    assert float(match[1]) == pytest.approx(100 * time.max(), rel=6e-3)
    page.mouse.move(*cell(page, 9))
    assert re.search(r"([\d.]+) % of the time", page.inner_text("#here"))
    page.locator("input[name=shows][value=actions]").check(force=True)
    V = evaluate(expected.kernel, hf.goal(problem, 36), expected.policy)[0]
    assert float(page.inner_text("#low").removeprefix("value ")) == pytest.approx(V.min(), rel=6e-3, abs=1e-6)
    assert float(page.inner_text("#high")) == pytest.approx(V.max(), rel=6e-3)


def test_undo_redo_clear_and_fill(grid: Playground, visit: Visit) -> None:
    page = visit(f"{grid.address}#when=end&paint=5")
    assert page.is_disabled("#undo")
    drag(page, 9, 11)
    page.click("#clear")
    wait_until_settled(page)
    assert painted(page) == ""
    assert page.is_disabled("#play")
    page.click("#undo")
    assert painted(page) == "5,9-11"
    page.keyboard.press("Control+z")
    assert painted(page) == "5"
    page.keyboard.press("Control+Shift+Z")
    assert painted(page) == "5,9-11"
    page.click("#redo")
    assert painted(page) == ""
    page.click("#fill")
    wait_until_settled(page)
    assert painted(page) == "0-63"
    assert value(page) == 1
    match = re.search(r"Suboptimality at most ([\d.e-]+) \(", page.inner_text("#proof"))
    assert match
    assert float(match[1]) < 1e-6


def test_the_keyboard_paints_and_hears_what_it_did(grid: Playground, visit: Visit, picture: Picture) -> None:
    page = visit(f"{grid.address}#when=end&paint=")
    page.focus("#board")
    for key in ("ArrowRight", "ArrowDown", "Space"):
        page.keyboard.press(key)
    assert painted(page) == "9"
    wait_until_settled(page)
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowDown")
    assert painted(page) == "9-10,18"
    page.keyboard.press("Delete")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Space")
    assert painted(page) == "9"
    assert page.inner_text("#here").startswith("cell (2, 1) · reward 0")
    assert page.get_attribute("#here", "aria-live") == "polite"
    wait_until_settled(page)
    picture(page, "keyboard")


def test_every_control_can_be_reached_by_tab_and_has_a_name(grid: Playground, visit: Visit) -> None:
    page = visit(grid.address)
    names = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        names.add(
            page.evaluate(
                "document.activeElement.id || document.activeElement.name || document.activeElement.tagName"
            )
        )
    expected = {
        "board",
        "when",
        "brush",
        "fill",
        "clear",
        "share",
        "save",
        "step",
        "start",
        "play",
        "another",
        "SUMMARY",
    }
    assert expected <= names
    unnamed = page.evaluate(
        """[...document.querySelectorAll('button, input, canvas')].filter((x) => !(x.textContent.trim()
           || x.labels?.[0]?.textContent.trim() || x.getAttribute('aria-label'))).map((x) => x.id)"""
    )
    assert unnamed == []


def test_the_page_opens_along_the_way_and_plans_to_be_there_at_least_once(
    grid: Playground, visit: Visit
) -> None:
    page = visit(grid.address)
    assert page.locator("input[name=when]:checked").get_attribute("value") == "along"
    page.goto(f"{grid.address}#when=reach&paint=27")
    page.reload()
    wait_until_settled(page)
    expected = grid.run.plan(hf.reach(grid.run.problem, 27))
    assert value(page) == pytest.approx(expected.value, rel=6e-3)
    assert page.inner_text("#value-of") == "probability to be there at least once"
    assert page.inner_text("#episode") in ("This episode collects 0.", "This episode collects 1.")


def test_reloading_and_links_keep_the_reward(grid: Playground, visit: Visit) -> None:
    page = visit(f"{grid.address}#when=end&paint=")
    drag(page, 30, 31)
    page.locator("input[name=when][value=along]").check(force=True)
    wait_until_settled(page)
    texts_before = page.url, page.inner_text("#value"), page.inner_text("#proof")
    assert value(page) == pytest.approx(plan(grid, [30, 31], "along").value, rel=6e-3)
    page.reload()
    wait_until_settled(page)
    assert (page.url, page.inner_text("#value"), page.inner_text("#proof")) == texts_before
    other = visit(page.url)
    assert other.inner_text("#value") == texts_before[1]


def test_two_tabs_keep_their_own_rewards(grid: Playground, visit: Visit) -> None:
    first, second = visit(f"{grid.address}#when=end&paint=1"), visit(f"{grid.address}#when=end&paint=62")
    drag(first, 2)
    drag(second, 61)
    for page, states in ((first, [1, 2]), (second, [61, 62])):
        assert painted(page) == f"{states[0]}-{states[1]}"
        assert value(page) == pytest.approx(plan(grid, states).value, rel=6e-3)


def test_the_step_slider_shows_the_policy_of_that_step(grid: Playground, visit: Visit) -> None:
    page = visit(f"{grid.address}#when=end&paint=27&step=18")
    expected = plan(grid, [27])
    V = evaluate(expected.kernel, hf.goal(grid.run.problem, 27), expected.policy)
    for s in (19, 26, 28, 35):
        page.mouse.move(*cell(page, s))
        text = page.inner_text("#here")
        assert f"value {V[18, s]:#.3g}" in text
        assert text.endswith(grid.run.problem.layout["actions"][expected.policy[18, s]])
    page.focus("#step")
    page.keyboard.press("ArrowRight")
    wait_until_settled(page)
    page.mouse.move(*cell(page, 26))
    assert "no reward from here" in page.inner_text("#here")
    assert page.inner_text("#step-is") == "20 of 20"


def test_another_start_shows_its_value_and_says_what_the_proof_is_about(
    grid: Playground, visit: Visit
) -> None:
    page = visit(f"{grid.address}#when=end&paint=27&start=28")
    expected = plan(grid, [27])
    V = evaluate(expected.kernel, hf.goal(grid.run.problem, 27), expected.policy)
    assert value(page) == pytest.approx(V[0, 28], rel=6e-3)
    assert "for the start of the problem" in page.inner_text("#start-note")
    page.focus("#start")
    page.keyboard.press("Home")
    wait_until_settled(page)
    assert page.inner_text("#start-note") == ""
    assert value(page) == pytest.approx(expected.value, rel=6e-3)


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_an_episode_plays_to_its_end(grid: Playground, visit: Visit, picture: Picture, motion: str) -> None:
    page = visit(f"{grid.address}#when=end&paint=27", reduced_motion=motion)
    page.click("#play")
    wait_for(page, "document.getElementById('step').value >= 8")
    if motion == "reduce":
        page.click("#play")
        assert page.inner_text("#play") == "Play an episode"
        return
    picture(page, "playing")
    wait_for(page, "document.getElementById('play').textContent === 'Play an episode'")
    assert page.inner_text("#step-is") == "20 of 20"
    assert page.inner_text("#episode") in ("This episode collects 0.", "This episode collects 1.")


def test_another_episode_is_another(grid: Playground, visit: Visit) -> None:
    page = visit(f"{grid.address}#when=end&paint=27")
    with page.expect_request("**/api/plan") as request:
        page.click("#another")
    assert request.value.post_data_json["seed"] == 1
    wait_for(page, "document.getElementById('play').textContent === 'Stop'")


def test_a_reward_is_saved_as_an_array(grid: Playground, visit: Visit, tmp_path: Path) -> None:
    page = visit(f"{grid.address}#when=end&paint=27x0.25,28", accept_downloads=True)
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(tmp_path / "reward.npy")
    reward = np.load(tmp_path / "reward.npy", allow_pickle=False)
    expected = hf.goal(grid.run.problem, 28) + 0.25 * hf.goal(grid.run.problem, 27)
    np.testing.assert_array_equal(reward, expected)


def test_states_without_places_are_a_table(mixture: Playground, visit: Visit, picture: Picture) -> None:
    page = visit(f"{mixture.address}#when=end&paint=")
    box = page.get_by_label("reward of state 7")
    box.fill("0.5")
    box.press("Enter")
    wait_until_settled(page)
    assert painted(page) == "7x0.5"
    assert value(page) == pytest.approx(0.5 * plan(mixture, [7]).value, rel=6e-3)
    box.fill("7")
    box.press("Enter")
    assert "must lie between -1 and 1" in page.inner_text("#working")
    assert box.input_value() == "0.5"
    assert not page.is_visible("#board")
    picture(page, "table")


def test_costs_are_painted_and_certified_in_their_units(
    grid: Playground, visit: Visit, picture: Picture
) -> None:
    page = visit(f"{grid.address}#when=along&paint=63")
    page.locator("input[name=brush][value='-1']").check(force=True)
    drag(page, 9, 13)
    assert painted(page) == "9-13x-1,63"
    table = np.zeros(grid.run.problem.space.sizes)
    table[:, 63], table[:, 9:14] = 1 / 20, -1 / 20
    expected = grid.run.plan(table, scale="rescale")
    assert value(page) == pytest.approx(expected.value, rel=6e-3, abs=1e-6)
    match = re.search(r"at most ([\d.]+) \(", page.inner_text("#proof"))
    assert match
    assert expected.gap <= float(match[1]) <= 1.011 * expected.gap
    interval_match = re.search(r"interval \[(-?[\d.]+), (-?[\d.]+)\]", page.inner_text("#between"))
    assert interval_match
    assert float(interval_match[1]) <= expected.value_low <= expected.value_high <= float(interval_match[2])
    page.locator("input[name=shows][value=actions]").check(force=True)
    page.mouse.move(*cell(page, 10))
    assert "reward -1" in page.inner_text("#here")
    picture(page, "costs")
    page.get_by_role("button", name="Clear").click()
    drag(page, 0)  # the start itself, which every episode pays for
    assert value(page) < 0
    assert page.inner_text("#value-of") == "expected reward along the way, minus costs"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 860), (390, 844), (320, 600)])
def test_it_fits_every_screen_in_light_and_dark(
    grid: Playground, visit: Visit, picture: Picture, scheme: str, width: int, height: int
) -> None:
    size = {"width": width, "height": height}
    page = visit(f"{grid.address}#when=end&paint=27,28x0.5", color_scheme=scheme, viewport=size)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) < 200) == (scheme == "dark")
    drag(page, 40, 42)
    assert painted(page) == "27,28x0.5,40-42"
    picture(page, f"playground-{scheme}-{width}")


def test_an_error_of_the_server_is_said_and_the_next_question_mends_it(
    grid: Playground, visit: Visit
) -> None:
    page = visit(f"{grid.address}#when=end&paint=27", is_failing=True)
    page.route("**/api/plan", lambda route: route.fulfill(status=422, json={"error": "no such state"}))
    drag(page, 3)
    assert page.inner_text("#working") == "no such state"
    page.unroute("**/api/plan")
    page.route("**/api/plan", lambda route: route.abort())
    drag(page, 4)
    assert "does not answer" in page.inner_text("#working")
    page.unroute("**/api/plan")
    drag(page, 4)
    assert page.inner_text("#working").strip() == ""
    assert value(page) == pytest.approx(plan(grid, [3, 27]).value, rel=6e-3)


def test_how_long_from_mouse_up_to_repaint(
    grid: Playground, visit: Visit, record_property: Callable[[str, object], None]
) -> None:
    """Measured on S = 64 and recorded, not asserted: a machine under load is not a defect of the page."""
    page = visit(f"{grid.address}#when=end&paint=")
    for row in range(1, 7):
        drag(page, 8 * row, 8 * row + 3)
        wait_for(page, f"performance.getEntriesByName('repaint').length >= {row}")
    times = page.evaluate("performance.getEntriesByName('repaint').map((x) => x.duration)")
    assert len(times) == 6
    record_property("milliseconds from mouse-up to repaint", sorted(times))
    print("milliseconds from mouse-up to repaint:", [round(x) for x in sorted(times)])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_a_report_opens_without_a_network(
    page_of_report: Path, visit: Visit, picture: Picture, scheme: str, width: int
) -> None:
    size = {"width": width, "height": 860}
    page = visit(page_of_report.as_uri(), color_scheme=scheme, viewport=size, offline=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("main > figure svg").first.is_visible()
    picture(page, f"report-{scheme}-{width}")
