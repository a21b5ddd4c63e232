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
    writer, start_time = results.RowWriter(folder), time.perf_counter()
    sweep._run_tasks(engine, writer, Tally(tasks, [], engine.slots), show)
    seconds = time.perf_counter() - start_time
    lines = results.RowWriter(folder).lines.values()
    assert all("error" not in line for line in lines), next(x["error"] for x in lines if "error" in x)
    return seconds, sum(line["seconds"] for line in lines if line["task"] in tasks)


def overhead(engine_name: str, folder_root: Path) -> dict:
    """Per task, on two workers that have the program already."""
    start_time = time.perf_counter()
    engine = start_executor(engine_name, 2, folder_root / "log")
    started = time.perf_counter() - start_time
    try:
        drive(engine, TINY | {"seeds": list(range(8))}, folder_root / f"warm-{engine_name}")
        seconds, inside = drive(
            engine, TINY | {"seeds": list(range(100, 400))}, folder_root / f"tiny-{engine_name}"
        )
    finally:
        engine.close()
    return {
        "start_s": started,
        "per_task_ms": 1e3 * (2 * seconds - inside) / 300,
        "task_ms": 1e3 * inside / 300,
    }


def speedup(directory: Path, rounds: int = 3) -> dict:
    """One worker against two, warm, alternating."""
    times: dict[int, list[float]] = {1: [], 2: []}
    pools = {n: start_executor("local", n, directory / "log") for n in (1, 2)}
    try:
        for n, pool in pools.items():
            pool.threads = 1  # as on a machine that is full
            drive(pool, SECOND | {"seeds": list(range(2 * n))}, directory / f"warm-{n}")
        for i in range(rounds):
            for n, pool in pools.items():
                seeds = list(range(100, 112))
                seconds, inside = drive(pool, SECOND | {"seeds": seeds}, directory / f"second-{n}-{i}")
                times[n].append(seconds)
                task = inside / len(seeds)
    finally:
        for pool in pools.values():
            pool.close()
    ratios = sorted(a / b for a, b in zip(times[1], times[2]))
    return {"task_s": task, "one_s": times[1], "two_s": times[2], "ratios": ratios}


def many_tasks(count: int, directory: Path) -> dict:
    """Memory of the driver and of the worker, the most so far, after each tenth of the tasks."""
    engine, folder = start_executor("local", 1, directory / "log"), directory / "many"
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


def many_rows(directory: Path, count: int = 1_000_000) -> dict:
    """Rows of 1,000 tasks, written and read back."""
    folder = directory / "rows"
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
    writer, start_time = results.RowWriter(folder), time.perf_counter()
    for key, task in build_tasks(spec).items():
        n, C = num_rows(task), len(task["checkpoints"])
        row = {
            "seed": [s for s in task["seeds"] for _ in range(C)],
            "episodes": task["checkpoints"] * len(task["seeds"]),
        }
        row |= {name: [1 / (i + 3) for i in range(n)] for name in task["measure"]}
        stamp = {"seconds": 0.1, "device": "cpu", "memory": 0, "versions": {"horizonfree": hf.__version__}}
        writer.append(sweep.task_line(key, task, {"rows": row, **stamp}))
    write_end = time.perf_counter()
    loaded = hf.load_sweep(folder)
    read = time.perf_counter()
    size = (folder / results.ROWS_FILE).stat().st_size
    return {
        "rows": len(loaded),
        "mb": size / 2**20,
        "write_s": write_end - start_time,
        "read_s": read - write_end,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", nargs="*", default=["local", "dask", "ray"])
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", default=["overhead", "speedup", "tasks", "rows"])
    args = parser.parse_args()
    with TemporaryDirectory() as name:
        directory = Path(name)
        work = {
            f"overhead of {engine}": lambda engine=engine: overhead(engine, directory)
            for engine in args.engines
        }
        work |= {"speedup of 2 workers": lambda: speedup(directory)}
        work |= {"tasks": lambda: many_tasks(args.tasks, directory), "rows": lambda: many_rows(directory)}
        for label, measure in work.items():
            if any(label.startswith(x) for x in args.only):
                print(json.dumps({"what": label, **measure(), "load": os.getloadavg()[0]}), flush=True)


if __name__ == "__main__":
    main()
