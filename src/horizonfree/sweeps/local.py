"""Workers as processes of this machine (worker.py). One that dies costs its task, and is replaced by a new one.

They are started afresh, never forked (JAX would hang), and not by `multiprocessing`, which runs the caller's script
once more in every process. They are in a session of their own: Ctrl-C reaches the sweep, and the sweep ends them.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from horizonfree.sweeps.engines import DIED, Engine, Outcome
from horizonfree.sweeps.worker import environment

PATIENCE = 5.0  # seconds that a worker has to end


class Pool(Engine):
    """Local processes; each has one task at a time."""

    def __init__(self, workers: int, threads: int, log: Path) -> None:
        self.slots, self.threads, self.log = workers, threads, log
        self.answers: queue.SimpleQueue[tuple[_Worker, str]] = queue.SimpleQueue()
        self.idle: list[_Worker] = []
        self.busy: dict[_Worker, str] = {}

    def submit(self, key: str, task: dict[str, Any]) -> None:
        """Give the task to a worker that is idle, or to a new one."""
        worker = self.idle.pop() if self.idle else _Worker(self.threads, self.log, self.answers)
        self.busy[worker] = key
        worker.tell(task)

    def finished(self, seconds: float) -> list[tuple[str, Outcome]]:
        """Answers, and the tasks of workers that died."""
        found: list[tuple[str, Outcome]] = []
        try:
            while True:
                worker, line = self.answers.get(timeout=0 if found else seconds)
                if worker in self.busy:
                    found.append((self.busy.pop(worker), json.loads(line) if line else {"error": DIED}))
                if line:
                    self.idle.append(worker)
                    continue
                if worker in self.idle:
                    self.idle.remove(worker)
                worker.end()
        except queue.Empty:
            return found

    def close(self) -> None:
        """End all workers, whatever they do."""
        for worker in [*self.idle, *self.busy]:
            worker.end()
        self.idle, self.busy = [], {}


class _Worker:
    """A process, and a thread that reads its answers; the last answer, an empty one, says that it has ended."""

    def __init__(self, threads: int, log: Path, answers: "queue.SimpleQueue[tuple[_Worker, str]]") -> None:
        self.answers = answers
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "horizonfree.sweeps.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | environment(threads),
                start_new_session=True,
            )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def tell(self, task: dict[str, Any]) -> None:
        """Send a task; one that is dead already is told by its answer."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # what it was told last is lost
                    pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                self.answers.put((self, line))
        self.process.wait()
        self.answers.put((self, ""))
