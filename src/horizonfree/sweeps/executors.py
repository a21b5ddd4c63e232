"""Executors that run the tasks of a sweep and return futures of `concurrent.futures`.

Tasks run in processes of this machine, or on Dask or Ray (clusters.py).

When a worker dies, the future of its task raises one of `worker_errors`; the other tasks continue.
"""

import abc
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from horizonfree.errors import ProcessError
from horizonfree.sweeps.worker import environment, import_path

WORKER_DIED = "the worker that ran it ended in the middle: it was killed, or there was not enough memory"
CLUSTER_DIED = "the scheduler or cluster is gone; finished tasks are kept: the same call goes on"
SHUTDOWN_SECONDS = 5.0  # how long to wait for a killed worker to end
Outcome = dict[str, Any]  # rows with time, device and versions, or an "error"


class Executor(abc.ABC):
    """Runs tasks, `slots` at a time.

    A future raises one of `worker_errors` if its worker died, one of `cluster_errors` if the whole cluster did.
    """

    slots: int
    worker_errors: tuple[type[BaseException], ...] = ()
    cluster_errors: tuple[type[BaseException], ...] = (CancelledError,)

    @abc.abstractmethod
    def submit(self, task: dict[str, Any]) -> "Future[Outcome]":
        """Start a task."""

    @abc.abstractmethod
    def close(self) -> None:
        """Cancel all tasks and end all workers."""

    def outcome(self, future: "Future[Outcome]") -> Outcome:
        """The outcome of a task that ended, or its error; raises an error if the whole cluster is gone."""
        try:
            return future.result()
        except self.cluster_errors:
            raise ProcessError(CLUSTER_DIED) from None
        except self.worker_errors:
            return {"error": WORKER_DIED}
        except Exception as error:  # of any type: it is recorded, and the sweep continues
            return {"error": f"{type(error).__name__}: {error}"}


class LocalExecutor(Executor):
    """A pool of threads, each with a worker process (worker.py) of its own; one that dies is replaced.

    Workers are started as new processes, not forked (JAX would hang), and not by `multiprocessing`, which would run the
    caller's script once more in every process and whose pool breaks when one of them dies. Each has its own
    session, so that Ctrl-C reaches only the sweep, which ends them.
    """

    worker_errors = (EOFError,)

    def __init__(self, workers: int, threads: int, log: Path) -> None:
        self.slots, self.threads, self.log = workers, threads, log
        self.pool = ThreadPoolExecutor(workers)
        self.local = threading.local()  # `process`: the worker of this thread
        self.lock = threading.Lock()  # no worker starts after is_closed is set
        self.is_closed = False
        self.processes: set[subprocess.Popen[str]] = set()

    def submit(self, task: dict[str, Any]) -> "Future[Outcome]":
        """Send the task to the worker of an idle thread."""
        return self.pool.submit(self._run, task)

    def _run(self, task: dict[str, Any]) -> Outcome:
        process = getattr(self.local, "process", None) or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        answer = ""
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(task) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        if answer.endswith("\n"):
            outcome: Outcome = json.loads(answer)
            return outcome
        self.local.process = None
        self._end(process)
        raise EOFError

    def _start(self) -> "subprocess.Popen[str]":
        with self.lock, self.log.open("ab") as errors:
            if self.is_closed:
                raise CancelledError
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "horizonfree.sweeps.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | environment(self.threads) | import_path(),
                start_new_session=True,
            )
            self.processes.add(process)
        self.local.process = process
        return process

    def _end(self, process: "subprocess.Popen[str]") -> None:
        process.kill()
        process.wait(SHUTDOWN_SECONDS)
        self.processes.discard(process)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # a buffered task is lost
                    pipe.close()

    def close(self) -> None:
        """End all workers, busy ones as well."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        with self.lock:
            self.is_closed = True
        for process in list(self.processes):
            process.kill()  # a thread that waits for it reads the end of its output
        self.pool.shutdown()
        for process in list(self.processes):
            self._end(process)
