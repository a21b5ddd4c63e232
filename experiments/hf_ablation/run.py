"""Rows of the ablation: one line per setting, seed and checkpoint."""

import argparse
import json
import multiprocessing
import os
import tomllib
from pathlib import Path

HERE = Path(__file__).parent


def rows(task: tuple[str, dict, int]) -> list[dict]:
    """All checkpoints of one run."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    import jax

    import horizonfree as hf
    from horizonfree.explorers.registry import make_explorer
    from horizonfree.mdp.rewards import suite
    from horizonfree.planning.backward import evaluate_jax, optimal_jax

    name, sweep, seed = task
    setting, made = sweep["settings"][name], dict(sweep["problem"])
    problem = hf.make(made.pop("name"), **made)
    table, truth, at_start = suite(problem), problem.kernel(), problem.space.at_start

    @jax.jit
    def worst(truth, kernel):
        policy, _ = jax.vmap(lambda r: optimal_jax(kernel, r))(table)
        value = jax.vmap(lambda r, pi: at_start(evaluate_jax(truth, r, pi)[0]))(table, policy)
        best = jax.vmap(lambda r: at_start(optimal_jax(truth, r)[1][0]))(table)
        return (best - value).max()

    run, out = None, []
    for k in sweep["checkpoints"]:
        if run is None:
            options = dict(setting.get("options", {}))
            if setting["explorer"] == "hf-ucrl-rfe++":
                options["budget"] = sweep["checkpoints"][-1]
            kind = make_explorer(setting["explorer"], **options)
            run = hf.explore(problem, kind, episodes=k, seed=seed, progress=False)
        else:
            run = run.resume(episodes=k - run.episodes, progress=False)
        with jax.enable_x64(True):
            gap_own = float(worst(truth, problem.model.kernel(run.theta_hat)))
            gap_likelihood = float(worst(truth, run.confidence().kernel))
        last = {key: float(x[-1]) for key, x in run.records.items()}
        out.append(
            {
                "setting": name,
                "seed": seed,
                "episodes": k,
                "worst_gap": gap_own,
                "worst_gap_likelihood": gap_likelihood,
                "certificate": run.certificate().eps,
                "oracle_calls": last.get("oracle_calls", 0.0),
                "V_hat": last.get("V_hat"),
                "balls_violated": last.get("balls_violated"),
            }
        )
    return out


def main() -> None:
    """Run all tasks and write them in order."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "rows.jsonl")
    args = parser.parse_args()
    sweep = tomllib.loads((HERE / "sweep.toml").read_text())
    tasks = [
        (name, sweep, seed) for name in sweep["settings"] for seed in range(args.seeds or sweep["seeds"])
    ]
    with multiprocessing.get_context("spawn").Pool(args.workers) as pool, args.out.open("w") as file:
        for done in pool.imap(rows, tasks, chunksize=5):
            for row in done:
                file.write(json.dumps(row) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
