"""What sweeps cost: engines, workers, many tasks, many rows.

    python benchmarks/sweep.py [--engines local dask ray] [--tasks 10000] [--only overhead speedup tasks rows]

overhead: seconds per task that are not spent in it, tiny tasks on two workers that are warm; speedup: one worker
against two, tasks of about a second; tasks: memory of the driver and of a worker over many tiny tasks; rows: a million
rows read back. Thread counts are the sweep's own, so this script is not pinned. The load of the machine is printed with
each figure.
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import horizonfree as hf
from horizonfree.runs import files
from horizonfree.sweeps import executors as engines
from horizonfree.sweeps import results, sweep
from horizonfree.sweeps import spec as specs
from horizonfree.sweeps.progress import Show, Tally
from horizonfree.sweeps.sweep import start_executor
from horizonfree.sweeps.tasks import build_tasks, num_rows

HERE = Path(__file__).parent
TINY: dict[str, Any] = {
    "seeds_per_task": 1,
    "checkpoints": [4],
    "measure": ["eps"],
    "problems": {"river": {"name": "river-swim", "states": 3, "horizon": 3}},
    "explorers": {"uniform": {}},
}
SECOND = TINY | {
    "checkpoints": [30_000],
    "problems": {"grid": {"name": "zoned-grid", "size": 6, "zones": 3, "horizon": 12}},
    "explorers": {"optimal-design": {}},
}


def drive(
    engine: engines.Executor, spec: dict, folder: Path, show: Show = lambda _: None
) -> tuple[float, float]:
    """Seconds of all tasks, and of those the seconds inside tasks."""
    tasks = build_tasks(specs.read(spec))
    folder.mkdir(exist_ok=True)
    writer, began = results.RowWriter(folder), time.perf_counter()
    sweep._run_tasks(engine, writer, Tally(tasks, [], engine.slots), show)
    seconds = time.perf_counter() - began
    lines = results.RowWriter(folder).lines.values()
    assert all("error" not in line for line in lines), next(x["error"] for x in lines if "error" in x)
    return seconds, sum(line["seconds"] for line in lines if line["task"] in tasks)


def overhead(on: str, aside: Path) -> dict:
    """Per task, on two workers that have the program already."""
    began = time.perf_counter()
    engine = start_executor(on, 2, aside / "log")
    started = time.perf_counter() - began
    try:
        drive(engine, TINY | {"seeds": list(range(8))}, aside / f"warm-{on}")
        seconds, inside = drive(engine, TINY | {"seeds": list(range(100, 400))}, aside / f"tiny-{on}")
    finally:
        engine.close()
    return {
        "start_s": started,
        "per_task_ms": 1e3 * (2 * seconds - inside) / 300,
        "task_ms": 1e3 * inside / 300,
    }


def speedup(aside: Path, rounds: int = 3) -> dict:
    """One worker against two, warm, alternating."""
    found: dict[int, list[float]] = {1: [], 2: []}
    pools = {n: start_executor("local", n, aside / "log") for n in (1, 2)}
    try:
        for n, pool in pools.items():
            pool.threads = 1  # as on a machine that is full
            drive(pool, SECOND | {"seeds": list(range(2 * n))}, aside / f"warm-{n}")
        for i in range(rounds):
            for n, pool in pools.items():
                seeds = list(range(100, 112))
                seconds, inside = drive(pool, SECOND | {"seeds": seeds}, aside / f"second-{n}-{i}")
                found[n].append(seconds)
                task = inside / len(seeds)
    finally:
        for pool in pools.values():
            pool.close()
    ratios = sorted(a / b for a, b in zip(found[1], found[2]))
    return {"task_s": task, "one_s": found[1], "two_s": found[2], "ratios": ratios}


def many_tasks(count: int, aside: Path) -> dict:
    """Memory of the driver and of the worker, the most so far, after each tenth of the tasks."""
    engine, folder = start_executor("local", 1, aside / "log"), aside / "many"
    driver: list[float] = []

    def show(tally: Tally) -> None:
        if len(tally.done) >= (len(driver) + 1) * count // 10:
            driver.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)

    try:
        seconds, inside = drive(engine, TINY | {"seeds": list(range(count))}, folder, show)
    finally:
        engine.close()
    lines = list(results.RowWriter(folder).lines.values())
    worker = [line["memory"] / 2**20 for line in lines[count // 10 - 1 :: count // 10]]
    return {
        "tasks": len(lines),
        "seconds": seconds,
        "task_ms": 1e3 * inside / count,
        "driver_mb": driver,
        "worker_mb": worker,
    }


def many_rows(aside: Path, count: int = 1_000_000) -> dict:
    """Rows of 1,000 tasks, written and read back."""
    folder = aside / "rows"
    spec = specs.read(
        TINY
        | {
            "seeds": count // 5,
            "seeds_per_task": 200,
            "checkpoints": [1, 2, 3, 4, 5],
            "measure": ["eps", "gap"],
        }
    )
    folder.mkdir()
    files.write_json(folder / results.SETTINGS_FILE, {"format": results.FORMAT, "spec": spec.to_dict()})
    writer, began = results.RowWriter(folder), time.perf_counter()
    for key, task in build_tasks(spec).items():
        n, C = num_rows(task), len(task["checkpoints"])
        made = {
            "seed": [s for s in task["seeds"] for _ in range(C)],
            "episodes": task["checkpoints"] * len(task["seeds"]),
        }
        made |= {name: [1 / (i + 3) for i in range(n)] for name in task["measure"]}
        stamp = {"seconds": 0.1, "device": "cpu", "memory": 0, "versions": {"horizonfree": hf.__version__}}
        writer.append(sweep.task_line(key, task, {"rows": made, **stamp}))
    written = time.perf_counter()
    found = hf.load_sweep(folder)
    read = time.perf_counter()
    size = (folder / results.ROWS_FILE).stat().st_size
    return {"rows": len(found), "mb": size / 2**20, "write_s": written - began, "read_s": read - written}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", nargs="*", default=["local", "dask", "ray"])
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", default=["overhead", "speedup", "tasks", "rows"])
    args = parser.parse_args()
    with TemporaryDirectory() as name:
        aside = Path(name)
        work = {f"overhead of {on}": lambda on=on: overhead(on, aside) for on in args.engines}
        work |= {"speedup of 2 workers": lambda: speedup(aside)}
        work |= {"tasks": lambda: many_tasks(args.tasks, aside), "rows": lambda: many_rows(aside)}
        for what, measure in work.items():
            if any(what.startswith(x) for x in args.only):
                print(json.dumps({"what": what, **measure(), "load": os.getloadavg()[0]}), flush=True)


if __name__ == "__main__":
    main()
