"""How far a sweep is: counts, and about how long it still takes."""

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from horizonfree.sweeps.engines import Outcome
from horizonfree.sweeps.grid import Task, rows_of

Setting = tuple[str, str]  # the names of a problem and an explorer


class Count(NamedTuple):
    """Tasks of a setting, or of all."""

    total: int
    done: int
    running: int
    failed: int


class Tally:
    """Counts of tasks, by setting."""

    def __init__(self, tasks: Mapping[str, Task], done: Iterable[str], slots: int) -> None:
        self.tasks, self.slots, self.began = tasks, slots, time.perf_counter()
        self.done, self.failed, self.running = set(done), set[str](), set[str]()
        self.first = len(self.done)
        self.rows = sum(rows_of(tasks[key]) for key in self.done)
        self.seconds: dict[Setting, list[float]] = {}

    def setting(self, key: str) -> Setting:
        """Of a task."""
        return self.tasks[key]["problem"], self.tasks[key]["explorer"]

    def keep(self, key: str, outcome: Outcome) -> None:
        """A task has ended for good."""
        if "error" in outcome:
            self.failed.add(key)
            return
        self.done.add(key)
        self.rows += rows_of(self.tasks[key])
        self.seconds.setdefault(self.setting(key), []).append(outcome["seconds"])

    def count(self) -> Count:
        """Of all tasks."""
        return Count(len(self.tasks), len(self.done), len(self.running), len(self.failed))

    def by_setting(self) -> dict[Setting, Count]:
        """Of each setting."""
        found: dict[Setting, list[int]] = {}
        for key in self.tasks:
            counts = found.setdefault(self.setting(key), [0, 0, 0, 0])
            counts[0] += 1
            for i, kind in enumerate((self.done, self.running, self.failed), 1):
                counts[i] += key in kind
        return {setting: Count(*counts) for setting, counts in found.items()}

    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self.began

    def left(self) -> float | None:
        """About how many seconds it still takes; None before the first task is done."""
        if not self.seconds:
            return None
        mean = {setting: float(np.mean(x)) for setting, x in self.seconds.items()}
        usual = float(np.mean(list(mean.values())))
        still = (key for key in self.tasks if key not in self.done and key not in self.failed)
        return sum(mean.get(self.setting(key), usual) for key in still) / self.slots


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 1 else "1 s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
