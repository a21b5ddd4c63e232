"""How the work grows: S, A, d, H and K one at a time, from S = 400, A = 4, d = 4, H = 50.

    python benchmarks/scale.py [--quick] [--json]

On random sparse mixtures, four successors for each pair, each in a process of its own. CPU seconds, first calls (with
compilation) apart from the steady ones: the problem (`make`), an episode of `optimal-design`, a certificate, a plan
with its gap; and the largest memory that the process ever held. The exponent is that of the steady seconds between the
two largest values of what was varied.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from _timing import one_core, report

BASE = {"S": 400, "A": 4, "d": 4, "H": 50, "K": 200}
VARIED = {
    "S": (400, 2_500, 10_000),
    "A": (2, 4, 16),
    "d": (2, 4, 8, 13),
    "H": (10, 50, 200),
    "K": (200, 2_000, 20_000),
}
QUICK = {"S": (100, 400), "d": (2, 8)}
STEADY = ("an episode", "certificate", "plan with gap")
SUCCESSORS = 4


def kernels(S: int, A: int, d: int) -> list[Any]:
    """d sparse kernels, [S*A, S] each, on the same successors: four for each pair, drawn at random."""
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    column = rng.integers(0, S, (S * A, SUCCESSORS))
    row = np.repeat(np.arange(S * A), SUCCESSORS)
    prob = rng.dirichlet(np.ones(SUCCESSORS), (d, S * A))
    return [sp.csr_array((p.ravel(), (row, column.ravel())), shape=(S * A, S)) for p in prob]


def cpu(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the process, and what came out."""
    start = time.process_time()
    found = call()
    return time.process_time() - start, found


def measure(S: int, A: int, d: int, H: int, K: int) -> dict[str, float]:
    """One setting, in this process."""
    import horizonfree as hf
    from horizonfree.models import certify

    weights = np.random.default_rng(1).dirichlet(np.ones(d))
    made, problem = cpu(lambda: hf.Mixture.from_kernels(kernels(S, A, d), horizon=H, weights=weights))
    begun, run = cpu(lambda: hf.explore(problem, "optimal-design", episodes=K, progress=False))
    explored, run = cpu(lambda: run.resume(episodes=K, progress=False))
    first, _ = cpu(lambda: certify.confidence(problem.model, run.evidence))
    certificate, _ = cpu(lambda: certify.confidence(problem.model, run.evidence))
    goal = hf.goal(problem, S - 1)
    first_plan, _ = cpu(lambda: run.plan(goal))
    plan, _ = cpu(lambda: run.plan(goal))
    return {
        "make": made,
        "first explore": begun - explored,
        "first certificate": first - certificate,
        "first plan": first_plan - plan,
        "an episode": explored / K,
        "certificate": certificate,
        "plan with gap": plan,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def child(setting: dict[str, int]) -> dict[str, float]:
    """The same in a process of its own, so that its memory is its own."""
    words = [f"{name}={value}" for name, value in setting.items()]
    done = subprocess.run(
        [sys.executable, __file__, "--measure", *words], capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few and small settings")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    one_core()
    if asked.measure:
        print(
            json.dumps(measure(**{name: int(x) for name, _, x in (w.partition("=") for w in asked.measure)}))
        )
        return
    rows: list[dict[str, object]] = []
    for name, values in (QUICK if asked.quick else VARIED).items():
        base = BASE if not asked.quick else BASE | {"H": 10, "K": 20}
        found = [child(base | {name: value}) for value in values]
        rows += [{"varied": name, "value": value, **x} for value, x in zip(values, found)]
        step = math.log(values[-1] / values[-2])
        exponents = {x: math.log(found[-1][x] / found[-2][x]) / step for x in STEADY}
        blank = dict.fromkeys(found[0], "")
        rows.append({"varied": name, "value": "exponent", **blank, **exponents})
        if not asked.json:
            print(f"{name}: done", file=sys.stderr, flush=True)
    report(rows, asked.json)


if __name__ == "__main__":
    main()
