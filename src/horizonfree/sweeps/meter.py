"""The progress of a sweep on standard error: a live table on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from horizonfree.sweeps.tally import Tally, duration

if TYPE_CHECKING:
    from rich.table import Table

BETWEEN = 5.0  # seconds from one plain line to the next
OFTEN = 0.5  # seconds between two looks of the live table
MOST_LINES = 24  # settings that a live table shows
Show = Callable[[Tally], None]


@contextmanager
def meter(wanted: bool | None) -> Iterator[Show]:
    """A function to be told now and then. wanted: None shows progress on a terminal only."""
    is_terminal = sys.stderr.isatty()
    if not (is_terminal if wanted is None else wanted):
        yield lambda tally: None
    elif is_terminal:
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True, emoji=False), auto_refresh=False) as live:
            yield _seldom(OFTEN, lambda tally: live.update(_table(tally), refresh=True))
    else:
        yield _seldom(BETWEEN, lambda tally: print(line(tally), file=sys.stderr, flush=True))


def line(tally: Tally) -> str:
    """All of it in a line."""
    total, done, running, failed = tally.count()
    left = tally.left()
    parts = [
        f"{done} of {total} tasks done",
        f"{running} running",
        f"{failed} failed",
        f"{tally.rows:,} rows",
    ]
    parts.append(duration(tally.elapsed()))
    if left is not None and done + failed < total:
        parts.append(f"about {duration(left)} left")
    return ", ".join(parts)


def _seldom(seconds: float, show: Show) -> Show:
    """At most so often, but always at the end."""
    last = -seconds

    def told(tally: Tally) -> None:
        nonlocal last
        total, done, _, failed = tally.count()
        if time.perf_counter() - last >= seconds or done + failed == total:
            last = time.perf_counter()
            show(tally)

    return told


def _table(tally: Tally) -> "Table":
    """A line for each setting that is not over, and one for all."""
    from rich.markup import escape
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0), caption=line(tally))
    made.caption_justify, made.caption_style = "left", "bold"
    for title in ("problem", "explorer", "tasks", "done", "running", "failed"):
        made.add_column(title, justify="left" if title in ("problem", "explorer") else "right")
    found = tally.by_setting().items()
    shown = sorted(found, key=lambda x: (not x[1].running, x[1].done == x[1].total))[:MOST_LINES]
    for (problem, explorer), count in (
        sorted(shown, key=lambda x: x[0]) if len(found) <= MOST_LINES else shown
    ):
        made.add_row(escape(problem), escape(explorer), *(str(x) for x in count))
    if len(found) > MOST_LINES:
        made.add_row(f"and {len(found) - MOST_LINES} settings more")
    return made
