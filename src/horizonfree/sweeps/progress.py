"""The progress of a sweep: counts, remaining time, and their display on standard error.

The display is a live table on a terminal, a plain line now and then elsewhere.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from horizonfree.sweeps.executors import Outcome
from horizonfree.sweeps.tasks import Task, num_rows

if TYPE_CHECKING:
    from rich.table import Table

LINE_INTERVAL_SECONDS = 5.0
TABLE_INTERVAL_SECONDS = 0.5
MAX_TABLE_ROWS = 24
Setting = tuple[str, str]  # the labels of a problem and an explorer


class Count(NamedTuple):
    """Numbers of tasks."""

    total: int
    done: int
    running: int
    failed: int


class Tally:
    """Counts of tasks, by setting."""

    def __init__(self, tasks: Mapping[str, Task], done: Iterable[str], slots: int) -> None:
        self.tasks, self.slots, self.began = tasks, slots, time.perf_counter()
        self.done, self.failed, self.running = set(done), set[str](), set[str]()
        self.rows = sum(num_rows(tasks[key]) for key in self.done)
        self.seconds: dict[Setting, list[float]] = {}

    def setting(self, key: str) -> Setting:
        """The setting of a task."""
        return self.tasks[key]["problem"], self.tasks[key]["explorer"]

    def add(self, key: str, outcome: Outcome) -> None:
        """Count a task that is done, or failed for the last time."""
        if "error" in outcome:
            self.failed.add(key)
            return
        self.done.add(key)
        self.rows += num_rows(self.tasks[key])
        self.seconds.setdefault(self.setting(key), []).append(outcome["seconds"])

    def count(self) -> Count:
        """Numbers of all tasks."""
        return Count(len(self.tasks), len(self.done), len(self.running), len(self.failed))

    def by_setting(self) -> dict[Setting, Count]:
        """Numbers of the tasks of each setting."""
        result: dict[Setting, list[int]] = {}
        for key in self.tasks:
            counts = result.setdefault(self.setting(key), [0, 0, 0, 0])
            counts[0] += 1
            for i, keys in enumerate((self.done, self.running, self.failed), 1):
                counts[i] += key in keys
        return {setting: Count(*counts) for setting, counts in result.items()}

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.began

    def remaining(self) -> float | None:
        """An estimate of the remaining seconds; None before the first task is done."""
        if not self.seconds:
            return None
        mean = {setting: float(np.mean(x)) for setting, x in self.seconds.items()}
        default = float(np.mean(list(mean.values())))
        keys = (key for key in self.tasks if key not in self.done and key not in self.failed)
        return sum(mean.get(self.setting(key), default) for key in keys) / self.slots

    def line(self) -> str:
        """Everything in one line."""
        total, done, running, failed = self.count()
        remaining = self.remaining()
        parts = [
            f"{done} of {total} tasks done",
            f"{running} running",
            f"{failed} failed",
            f"{self.rows:,} rows",
            duration(self.elapsed()),
        ]
        if remaining is not None and done + failed < total:
            parts.append(f"about {duration(remaining)} left")
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """A time in seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 1 else "1 s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


Show = Callable[[Tally], None]


@contextmanager
def meter(progress: bool | None) -> Iterator[Show]:
    """A function that displays a tally. progress: None displays it on a terminal only."""
    is_terminal = sys.stderr.isatty()
    if not (is_terminal if progress is None else progress):
        yield lambda tally: None
    elif is_terminal:
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True, emoji=False), auto_refresh=False) as live:
            yield _throttle(TABLE_INTERVAL_SECONDS, lambda tally: live.update(_table(tally), refresh=True))
    else:
        yield _throttle(LINE_INTERVAL_SECONDS, lambda tally: print(tally.line(), file=sys.stderr, flush=True))


def _throttle(seconds: float, show: Show) -> Show:
    """Show at most once in so many seconds, and always at the end."""
    last = -seconds

    def throttled(tally: Tally) -> None:
        nonlocal last
        total, done, _, failed = tally.count()
        if time.perf_counter() - last >= seconds or done + failed == total:
            last = time.perf_counter()
            show(tally)

    return throttled


def _table(tally: Tally) -> "Table":
    """One row for each setting, unfinished settings first if there are many, and a line for all tasks."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0), caption=tally.line())
    table.caption_justify, table.caption_style = "left", "bold"
    for title in ("problem", "explorer", "tasks", "done", "running", "failed"):
        table.add_column(title, justify="left" if title in ("problem", "explorer") else "right")
    settings = tally.by_setting().items()
    rows = sorted(settings, key=lambda x: (not x[1].running, x[1].done == x[1].total))[:MAX_TABLE_ROWS]
    if len(settings) <= MAX_TABLE_ROWS:
        rows.sort(key=lambda x: x[0])
    for (problem, explorer), count in rows:
        table.add_row(escape(problem), escape(explorer), *(str(x) for x in count))
    if len(settings) > MAX_TABLE_ROWS:
        table.add_row(f"and {len(settings) - MAX_TABLE_ROWS} settings more")
    return table
