"""Time of one oracle call on the zoned grid, S=64, A=4, n=4, d=8, H=20, on one core.

    python benchmarks/oracle.py [--calls 15] [--json]

Prints the best and the median of the calls after compilation, for several numbers of sweeps and for the parts.
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

from horizonfree import oracle
from horizonfree._x64 import to_device
from horizonfree.mixture import Mixture


def zoned_grid(size: int = 8, zones: int = 4, horizon: int = 20, seed: int = 0) -> Mixture:
    """A grid in zones; in each the intended move succeeds or slips, with unknown weights: d = 2 * zones."""
    rng = np.random.default_rng(seed)
    S, A = size * size, 4
    moves = [(0, 1), (1, 0), (0, -1), (-1, 0)]
    half = size // int(np.sqrt(zones))

    def go(s: int, k: int) -> int:
        y, x = divmod(s, size)
        return min(max(y + moves[k][0], 0), size - 1) * size + min(max(x + moves[k][1], 0), size - 1)

    phi = np.zeros((S, A, S, 2 * zones))
    for s in range(S):
        zone = (s // size) // half * (size // half) + (s % size) // half
        for a in range(A):
            phi[s, a, go(s, a), 2 * zone] += 1
            for k in range(A):
                phi[s, a, go(s, k), 2 * zone + 1] += 1 / A
    slip = rng.uniform(0.1, 0.6, zones)
    theta = np.stack([1 - slip, slip], axis=1).ravel()
    return Mixture.from_features(phi, horizon=horizon, bound=float(np.sqrt(zones)), theta=theta)


def random_inverse(d: int, points: int, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(points, d)) / np.sqrt(d)
    return np.linalg.inv(np.eye(d) + x.T @ x)


def timed(call, calls: int) -> tuple[float, float, float]:
    """Seconds to compile and run first, then milliseconds: best and median of the calls."""
    start = time.perf_counter()
    jax.block_until_ready(call())
    first = time.perf_counter() - start
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(1e3 * (time.perf_counter() - start))
    return first, min(times), float(np.median(times))


def measure(calls: int) -> dict[str, tuple[float, float, float]]:
    problem = zoned_grid()
    known = to_device(problem.known)
    H, S, d = problem.horizon, problem.num_states, known.dim
    theta = jnp.asarray(problem.truth)
    tilde, hat = (jnp.asarray(random_inverse(d, 300, seed)) for seed in (1, 2))
    warm = oracle.Point(jnp.zeros((H, S), jnp.int32), jnp.int32(H - 1), jnp.ones(S, bool))
    prepare = jax.jit(oracle.prepare)
    prepared = prepare(known, theta, tilde, hat)
    upper_bound = jax.jit(oracle.upper_bound)
    rows = {
        "prepare": timed(lambda: prepare(known, theta, tilde, hat), calls),
        "upper bound": timed(lambda: upper_bound(prepared, 0.3), calls),
    }
    key = jax.random.key(0)
    for sweeps in (15, 20, 40, 60):

        @jax.jit
        def call(key, known, theta, tilde, hat, sweeps=sweeps):
            prepared = oracle.prepare(known, theta, tilde, hat)
            return oracle.ascent(key, prepared, 0.3, 0.3, warm, chains=3, sweeps=sweeps)

        rows[f"3 chains x {sweeps} sweeps"] = timed(lambda f=call: f(key, known, theta, tilde, hat), calls)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with jax.enable_x64(True):
        rows = measure(options.calls)
    if options.json:
        print(json.dumps({k: dict(zip(("first_s", "best_ms", "median_ms"), v)) for k, v in rows.items()}))
        return
    print(f"{'zoned grid S=64 A=4 n=4 d=8 H=20':34} {'first, s':>9} {'best, ms':>9} {'median, ms':>11}")
    for name, (first, best, median) in rows.items():
        print(f"{name:34} {first:9.2f} {best:9.2f} {median:11.2f}")


if __name__ == "__main__":
    main()
