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
LIVE_SECONDS = 0.5  # between two texts of a line that is redrawn
FORMATS: dict[str, Callable[[Any], str]] = {
    "V_hat": "V_hat {:.3f}".format,
    "information": "information {:.3g}".format,
    "oracle_calls": lambda calls: f"{calls:d} oracle call{'' if calls == 1 else 's'}",
}
Meter = Callable[[int, Mapping[str, np.ndarray], float | None], None]


@contextmanager
def progress_meter(first: int, until: StopRule, wanted: bool | None) -> Iterator[Meter]:
    """A function of (episodes so far, records of the last block, certified bound where one was computed).

    wanted: None shows progress on a terminal and in a notebook.
    """
    is_terminal = sys.stderr.isatty()
    if not is_wanted(wanted):
        yield lambda episode, rows, eps: None
    elif is_terminal:
        with _live_meter(first, until) as show:
            yield show
    else:
        yield _plain_meter(first, until)


def is_notebook() -> bool:
    """Whether standard error is the output of a notebook's cell."""
    return type(sys.stderr).__module__.partition(".")[0] == "ipykernel"


def is_wanted(progress: bool | None) -> bool:
    """Whether progress is shown; by default on a terminal and in a notebook."""
    return (sys.stderr.isatty() or is_notebook()) if progress is None else bool(progress)


class Lines:
    """Text on standard error: redrawn in place on a terminal and in a notebook, else a line now and then."""

    def __init__(self) -> None:
        self._in_place = sys.stderr.isatty() or is_notebook()
        self._last, self._width = -LINE_SECONDS, 0

    def show(self, text: str, *, is_last: bool = False) -> None:
        """Show a text, unless one was shown a moment ago."""
        now = time.perf_counter()
        if not is_last and now - self._last < (LIVE_SECONDS if self._in_place else LINE_SECONDS):
            return
        self._last = now
        self.write(text, is_last=is_last)

    def write(self, text: str, *, is_last: bool = False) -> None:
        """Show a text."""
        end = "\n" if is_last or not self._in_place else ""
        prefix = "\r" if self._in_place else ""
        print(f"{prefix}{text:<{self._width}}", end=end, file=sys.stderr, flush=True)
        self._width = len(text) if self._in_place else 0


@contextmanager
def comparison_meter(
    totals: Mapping[str, int], seeds: str, wanted: bool | None, workers: int = 1
) -> Iterator[Callable[[str, int], None]]:
    """A function of (label of an explorer, its episodes so far, of all seeds together), which shows the progress.

    The remaining time is that of the explorers that have begun; others count as their mean.
    """
    if not is_wanted(wanted):
        yield lambda label, done: None
        return
    lines, starts, progress = Lines(), dict[str, float](), dict[str, int]()
    first: dict[str, int] = {}  # episodes when an explorer was first heard of
    finished: dict[str, float] = {}

    def show(label: str, done: int) -> None:
        now = time.perf_counter()
        if len(finished) == len(totals):
            return
        starts.setdefault(label, now)
        first.setdefault(label, done)
        progress[label] = max(done, progress.get(label, 0))
        if progress[label] >= totals[label]:
            finished.setdefault(label, now - starts[label])
        durations = dict(finished)
        for x, k in progress.items():
            if x not in finished and k > first[x]:
                durations[x] = (now - starts[x]) * (totals[x] - first[x]) / (k - first[x])
        mean = float(np.mean(list(durations.values()))) if durations else 0.0
        open_labels = [x for x in totals if x not in finished]
        seconds_left = sum(
            durations.get(x, mean) - (now - starts[x] if x in starts else 0.0) for x in open_labels
        )
        share = f"{len(finished)} of {len(totals)} explorers done"
        position = f"{label}, {seeds}, {progress[label] / totals[label]:.0%} of the episodes"
        left_text = f", about {max(seconds_left, 0.0) / workers:.0f} s left" if mean else ""
        lines.show(f"{share}; {position}{left_text}" if open_labels else share, is_last=not open_labels)

    yield show


@contextmanager
def counter(total: int, noun: str, wanted: bool | None) -> Iterator[Callable[[int], None]]:
    """A function of the number of items done; it shows nothing in the first LINE_SECONDS seconds.

    wanted: as for `progress_meter`.
    """
    is_terminal = sys.stderr.isatty() or is_notebook()
    is_shown = is_wanted(wanted)
    start = last = time.perf_counter()
    first: tuple[int, float] | None = None  # items and time at the first call: what is before is paid once

    def show(done: int) -> None:
        nonlocal last, first
        now = time.perf_counter()
        first = first or (done, now)
        if (
            not is_shown
            or now - last < (1.0 if is_terminal and last > start else LINE_SECONDS)
            or done == total
        ):
            return
        last = now
        line = f"{noun} {done:,} of {total:,}, {now - start:.0f} s"
        if done > first[0]:
            seconds_left = (now - first[1]) / (done - first[0]) * (total - done)
            line += f", about {seconds_left:.0f} s left"
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
def _live_meter(first: int, until: StopRule) -> Iterator[Meter]:
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


def _plain_meter(first: int, until: StopRule) -> Meter:
    """A line every LINE_SECONDS seconds and one at the end."""
    start = last = time.perf_counter()
    lines = Lines()
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
        if now - last < (LIVE_SECONDS if is_notebook() else LINE_SECONDS) and not is_over:
            return
        last = now
        of_end = "" if end is None else f" of {end}"
        parts = [f"episode {episode}{of_end}", _note(records, shown_eps, until), f"{now - start:.0f} s"]
        if end is not None and episode > compiled[0] and not is_over:
            seconds_left = (now - compiled[1]) / (episode - compiled[0]) * (end - episode)
            parts.append(f"about {seconds_left:.0f} s left")
        lines.write(", ".join(part for part in parts if part), is_last=is_over)

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
