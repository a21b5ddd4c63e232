"""Episodes per second against the number of seeds, on one CPU core and, where there is one, on a GPU.

    python benchmarks/batch.py [--json] [--explorers a,b] [--seeds 1,64] [--minutes 8] [--wide] [--problem 32x32]

zoned-grid 8x8, H = 20, d = 8 (or another of PROBLEMS), 64-bit. Every row is printed when it is measured: the best of
a few blocks of episodes of all seeds, one compiled call each, compilation apart (the mean over whole runs where choices
get rarer with time). On a CPU the seeds go one after the other and the time is CPU time; on a GPU they go side by side
and it is wall time (--wide: side by side on the CPU too). Rows that would pass the limit of minutes, or that do not fit
the memory, are told and left out.

For mixtures `share` compares with a floor, the larger of two times. Arithmetic: 2 n H S A products and sums for a
backward pass through a kernel, d times that through features, and PASSES of them an episode. Memory: the state read and
written once, and one kernel read per pass. Peaks: 34 TFLOP/s and 4.8 TB/s (H200, 64-bit, its data sheet), 90 GFLOP/s
and 128 GB/s (one core with AVX-512, second-level cache, measured). A CPU gathers V(s') by indexed loads of 0.44 ns, 9
us for a pass: that, not this floor, is what a backward pass on successor lists can reach there.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time

PROBLEMS = {  # the named problem, its parameters, and whether it is explored as an unknown table
    "8x8": ("zoned-grid", {"size": 8, "zones": 4, "horizon": 20}, False),
    "32x32": ("zoned-grid", {"size": 32, "zones": 8, "horizon": 64}, False),
    "chain": ("double-chain", {"length": 31, "horizon": 20}, True),
    "rooms": ("rooms", {"columns": 5, "rows": 3, "room_size": 5, "horizon": 30}, True),
    "lock": ("linear-lock", {}, False),
}
BUDGET = 300  # K of the radii
SIZE = 100  # episodes of a block
SECONDS = 4.0  # of measurement for each row
LONGEST = 15.0  # of a whole run of BUDGET episodes, for explorers that choose now and then
PEAK = {"cpu": (90e9, 128e9), "gpu": (34e12, 4.8e12)}
PASSES = {  # backward passes an episode, and whether they go through features; a call of the oracle counts for itself
    "uniform": (0, False),
    "optimal-design": (1, False),
    "goal-cycling": (1, False),
    "ucrl-rfe": (2, True),
    "ucrl-rfe+": (2, True),
}
SEEDS = (1, 8, 64, 256, 1024, 8192)
FIRST = {  # the default, most important first; every other explorer follows with OTHERS seeds
    "cpu": [("optimal-design", n) for n in (64, 1, 1024, 8, 256, 8192)]
    + [("hf-ucrl-rfe++", n) for n in (64, 1)],
    "gpu": [("optimal-design", 8192), ("hf-ucrl-rfe++", 1024)]
    + [("optimal-design", n) for n in (1024, 256, 64, 8, 1)]
    + [("hf-ucrl-rfe++", n) for n in (64, 8192)],
}
OTHERS = {"cpu": 64, "gpu": 1024}
PEERS = [  # one core of a 2.8 GHz Xeon, CPU time, episodes of H steps; their own environments and defaults
    {"peer": "RF-UCRL (rf-ucrl repository)", "S": 31, "A": 2, "H": 20, "episodes_per_s": 543},
    {"peer": "RF-UCRL (rf-ucrl repository)", "S": 441, "A": 4, "H": 20, "episodes_per_s": 96},
    {"peer": "RF-Express, NRoom 5", "S": 129, "A": 4, "H": 30, "episodes_per_s": 246},
    {"peer": "UCBVI, rlberry 0.1 with Numba", "S": 25, "A": 4, "H": 20, "episodes_per_s": 1281},
    {"peer": "PSRL, Colosseum", "S": 25, "A": 5, "H": 20, "episodes_per_s": 184},
    {"peer": "UCRL-WVTR, d = 3", "S": 10, "A": 2, "H": 100, "episodes_per_s": 15.4},
    {
        "peer": "UCRL-VTR (locally private code without privacy), d = 5",
        "S": 8,
        "A": 16,
        "H": 6,
        "episodes_per_s": 19.1,
    },
]


def make(which: str):
    """One of PROBLEMS."""
    import horizonfree as hf

    name, parameters, is_table = PROBLEMS[which]
    problem = hf.make(name, **parameters)
    return problem.as_tabular() if is_table else problem


def measure(name: str, seeds: int, device: str, is_wide: bool, which: str) -> dict:
    """One row."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import horizonfree as hf
    from horizonfree.batch.evaluate import Evaluation
    from horizonfree.batch.job import Job
    from horizonfree.batch.members import build_members
    from horizonfree.batch.simulate import init_many, simulate_many
    from horizonfree.guarantees.e_processes import ladder
    from horizonfree.runs.explore import build_explorer

    clock = time.perf_counter if device == "gpu" else time.process_time
    problem = make(which)
    settings = {"budget": BUDGET, "delta": 0.05, "reward": hf.goal(problem, problem.num_states - 1)}
    explorer = build_explorer(name, problem, {}, settings)
    with jax.enable_x64(True):
        evaluation = Evaluation((), np.zeros((0, *problem.space.sizes)), (np.zeros(0),), 0.05)
        job = Job(
            build_members((problem,), (explorer,), seeds), BUDGET, ladder(), np.zeros(0), evaluation, is_wide
        )
        shared, own_setups = job.setups(range(seeds))
        state = init_many(shared, own_setups, is_wide=is_wide)

        def block(state, count):
            state, records = simulate_many(shared, own_setups, state, jnp.int32(count), SIZE, is_wide=is_wide)
            jax.block_until_ready((state, records))
            return state, records

        start_time = time.perf_counter()
        block(state, 0)
        compilation = time.perf_counter() - start_time
        count, best, done, total = 1, 0.0, 0, 0.0
        while True:
            start_time = clock()
            state, records = block(state, count)
            cpu_seconds = clock() - start_time
            done, total = done + count, total + cpu_seconds
            is_lazy = (
                "oracle_calls" in records
            )  # choices get rarer: only the mean over a whole run says something
            best = seeds * done / total if is_lazy else max(best, seeds * count / cpu_seconds)
            if is_lazy and (done == BUDGET or total > LONGEST):
                break
            if not is_lazy and (done > SIZE or cpu_seconds > SECONDS / 2):
                break
            count = int(np.clip(SECONDS / max(cpu_seconds / count, 1e-6), 1, min(SIZE, BUDGET - done)))
        calls = (
            float(np.asarray(records["oracle_calls"])[:, count - 1].mean()) / done
            if "oracle_calls" in records
            else None
        )
        nbytes = sum(x.nbytes for x in jax.tree.leaves(state)) / seeds
    floor = None
    if hasattr(problem.model, "valid"):
        floor = floor_seconds(problem, explorer, name, calls, nbytes, PEAK[device])
    return {
        "device": jax.devices()[0].device_kind if device == "gpu" else "one CPU core",
        "arrangement": "wide" if is_wide else "narrow",
        "problem": which,
        "explorer": name,
        "seeds": seeds,
        "episodes_per_s": float(f"{best:.4g}"),
        "us_per_episode": float(f"{1e6 / best:.4g}"),
        "floor_us": None if floor is None else float(f"{1e6 * floor:.3g}"),
        "share": None if floor is None else float(f"{floor * best:.2g}"),
        "state_kB": round(nbytes / 1e3, 1),
        "choices_per_episode": None if calls is None else round(calls, 3),
        "compile_s": round(compilation, 1),
        "episodes": done,
    }


