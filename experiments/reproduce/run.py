"""The rows of the experiments: whatever is not made yet, most important first, for at most so many seconds.

    python experiments/reproduce/run.py [--only E1 E3] [--workers 16] [--seconds 500] [--out FOLDER] [--small]

A line of rows.jsonl is a task that was finished, whole. What stands in results/ or in FOLDER is not made again; new
lines go to FOLDER (by default results/). The tuning comes first: E1, E2, E3 and table1 take their scales from it, and
wait for a later call as long as it is not finished. --small: a reduced version of everything, into out/reproduce-small.
"""

import argparse
import json
import os
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "shared"))
ROWS = "rows.jsonl"
LOOK = 2.0  # seconds between two looks at the clock


def stored(*folders: Path) -> list[dict]:
    """The lines of the tasks that are finished; one that was cut short does not count."""
    found: dict[str, dict] = {}
    for folder in folders:
        path = folder / ROWS
        for text in path.read_text().splitlines() if path.exists() else []:
            try:
                line = json.loads(text)
            except ValueError:
                continue
            found[line["task"]] = line
    return list(found.values())


def worker_settings() -> dict[str, str]:
    """One core for a worker, and no GPU. (Compiled programmes are in the user's cache, for all of them.)"""
    from horizonfree.sweeps.worker import environment

    return environment(1) | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    }


def answered(task: dict) -> dict:
    """In a worker; an error is told, and the task stays undone."""
    try:
        from answers import answer

        return answer(task)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def pending(names: list[str], lines: list[dict], small: bool) -> dict[str, dict]:
    """What is left to do, in order; nothing that waits for the tuning while that is not done."""
    from tasks import tasks

    done = {line["task"] for line in lines}
    tuning = {key: task for key, task in tasks("tuning", lines, small).items() if key not in done}
    waiting = ("E1", "E2", "E3", "table1") if tuning else ()
    for name in set(names) & set(waiting):
        print(f"{name} waits: {len(tuning)} tasks of the tuning are not done", flush=True)
    found: dict[str, dict] = {}
    for name in names:
        if name not in waiting:
            made = tasks(name, lines, small)
            found |= {key: task for key, task in made.items() if key not in done}
    return found


def perform(todo: dict[str, dict], out: Path, workers: int, deadline: float) -> None:
    """Run the tasks until they are done or the time is up; what runs then is lost, and made by the next call."""
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    running = {pool.submit(answered, task): key for key, task in todo.items()}
    count, failed, spent = 0, 0, 0.0
    with (out / ROWS).open("a") as file:
        while running and time.time() < deadline:
            for future in wait(running, LOOK, FIRST_COMPLETED).done:
                key = running.pop(future)
                line, task = future.result(), todo[key]
                if "error" in line:
                    failed += 1
                    print(
                        f"{task['experiment']} {task['problem']} {task['explorer']}: {line['error']}",
                        flush=True,
                    )
                    continue
                file.write(json.dumps({"task": key, **line}) + "\n")
                file.flush()
                count, spent = count + 1, spent + line["cpu"]
    for process in list(pool._processes.values()):
        process.kill()
    pool.shutdown(wait=False, cancel_futures=True)
    print(f"{count} of {len(todo)} tasks done, {failed} failed, {spent:.0f} s of CPU time", flush=True)


def main() -> None:
    from tasks import FILES

    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=list(FILES), choices=list(FILES))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=24 * 3600)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    deadline = time.time() + args.seconds
    results = Path("out/reproduce-small") if args.small else HERE / "results"
    out = args.out or results
    out.mkdir(parents=True, exist_ok=True)
    os.environ |= worker_settings()
    for names in (["tuning"], [name for name in args.only if name != "tuning"]):
        todo = pending(names, stored(results, out), args.small) if set(names) & set(args.only) else {}
        if todo and time.time() < deadline:
            perform(todo, out, args.workers, deadline)
    sys.exit(0)


if __name__ == "__main__":
    main()
