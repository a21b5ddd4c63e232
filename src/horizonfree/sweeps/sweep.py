"""Run a sweep: every task that is not done yet, on an engine, each kept as soon as it is finished.

The folder of a sweep holds

    sweep.json      what is swept (with a checksum)
    rows.jsonl      the rows, a line per task (rows.py)
    workers.log     what workers printed
    lock            held while the sweep runs

A sweep that was stopped, or killed, goes on where it was. A task that fails is tried once more; then its error is
recorded, and the same call tries it again.
"""

from collections import deque
from os import PathLike
from pathlib import Path
from typing import Any

from horizonfree._validation import check_bool
from horizonfree.errors import RunError
from horizonfree.runs import files
from horizonfree.sweeps import grid
from horizonfree.sweeps.engines import Engine, Outcome
from horizonfree.sweeps.file import Spec, read
from horizonfree.sweeps.grid import Task, tasks_of
from horizonfree.sweeps.meter import Show, meter
from horizonfree.sweeps.rows import Writer
from horizonfree.sweeps.start import start
from horizonfree.sweeps.table import FORMAT, SETTINGS, Sweep, gathered, spec_in
from horizonfree.sweeps.tally import Tally

LOG = "workers.log"
LOOK = 0.2  # seconds between two looks at the engine
TRIES = 2  # of a task


def sweep(
    what: Any,
    out: str | PathLike[str],
    *,
    on: str = "local",
    workers: int | None = None,
    progress: bool | None = None,
) -> Sweep:
    """Run the sweep of a TOML file, or of a mapping with the same keys, into a folder, and return its rows.

    The same call goes on after an interruption; once all is done it reads what is there. A sweep may grow: a file with
    more seeds, explorers or problems keeps the tasks that are done.

    on: "local", "dask" or "ray" on this machine; "dask=ADDRESS" or "ray=ADDRESS" on a cluster.
    workers: how many; by default one for each core, or whatever the cluster has.
    progress: show it on standard error; by default when that is a terminal.
    """
    check_bool(progress, "progress")
    path = files.resolve_path(out)
    spec = spec_in(path) if what is None else read(what)
    grid.check(spec)
    with files.os_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        if not files.is_blank(path) and not (path / SETTINGS).exists():
            raise RunError(f"{path} holds no sweep and is not empty; choose another folder")
    with files.locked(path):
        tasks, writer = tasks_of(spec), Writer(path)
        _begin(path, spec, tasks, writer)
        done = [key for key, line in writer.lines.items() if key in tasks and "error" not in line]
        if len(done) < len(tasks):
            engine = start(on, workers, path / LOG)
            try:
                with meter(progress) as show:
                    _drive(engine, writer, Tally(tasks, done, engine.slots), show)
            finally:
                engine.close()
        return gathered(path, spec, writer.lines)


def _begin(path: Path, spec: Spec, tasks: dict[str, Task], writer: Writer) -> None:
    """Write down what is swept; a folder of another sweep is refused, unless all of its tasks are in this one."""
    said = {"format": FORMAT, "spec": spec.plain()}
    if (path / SETTINGS).exists():
        before = spec_in(path)
        if before == spec:
            return
        lost = set(writer.lines) - set(tasks)
        if lost:
            changed = [x for x, value in before.plain().items() if spec.plain()[x] != value]
            raise RunError(
                f"{path} was begun with other {', '.join(changed)}, and {len(lost)} of its {len(writer.lines)} tasks "
                "would be lost; choose another folder, or only add to the sweep"
            )
    files.write_json(path / SETTINGS, said)


def _drive(engine: Engine, writer: Writer, tally: Tally, show: Show) -> None:
    """Keep the engine busy until every task is done, or has failed twice."""
    todo = deque((key, 1) for key in tally.tasks if key not in tally.done)
    tries: dict[str, int] = {}
    show(tally)
    while todo or tally.running:
        while todo and len(tally.running) < engine.slots:
            key, tries[key] = todo.popleft()
            tally.running.add(key)
            engine.submit(key, tally.tasks[key])
        for key, outcome in engine.finished(LOOK):
            tally.running.discard(key)
            if "error" in outcome and tries[key] < TRIES:
                todo.append((key, tries[key] + 1))
                continue
            writer.put(line_of(key, tally.tasks[key], outcome | _tried(outcome, tries.pop(key))))
            tally.keep(key, outcome)
        show(tally)


def line_of(key: str, task: Task, outcome: Outcome) -> dict[str, Any]:
    """A task and what came of it."""
    return {"task": key, "problem": task["problem"], "explorer": task["explorer"], **outcome}


def _tried(outcome: Outcome, tries: int) -> dict[str, Any]:
    return {"tries": tries} if "error" in outcome else {}