def floor_seconds(problem, explorer, name: str, calls: float | None, nbytes: float, peak: tuple) -> float:
    """The floor that the module's docstring describes."""
    S, A, n, d = problem.model.phi.shape
    passes, is_through_features = PASSES.get(name, (1, True))
    if calls is not None:  # each sweep of each chain goes back and forth
        passes = calls * 2 * explorer.chains * explorer.sweeps
    flops = passes * 2 * n * problem.horizon * S * A * (d if is_through_features else 1)
    memory = 2 * nbytes + passes * 8 * S * A * n
    return max(flops / peak[0], memory / peak[1])


def worker(
    device: str, rows: list[tuple[str, int]], deadline: float, is_wide: bool, which: str, as_json: bool
) -> None:
    """Measure and print row after row."""
    import jax

    if device == "gpu" and jax.default_backend() != "gpu":
        print(f"no GPU for JAX: its backend is {jax.default_backend()}", file=sys.stderr)
        return
    cost: dict[str, float] = {}  # the longest that a row of an explorer has taken, compilation included
    for name, seeds in rows:
        if time.time() + cost.get(name, 20.0) > deadline:
            print_row({"device": device, "explorer": name, "seeds": seeds, "left_out": "no time"}, as_json)
            continue
        start_time = time.time()
        try:
            row = measure(name, seeds, device, is_wide, which)
        except Exception as error:  # one row that fails, for want of memory say, must not cost the others
            row = {"device": device, "explorer": name, "seeds": seeds, "left_out": repr(error)[:300]}
        cost[name] = max(cost.get(name, 0.0), time.time() - start_time)
        print_row(row, as_json)


def print_row(row: dict, as_json: bool) -> None:
    print(json.dumps(row) if as_json else "  ".join(f"{key} {x}" for key, x in row.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--explorers", help="names, with commas; all by default")
    parser.add_argument("--seeds", help="numbers, with commas")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--wide", action="store_true", help="side by side on a CPU too")
    parser.add_argument("--problem", choices=PROBLEMS, default="8x8")
    parser.add_argument("--worker", choices=["cpu", "gpu"], help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker is None:
        devices = ["cpu"] + (["gpu"] if shutil.which("nvidia-smi") else [])
        deadline = time.time() + 60 * args.minutes - 15
        children = []
        for device in devices:  # at the same time: one needs a core, the other a GPU
            env = os.environ | ({"JAX_PLATFORMS": "cpu"} if device == "cpu" else {})
            if device == "cpu":
                threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
                env |= dict.fromkeys(threads, "1")
            command = [sys.executable, *sys.argv, "--worker", device, "--until", str(deadline)]
            children.append(subprocess.Popen(command, env=env))
        exit_codes = [child.wait() for child in children]
        for peer in PEERS:
            print_row(peer, args.json)
        sys.exit(max(exit_codes))
    if args.worker == "cpu" and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    from horizonfree.explorers.registry import EXPLORERS

    if args.explorers or args.seeds:
        seeds = [int(n) for n in args.seeds.split(",")] if args.seeds else SEEDS
        names = args.explorers.split(",") if args.explorers else EXPLORERS
        rows = [(name, n) for name in names for n in seeds]
    else:
        rows = FIRST[args.worker]
        rows = rows + [(x, OTHERS[args.worker]) for x in EXPLORERS if x not in {name for name, _ in rows}]
    model = make(args.problem).model
    rows = [(name, n) for name, n in rows if isinstance(model, EXPLORERS[name].explorer_type.learns)]
    worker(args.worker, rows, args.until, args.worker == "gpu" or args.wide, args.problem, args.json)


if __name__ == "__main__":
    main()
