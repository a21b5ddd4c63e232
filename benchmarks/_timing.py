"""Side-by-side timing on one core. The machine may be busy, so only ratios of interleaved samples are reported."""

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def one_core() -> None:
    """Start this script again with one thread on one core; thread counts must stand before libraries load."""
    if all(os.environ.get(name) == "1" for name in THREADS):
        return
    os.environ.update(dict.fromkeys(THREADS, "1"))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.execv(sys.executable, [sys.executable, *sys.argv])


def seconds(call: Callable[[], object], budget: float) -> float:
    """The smallest CPU time of a call: repeated within a sample to 5 ms, samples for `budget` seconds."""
    start = time.process_time()
    call()
    elapsed = max(time.process_time() - start, 1e-6)
    repeats = max(1, round(0.005 / elapsed))
    best, start_time = elapsed, time.process_time()
    while time.process_time() - start_time < budget:
        start = time.process_time()
        for _ in range(repeats):
            call()
        best = min(best, (time.process_time() - start) / repeats)
    return best


def interleave(
    calls: dict[str, Callable[[], object]], alternations: int, budget: float
) -> dict[str, list[float]]:
    """Seconds of each call in each of several rounds; the calls take turns."""
    for call in calls.values():
        call()  # compile
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(alternations):
        for name, call in calls.items():
            times[name].append(seconds(call, budget))
    return times


def ratio(peer: list[float], own_times: list[float]) -> float:
    """How many times faster ours is: the median over the rounds."""
    return statistics.median(p / o for p, o in zip(peer, own_times))


def report(rows: list[dict[str, object]], as_json: bool) -> None:
    """Print the rows as a table, or as one JSON object."""
    if as_json:
        machine = {"machine": platform.machine(), "python": platform.python_version()}
        print(json.dumps({**machine, "rows": rows}, indent=1))
        return
    columns = list(rows[0])
    cells = [columns] + [[_text(row[c]) for c in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells:
        print("  ".join(x.ljust(w) for x, w in zip(line, widths)).rstrip())


def _text(x: object) -> str:
    return f"{x:.3g}" if isinstance(x, float) else str(x)
