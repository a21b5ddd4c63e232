"""Certificates for mixtures of dense kernels: thousands of distinct rows, few unknowns.

python experiments/certificates/dense.py [--episodes 10000]      # -> results/dense.jsonl, and the table of the README

Kernels are drawn from Dirichlet(concentration) row by row; A = 2, H = 10, uniformly random exploration, budget
declared, delta = 0.05. The truth is inside the simplex, or on its boundary: (0.9, 0.1, 0, ...).
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

import horizonfree as hf

HERE = Path(__file__).parent
CASES = [
    (20, 4, 0.1, "boundary"),
    (20, 12, 0.1, "boundary"),
    (20, 12, 1.0, "inside"),
    (60, 4, 0.1, "boundary"),
    (60, 8, 0.1, "inside"),
    (60, 12, 0.1, "boundary"),
    (60, 12, 1.0, "inside"),
    (200, 4, 0.1, "boundary"),
    (200, 12, 1.0, "inside"),
]
GOALS = 20  # states whose goals are planned for


def make_problem(S: int, d: int, concentration: float, truth: str) -> hf.Problem:
    """A mixture of d dense kernels."""
    rng = np.random.default_rng(0)
    kernels = rng.dirichlet(np.full(S, concentration), size=(d, S, 2))
    weights = np.r_[0.9, 0.1, np.zeros(d - 2)] if truth == "boundary" else rng.dirichlet(np.full(d, 3.0))
    return hf.Mixture.from_kernels(kernels, horizon=10, weights=weights)


def compute_row(case: tuple[int, int, float, str], episodes: int) -> dict:
    """One run: what is certified, and what is true."""
    problem = make_problem(*case)
    start_time = time.process_time()
    run = hf.explore(problem, "uniform", episodes=episodes, budget=episodes, seed=0, progress=False)
    explore_end = time.process_time()
    certificate = run.certificate()
    certified = time.process_time()
    rewards = [hf.goal(problem, s) for s in range(GOALS)]
    plans = [run.plan(reward) for reward in rewards]
    true = [hf.true_gap(problem, reward, plan.policy) for reward, plan in zip(rewards, plans)]
    assert all(t <= plan.gap + 1e-9 for t, plan in zip(true, plans)), "a certificate was exceeded"
    S, d, concentration, truth = case
    return {
        "S": S,
        "d": d,
        "concentration": concentration,
        "truth": truth,
        "episodes": episodes,
        "rows": int(np.asarray(problem.model.valid.free).sum()),
        "slack": certificate.parts["slack"],
        "eps": certificate.eps,
        "goal_max": max(plan.gap for plan in plans),
        "true_max": max(true),
        "explore_cpu_s": explore_end - start_time,
        "certify_cpu_s": certified - explore_end,
    }


def main() -> None:
    """All cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=10_000)
    episodes = parser.parse_args().episodes
    out = HERE / "results" / "dense.jsonl"
    rows = []
    for case in CASES:
        rows.append(compute_row(case, episodes))
        print(json.dumps(rows[-1]), flush=True)
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print("| S | d | concentration, truth | rows | slack W | every reward | goals, largest | true, largest |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['S']} | {row['d']} | {row['concentration']:g}, {row['truth']} | {row['rows']:,} "
            f"| {row['slack']:.1f} | {row['eps']:.3f} | {row['goal_max']:.4f} | {row['true_max']:.4f} |"
        )


if __name__ == "__main__":
    main()
