"""The progress of a sweep on standard error, and an estimate of its time and memory before it starts.

Progress is a live table on a terminal, and a plain line every few seconds elsewhere.

The estimate is from trials of each setting with one seed and a few episodes. A task with n seeds of K episodes and C
checkpoints takes about n (K e + C l) seconds: e for an episode, l for the measures at a checkpoint, both with compiled
programs. Each setting is compiled once.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import wait
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from horizonfree.errors import RunError
from horizonfree.runs import files
from horizonfree.sweeps.executors import LocalExecutor, Outcome
from horizonfree.sweeps.results import SETTINGS_FILE, load_sweep, read_spec
from horizonfree.sweeps.spec import read
from horizonfree.sweeps.tasks import Task, build_tasks, check_spec, num_rows

if TYPE_CHECKING:
    from rich.table import Table

LINE_INTERVAL_SECONDS = 5.0
TABLE_INTERVAL_SECONDS = 0.5
MAX_TABLE_ROWS = 24
TRIAL_EPISODES = 32
MAX_TRIAL_SECONDS = 40.0  # after that, settings without a trial get the mean cost of the others
TRIAL_TIMEOUT_SECONDS = 600.0
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
        self.tasks, self.slots, self.start_time = tasks, slots, time.perf_counter()
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
        return time.perf_counter() - self.start_time

    def remaining(self) -> float | None:
        """An estimate of the remaining seconds; None before the first task is done."""
        if not self.seconds:
            return None
        mean = {setting: float(np.mean(x)) for setting, x in self.seconds.items()}
        default = float(np.mean(list(mean.values())))
        keys = (key for key in self.tasks if key not in self.done and key not in self.failed)
        return sum(mean.get(self.setting(key), default) for key in keys) / self.slots

    def line(self) -> str:
        """Counts, elapsed and remaining time as one line of text."""
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


class Cost(NamedTuple):
    """Seconds of an episode, of a checkpoint and of compilation, and bytes of a worker."""

    episode: float
    checkpoint: float
    compilation: float
    memory: float


class Estimate(NamedTuple):
    """The size of a sweep, its remaining seconds and its memory. `tried`: settings with a trial."""

    settings: int
    tasks: int
    done: int
    rows: int
    seconds: float
    memory: float
    tried: int


def estimate(source: Any, out: Any, workers: int) -> Estimate:
    """The estimate of `sweep(source, out, workers=workers)` on this machine."""
    path = files.resolve_path(out)
    spec = read_spec(path) if source is None else read(source)
    check_spec(spec)
    tasks = build_tasks(spec)
    done = set(load_sweep(path)["task"]) & set(tasks) if (path / SETTINGS_FILE).exists() else set()
    remaining = [task for key, task in tasks.items() if key not in done]
    examples: dict[Setting, Task] = {}
    for task in remaining:
        examples.setdefault((task["problem"], task["explorer"]), task)
    costs = _trial_costs(examples)
    default = Cost(*np.mean(list(costs.values()), axis=0)) if costs else Cost(0, 0, 0, 0)
    seconds = sum(costs.get(setting, default).compilation for setting in examples)
    for task in remaining:
        cost = costs.get((task["problem"], task["explorer"]), default)
        measures = len(task["checkpoints"]) * cost.checkpoint
        seconds += len(task["seeds"]) * (task["episodes"] * cost.episode + measures)
    memory = workers * max((x.memory for x in costs.values()), default=0.0)
    rows = sum(num_rows(task) for task in tasks.values())
    return Estimate(len(examples), len(tasks), len(done), rows, seconds / workers, memory, len(costs))


def _trial_costs(examples: dict[Setting, Task]) -> dict[Setting, Cost]:
    """Costs of the settings, until the trials have taken `MAX_TRIAL_SECONDS`."""
    costs: dict[Setting, Cost] = {}
    start_time = time.perf_counter()
    with TemporaryDirectory() as folder:
        executor = LocalExecutor(1, 1, Path(folder, "log"))
        try:
            for setting, task in examples.items():
                if costs and time.perf_counter() - start_time > MAX_TRIAL_SECONDS:
                    break
                costs[setting] = _trial_cost(executor, task)
        finally:
            executor.close()
    return costs


def _trial_cost(executor: LocalExecutor, task: Task) -> Cost:
    """Two trials without measures and two with them; the first of each compiles."""
    k = min(TRIAL_EPISODES, task["episodes"])
    one_seed = task | {"seeds": task["seeds"][:1], "episodes": k, "checkpoints": [k]}
    without_measures = one_seed | {"measure": [], "records": []}
    first, second, first_measured, second_measured = (
        _run(executor, x) for x in (without_measures, without_measures, one_seed, one_seed)
    )
    checkpoint = max(0.0, second_measured["seconds"] - second["seconds"])
    compilation = (
        first["seconds"] - second["seconds"] + first_measured["seconds"] - second_measured["seconds"]
    )
    return Cost(second["seconds"] / k, checkpoint, max(0.0, compilation), first_measured["memory"])


def _run(executor: LocalExecutor, task: Task) -> Outcome:
    where, future = f"{task['explorer']} on {task['problem']}", executor.submit(task)
    if not wait([future], TRIAL_TIMEOUT_SECONDS).done:
        raise RunError(f"{where}: a trial took more than {TRIAL_TIMEOUT_SECONDS:.0f} s")
    outcome = executor.outcome(future)
    if "error" in outcome:
        raise RunError(f"{where} fails: {outcome['error']}")
    return outcome
