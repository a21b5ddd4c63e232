"""Planning for 10^4 to 10^7 states: ours on one core and on all, Storm and quantecon, on the same models.

    python benchmarks/ladder.py [--most 7] [--gpu] [--model grid] [--memory 10]

A = 4 actions with four successors each, H = 100, one reward for all steps: `random` successors, and a cube of cells
(`grid`) in which an action moves to one neighbour with probability 0.7, to two others with 0.1, and stays with 0.1.
Each solver has a process of its own: seconds to load the model from NumPy arrays, seconds to solve (the smallest of
the repetitions; of the processor where one core is used, of the clock else), the largest memory of the process while
it solves, less what Python and its modules take. `first step` returns V_1 and the first actions alone, as Storm
returns V_1 alone; `all arrays` returns values and actions of all steps, as quantecon does. V_1 must agree to 1e-9.
A solver that needs more memory than there is, by an estimate, is left out. --gpu adds JAX's default device.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from _peers import quantecon, stormpy
from horizonfree.mdp.space import Kernel
from horizonfree.planning import optimal

A, H = 4, 100
BYTES_PER_STATE = {  # of the whole process, about
    "ours, first step": 330,
    "ours, all arrays": 300 + 12 * H,
    "ours, all cores": 330,
    "stormpy": 1_500,
    "quantecon": 700 + 24 * H,
    "jax": 700,
}
REPETITIONS = {4: 20, 5: 5, 6: 2, 7: 1}


def random_model(S: int) -> tuple[Kernel, np.ndarray]:
    rng = np.random.default_rng(0)
    succ = np.sort(rng.integers(S, size=(S, A, 4), dtype=np.int32), axis=-1)
    prob = rng.exponential(size=(S, A, 4))
    prob /= prob.sum(-1, keepdims=True)
    return Kernel(succ, prob, False), rng.random((S, A))


def grid_model(S: int) -> tuple[Kernel, np.ndarray]:
    """The cube of about S cells; the walls send back."""
    side = round(S ** (1 / 3))
    cells = np.indices((side,) * 3, dtype=np.int32).reshape(3, -1).T
    moves = np.concatenate([np.eye(3, dtype=np.int32), -np.eye(3, dtype=np.int32)])
    strides = np.array([side * side, side, 1], np.int32)
    stay = cells @ strides
    successors = [np.clip(cells + move, 0, side - 1) @ strides for move in moves]
    succ = np.stack(
        [np.stack([successors[a], successors[a + 1], successors[a + 2], stay], -1) for a in range(A)], 1
    )
    prob = np.broadcast_to([0.7, 0.1, 0.1, 0.1], succ.shape).copy()
    order = np.argsort(succ, -1, kind="stable")
    succ, prob = np.take_along_axis(succ, order, -1), np.take_along_axis(prob, order, -1)
    return Kernel(succ, prob, False), np.random.default_rng(0).random((len(succ), A))


MODELS: dict[str, Callable[[int], tuple[Kernel, np.ndarray]]] = {"random": random_model, "grid": grid_model}


def own_values(kernel: Kernel, r: np.ndarray, only_first: bool) -> Any:
    reward = np.broadcast_to(r, (H, *r.shape))
    return lambda: optimal(kernel, reward, only_first=only_first), lambda solution: solution.V[0]


def on_device(kernel: Kernel, r: np.ndarray) -> Any:
    """V_1 and the first actions by JAX, on its default device."""
    import jax
    import jax.numpy as jnp

    from horizonfree._x64 import to_device, x64
    from horizonfree.planning.traced import backup

    print(f"jax: {jax.devices()[0].device_kind}", file=sys.stderr)

    @jax.jit
    def solve(kernel: Kernel, r: Any) -> Any:
        start = jnp.zeros(len(r)), jnp.zeros(len(r), jnp.int32)
        return jax.lax.fori_loop(0, H, lambda _, x: backup(kernel, r, x[0], 1e-13), start)

    model = x64(to_device)((kernel, r))
    call = x64(lambda: jax.block_until_ready(solve(*model)))
    call()  # compile, and copy
    return call, lambda device_values: np.asarray(device_values[0])


SOLVERS: dict[str, Callable[[Kernel, np.ndarray], Any]] = {
    "ours, first step": lambda kernel, r: own_values(kernel, r, True),
    "ours, all arrays": lambda kernel, r: own_values(kernel, r, False),
    "ours, all cores": lambda kernel, r: own_values(kernel, r, True),
    "stormpy": lambda kernel, r: stormpy(kernel, r, H),
    "quantecon": lambda kernel, r: quantecon(kernel, r, H),
    "jax": on_device,
}


def is_parallel(solver: str) -> bool:
    return solver in ("ours, all cores", "jax")


def peak() -> int:
    """The largest memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(solver: str, model: str, power: int, path: str) -> dict[str, float]:
    """In this process; V_1 is written to a file."""
    SOLVERS[solver](*random_model(50))[0]()  # modules load and compile
    memory_before = peak()
    kernel, r = MODELS[model](10**power)
    num_states = kernel.num_states
    clock = time.perf_counter if is_parallel(solver) else time.process_time
    start = clock()
    call, values = SOLVERS[solver](kernel, r)
    load, seconds = clock() - start, []
    for _ in range(REPETITIONS[power]):
        start = clock()
        result = call()
        seconds.append(clock() - start)
    np.save(path, values(result))
    return {
        "S": num_states,
        "load s": load,
        "solve s": min(seconds),
        "peak GiB": (peak() - memory_before) / 2**30,
    }


