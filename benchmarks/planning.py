"""Backward induction side by side with quantecon, pymdptoolbox and stormpy.

Ours is the public `planning.optimal` with a reward that is written out for every step; the peers take one reward for
all steps. Rows of a dense kernel are Dirichlet(1); a sparse kernel has ten distinct random successors. Every solver
must agree on V_1 to 1e-9. `roofline` is the share of what one core can do, measured in the same run: reading the
kernel once per step (dense), one indexed load per transition (sparse), dgemm (batch, dense), reading the values of
the successors (batch, sparse). It may exceed 100 % where rows of a dense kernel are left out. How many can be depends
on the reward: `varied` is drawn anew for every step, and with `tied`, which is the same everywhere, none can.
"""

import argparse
import contextlib
import statistics
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from _timing import interleave, one_core, ratio, report, seconds
from horizonfree.mdp.space import Kernel
from horizonfree.planning import optimal

Solver = tuple[Callable[[], Any], Callable[[Any], np.ndarray]]  # what is timed, and V_1 of what it returns

BATCH = 32
SUCCESSORS = 10
DENSE = [(100, 4, 50), (500, 8, 100)]
OURS = ["same", "varied", "tied"]  # rewards of ours on a dense kernel; to the peers none makes a difference
SPARSE = [(100, 4, 50), (500, 8, 100), (2000, 8, 100), (20000, 4, 100)]
BATCHED = [
    ("dense", 100, 4, 50, "varied"),
    ("dense", 500, 8, 100, "varied"),
    ("sparse", 500, 8, 100, "varied"),
    ("sparse", 2000, 8, 100, "varied"),
    ("sparse", 20000, 4, 100, "same"),  # varied ones would fill 2 GB
]


class Unusable(Exception):
    """A peer cannot take this instance in reasonable time."""


def make(kind: str, S: int, A: int) -> tuple[Kernel, np.ndarray]:
    """A kernel and a reward [S, A]."""
    rng = np.random.default_rng(0)
    if kind == "dense":
        succ = np.broadcast_to(np.arange(S, dtype=np.int32), (S, A, S))
    else:
        rows = np.sort(rng.integers(S, size=(S * A, SUCCESSORS)), axis=1)
        while (bad := (np.diff(rows, axis=1) == 0).any(axis=1)).any():
            rows[bad] = np.sort(rng.integers(S, size=(bad.sum(), SUCCESSORS)), axis=1)
        succ = rows.reshape(S, A, SUCCESSORS).astype(np.int32)
    prob = rng.exponential(size=succ.shape)
    prob /= prob.sum(axis=-1, keepdims=True)
    return Kernel(succ, prob, kind == "dense"), rng.random((S, A))


def matrix(kernel: Kernel) -> sp.csr_matrix:
    """The kernel as a sparse matrix [S*A, S]."""
    S, A, n = kernel.succ.shape
    first = np.arange(0, S * A * n + 1, n)
    return sp.csr_matrix((kernel.prob.ravel(), kernel.succ.ravel(), first), shape=(S * A, S))


def quantecon(kernel: Kernel, r: np.ndarray, H: int) -> Solver:
    from quantecon.markov import DiscreteDP, backward_induction

    S, A = r.shape
    if kernel.is_dense:
        problem = DiscreteDP(r, kernel.prob, 1.0)
    else:
        s, a = np.repeat(np.arange(S), A), np.tile(np.arange(A), S)
        problem = DiscreteDP(r.ravel(), matrix(kernel), 1.0, s, a)
    return lambda: backward_induction(problem, H), lambda result: result[0][0]


def pymdptoolbox(kernel: Kernel, r: np.ndarray, H: int) -> Solver:
    from mdptoolbox.mdp import FiniteHorizon

    S, A = r.shape
    if kernel.is_dense:
        P = np.ascontiguousarray(kernel.prob.transpose(1, 0, 2))
    else:
        if S > 2000:
            raise Unusable("its constructor takes minutes at this size")
        rows = matrix(kernel)
        P = [rows[a::A] for a in range(A)]
    problem = FiniteHorizon(P, r, 1.0, H)
    return problem.run, lambda _: problem.V[:, 0]


def stormpy(kernel: Kernel, r: np.ndarray, H: int) -> Solver:
    import stormpy as sm
    from stormpy.datastructures import SparseMatrixBuilder
    from stormpy.models import SparseMdp, SparseModelComponents, SparseRewardModel, StateLabeling

    S, A, n = kernel.succ.shape
    builder = SparseMatrixBuilder(has_custom_row_grouping=True)
    for s in range(S):
        builder.new_row_group(s * A)
        for a in range(A):
            for j in range(n):
                builder.add_next_value(s * A + a, int(kernel.succ[s, a, j]), float(kernel.prob[s, a, j]))
    labels = StateLabeling(S)
    labels.add_label("init")
    labels.add_label_to_state("init", 0)
    rewards = SparseRewardModel(optional_state_action_reward_vector=r.ravel().tolist())
    model = SparseMdp(
        SparseModelComponents(
            transition_matrix=builder.build(), state_labeling=labels, reward_models={"r": rewards}
        )
    )
    question = sm.parse_properties(f'R{{"r"}}max=? [C<={H}]')[0]
    return (
        lambda: sm.model_checking(model, question, only_initial_states=False),
        lambda result: np.array(result.get_value_vector()),
    )


