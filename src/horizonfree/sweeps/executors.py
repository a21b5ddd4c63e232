"""Where tasks run: processes of this machine, Dask (clusters.py) or Ray.

An executor takes as many tasks as it has slots, and returns those that are finished. When a worker dies its task is
finished with an error, and the other tasks continue.
"""

import abc
import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from horizonfree.sweeps.worker import environment, import_path

WORKER_DIED = "the worker that ran it ended in the middle: it was killed, or there was not enough memory"
SHUTDOWN_SECONDS = 5.0  # for a worker to end
Outcome = dict[str, Any]  # rows and what they were computed with, or an "error"


class Executor(abc.ABC):
    """Runs at most `slots` tasks at once; each has a key."""

    slots: int

    @abc.abstractmethod
    def submit(self, key: str, task: dict[str, Any]) -> None:
        """Start a task."""

    @abc.abstractmethod
    def finished(self, seconds: float) -> list[tuple[str, Outcome]]:
        """The tasks that ended since the last call; waits up to `seconds` for one."""

    @abc.abstractmethod
    def close(self) -> None:
        """End all workers."""


class LocalExecutor(Executor):
    """Worker processes (worker.py) of this machine, each with one task at a time; one that dies is replaced.

    They are started as new processes, not forked (JAX would hang), and not by `multiprocessing`, which would run the
    caller's script once more in every process. They have a session of their own, so that Ctrl-C reaches the sweep,
    which ends them.
    """

    def __init__(self, workers: int, threads: int, log: Path) -> None:
        self.slots, self.threads, self.log = workers, threads, log
        self.answers: queue.SimpleQueue[tuple[_Worker, str]] = queue.SimpleQueue()
        self.idle: list[_Worker] = []
        self.busy: dict[_Worker, str] = {}

    def submit(self, key: str, task: dict[str, Any]) -> None:
        """Send the task to an idle worker, or to a new one."""
        worker = self.idle.pop() if self.idle else _Worker(self.threads, self.log, self.answers)
        self.busy[worker] = key
        worker.send(task)

    def finished(self, seconds: float) -> list[tuple[str, Outcome]]:
        """Answers of workers, and the tasks of workers that died."""
        outcomes: list[tuple[str, Outcome]] = []
        try:
            while True:
                worker, line = self.answers.get(timeout=0 if outcomes else seconds)
                if worker in self.busy:
                    outcome = json.loads(line) if line else {"error": WORKER_DIED}
                    outcomes.append((self.busy.pop(worker), outcome))
                if line:
                    self.idle.append(worker)
                    continue
                if worker in self.idle:
                    self.idle.remove(worker)
                worker.end()
        except queue.Empty:
            return outcomes

    def close(self) -> None:
        """End all workers, busy ones as well."""
        for worker in [*self.idle, *self.busy]:
            worker.end()
        self.idle, self.busy = [], {}


class _Worker:
    """A process, and a thread that reads its answers; an empty answer is the last one and means that it ended."""

    def __init__(self, threads: int, log: Path, answers: "queue.SimpleQueue[tuple[_Worker, str]]") -> None:
        self.answers = answers
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "horizonfree.sweeps.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | environment(threads) | import_path(),
                start_new_session=True,
            )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def send(self, task: dict[str, Any]) -> None:
        """Send a task. If the process is dead, its last answer reports it."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait(SHUTDOWN_SECONDS)
        self.reader.join(SHUTDOWN_SECONDS)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # a buffered task is lost
                    pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                self.answers.put((self, line))
        self.process.wait()
        self.answers.put((self, ""))
