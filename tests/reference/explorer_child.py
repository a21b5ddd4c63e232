"""A process that explores into a folder, to be killed at any moment.

It reads tasks from standard input, one JSON object per line, and works on each in a forked child. JAX starts its
threads in the child only, so that a hundred children cost one import. Lines that it prints: "child PID", "began" when a
child starts to explore, and "ended STATUS" (negative: the signal that killed it).
"""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any


def work(task: dict[str, Any]) -> None:
    """Explore into the folder, or go on with what is there."""
    import horizonfree as hf

    problem = hf.make("zoned-grid", size=3, zones=1, horizon=4)
    if "seeds" in task:  # compiles; what follows is mostly the writing of files
        explore_many(problem, task, seeds=1)
    else:
        hf.explore(problem, task["explorer"], episodes=1)
    print_line("began")
    folder, save = Path(task["folder"]), {"save_episodes": task["save_episodes"]}
    if "limit" in task:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (task["limit"], task["limit"]))
    if "seeds" in task:
        explore_many(problem, task, seeds=task["seeds"], out=folder)
    elif folder.exists():
        hf.load(folder).resume(**save)
    else:
        problem = hf.make("zoned-grid", size=3, zones=1, horizon=4)
        hf.explore(
            problem, task["explorer"], episodes=task["episodes"], seed=task["seed"], out=folder, **save
        )


def explore_many(problem: Any, task: dict[str, Any], **options: Any) -> None:
    """A batch with one file for each member."""
    import horizonfree as hf
    from horizonfree.batch import job

    job.MAX_MEMBERS[False] = 1
    options |= {name: task[name] for name in ("episodes", "checkpoints", "curves")}
    hf.explore_many(problem, task["explorer"], progress=False, **options)


def print_line(text: str) -> None:
    """Print one line to standard output."""
    os.write(1, f"{text}\n".encode())


def main() -> None:
    """Serve tasks until the input ends."""
    import scipy.linalg  # what takes long, once  # noqa: F401

    for line in sys.stdin:
        task = json.loads(line)
        if "seeds" in task:
            import horizonfree.batch  # noqa: F401
        child = os.fork()
        if child == 0:
            print_line(f"child {os.getpid()}")
            try:
                work(task)
            except BaseException as error:
                print_line(f"error {type(error).__name__}: {error}")
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print_line(f"ended {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
