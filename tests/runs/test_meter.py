"""What is said while something long goes on."""

import numpy as np
import pytest

from horizonfree.runs import meter as progress
from horizonfree.runs.until import MAX_EPISODES, StopRule


class Clock:
    """A clock whose time tests set."""

    seconds = 0.0

    def perf_counter(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    new_clock = Clock()
    monkeypatch.setattr(progress, "time", new_clock)
    return new_clock


def test_the_first_block_is_not_counted_as_it_compiles(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """26 s of compilation, then one second for an episode: 12 s are left after eight of twenty."""
    with progress.progress_meter(0, StopRule(0, 20), True) as show:
        show(0, {}, None)
        for episode, seconds in ((1, 26.0), (2, 27.0), (8, 33.0), (20, 45.0)):
            clock.seconds = seconds
            show(episode, {}, None)
    assert capsys.readouterr().err.splitlines() == [
        "episode 1 of 20, 26 s",
        "episode 8 of 20, 33 s, about 12 s left",
        "episode 20 of 20, 45 s",
    ]


def test_without_an_end_none_is_shown_until_there_is_an_estimate(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gap of 0.4 falls to 0.2 in four times the episodes."""
    with progress.progress_meter(0, StopRule(0, MAX_EPISODES, until_eps=0.2), True) as show:
        show(0, {}, None)
        for episode, seconds, eps in ((1, 10.0, 1.0), (11, 20.0, None), (21, 30.0, 0.4), (30, 39.0, 0.2)):
            clock.seconds = seconds
            show(episode, {}, eps)
    assert capsys.readouterr().err.splitlines() == [
        "episode 1, suboptimality at most 1.000, target 0.2, 10 s",
        "episode 11, suboptimality at most 1.000, target 0.2, 20 s",
        "episode 21 of 84, suboptimality at most 0.400, target 0.2, 30 s, about 63 s left",
        "episode 30 of 30, suboptimality at most 0.200, target 0.2, 39 s",
    ]


def test_an_end_that_was_asked_for_is_shown_beside_a_gap(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the end until a gap gives an earlier one; no episode is beyond it."""
    with progress.progress_meter(0, StopRule(0, 500, until_eps=0.2), True) as show:
        for episode, seconds, eps in ((1, 10.0, 1.0), (10, 20.0, 0.2098), (12, 30.0, None)):
            clock.seconds = seconds
            show(episode, {}, eps)
    assert [line.split(",")[0] for line in capsys.readouterr().err.splitlines()] == [
        "episode 1 of 500",
        "episode 10 of 11",
        "episode 12 of 12",
    ]


@pytest.mark.parametrize(("calls", "expected"), [(1, "1 oracle call"), (2, "2 oracle calls")])
def test_one_call_is_no_plural(
    clock: Clock, capsys: pytest.CaptureFixture[str], calls: int, expected: str
) -> None:
    with progress.progress_meter(0, StopRule(0, 1), True) as show:
        show(1, {"oracle_calls": np.array([0, calls], np.int32)}, None)
    assert capsys.readouterr().err == f"episode 1 of 1, {expected}, 0 s\n"


def test_on_a_terminal_there_is_no_end_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """The live line is drawn by Rich; a console captures it."""
    from rich.console import Console
    from rich.progress import Progress

    bars: list[Progress] = []
    enter = Progress.__enter__
    monkeypatch.setattr(Progress, "__enter__", lambda bar: bars.append(bar) or enter(bar))
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)

    def line() -> str:
        console = Console(width=120)
        with console.capture() as capture:
            console.print(bars[0].make_tasks_table(bars[0].tasks))
        return capture.get()

    with progress.progress_meter(0, StopRule(0, MAX_EPISODES, until_eps=0.2), None) as show:
        show(0, {}, None)
        assert "episode 0 " in line()
        assert "left" not in line()
        show(1, {}, 1.0)
        assert "episode 1 suboptimality at most 1.000, target 0.2" in line()
        show(21, {}, 0.4)
        assert "episode 21/~84" in line()
        assert line().rstrip().endswith("left")


def test_a_count_says_what_is_left_once_it_takes_long(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress.counter(1000, "reward", True) as show:
        for done, seconds in ((100, 4.0), (200, 8.0), (250, 10.0), (500, 20.0), (1000, 40.0)):
            clock.seconds = seconds
            show(done)
    assert capsys.readouterr().err.splitlines() == [
        "reward 200 of 1,000, 8 s, about 32 s left",
        "reward 500 of 1,000, 20 s, about 20 s left",
    ]
    with progress.counter(1000, "reward", True) as show:
        start = clock.seconds
        for done, seconds in ((1, 7.0), (101, 12.0)):  # a set-up of seven seconds is no rate
            clock.seconds = start + seconds
            show(done)
    assert capsys.readouterr().err.splitlines() == [
        "reward 1 of 1,000, 7 s",
        "reward 101 of 1,000, 12 s, about 45 s left",
    ]
    for option in (None, False):
        with progress.counter(1000, "reward", option) as show:
            clock.seconds += 100
            show(100)
    assert capsys.readouterr().err == ""
