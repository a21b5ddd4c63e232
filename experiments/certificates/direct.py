"""Steps of docs/certificates.md, measured: kappa over U itself, the hinge, and the second order of the tangent bound.

    python experiments/certificates/direct.py     # rows -> results/direct.jsonl, and two tables

The runs of `gap.toml` with declared bets and explorer `information`: K episodes with budget K, for every seed.
"""

import json
import time
from pathlib import Path

import numpy as np

import horizonfree as hf
from horizonfree.guarantees.divergence import gap
from horizonfree.models import certify
from horizonfree.models.mixture import tangent
from horizonfree.models.mixture.direct import Likelihood
from horizonfree.planning.induction import best_plan
from horizonfree.sweeps.spec import read
from horizonfree.sweeps.tasks import build_problem

HERE = Path(__file__).parent
BOUNDS = ("tangent", "interval", "uniform")


def bounds_of_order(order: int):
    """The smallest gap of each goal, with B or with B = 0."""

    def compute(confidence, rewards) -> np.ndarray:
        largest = tangent.MAX_SECOND_ORDER
        tangent.MAX_SECOND_ORDER = largest if order == 2 else 0
        plans = [best_plan(confidence.kernel, reward).policy for reward in rewards]
        gap_list = [certify.bounds(confidence, *pair).gaps for pair in zip(rewards, plans)]
        tangent.MAX_SECOND_ORDER = largest
        return np.array([min(gaps[name] for name in BOUNDS) for gaps in gap_list])

    return compute


def row(run: hf.Run, delta: float, first, second) -> dict:
    """Both certificates of one run, and the gaps of its goal rewards with either order."""
    model, confidence = run.problem.model, run.confidence(delta)
    uniform = run.certificate(delta, method="uniform")
    start_time = time.process_time()
    counts = run.evidence.since[confidence.bet]
    likelihood = Likelihood(
        model.space, model.valid, counts, confidence.ball, confidence.step, confidence.is_out
    )
    direct_bound = likelihood.by_hinge(likelihood.by_kappa())
    seconds = time.process_time() - start_time
    start_time = time.process_time()
    likelihood.by_hinge(likelihood.by_kappa(), hinges=0)
    direct_seconds = time.process_time() - start_time
    by_kappa = float(
        gap(*(np.float64(x) for x in (2 * direct_bound.hit, direct_bound.kappa, direct_bound.kappa)))
    )
    goals = np.stack([hf.goal(run.problem, s) for s in range(run.problem.num_states)])
    first_gaps, second_gaps = (compute(confidence, goals) for compute in (first, second))
    return {
        "uniform_eps": uniform.eps,
        "kappa_eps": min(by_kappa, uniform.eps),
        "hinge_eps": min(direct_bound.eps, uniform.eps),
        "uniform_kappa": uniform.parts["kappa"],
        "direct_kappa": direct_bound.kappa,
        "attained": direct_bound.attained / direct_bound.kappa,
        "hinge_attained": direct_bound.hinge_attained / direct_bound.hinge,
        "programmes": direct_bound.programmes,
        "hinges": direct_bound.hinges,
        "seconds": seconds,
        "hinge_seconds": seconds - direct_seconds,
        "first_median": float(np.median(first_gaps)),
        "first_max": float(first_gaps.max()),
        "second_median": float(np.median(second_gaps)),
        "second_max": float(second_gaps.max()),
    }


def table(rows: list[dict], columns: dict[str, str]) -> str:
    lines = ["| episodes | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for k in dict.fromkeys(row["episodes"] for row in rows):
        medians = [np.median([row[x] for row in rows if row["episodes"] == k]) for x in columns]
        cells = [format(x, form) for x, form in zip(medians, columns.values())]
        lines.append(f"| {k} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    sweep = read(HERE / "gap.toml")
    problem = build_problem(sweep.problems["grid"])
    first, second = bounds_of_order(1), bounds_of_order(2)
    rows = []
    for k in sweep.checkpoints:
        for seed in sweep.seeds:
            run = hf.explore(problem, "optimal-design", episodes=k, seed=seed, budget=k, progress=False)
            rows.append({"episodes": k, "seed": seed} | row(run, sweep.delta, first, second))
    (HERE / "results" / "direct.jsonl").write_text("".join(json.dumps(x) + "\n" for x in rows))
    gaps = {"uniform_eps": ".3f", "kappa_eps": ".3f", "hinge_eps": ".3f", "hinge_attained": ".1%"}
    kappas = {"uniform_kappa": ".3g", "direct_kappa": ".3g", "attained": ".1%"}
    work = {"programmes": ".0f", "hinges": ".0f", "seconds": ".2f", "hinge_seconds": ".2f"}
    print(table(rows, gaps | kappas | work), end="\n\n")
    print(table(rows, {f"{order}_{x}": ".2g" for order in ("first", "second") for x in ("median", "max")}))


if __name__ == "__main__":
    main()
