"""Run a sweep: every task that is not done yet, on an executor; rows are stored as soon as a task is finished.

The folder of a sweep holds

    sweep.json      the specification of the sweep (with a checksum)
    rows.jsonl      the rows, a line per task (results.py)
    workers.log     output of the workers
    lock            locked while the sweep runs

A sweep that was interrupted resumes with its unfinished tasks. A task that fails is tried once more; then its error is
recorded, and the next call tries it again.
"""

import os
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, wait
from os import PathLike
from pathlib import Path
from typing import Any

from horizonfree._validation import check_bool, check_count, require
from horizonfree.errors import RunError
from horizonfree.runs import files
from horizonfree.sweeps.clusters import DaskExecutor, RayExecutor
from horizonfree.sweeps.executors import Executor, LocalExecutor, Outcome
from horizonfree.sweeps.progress import Show, Tally, meter
from horizonfree.sweeps.results import FORMAT, SETTINGS_FILE, RowWriter, Sweep, build_sweep, read_spec
from horizonfree.sweeps.spec import Spec, read
from horizonfree.sweeps.tasks import Task, build_tasks, check_spec

EXECUTORS = ("local", "dask", "ray")
LOG_FILE = "workers.log"
POLL_SECONDS = 0.2
MAX_TRIES = 2  # of a task


def sweep(
    source: Any,
    out: str | PathLike[str],
    *,
    on: str = "local",
    workers: int | None = None,
    progress: bool | None = None,
) -> Sweep:
    """Run the sweep of a TOML file, or of a mapping with the same keys, into a folder, and return its rows.

    The same call resumes after an interruption; once all tasks are done it reads the stored rows. A sweep may grow: a
    file with more seeds, explorers or problems keeps the finished tasks.

    source: the file or mapping; None for the specification in the folder.
    on: "local", "dask" or "ray" on this machine; "dask=ADDRESS" or "ray=ADDRESS" on a cluster.
    workers: how many; by default one for each core, or all of the cluster.
    progress: show it on standard error; by default when that is a terminal.

    >>> import tempfile, horizonfree as hf
    >>> folder = tempfile.mkdtemp() + "/sweep"
    >>> settings = {
    ...     "seeds": 2, "checkpoints": [10], "measure": ["eps"],
    ...     "problems": {"river": {"name": "river-swim", "states": 3, "horizon": 4}},
    ...     "explorers": {"uniform": {}},
    ... }
    >>> rows = hf.sweep(settings, folder, workers=1, progress=False)
    >>> len(rows["eps"])
    2
    """
    check_bool(progress, "progress")
    path = files.resolve_path(out)
    spec = read_spec(path) if source is None else read(source)
    check_spec(spec)
    with files.os_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        if not files.is_empty(path) and not (path / SETTINGS_FILE).exists():
            raise RunError(f"{path} holds no sweep and is not empty; choose another folder")
    with files.lock(path):
        tasks, writer = build_tasks(spec), RowWriter(path)
        _write_settings(path, spec, tasks, writer)
        done = [key for key, line in writer.lines.items() if key in tasks and "error" not in line]
        if len(done) < len(tasks):
            executor = start_executor(on, workers, path / LOG_FILE)
            try:
                with meter(progress) as show:
                    _run_tasks(executor, writer, Tally(tasks, done, executor.slots), show)
            finally:
                executor.close()
        return build_sweep(path, spec, writer.lines)


def start_executor(on: Any, workers: Any, log: Path) -> Executor:
    """The executor of the argument `on`.

    on: "local", "dask" or "ray"; "dask=ADDRESS" or "ray=ADDRESS" for a running cluster.
    workers: how many; by default one for each core, or all of a cluster. log: a file for what workers print.
    """
    name, _, address = on.partition("=") if isinstance(on, str) else ("", "", "")
    require(
        name in EXECUTORS
        and (name != "local" or not address)
        and (not isinstance(on, str) or not on.endswith("=")),
        "on",
        on,
        "local, dask, ray, dask=ADDRESS or ray=ADDRESS",
    )
    number = None if workers is None else check_count(workers, "workers")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not address:
        number = number or cores
    threads = max(1, cores // number) if number else 1
    if name == "local":
        return LocalExecutor(number or cores, threads, log)
    return (DaskExecutor if name == "dask" else RayExecutor)(address, number, threads)


def _write_settings(path: Path, spec: Spec, tasks: dict[str, Task], writer: RowWriter) -> None:
    """Write the specification; raise if the folder has tasks that are not in this sweep."""
    if (path / SETTINGS_FILE).exists():
        stored_spec = read_spec(path)
        if stored_spec == spec:
            return
        missing = set(writer.lines) - set(tasks)
        if missing:
            differing = [x for x, value in stored_spec.to_dict().items() if spec.to_dict()[x] != value]
            raise RunError(
                f"{path} is a sweep with other {', '.join(differing)}, and {len(missing)} of its "
                f"{len(writer.lines)} tasks would be lost; choose another folder, or only add to the sweep"
            )
    files.write_json(path / SETTINGS_FILE, {"format": FORMAT, "spec": spec.to_dict()})


def _run_tasks(executor: Executor, writer: RowWriter, tally: Tally, show: Show) -> None:
    """Keep all slots busy until every task is done, or has failed MAX_TRIES times."""
    queue = deque((key, 1) for key in tally.tasks if key not in tally.done)
    running: dict[Future[Outcome], tuple[str, int]] = {}
    show(tally)
    while queue or running:
        while queue and len(running) < executor.slots:
            key, tries = queue.popleft()
            tally.running.add(key)
            running[executor.submit(tally.tasks[key])] = key, tries
        for future in wait(running, POLL_SECONDS, FIRST_COMPLETED).done:
            (key, tries), outcome = running.pop(future), executor.outcome(future)
            tally.running.discard(key)
            if "error" in outcome and tries < MAX_TRIES:
                queue.append((key, tries + 1))
                continue
            writer.append(task_line(key, tally.tasks[key], outcome, tries))
            tally.add(key, outcome)
        show(tally)


def task_line(key: str, task: Task, outcome: Outcome, tries: int = 1) -> dict[str, Any]:
    """The line of a finished task in rows.jsonl."""
    line = {"task": key, "problem": task["problem"], "explorer": task["explorer"], **outcome}
    return line | {"tries": tries} if "error" in outcome else line
