"""Time of one oracle call on zoned grids (A=4, n=4, d=8), on one core: in JAX, and in C.

    python benchmarks/oracle.py [--calls 15] [--json] [--large]

First the grid of S=64, H=20, its parts and several numbers of sweeps; then 3 chains x 20 sweeps on larger grids
(--large adds S=2,500, where JAX takes seconds), JAX and C by turns in one process. Columns: the first call with
its compilation, then the best and the median of the calls after it, and the least processor time of a call (on a busy
machine read that one).
"""

import argparse
import json
import os
import time
from functools import partial

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import jax.numpy as jnp
import numpy as np

from horizonfree import oracle
from horizonfree._x64 import scope, to_device
from horizonfree.oracle.search import search_in_c, search_in_jax
from horizonfree.problems.named.navigation import zoned_grid

SIZES = [(8, 20), (8, 50), (20, 20), (20, 50)]  # side of the grid, H
LARGE = [(50, 20), (50, 50)]
COLUMNS = ("first_s", "best_ms", "median_ms", "processor_ms")


def random_inverse(d: int, points: int, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(points, d)) / np.sqrt(d)
    return np.linalg.inv(np.eye(d) + x.T @ x)


def timed(call, calls: int) -> tuple[float, ...]:
    """Seconds of the first call, then milliseconds: best, median, and least processor time of the later ones."""
    return by_turns([call], calls)[0]


def by_turns(functions, calls: int) -> list[tuple[float, ...]]:
    """The times of `timed` for several functions that take turns."""
    wall, busy = [[] for _ in functions], [[] for _ in functions]
    for _ in range(calls + 1):
        for i, call in enumerate(functions):
            start, start_busy = time.perf_counter(), time.process_time()
            jax.block_until_ready(call())
            wall[i].append(1e3 * (time.perf_counter() - start))
            busy[i].append(1e3 * (time.process_time() - start_busy))
    return [
        (w[0] / 1e3, min(w[1:]), float(np.median(w[1:])), min(b[1:])) for w, b in zip(wall, busy, strict=True)
    ]


def grid(side: int, horizon: int):
    """The problem, its model on the device, theta, two covariances and a start."""
    problem = zoned_grid(size=side, zones=4, horizon=horizon)
    model = to_device(problem.model)
    H, S, d = problem.horizon, problem.num_states, model.dim
    tilde, hat = (jnp.asarray(random_inverse(d, 300, seed)) for seed in (1, 2))
    warm = oracle.Point(np.zeros((H, S), np.int32), np.array(H - 1, np.int32), np.ones(S, bool))
    return problem, (model, jnp.asarray(problem.truth), tilde, hat), warm


def compare(side: int, horizon: int, calls: int) -> dict[str, tuple[float, ...]]:
    """One call in JAX and one in C, everything that a run pays for included."""
    _, (model, theta, tilde, hat), warm = grid(side, horizon)
    arguments = (
        jax.random.key(0),
        model,
        theta,
        (tilde, hat),
        jnp.asarray(0.3),
        jnp.asarray(0.3),
        to_device(warm),
    )
    functions = {"JAX": search_in_jax, "C": search_in_c}
    compiled = [jax.jit(partial(f, chains=3, sweeps=20)) for f in functions.values()]
    names = [f"S={side**2}, H={horizon}, {function_name}" for function_name in functions]
    timings = by_turns([lambda f=f: f(*arguments) for f in compiled], calls)
    return dict(zip(names, timings, strict=True))


def measure(calls: int) -> dict[str, tuple[float, ...]]:
    _, (model, theta, tilde, hat), warm = grid(8, 20)
    prepare = jax.jit(oracle.prepare)
    prepared = prepare(model, theta, tilde, hat)
    upper_bound = jax.jit(oracle.upper_bound)
    rows = {
        "prepare": timed(lambda: prepare(model, theta, tilde, hat), calls),
        "upper bound": timed(lambda: upper_bound(prepared, 0.3), calls),
    }
    key = jax.random.key(0)
    for sweeps in (15, 20, 40, 60):

        @jax.jit
        def call(key, model, theta, tilde, hat, sweeps=sweeps):
            prepared = oracle.prepare(model, theta, tilde, hat)
            return oracle.ascent(key, prepared, 0.3, 0.3, warm, chains=3, sweeps=sweeps)

        rows[f"3 chains x {sweeps} sweeps"] = timed(lambda f=call: f(key, model, theta, tilde, hat), calls)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    with scope():
        rows = measure(options.calls)
        for side, horizon in SIZES + LARGE * options.large:
            rows |= compare(side, horizon, options.calls)
    if options.json:
        print(json.dumps({k: dict(zip(COLUMNS, v)) for k, v in rows.items()}))
        return
    print(f"{'zoned grid A=4 n=4 d=8; S=64 H=20':34}" + "".join(f"{c:>14}" for c in COLUMNS))
    for name, row in rows.items():
        print(f"{name:34}" + "".join(f"{x:14.2f}" for x in row))


if __name__ == "__main__":
    main()
