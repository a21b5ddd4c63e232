"""Progress on standard error: a live line on a terminal, otherwise a line every few seconds."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from horizonfree.guarantees.certificate import round_up
from horizonfree.runs.until import MAX_EPISODES, StopRule

LINE_SECONDS = 5.0  # between two plain lines
FORMATS: dict[str, Callable[[Any], str]] = {
    "V_hat": "V_hat {:.3f}".format,
    "information": "information {:.3g}".format,
    "oracle_calls": lambda calls: f"{calls:d} oracle call{'' if calls == 1 else 's'}",
}
Meter = Callable[[int, Mapping[str, np.ndarray], float | None], None]


@contextmanager
def progress_meter(first: int, until: StopRule, wanted: bool | None) -> Iterator[Meter]:
    """A function of (episodes so far, records of the last block, certified bound where one was computed).

    wanted: None shows progress on a terminal only.
    """
    is_terminal = sys.stderr.isatty()
    if not (is_terminal if wanted is None else wanted):
        yield lambda episode, rows, eps: None
    elif is_terminal:
        with _live(first, until) as show:
            yield show
    else:
        yield _plain(first, until)


@contextmanager
def counter(total: int, noun: str, wanted: bool | None) -> Iterator[Callable[[int], None]]:
    """A function of the number of items done; it shows nothing in the first LINE_SECONDS seconds.

    wanted: as for `progress_meter`.
    """
    is_terminal = sys.stderr.isatty()
    is_shown = is_terminal if wanted is None else wanted
    start = last = time.perf_counter()

    def show(done: int) -> None:
        nonlocal last
        now = time.perf_counter()
        if (
            not is_shown
            or now - last < (1.0 if is_terminal and last > start else LINE_SECONDS)
            or done == total
        ):
            return
        last = now
        left = (now - start) / done * (total - done)
        line = f"{noun} {done:,} of {total:,}, {now - start:.0f} s, about {left:.0f} s left"
        print(
            f"\r{line} " if is_terminal else line,
            end="" if is_terminal else "\n",
            file=sys.stderr,
            flush=True,
        )

    yield show
    if is_terminal and last > start:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


@contextmanager
def _live(first: int, until: StopRule) -> Iterator[Meter]:
    """One line that is redrawn."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(bar_width=12),
        TextColumn("episode {task.completed}{task.fields[end]}"),
        TextColumn("[cyan]{task.fields[note]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None, completed=first, end="", note="compiling", left="")
        shown_eps, end = None, _last(until)

        def show(episode: int, records: Mapping[str, np.ndarray], eps: float | None) -> None:
            nonlocal shown_eps, end
            shown_eps = eps if eps is not None else shown_eps
            end = _end(episode, until, eps, end)
            if end is not None:
                tilde = "" if end in (episode, until.last) else "~"
                bar.update(task, total=end, end=f"/{tilde}{end}", left="left")
            if episode > first:
                bar.update(task, completed=episode, note=_note(records, shown_eps, until))

        yield show


def _plain(first: int, until: StopRule) -> Meter:
    """A line every LINE_SECONDS seconds and one at the end."""
    start = last = time.perf_counter()
    shown_eps, end = None, _last(until)
    compiled: tuple[int, float] | None = None  # the episode and the time at which the first block was done

    def show(episode: int, records: Mapping[str, np.ndarray], eps: float | None) -> None:
        nonlocal last, shown_eps, end, compiled
        shown_eps = eps if eps is not None else shown_eps
        end = _end(episode, until, eps, end)
        if episode == first:
            return
        now = time.perf_counter()
        compiled = compiled or (episode, now)
        is_over = until.is_reached(episode, eps)
        if now - last < LINE_SECONDS and not is_over:
            return
        last = now
        of_end = "" if end is None else f" of {end}"
        parts = [f"episode {episode}{of_end}", _note(records, shown_eps, until), f"{now - start:.0f} s"]
        if end is not None and episode > compiled[0] and not is_over:
            left = (now - compiled[1]) / (episode - compiled[0]) * (end - episode)
            parts.append(f"about {left:.0f} s left")
        print(", ".join(part for part in parts if part), file=sys.stderr, flush=True)

    return show


def _note(records: Mapping[str, np.ndarray], eps: float | None, until: StopRule) -> str:
    """The certified bound if it decides on stopping, else the explorer's own uncertainty."""
    if eps is not None:
        return f"suboptimality at most {round_up(eps, finest=0.001):.3f}, target {until.until_eps:g}"
    return ", ".join(form(records[name][-1]) for name, form in FORMATS.items() if name in records)


def _last(until: StopRule) -> int | None:
    """The last episode, if it was given."""
    return until.last if until.last - until.first < MAX_EPISODES else None


def _end(episode: int, until: StopRule, eps: float | None, before: int | None) -> int | None:
    """The forecast of the last episode: bounds fall with the root of the number of episodes.

    Without a new bound below 1 the forecast does not change.
    """
    if until.until_eps is None:
        return until.last
    if eps is None or eps >= 1:
        return before if before is None else max(before, episode)
    return min(until.last, max(episode, round(episode * (eps / until.until_eps) ** 2)))