PEERS = {"quantecon": quantecon, "pymdptoolbox": pymdptoolbox, "stormpy": stormpy}


def limits() -> tuple[Callable[[int], float], Callable[[int], float], Callable[[], float]]:
    """Seconds per byte read from an array of some size, per indexed load from S values, per dgemm flop."""
    from numba import njit

    @njit(fastmath=True)
    def read(x):
        total = 0.0
        for i in range(x.size):
            total += x[i]
        return total

    @njit
    def load(V, index):
        q0 = q1 = q2 = q3 = 0.0
        for i in range(0, index.size, 4):
            q0 += V[index[i]]
            q1 += V[index[i + 1]]
            q2 += V[index[i + 2]]
            q3 += V[index[i + 3]]
        return q0 + q1 + q2 + q3

    def per_byte(size: int) -> float:
        x = np.ones(size // 8)
        read(x)
        return seconds(lambda: read(x), 0.3) / size

    def per_load(S: int) -> float:
        V, index = np.ones(S), np.random.default_rng(0).integers(S, size=40_000, dtype=np.uint32)
        load(V, index)
        return seconds(lambda: load(V, index), 0.3) / index.size

    def per_flop() -> float:
        X = np.ones((1200, 1200))
        return seconds(lambda: X @ X, 0.5) / (2 * 1200**3)

    return per_byte, per_load, per_flop


def compare(
    kind: str, S: int, A: int, H: int, ours: str, batch: int, alternations: int, budget: float
) -> list[dict[str, object]]:
    """One row per peer: milliseconds per reward, and how many times faster ours is."""
    kernel, r = make(kind, S, A)
    size, nbytes = kernel.prob.size, kernel.prob.nbytes
    per_byte, per_load, per_flop = limits()
    same = np.broadcast_to(r, (H, S, A))
    if batch == 1:
        tables = {
            "same": same,
            "varied": np.random.default_rng(1).random(same.shape),
            "tied": np.zeros(same.shape),
        }
        reward = tables[ours].copy()
        floor = H * (nbytes * per_byte(nbytes) if kernel.is_dense else size * per_load(S))
    else:
        drawn = np.random.default_rng(1).random((batch, H if ours == "varied" else 1, S, A))
        reward = np.broadcast_to(drawn, (batch, H, S, A))
        floor = H * size * (2 * per_flop() if kernel.is_dense else 8 * per_byte(8 * S * batch))
    calls: dict[str, Callable[[], object]] = {"ours": lambda: optimal(kernel, reward)}
    expected = optimal(kernel, same).V[0]
    for name, build in PEERS.items():
        try:
            with contextlib.redirect_stdout(sys.stderr):
                calls[name], values = build(kernel, r, H)
        except (ImportError, Unusable) as error:
            print(f"{name} is left out of {kind} {S},{A},{H}: {error}", file=sys.stderr)
            continue
        np.testing.assert_allclose(values(calls[name]()), expected, rtol=0, atol=1e-9, err_msg=name)
    times = interleave(calls, alternations, budget)
    mine = [t / batch for t in times.pop("ours")]
    return [
        {
            "instance": f"{kind} {S},{A},{H}"
            + (f" batch {batch}" if batch > 1 else "")
            + (f" {ours}" if ours != "same" else ""),
            "peer": name,
            "peer ms": 1e3 * statistics.median(theirs),
            "ours ms": 1e3 * statistics.median(mine),
            "times faster": ratio(theirs, mine),
            "roofline": f"{100 * floor / min(mine):.0f}%",
        }
        for name, theirs in sorted(times.items(), key=lambda item: statistics.median(item[1]))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small instances, a few seconds")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args()
    one_core()
    warnings.simplefilter("ignore")  # the peers warn that a discount of 1 needs a finite horizon
    jobs = [("dense", *size, ours, 1) for ours in OURS for size in DENSE]
    jobs += [("sparse", *size, "same", 1) for size in SPARSE] + [(*job, BATCH) for job in BATCHED]
    if options.quick:
        jobs = [job for job in jobs if job[1] <= 500]
    budget = 0.1 if options.quick else 0.5
    rows = [row for job in jobs for row in compare(*job, alternations=5, budget=budget)]
    report(rows, options.json)


if __name__ == "__main__":
    main()
