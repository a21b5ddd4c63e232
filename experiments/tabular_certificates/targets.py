"""Certificates of a few tabular MDPs after a few numbers of episodes: what a change of the bounds is measured with.

python experiments/tabular_certificates/targets.py [--only cliff inventory lake taxi] [--runs FOLDER] [--out FILE]

Runs are stored in FOLDER and loaded from there the next time: the same data, certified again.
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np
from scipy.stats import norm

import horizonfree as hf

DELTA = 0.05


def cliff():
    """Deterministic: every state may follow, as far as the certificate knows."""
    return hf.from_gymnasium("CliffWalking-v1", horizon=30, is_slippery=False).as_tabular()


def taxi():
    """Deterministic, with 300 starts."""
    return hf.from_gymnasium("Taxi-v4", horizon=200).as_tabular()


def lake():
    """Slippery, with its support given."""
    problem = hf.from_gymnasium("FrozenLake-v1", map_name="8x8", horizon=60)
    return problem.as_tabular(support="given")


def inventory(support: str):
    """100 levels of stock, orders of 0 to 40, a demand of mean 20 and deviation 15 that may be negative."""
    S, A = 100, 5
    s, a, t = np.indices((S, A, S))
    demand = s + 10 * a - t  # the demand that leads to t
    edge = np.where(t == 0, np.inf, demand + 0.5), np.where(t == S - 1, -np.inf, demand - 0.5)
    P = norm.cdf(edge[0], 20, 15) - norm.cdf(edge[1], 20, 15)
    P = np.maximum(P, 1e-12)
    return hf.Tabular.from_table(P / P.sum(-1, keepdims=True), horizon=20, support=support)


def costs(problem):
    """Holding, ordering, an empty shelf; totals in [0, 1]."""
    s, a = np.indices((problem.num_states, problem.num_actions))
    return (1 - 0.4 * s / 99 - 0.2 * a / 4 - 0.4 * (s == 0)) / problem.horizon


# name: problem, numbers of episodes, rewards by name
TARGETS = {
    "cliff": (cliff, (300, 3_000, 30_000), {"goal 47": lambda problem: hf.goal(problem, 47)}),
    "inventory, any support": (lambda: inventory("any"), (10_000,), {"costs": costs}),
    "inventory, support given": (lambda: inventory("given"), (10_000,), {"costs": costs}),
    "lake": (
        lake,
        (3_000, 30_000),
        {f"goal {s}": lambda problem, s=s: hf.goal(problem, s) for s in (7, 63)},
    ),
    "taxi": (
        taxi,
        (100_000, 1_000_000),
        {"upper left": lambda problem: hf.goal(problem, list(range(20)))},
    ),
}


def explore(name: str, problem, episodes: int, previous_run, folder: Path | None):
    """The run with this number of episodes: stored, or continued from the previous one."""
    path = folder and folder / f"{name} {episodes}"
    if path and path.exists():
        return hf.load(path)
    if previous_run is None:
        run = hf.explore(problem, episodes=episodes, seed=0, delta=DELTA, progress=False)
    else:
        run = previous_run.resume(episodes=episodes - previous_run.episodes, progress=False)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        run.save(path)
    return run


def rows(name: str, folder: Path | None):
    """The certificate for every reward and those of single rewards, with their true suboptimality."""
    make, checkpoints, rewards = TARGETS[name]
    problem, run = make(), None
    for episodes in checkpoints:
        run = explore(name, problem, episodes, run, folder)
        start = time.process_time()
        certificate = run.certificate(DELTA)
        row = {"problem": name, "episodes": episodes, "every reward": certificate.eps}
        row["cpu_s"] = round(time.process_time() - start, 2)
        for label, make_reward in rewards.items():
            reward = make_reward(problem)
            plan = run.plan(reward, delta=DELTA)
            true = hf.true_gap(problem, reward, plan.policy)
            if true > min(plan.gap, certificate.eps) + 1e-9:
                raise AssertionError(f"{name}, {label}: true suboptimality {true} exceeds its bound")
            row |= {
                label: plan.gap,
                f"{label}, method": plan.certificate.method,
                f"{label}, true": float(true),
            }
        yield row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    for name in TARGETS:
        if args.only and name.split(",")[0] not in args.only:
            continue
        for row in rows(name, args.runs):
            print(json.dumps(row), flush=True)
            if args.out:
                with args.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