def child(solver: str, model: str, power: int, path: Path, memory: float) -> dict[str, Any] | str:
    """A row, or why there is none."""
    need = BYTES_PER_STATE[solver] * 10**power / 2**30
    if need > memory:
        return f"about {need:.0f} GiB would be needed, {memory:.0f} may be taken"
    threads = {} if is_parallel(solver) else dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [sys.executable, __file__, "--measure", solver, model, str(power), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | threads, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "Error" in line or "error" in line]
        return (lines or [f"ended with {done.returncode}"])[-1]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def available() -> float:
    """Memory of the machine that is free, in GiB."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(x.split()[1]) for x in lines if x.startswith("MemAvailable")) / 2**20


def one_core(solver: str) -> None:
    if not is_parallel(solver) and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--most", type=int, default=7, help="the largest power of ten of states")
    parser.add_argument("--least", type=int, default=4, help="the smallest")
    parser.add_argument("--model", choices=list(MODELS), help="one of the models")
    parser.add_argument("--gpu", action="store_true", help="JAX on its default device, too")
    parser.add_argument("--memory", type=float, help="GiB that a solver may take; by default what is free")
    parser.add_argument("--only", nargs="+", choices=list(SOLVERS), help="some of the solvers")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        solver, model, power, path = args.measure
        one_core(solver)
        print(json.dumps(measure(solver, model, int(power), path)))
        return
    solvers = args.only or [name for name in SOLVERS if name != "jax" or args.gpu]
    print(
        "| model | states | solver | load s | solve s | times ours | peak GiB |\n|---|---|---|---|---|---|---|"
    )
    for model in [args.model] if args.model else MODELS:
        for power in range(args.least, args.most + 1):
            with tempfile.TemporaryDirectory() as folder:
                rungs(solvers, model, power, Path(folder), args.memory or available())


def rungs(solvers: list[str], model: str, power: int, folder: Path, memory: float) -> None:
    """The rows of one model."""
    first: dict[str, Any] = {}
    expected = np.zeros(0)
    for i, solver in enumerate(solvers):
        row = child(solver, model, power, folder / f"{i}.npy", memory)
        if isinstance(row, str):
            print(f"| {model} | 10^{power} | {solver} | left out: {row} | | | |", flush=True)
            continue
        first = first or row
        V = np.load(folder / f"{i}.npy")
        expected = V if first is row else expected
        np.testing.assert_allclose(V, expected, rtol=0, atol=1e-9, err_msg=solver)
        times = row["solve s"] / first["solve s"]
        numbers = f"{row['load s']:.3g} | {row['solve s']:.3g} | {times:.2f} | {row['peak GiB']:.2f}"
        print(f"| {model} | {row['S']:,} | {solver} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
