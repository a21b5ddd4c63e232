"""A worker: a process of its own that performs one task after the other.

It is told tasks on standard input, a line of JSON each, and answers with a line of JSON on standard output. It ends
when its input does, in the middle of a task as well: a worker does not outlive the sweep. Nothing heavy is loaded
before the number of threads is set.
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

THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NPROC",  # the threads of XLA on a CPU
)


def environment(threads: int) -> dict[str, str]:
    """The settings of a worker: so many threads, and of a GPU no more memory than it needs: workers may share it."""
    shared = {"XLA_PYTHON_CLIENT_PREALLOCATE": os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "false")}
    return dict.fromkeys(THREADS, str(threads)) | shared


def perform(task: Mapping[str, Any], threads: int) -> dict[str, Any]:
    """The rows of a task, or its error in words."""
    if "jax" not in sys.modules:
        os.environ.update(environment(threads))
    try:
        from horizonfree.sweeps.task import run_task

        return run_task(dict(task)) | {"memory": peak_memory()}
    except Exception as error:  # whatever it is, it is recorded and the sweep goes on
        return {"error": f"{type(error).__name__}: {error}"}


def peak_memory() -> int:
    """The most bytes that this process has had so far.

    Linux tells it in a file: of a process that another started, `getrusage` tells what that one had, if it was more.
    """
    with suppress(OSError):
        found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
        if found:
            return int(found[1]) * 1024
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    """Answer until there is nobody to answer."""
    tasks: queue.SimpleQueue[str] = queue.SimpleQueue()
    threads = int(os.environ["NPROC"])
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # whatever a library prints is no answer
        threading.Thread(target=_listen, args=(tasks,), daemon=True).start()
        while True:
            answers.write(json.dumps(perform(json.loads(tasks.get()), threads)) + "\n")
            answers.flush()


def _listen(tasks: "queue.SimpleQueue[str]") -> None:
    for line in sys.stdin:
        tasks.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
