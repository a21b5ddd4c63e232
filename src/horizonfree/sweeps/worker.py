"""A worker of the local executor: a process that runs one task after the other.

It reads tasks from standard input, one line of JSON each, and writes one line of JSON per task to standard output. It
ends when its input ends, also in the middle of a task, so that no worker outlives its sweep. JAX is imported after the
number of threads is set.
"""

import json
import os
import queue
import re
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NPROC",  # the threads of XLA on a CPU
)


def environment(threads: int) -> dict[str, str]:
    """Environment variables of a worker: its threads, and GPU memory on demand, since workers may share a GPU."""
    preallocate = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    return dict.fromkeys(THREAD_VARIABLES, str(threads)) | {"XLA_PYTHON_CLIENT_PREALLOCATE": preallocate}


def import_path() -> dict[str, str]:
    """Environment variables with which a new process imports what this one can, such as explorers of one's own."""
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(path or os.getcwd() for path in sys.path))}


def execute(task: Mapping[str, Any], threads: int) -> dict[str, Any]:
    """The rows of a task, or the text of its error."""
    if "jax" not in sys.modules:
        os.environ.update(environment(threads))
    try:
        from horizonfree.sweeps.tasks import run_task

        return run_task(dict(task)) | {"memory": peak_memory()}
    except Exception as error:  # of any type: it is recorded, and the sweep continues
        return {"error": f"{type(error).__name__}: {error}"}


def peak_memory() -> int:
    """The largest number of bytes that this process has used; 0 on Windows, where it is not measured.

    On Linux from /proc: `getrusage` would include the memory of the process that started this one.
    """
    with suppress(OSError):
        match = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
        if match:
            return int(match[1]) * 1024
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    """Run tasks until the input ends."""
    tasks: queue.SimpleQueue[str] = queue.SimpleQueue()
    threads = int(os.environ["NPROC"])
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # output of libraries must not mix with answers
        threading.Thread(target=_read_tasks, args=(tasks,), daemon=True).start()
        while True:
            answers.write(json.dumps(execute(json.loads(tasks.get()), threads)) + "\n")
            answers.flush()


def _read_tasks(tasks: "queue.SimpleQueue[str]") -> None:
    for line in sys.stdin:
        tasks.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
