"""Progress of long work on standard error: a live line on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from horizonfree.guarantees.certificate import round_up
from horizonfree.runs.until import MOST_EPISODES, Until

BETWEEN = 5.0  # seconds from one plain line to the next
SHOWN: dict[str, Callable[[Any], str]] = {
    "V_hat": "V_hat {:.3f}".format,
    "information": "information {:.3g}".format,
    "oracle_calls": lambda calls: f"{calls:d} oracle call{'' if calls == 1 else 's'}",
}
Meter = Callable[[int, Mapping[str, np.ndarray], float | None], None]


@contextmanager
def meter(first: int, until: Until, wanted: bool | None) -> Iterator[Meter]:
    """A function to call with (episodes so far, records of the last block, certified gap if one was made).

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
def counter(number: int, what: str, wanted: bool | None) -> Iterator[Callable[[int], None]]:
    """A function to call with how many of so many are done; nothing is shown of what takes less than BETWEEN seconds.

    wanted: as for `meter`.
    """
    is_terminal = sys.stderr.isatty()
    is_shown = is_terminal if wanted is None else wanted
    began = last = time.perf_counter()

    def show(done: int) -> None:
        nonlocal last
        now = time.perf_counter()
        if not is_shown or now - last < (1.0 if is_terminal and last > began else BETWEEN) or done == number:
            return
        last = now
        left = (now - began) / done * (number - done)
        line = f"{what} {done:,} of {number:,}, {now - began:.0f} s, about {left:.0f} s left"
        print(
            f"\r{line} " if is_terminal else line,
            end="" if is_terminal else "\n",
            file=sys.stderr,
            flush=True,
        )

    yield show
    if is_terminal and last > began:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


@contextmanager
def _live(first: int, until: Until) -> Iterator[Meter]:
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
        told, end = None, _last(until)

        def show(episode: int, records: Mapping[str, np.ndarray], eps: float | None) -> None:
            nonlocal told, end
            told = eps if eps is not None else told
            end = _end(episode, until, eps, end)
            if end is not None:
                about = "" if end in (episode, until.last) else "~"
                bar.update(task, total=end, end=f"/{about}{end}", left="left")
            if episode > first:
                bar.update(task, completed=episode, note=_note(records, told, until))

        yield show


def _plain(first: int, until: Until) -> Meter:
    """A line every BETWEEN seconds and one at the end."""
    began = last = time.perf_counter()
    told, end = None, _last(until)
    compiled: tuple[int, float] | None = None  # the episode and the time at which the first block was done

    def show(episode: int, records: Mapping[str, np.ndarray], eps: float | None) -> None:
        nonlocal last, told, end, compiled
        told = eps if eps is not None else told
        end = _end(episode, until, eps, end)
        if episode == first:
            return
        now = time.perf_counter()
        compiled = compiled or (episode, now)
        is_over = until.is_reached(episode, eps)
        if now - last < BETWEEN and not is_over:
            return
        last = now
        of_end = "" if end is None else f" of {end}"
        parts = [f"episode {episode}{of_end}", _note(records, told, until), f"{now - began:.0f} s"]
        if end is not None and episode > compiled[0] and not is_over:
            left = (now - compiled[1]) / (episode - compiled[0]) * (end - episode)
            parts.append(f"about {left:.0f} s left")
        print(", ".join(part for part in parts if part), file=sys.stderr, flush=True)

    return show


def _note(records: Mapping[str, np.ndarray], eps: float | None, until: Until) -> str:
    """The numbers to watch: the certified gap if it is the goal, else the explorer's own uncertainty."""
    if eps is not None:
        return f"certified gap {round_up(eps, finest=0.001):.3f}, goal {until.until_eps:g}"
    return ", ".join(say(records[name][-1]) for name, say in SHOWN.items() if name in records)


def _last(until: Until) -> int | None:
    """The last episode, where someone has asked for it."""
    return until.last if until.last - until.first < MOST_EPISODES else None


def _end(episode: int, until: Until, eps: float | None, before: int | None) -> int | None:
    """At which episode the goal will be reached, about: a gap falls as one over the root of the episodes.

    Without a new gap below 1 it is where it was thought to be before.
    """
    if until.until_eps is None:
        return until.last
    if eps is None or eps >= 1:
        return before if before is None else max(before, episode)
    return min(until.last, max(episode, round(episode * (eps / until.until_eps) ** 2)))
