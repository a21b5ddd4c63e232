"""Time of one oracle call on the zoned grid, S=64, A=4, n=4, d=8, H=20, on one core.

    python benchmarks/oracle.py [--calls 15] [--json]

Prints, for several numbers of sweeps and for the parts: the first call with its compilation, then the best and the
median of the calls after it, and the least processor time of a call (on a busy machine read that one).
"""

import argparse
import json
import os
import time

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import jax.numpy as jnp
import numpy as np

from horizonfree._x64 import to_device
from horizonfree.problems.named.grids import zoned_grid
from horizonfree.regression import oracle

COLUMNS = ("first_s", "best_ms", "median_ms", "processor_ms")


def random_inverse(d: int, points: int, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(points, d)) / np.sqrt(d)
    return np.linalg.inv(np.eye(d) + x.T @ x)


def timed(call, calls: int) -> tuple[float, ...]:
    """Seconds of the first call, then milliseconds: best, median, and least processor time of the later ones."""
    start = time.perf_counter()
    jax.block_until_ready(call())
    first = time.perf_counter() - start
    wall, busy = [], []
    for _ in range(calls):
        start, start_busy = time.perf_counter(), time.process_time()
        jax.block_until_ready(call())
        wall.append(1e3 * (time.perf_counter() - start))
        busy.append(1e3 * (time.process_time() - start_busy))
    return first, min(wall), float(np.median(wall)), min(busy)


def measure(calls: int) -> dict[str, tuple[float, ...]]:
    problem = zoned_grid(size=8, zones=4, horizon=20)
    model = to_device(problem.model)
    H, S, d = problem.horizon, problem.num_states, model.dim
    theta = jnp.asarray(problem.truth)
    tilde, hat = (jnp.asarray(random_inverse(d, 300, seed)) for seed in (1, 2))
    warm = oracle.Point(jnp.zeros((H, S), jnp.int32), jnp.int32(H - 1), jnp.ones(S, bool))
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
    options = parser.parse_args()
    with jax.enable_x64(True):
        rows = measure(options.calls)
    if options.json:
        print(json.dumps({k: dict(zip(COLUMNS, v)) for k, v in rows.items()}))
        return
    print(f"{'zoned grid S=64 A=4 n=4 d=8 H=20':34}" + "".join(f"{c:>14}" for c in COLUMNS))
    for name, row in rows.items():
        print(f"{name:34}" + "".join(f"{x:14.2f}" for x in row))


if __name__ == "__main__":
    main()
