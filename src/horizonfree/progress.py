"""Progress of long work on standard error: a live line on a terminal, nothing elsewhere unless asked for."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

Meter = Callable[[int, Mapping[str, np.ndarray], float | None], None]


@contextmanager
def meter(most: int, until_eps: float | None, wanted: bool | None) -> Iterator[Meter]:
    """A function to call with (episodes done, rows of the last block, certified gap if one was made)."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda done, rows, eps: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} episodes"),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("exploring", total=most, note="compiling")

        def show(done: int, rows: Mapping[str, np.ndarray], eps: float | None) -> None:
            fields: dict[str, Any] = {}
            if eps is not None and until_eps is not None:
                fields["note"] = f"certified gap {eps:.3f}, goal {until_eps:g}"
                if eps < 1:  # the gap falls as one over the root of the episodes
                    fields["total"] = min(most, max(done, round(done * (eps / until_eps) ** 2)))
            elif until_eps is None:
                fields["note"] = ", ".join(f"{name} {x[-1]:.3g}" for name, x in list(rows.items())[:1])
            bar.update(task, completed=done, **fields)

        yield show
