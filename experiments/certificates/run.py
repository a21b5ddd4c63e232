"""Rows on the size of certificates: against episodes, against the horizon, and the efficiency of designs.

python experiments/certificates/run.py [--workers 2] [--only gap horizon design]
"""

import argparse
import importlib.util
import json
import multiprocessing
import os
import tomllib
from pathlib import Path

HERE = Path(__file__).parent


def make(spec: dict):
    import horizonfree as hf

    return hf.make(spec["name"], **{key: value for key, value in spec.items() if key != "name"})


def gap_rows(task: dict) -> list[dict]:
    """One run: the uniform certificate and the gaps of all goal rewards at each checkpoint."""
    import numpy as np

    import horizonfree as hf

    problem = make(task["problem"])
    budget = task["checkpoint"] if task["bets"] == "declared" else None
    checkpoints = [task["checkpoint"]] if budget else task["checkpoints"]
    run, out = None, []
    for k in checkpoints:
        if run is None:
            run = hf.explore(
                problem, task["explorer"], episodes=k, seed=task["seed"], budget=budget, progress=False
            )
        else:
            run = run.resume(episodes=k - run.episodes, progress=False)
        certificate = run.certificate(task["delta"])
        row = {key: task[key] for key in ("kind", "explorer", "bets", "seed")} | {
            "horizon": problem.horizon,
            "episodes": k,
            "eps": certificate.eps,
            "slack": certificate.parts["slack"],
            "start": certificate.parts["start"],
        }
        if task["goals"]:
            rewards = [hf.goal(problem, s) for s in range(problem.num_states)]
            plans = [run.plan(reward, delta=task["delta"]) for reward in rewards]
            true = [hf.true_gap(problem, reward, plan.policy) for reward, plan in zip(rewards, plans)]
            gaps = np.array([plan.gap for plan in plans])
            row |= {
                "goal_median": float(np.median(gaps)),
                "goal_max": float(gaps.max()),
                "true_max": max(true),
            }
            assert all(t <= plan.gap + 1e-9 for t, plan in zip(true, plans)), "a certificate was exceeded"
        out.append(row)
    return out


def design_rows(task: dict) -> list[dict]:
    """K T / q of one run."""
    import horizonfree as hf
    from horizonfree.report.history import inefficiency

    problem = make(task["problem"])
    run = hf.explore(problem, task["explorer"], episodes=task["episodes"], seed=task["seed"], progress=False)
    return [
        {
            "kind": "design",
            "problem": task["problem"]["name"],
            "explorer": task["explorer"],
            "seed": task["seed"],
            "episodes": task["episodes"],
            "efficiency": inefficiency(problem.model, run.evidence),
        }
    ]


def rows(task: dict) -> list[dict]:
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    return design_rows(task) if task["kind"] == "design" else gap_rows(task)


def tasks(sweep: dict, seeds: int) -> list[dict]:
    """Every run, longest first."""
    from horizonfree.explorers.registry import EXPLORERS

    out = []
    for seed in range(seeds):
        common = {"seed": seed, "delta": sweep["delta"]}
        gap = common | {"kind": "gap", "goals": True, **sweep["gap"]}
        for explorer in sweep["gap"]["explorers"]:
            out.append(gap | {"explorer": explorer, "bets": "anytime"})
        for k in sweep["gap"]["checkpoints"]:
            out.append(gap | {"explorer": "information", "bets": "declared", "checkpoint": k})
        for H in sweep["horizon"]["horizons"]:
            problem = sweep["horizon"]["problem"] | {"horizon": H}
            horizon = common | {"kind": "horizon", "goals": False, "problem": problem, "bets": "anytime"}
            out.append(horizon | {"explorer": "information", "checkpoints": sweep["horizon"]["checkpoints"]})
        for problem in sweep["design"]["problems"]:
            if problem["name"].startswith("gymnasium:") and not importlib.util.find_spec("gymnasium"):
                print(f"left out: {problem['name']} (gymnasium is not installed)")
                continue
            for explorer in sweep["design"]["explorers"]:
                if explorer in EXPLORERS:
                    design = {
                        "problem": problem,
                        "explorer": explorer,
                        "episodes": sweep["design"]["episodes"],
                    }
                    out.append(common | {"kind": "design"} | design)
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--only", nargs="*", default=["gap", "horizon", "design"])
    parser.add_argument("--out", type=Path, default=HERE / "results" / "rows.jsonl")
    args = parser.parse_args()
    sweep = tomllib.loads((HERE / "sweep.toml").read_text())
    todo = [task for task in tasks(sweep, args.seeds or sweep["seeds"]) if task["kind"] in args.only]
    with multiprocessing.get_context("spawn").Pool(args.workers) as pool, args.out.open("w") as file:
        for done in pool.imap(rows, todo):
            for row in done:
                file.write(json.dumps(row) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
