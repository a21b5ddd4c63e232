"""Rows on linear MDPs: true gaps of plans for every explorer, and certificates against episodes.

python experiments/linear_mdp/run.py [--workers 1] [--only gaps certificates] [--seeds N] [--out FILE]
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
KINDS = ("goals", "sets", "dense", "linear")


def sample_rewards(problem, number: int) -> dict:
    """Every goal, and random rewards of three kinds: half of the states at the end, dense, linear in the features."""
    import numpy as np

    import horizonfree as hf

    rng = np.random.default_rng(1)
    H, S, A = problem.space.sizes
    phi = np.asarray(problem.model.phi) * problem.model.unit  # as given: they sum to one
    theta = rng.random((number, H, phi.shape[-1]))
    return {
        "goals": [hf.goal(problem, s) for s in range(S)],
        "sets": [hf.goal(problem, np.flatnonzero(rng.random(S) < 0.5)) for _ in range(number)],
        "dense": list(rng.random((number, H, S, A)) / H),
        "linear": list(np.einsum("khd,sad->khsa", theta, phi) / H),
    }


def make(sweep: dict, label: str):
    import horizonfree as hf

    options = dict(sweep["problems"][label])
    return hf.make(options.pop("name"), **options)


def gap_rows(task: dict) -> list[dict]:
    """One run, looked at after each checkpoint: the worst true gap of each kind of reward, and K T / d."""
    import numpy as np

    import horizonfree as hf

    sweep, problem = task["sweep"], make(task["sweep"], task["problem"])
    options = dict(task["explorer"])
    label, name = options.pop("label"), options.pop("name")
    if name != "uniform" and options.get("constants") != "paper":  # literal constants settle the steps
        options["steps"] = task["steps"]
    model = "likelihood" if task["steps"] == "pooled" or name == "uniform" else "explorer"
    rewards, last = sample_rewards(problem, sweep["random_rewards"]), sweep["gaps"]["checkpoints"][-1]
    run, out, cpu_start = None, [], time.process_time()
    for k in sweep["gaps"]["checkpoints"]:
        if run is None:
            run = hf.explore(
                problem, name, episodes=k, seed=task["seed"], budget=last, progress=False, **options
            )
        else:
            run = run.resume(episodes=k - run.episodes, progress=False)
        row = {key: task[key] for key in ("part", "problem", "steps", "seed")}
        row |= {"explorer": label, "episodes": k, "plans": model}
        for kind, all_of_it in rewards.items():
            plans = [run.plan(reward, model=model).policy for reward in all_of_it]
            row[kind] = max(hf.true_gap(problem, *pair) for pair in zip(all_of_it, plans))
        row["visited_pairs"] = int((np.asarray(run.evidence.visits) > 0).sum())
        if name == "linear-design" and task["steps"] == "pooled":
            row["KT/d"] = float(k * run.records["information"][-1] / problem.model.dim)
        out.append(row | {"cpu_s": round(time.process_time() - cpu_start, 1)})
    return out


def certificate_rows(task: dict) -> list[dict]:
    """One run: what is certified for every reward, for declared ones, and for the same as if chosen afterwards."""
    import numpy as np

    import horizonfree as hf

    sweep, problem, K = task["sweep"], make(task["sweep"], task["problem"]), task["budget"]
    settings, delta = sweep["certificates"], sweep["delta"]
    suite = sample_rewards(problem, sweep["random_rewards"])
    step = {kind: max(1, len(x) // settings["per_kind"]) for kind, x in suite.items()}
    selected = {kind: x[:: step[kind]][: settings["per_kind"]] for kind, x in suite.items()}
    declared_rewards = [reward for kind in KINDS for reward in selected[kind]]
    size = settings["family"] * problem.num_states
    remaining = (
        sample_rewards(problem, size - len(declared_rewards))["dense"] if size > len(declared_rewards) else []
    )
    run = hf.explore(
        problem,
        task["explorer"],
        episodes=K,
        budget=K,
        seed=task["seed"],
        rewards=declared_rewards + remaining,
        delta=delta,
        progress=False,
    )
    row = {key: task[key] for key in ("part", "problem", "explorer", "seed")}
    row |= {
        "episodes": K,
        "family": len(declared_rewards) + len(remaining),
        "eps": run.certificate(delta).eps,
    }
    for kind, rewards in selected.items():
        plans = [run.plan(reward, delta=delta) for reward in rewards]
        gaps = np.array([plan.gap for plan in plans])
        true = np.array([hf.true_gap(problem, r, plan.policy) for r, plan in zip(rewards, plans)])
        if (true > np.minimum(gaps, row["eps"]) + ROUNDING).any():
            raise AssertionError(f"a certificate was exceeded: true {true}, certified {gaps}, {row['eps']}")
        row |= {f"{kind}_median": float(np.median(gaps)), f"{kind}_max": float(gaps.max())}
        row[f"{kind}_true"] = float(true.max())
        # the same reward a little smaller was not declared
        scaled_gaps = [run.plan(reward * (1 - 1e-9), delta=delta).gap for reward in rewards]
        row[f"{kind}_later"] = float(np.median(scaled_gaps))
    return [row]


def rows(task: dict) -> list[dict]:
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    return gap_rows(task) if task["part"] == "gaps" else certificate_rows(task)


def tasks(sweep: dict, seeds: int) -> list[dict]:
    """Every run, short ones first."""
    gaps, certificates, out = sweep["gaps"], sweep["certificates"], []
    for problem in gaps["problems"]:
        for steps in gaps["steps"]:
            for explorer in gaps["explorers"]:
                common = {"part": "gaps", "problem": problem, "steps": steps, "explorer": explorer}
                out += [common | {"seed": seed} for seed in range(seeds)]
    for explorer, problems in certificates["budgets"].items():
        for problem, budgets in problems.items():
            for budget in budgets:
                common = {"part": "certificates", "problem": problem, "explorer": explorer, "budget": budget}
                out += [common | {"seed": seed} for seed in range(seeds)]
    return [task | {"sweep": sweep} for task in out]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=["gaps", "certificates"])
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "rows.jsonl")
    args = parser.parse_args()
    sweep = tomllib.loads((HERE / "sweep.toml").read_text())
    todo = [task for task in tasks(sweep, args.seeds or sweep["seeds"]) if task["part"] in args.only]
    with multiprocessing.get_context("spawn").Pool(args.workers) as pool, args.out.open("w") as file:
        for done in pool.imap(rows, todo):
            for row in done:
                file.write(json.dumps(row) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
