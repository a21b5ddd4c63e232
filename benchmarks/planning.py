"""Backward induction side by side with quantecon, pymdptoolbox and Storm, in one process on one core.

Ours is the public `planning.optimal`. Where policies and values of all steps are returned it does what quantecon and
pymdptoolbox do; Storm returns V_1 alone, as `only_first` does (which returns the first actions, too). Rows of a dense
kernel are Dirichlet(1); rows of a sparse one have four random successors. Every solver must agree on V_1 to 1e-9.
Rewards are the same at every step (`same`), drawn anew for every step (`varied`) or zero, so that all actions are tied
(`tied`); to the peers, which take one reward for all steps, none makes a difference.
"""

import argparse
import contextlib
import gc
import statistics
import sys
import warnings
from collections.abc import Callable

import numpy as np

from _peers import PEERS, Unusable
from _timing import interleave, one_core, ratio, report
from horizonfree.mdp.space import Kernel
from horizonfree.planning import optimal

BATCH = 32
A = 4
SUCCESSORS = 4
DENSE = [(S, 50, reward_kind) for S in (100, 500, 1000, 2000) for reward_kind in ("same", "varied", "tied")]
SPARSE = [(S, 100) for S in (100, 1_000, 10_000, 100_000, 1_000_000)]
BATCHED = [
    *[("dense", S, 50, reward_kind) for S in (100, 500) for reward_kind in ("same", "varied")],
    *[("sparse", 1_000, 100, reward_kind) for reward_kind in ("same", "varied")],
    ("sparse", 10_000, 100, "same"),  # the rewards of all steps would fill a gigabyte
]


def make(kind: str, S: int) -> tuple[Kernel, np.ndarray]:
    """A kernel and a reward [S, A]."""
    rng = np.random.default_rng(0)
    if kind == "dense":
        succ = np.broadcast_to(np.arange(S, dtype=np.int32), (S, A, S))
    else:
        succ = np.sort(rng.integers(S, size=(S, A, SUCCESSORS), dtype=np.int32), axis=-1)
    prob = rng.exponential(size=succ.shape)
    prob /= prob.sum(axis=-1, keepdims=True)
    return Kernel(succ, prob, kind == "dense"), rng.random((S, A))


def compare(
    kind: str, S: int, H: int, reward_kind: str, batch: int, alternations: int, budget: float
) -> list[dict[str, object]]:
    """One row per peer: milliseconds per reward, and how many times faster ours is."""
    kernel, r = make(kind, S)
    flat, rng = np.broadcast_to(r, (H, S, A)), np.random.default_rng(1)
    calls: dict[str, Callable[[], object]] = {}
    if batch > 1:
        steps = H if reward_kind == "varied" else 1
        rewards = np.broadcast_to(rng.random((batch, steps, S, A)), (batch, H, S, A))
        calls["ours"] = lambda: optimal(kernel, rewards)
    else:
        reward = {
            "same": lambda: flat,
            "varied": lambda: rng.random((H, S, A)),
            "tied": lambda: 0 * flat,
        }[reward_kind]()
        calls["ours"] = lambda: optimal(kernel, reward)
        calls["ours, first step"] = lambda: optimal(kernel, reward, only_first=True)
    expected = optimal(kernel, flat, only_first=True).V[0]
    for name, load in PEERS.items():
        try:
            with contextlib.redirect_stdout(sys.stderr):
                call, values = load(kernel, r, H)
        except (ImportError, Unusable) as error:
            print(f"{name} is left out of {kind} {S}: {error}", file=sys.stderr)
            continue
        np.testing.assert_allclose(values(call()), expected, rtol=0, atol=1e-9, err_msg=name)
        calls[name] = call
    times = interleave(calls, alternations, budget)
    own_times = [t / batch for t in times.pop("ours")]
    first = times.pop("ours, first step", None)
    title = f"{kind} {S},{A},{H}, {reward_kind}" + (f", {batch} rewards" if batch > 1 else "")
    rows: list[dict[str, object]] = [
        {
            "instance": title,
            "peer": name,
            "peer ms": 1e3 * statistics.median(peer_times),
            "ours ms": 1e3 * statistics.median(own_times),
            "times faster": ratio(peer_times, own_times),
            "first step alone": "" if first is None else ratio(peer_times, first),
        }
        for name, peer_times in sorted(times.items(), key=lambda item: statistics.median(item[1]))
    ]
    for row in rows:
        print(*(f"{x:.3g}" if isinstance(x, float) else x for x in row.values()), file=sys.stderr, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small instances, a few seconds")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--only", choices=["dense", "sparse", "batch"], help="some of the instances")
    options = parser.parse_args()
    one_core()
    warnings.simplefilter("ignore")  # the peers warn that a discount of 1 needs a finite horizon
    jobs = {
        "dense": [("dense", *job, 1) for job in DENSE],
        "sparse": [("sparse", *job, "same", 1) for job in SPARSE],
        "batch": [(*job, BATCH) for job in BATCHED],
    }
    selected = [job for name, group in jobs.items() if options.only in (None, name) for job in group]
    if options.quick:
        selected = [job for job in selected if job[1] <= 500]
    budget = 0.1 if options.quick else 0.5
    rows = []
    for job in selected:
        rows += compare(*job, alternations=3 if job[1] > 100_000 else 5, budget=budget)
        gc.collect()
    report(rows, options.json)


if __name__ == "__main__":
    main()
