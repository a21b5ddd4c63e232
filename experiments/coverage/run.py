"""Rows of the coverage experiment, one line per question, written as soon as a task is done.

    python experiments/coverage/run.py --seeds 10000 --few 400 --workers 16 [--algorithms a,b] [--problems grid]

A task is one algorithm on one problem, with the paper's constants or with scaled ones. With several workers each has a
CPU core; with one, JAX's device does the work. What is explored is the sweep of sweep.toml. README.md says why this is
a script.
"""

import argparse
import datetime
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import beta

import horizonfree as hf
from horizonfree.runs.recipes import versions
from horizonfree.sweeps.spec import Spec, read
from horizonfree.sweeps.tasks import build_problem, build_reward, explorer_options

HERE = Path(__file__).parent
SCALES = (0.003, 10.0)  # between these the smallest scale is searched
VALUES = 6  # scales that are tried at once
ROUNDS = 3  # of the search: to about 4 %


def clopper_pearson(failures: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of a probability: each side is wrong with probability (1 - confidence) / 2 at most."""
    tail = (1 - confidence) / 2
    low = 0.0 if failures == 0 else float(beta.ppf(tail, failures, trials - failures + 1))
    high = 1.0 if failures == trials else float(beta.ppf(1 - tail, failures + 1, trials - failures))
    return low, high


def count_outside(is_outside: np.ndarray) -> dict:
    """How often, of how many, and the exact interval."""
    failures, trials = int(is_outside.sum()), len(is_outside)
    low, high = clopper_pearson(failures, trials)
    return {"violations": failures, "seeds": trials, "rate": failures / trials, "low": low, "high": high}


def needed_scale(x: np.ndarray, delta: float) -> float:
    """The smallest multiple of a radius that would have held the truth in a share 1 - delta of the runs."""
    return float(np.quantile(x, 1 - delta, method="higher"))


class Question:
    """One algorithm on one problem; `options` are those with the paper's constants, where it has any."""

    def __init__(self, problem_settings: dict, explorer_settings: dict, spec: Spec) -> None:
        self.problem, self.spec = build_problem(problem_settings), spec
        self.explorer, self.options = explorer_settings["name"], explorer_options(explorer_settings)
        self.has_radius = "constants" in self.options
        needs_reward = "reward" in hf.explorers(all=True)[self.explorer]["options"]
        self.reward = build_reward(self.problem, problem_settings) if needs_reward else None

    def explore(self, seeds: int, options: dict, **settings):
        return hf.explore_many(
            self.problem,
            self.explorer,
            episodes=self.spec.episodes,
            seeds=seeds,
            delta=self.spec.delta,
            reward=self.reward,
            **options,
            **settings,
        )

    def paper(self, seeds: int, num_rows: int) -> Iterator[dict]:
        """With the paper's constants, where there are any: likelihood set, certificate, radius, and claimed gap."""
        delta, looks = self.spec.delta, self.spec.checkpoints
        constants = {"constants": "paper"} if self.has_radius else {}
        batch = self.explore(num_rows, self.options, checkpoints=looks, curves=["gap", "eps"])
        gap, eps = batch.curves["gap"], batch.curves["eps"]
        medians = {"median_gap": float(np.median(gap[:, -1])), "median_eps": float(np.median(eps[:, -1]))}
        yield {"set": "certificate", **count_outside((gap > eps + 1e-9).any(1)), **medians}
        batch = self.explore(seeds, self.options, checkpoints=looks, curves=["own_gap", "excess"])
        excess = batch.curves["excess"].max(1)
        # theta_star is outside when the evidence against it, excess + log(1/delta), exceeds log(1/delta)
        share = 1 + needed_scale(excess, delta) / float(np.log(1 / delta))
        yield {"set": "likelihood", **count_outside(excess > 0), "needed": share}
        if not self.has_radius:
            return
        ratio = batch.records["truth_ratio"].max(1)
        yield {"set": "radius", **constants, **count_outside(ratio > 1), "needed": needed_scale(ratio, delta)}
        if batch[0].explorer.claim(self.problem.model, batch[0].progress.state) is not None:
            eps = np.array([run.certificate(method="paper").eps for run in batch])
            outside = batch.curves["own_gap"][:, -1] > eps + 1e-9
            yield {"set": "claim", **constants, **count_outside(outside), "median_eps": float(np.median(eps))}

    def scaled(self, seeds: int, few_seeds: int) -> Iterator[dict]:
        """The smallest scale that covers."""
        if self.has_radius:
            yield {"set": "radius", "constants": "scaled", **self.smallest(few_seeds)}

    def smallest(self, seeds: int) -> dict:
        """The smallest scale from which on violations stay below delta, with 97.5 % confidence at each scale."""
        (low, high), best = SCALES, None
        options = self.options | {"constants": "scaled"}
        for _ in range(ROUNDS):
            scales = np.geomspace(low, high, VALUES + 2)[1:-1]
            batch = self.explore(seeds, options, over={"scale": scales})
            outside = (batch.records["truth_ratio"].max(1) > 1).reshape(len(scales), seeds)
            fails = [clopper_pearson(int(x.sum()), seeds)[1] > self.spec.delta for x in outside]
            first = max((i + 1 for i, x in enumerate(fails) if x), default=0)
            if first < len(scales):
                high, best = (
                    float(scales[first]),
                    {"scale": float(scales[first]), **count_outside(outside[first])},
                )
            low = float(scales[first - 1]) if first else low
        return best or {"scale": None, "seeds": seeds}


def answers(task: tuple[str, str, str, Spec, int, int]) -> list[dict]:
    """All rows of a task, with what they were made by."""
    import jax

    name, problem, part, spec, seeds, few_seeds = task
    question_fields = {"problem": problem, "algorithm": spec.explorers[name]["name"]}
    question_fields |= {"episodes": spec.episodes, "delta": spec.delta}
    provenance = {
        "date": datetime.date.today().isoformat(),
        "device": jax.devices()[0].device_kind,
        "versions": versions(),
    }
    rows, clock = [], time.perf_counter()
    question = Question(spec.problems[problem], spec.explorers[name], spec)
    for row in {"paper": question.paper, "scaled": question.scaled}[part](seeds, few_seeds):
        rows.append(question_fields | row | {"seconds": round(time.perf_counter() - clock, 2)} | provenance)
        clock = time.perf_counter()
    return rows


def one_core() -> None:
    """A worker that is started from now on uses one core, and leaves a GPU alone."""
    os.environ |= {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def main() -> None:
    spec = read(HERE / "sweep.toml")
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument(
        "--few", type=int, default=400, help="seeds for certificates, and at each scale tried"
    )
    parser.add_argument("--episodes", type=int, help="instead of those of sweep.toml, for a trial")
    parser.add_argument("--algorithms", default=",".join(spec.explorers))
    parser.add_argument("--problems", default=",".join(spec.problems))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--out", type=Path, default=HERE / "results" / "rows.jsonl", help="rows are put at its end"
    )
    args = parser.parse_args()
    if args.episodes:
        looks = [k for k in spec.checkpoints if k <= args.episodes]
        spec = replace(spec, episodes=args.episodes, checkpoints=looks)
    tasks = [
        (name, problem, part, spec, args.seeds, args.few)
        for name in args.algorithms.split(",")
        for problem in args.problems.split(",")
        for part in ("paper", "scaled")
    ]
    args.out.parent.mkdir(exist_ok=True)
    with args.out.open("a") as file:

        def write_rows(rows: list[dict]) -> None:
            for row in rows:
                file.write(json.dumps(row) + "\n")
                print({key: x for key, x in row.items() if key != "versions"}, flush=True)
            file.flush()

        if args.workers == 1:
            for task in tasks:
                write_rows(answers(task))
            return
        one_core()  # here, so that workers have it before they load anything
        with multiprocessing.get_context("spawn").Pool(args.workers) as pool:
            for rows in pool.imap_unordered(answers, tasks, chunksize=1):
                write_rows(rows)


if __name__ == "__main__":
    main()
