"""The rows of the experiments: whatever is not made yet, most important first, for at most so many seconds.

    python experiments/reproduce/run.py [--only E1 E3] [--workers 16] [--seconds 500] [--out FOLDER] [--small] [--gpu]

A line of rows.jsonl is a task that was finished, whole. What stands in results/ or in FOLDER is not made again; new
lines go to FOLDER (by default results/). The tuning comes first: E1, E2, E3 and table1 take their scales from it, and
what needs a part of it that is not done waits for a later call. --small: all of it reduced, into out/reproduce-small.
--gpu: workers share the GPU, where all seeds of a setting are explored side by side; still a line for each task.
"""

import argparse
import json
import os
import signal
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "shared"))
ROWS = "rows.jsonl"
TUNED = ("E1", "E1_instances", "E2", "E3", "table1", "table1_ranks")  # their scales come from the tuning
MAX_TASKS = 8  # whose compiled programmes a worker keeps: they add up until the system refuses to map more
LOOK = 2.0  # seconds between two looks at the clock
answers = 0  # of this worker


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


def worker_settings(gpu: bool) -> dict[str, str]:
    """One core for a worker, and its share of a GPU or none. (Compiled programmes are in the user's cache, for all.)"""
    from horizonfree.sweeps.worker import environment

    place = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if gpu else {"JAX_PLATFORMS": "cpu"}
    one_core = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    return environment(1) | place | {"XLA_FLAGS": one_core}


def together(todo: dict[str, dict]) -> list[dict[str, dict]]:
    """Tasks that differ in their seeds alone, side by side."""
    groups: dict[str, dict[str, dict]] = {}
    for key, task in todo.items():
        groups.setdefault(json.dumps(task | {"seeds": []}, sort_keys=True), {})[key] = task
    return list(groups.values())


def answered(tasks: dict[str, dict]) -> dict[str, dict]:
    """In a worker: a line for each task; an error is told, and the tasks stay undone."""
    import jax
    from answers import answers_of

    global answers
    answers += 1
    if answers % MAX_TASKS == 0:
        jax.clear_caches()
    try:
        return answers_of(tasks)
    except Exception as error:
        return {key: {"error": f"{type(error).__name__}: {error}"} for key in tasks}


def pending(names: list[str], lines: list[dict], small: bool) -> dict[str, dict]:
    """What is left to do, in order; nothing whose scale waits for a task of the tuning that is not done."""
    from scales import split
    from tasks import tasks

    def tuned_by(task: dict) -> tuple[str, str]:
        return split(task["problem"])[0].split("-")[0], task["who"]["name"]

    done, found, waiting = {line["task"] for line in lines}, {}, 0
    undone = {tuned_by(task) for key, task in tasks("tuning", lines, small).items() if key not in done}
    for name in names:
        for key, task in tasks(name, lines, small).items():
            is_early = name in TUNED and tuned_by(task) in undone
            waiting += is_early
            if key not in done and not is_early:
                found[key] = task
    if waiting:
        print(f"{waiting} tasks wait for the tuning of {sorted(undone)}", flush=True)
    return found


def perform(
    todo: dict[str, dict], groups: list[dict[str, dict]], out: Path, workers: int, deadline: float
) -> int:
    """Run tasks until they are done or the time is up, and count failures; what runs then is made by the next call."""
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    running = {pool.submit(answered, group) for group in groups}
    count, failed, spent = 0, 0, 0.0
    try:
        while running and time.time() < deadline:
            done = wait(running, LOOK, FIRST_COMPLETED).done
            running -= done
            for key, line in (item for future in done for item in future.result().items()):
                if "error" in line:
                    failed += 1
                    where = " ".join(todo[key][name] for name in ("experiment", "problem", "explorer"))
                    print(f"{where}: {line['error']}", flush=True)
                    continue
                with (out / ROWS).open("a") as file:
                    file.write(json.dumps({"task": key, **line}, separators=(",", ":")) + "\n")
                count, spent = count + 1, spent + line["cpu"]
    finally:
        for process in list(pool._processes.values()):
            process.kill()
        pool.shutdown(wait=False, cancel_futures=True)
        print(f"{count} of {len(todo)} tasks done, {failed} failed, {spent:.0f} s of CPU time", flush=True)
    return failed


def main() -> None:
    from tasks import FILES

    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=list(FILES), choices=list(FILES))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=24 * 3600)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--gpu", action="store_true")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    deadline, failed = time.time() + args.seconds, 0
    results = Path("out/reproduce-small") if args.small else HERE / "results"
    out = args.out or results
    out.mkdir(parents=True, exist_ok=True)
    os.environ |= worker_settings(args.gpu)
    for names in (["tuning"], [name for name in args.only if name != "tuning"]):
        todo = pending(names, stored(results, out), args.small) if set(names) & set(args.only) else {}
        if todo and time.time() < deadline:
            groups = together(todo) if args.gpu else [{key: task} for key, task in todo.items()]
            failed += perform(todo, groups, out, args.workers, deadline)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
