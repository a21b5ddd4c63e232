"""Rows on the size of certificates of unknown tables: certified and true gaps against episodes.

python experiments/tabular_certificates/run.py [--workers 1] [--only design papers] [--out FILE]
"""

import argparse
import json
import multiprocessing
import os
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROUNDING = 1e-9


def make(task: dict):
    import horizonfree as hf

    options = dict(task["make"])
    return hf.make(options.pop("name"), **options).as_tabular(support=task["support"])


def sample_rewards(task: dict, problem) -> list:
    """ "be there at the end" and "stay there" of every n-th state, or the goals that are named."""
    import horizonfree as hf

    if "goals" in task:
        return [hf.goal(problem, states) for states in task["goals"]]
    states = range(0, problem.num_states, task["every"])
    return [hf.goal(problem, s) for s in states] + [hf.occupancy(problem, s) for s in states]


def compare(problem, rewards: list, plans: list, bound: float) -> dict:
    """Gaps, certified and true; no plan may lose more than its certificate or the one for every reward."""
    import numpy as np

    import horizonfree as hf

    true = np.array([hf.true_gap(problem, reward, plan.policy) for reward, plan in zip(rewards, plans)])
    gaps = np.array([plan.gap for plan in plans])
    if (true > np.minimum(gaps, bound) + ROUNDING).any():
        raise AssertionError(f"a certificate was exceeded: true {true}, certified {gaps}, {bound}")
    row = {"goal_median": np.median(gaps), "goal_max": gaps.max(), "true_max": true.max()}
    return {"rewards": len(rewards)} | {key: float(value) for key, value in row.items()}


def rows(task: dict) -> list[dict]:
    """One run, looked at after each checkpoint."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    import horizonfree as hf

    problem, delta = make(task), task["delta"]
    options = dict(task["explorer"])
    label, name = options.pop("label"), options.pop("name")
    rewards, run, out, start_time = sample_rewards(task, problem), None, [], time.process_time()
    for k in task["checkpoints"]:
        if run is None:
            run = hf.explore(
                problem, name, episodes=k, seed=task["seed"], delta=delta, progress=False, **options
            )
        else:
            run = run.resume(episodes=k - run.episodes, progress=False)
        eps = run.certificate(delta).eps
        row = {key: task[key] for key in ("kind", "label", "support", "seed")}
        row |= {"explorer": label, "episodes": k, "eps": eps}
        bound, model = eps, "likelihood"
        if task["kind"] == "papers":
            claim = run.certificate(delta, method="paper")
            row |= {"claim": claim.eps, "parts": claim.parts}
            bound, model = claim.eps, "explorer"  # `eps` is for plans in the likelihood model
        plans = [run.plan(reward, delta=delta, model=model) for reward in rewards]
        row |= compare(problem, rewards, plans, bound)
        out.append(row | {"cpu_s": round(time.process_time() - start_time, 1)})
    return out


def tasks(sweep: dict) -> list[dict]:
    """Every run, small problems first."""
    design, papers = sweep["design"], sweep["papers"]
    design_entry = {"label": design["explorer"], "name": design["explorer"]}
    out = []
    for problem in design["problems"]:
        for support in design["supports"]:
            common = problem | {"support": support, "delta": sweep["delta"]}
            for seed in range(problem["seeds"]):
                out.append(common | {"kind": "design", "explorer": design_entry, "seed": seed})
    for problem in design["problems"]:
        if problem["label"] not in papers["problems"]:
            continue
        common = problem | {"support": "any", "delta": sweep["delta"]}
        for explorer in papers["explorers"]:
            for seed in range(papers["seeds"]):
                out.append(common | {"kind": "papers", "explorer": explorer, "seed": seed})
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=["design", "papers"])
    parser.add_argument("--out", type=Path, default=HERE / "results" / "rows.jsonl")
    args = parser.parse_args()
    sweep = tomllib.loads((HERE / "sweep.toml").read_text())
    todo = [task for task in tasks(sweep) if task["kind"] in args.only]
    with multiprocessing.get_context("spawn").Pool(args.workers) as pool, args.out.open("w") as file:
        for done in pool.imap(rows, todo):
            for row in done:
                file.write(json.dumps(row) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
