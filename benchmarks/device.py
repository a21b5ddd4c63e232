"""Planning and exploring with very many states: a GPU beside the CPU, and beside what its memory can do at most.

    python benchmarks/device.py [--states 100000,1000000] [--horizon 100] [--seconds 3]

A mixture of four kernels, four actions, four successors drawn at random for each pair, every state reachable. Rows of
probabilities are drawn from a thousand patterns. Each size on each device in a process of its own; one line of JSON for
each row, printed when it is measured: the median of wall seconds after one call that compiles, and the peak of memory.

    plan, on the device      backward induction for one reward; nothing leaves the device
    values of the successors    what a plan looks up at every step, added; no probabilities, no choice
    plan                     `planning.optimal`: the policy and V_1..V_{H+1} of one reward, handed out as NumPy arrays
    optimal design, a policy    the dynamic programme of one episode; nothing leaves the device
    optimal design, an episode  `explore`: a policy, an episode, what it teaches

`limit_s` is the time in which the device could read its successors, probabilities and rewards and write the policy once
for every step (V is taken to stay in a cache): bytes / 4.8 TB/s (H200, its data sheet).
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

A, N, D, PATTERNS = 4, 4, 4, 1_000
BANDWIDTH = {"gpu": 4.8e12}


def model(S: int, H: int) -> Any:
    """The class: features and valid parameters of a small problem of PATTERNS pairs, whose rows all pairs share."""
    import equinox as eqx

    import horizonfree as hf
    from horizonfree.mdp.space import make_space

    rng = np.random.default_rng(0)
    pairs, small = PATTERNS, PATTERNS // A
    tables = np.zeros((D, small, A, small))
    successors = np.sort(np.stack([rng.choice(small, N, replace=False) for _ in range(pairs)]), axis=1)
    pair_index = np.indices((small, A)).reshape(2, pairs, 1)
    tables[:, pair_index[0], pair_index[1], successors] = rng.dirichlet(np.ones(N), (D, pairs))
    mixture = hf.Mixture.from_kernels(tables, horizon=H).model
    pattern = rng.integers(0, pairs, (S, A))
    step = rng.integers(1, S // N, (S, A, 1))
    succ = np.sort((rng.integers(0, S, (S, A, 1)) + step * np.arange(N)) % S, axis=-1)
    space = make_space(succ, np.ones((S, A, N), bool), False, H, np.full(S, 1 / S))
    row_index = np.asarray(mixture.valid.row_of).reshape(pairs, N)[pattern]
    phi = np.asarray(mixture.phi).reshape(pairs, N, D)[pattern]
    support = row_index, np.ones((S, A), bool)
    valid = eqx.tree_at(lambda x: (x.row_of, x.choices), mixture.valid, support)
    return eqx.tree_at(lambda x: (x.space, x.phi, x.valid), mixture, (space, phi, valid))


def timed(call: Callable[[], Any], seconds: float) -> tuple[float, float]:
    """The median of some calls, and the first one, which compiles."""
    times: list[float] = []
    while len(times) < 4 or sum(times[1:]) < seconds:
        start_time = time.perf_counter()
        call()
        times.append(time.perf_counter() - start_time)
        if len(times) == 2 and times[1] > seconds:
            break
    return statistics.median(times[1:]), times[0]


def peak() -> float:
    """MiB that the device has held at most; on a CPU the process."""
    import jax

    stats = jax.devices()[0].memory_stats()
    if stats and "peak_bytes_in_use" in stats:
        return stats["peak_bytes_in_use"] / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def measure(S: int, H: int, seconds: float) -> None:
    """All rows of one size, on the device that this process sees first."""
    import equinox as eqx
    import jax

    import horizonfree as hf
    from horizonfree._x64 import scope, to_device
    from horizonfree.models.mixture.learner import design
    from horizonfree.planning.traced import stationary_jax, take
    from horizonfree.problems.problem import Problem

    start_time = time.perf_counter()
    problem_model = model(S, H)
    problem = Problem(problem_model, np.asarray(problem_model.valid.center), "random")
    build_seconds = time.perf_counter() - start_time
    kind = jax.default_backend()
    num_bytes = H * S * (A * N * (4 + 8) + A * 8 + 4)  # successors, probabilities, rewards; the policy
    limit = {"limit_s": num_bytes / BANDWIDTH[kind]} if kind in BANDWIDTH else {}
    setting = {
        "device": jax.devices()[0].device_kind,
        "S": S,
        "A": A,
        "n": N,
        "d": D,
        "H": H,
        "make_s": build_seconds,
    }

    def print_time(label: str, times: tuple[float, float], per: int = 1) -> None:
        row = {"what": label, "s": times[0] / per, "first_s": times[1], "peak_MiB": peak()}
        print(json.dumps(setting | row | limit), flush=True)

    with scope():
        kernel = to_device(problem.kernel())
        reward = to_device(np.random.default_rng(1).random((S, A)) / H)
        plan = eqx.filter_jit(lambda kernel, reward: stationary_jax(kernel, reward, H))
        look_up = eqx.filter_jit(
            lambda kernel: jax.lax.fori_loop(
                0, H, lambda _, V: take(V, kernel.succ).sum((1, 2)), jax.numpy.ones(S)
            )
        )
        print_time("plan, on the device", timed(lambda: jax.block_until_ready(plan(kernel, reward)), seconds))
        print_time("values of the successors", timed(lambda: jax.block_until_ready(look_up(kernel)), seconds))
        device_model = to_device(problem_model)
        counts = jax.numpy.ones(problem_model.valid.rows.shape[0], jax.numpy.int32)
        policy = eqx.filter_jit(lambda x, n: design(x.space, x.valid, n, x.valid.center))
        times = timed(lambda: jax.block_until_ready(policy(device_model, counts)), seconds)
        print_time("optimal design, a policy", times)
        del device_model
        table = np.broadcast_to(np.asarray(reward), (H, S, A))
        print_time("plan", timed(lambda: hf.planning.optimal(kernel, table), seconds))
        del kernel, reward
    run = hf.explore(problem, "optimal-design", episodes=1, progress=False)
    number = max(1, min(200, int(seconds / max(times[0], 1e-3))))
    print_time(
        "optimal design, an episode", timed(lambda: run.resume(episodes=number, progress=False), 0.0), number
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--states", default="100000,1000000")
    parser.add_argument("--horizon", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3.0, help="of measurement for each row")
    parser.add_argument("--devices", default="gpu,cpu")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args.measure, args.horizon, args.seconds)
        return
    for S in args.states.split(","):
        for device in args.devices.split(","):
            platforms = {"JAX_PLATFORMS": "cpu"} if device == "cpu" else {"JAX_PLATFORMS": "cuda,cpu"}
            command = [sys.executable, __file__, "--measure", S, "--horizon", str(args.horizon)]
            done = subprocess.run(
                [*command, "--seconds", str(args.seconds)], env=os.environ | platforms, check=False
            )
            if done.returncode:
                print(json.dumps({"device": device, "S": int(S), "failed": done.returncode}), flush=True)


if __name__ == "__main__":
    main()
