"""The own claim of hf-ucrl-rfe++ with likelihood sets after 1,000 episodes: writes results.csv, one row per run.

python experiments/likelihood_sets/run.py
"""

import csv
from collections import defaultdict
from pathlib import Path
from statistics import median

import horizonfree as hf

HERE = Path(__file__).parent
EPISODES, SEEDS = 1_000, 3
OPTIONS = {"sets": "likelihood", "lazy": 0.1}
PROBLEMS = {
    "river": ("river-swim", {"states": 8}, (8, 64, 256)),
    "grid": ("zoned-grid", {"size": 5, "zones": 2}, (8, 64, 256)),
    "mixture": ("random-mixture", {"states": 12, "actions": 3, "dim": 4, "successors": 4}, (8, 64, 256)),
    "lock": ("combination-lock", {"length": 4, "keys": 3, "codes": 3, "reliability": 0.6}, (12,)),
}
NUMBERS = ("claim", "4U", "4T", "N", "uniform", "evidence", "slack", "4V_hat", "calls")


def row(problem: hf.Problem, seed: int) -> dict[str, float]:
    """One run. The budget is declared, for bets as well."""
    settings = {"episodes": EPISODES, "budget": EPISODES, "seed": seed, "progress": False}
    run = hf.explore(problem, "hf-ucrl-rfe++", **settings, **OPTIONS)
    claim = run.certificate(method="paper")
    parts = claim.parts
    own = 4 * parts["relaxed"], 4 * parts["total_variance"], parts["likelihood_ratio"]
    evidence = run.certificate(method="uniform").eps, parts["evidence"]
    last = 4 * float(run.records["V_hat"][-1]), int(run.records["oracle_calls"][-1])
    return dict(zip(NUMBERS, (claim.eps, *own, *evidence, parts["slack"], *last), strict=True))


def main() -> None:
    """Write as rows come, then print medians."""
    medians = defaultdict(list)
    with open(HERE / "results.csv", "w", newline="") as file:
        out = csv.DictWriter(file, ["problem", "horizon", "seed", *NUMBERS])
        out.writeheader()
        for name, (kind, sizes, horizons) in PROBLEMS.items():
            for horizon in horizons:
                problem = hf.make(kind, horizon=horizon, **sizes)
                for seed in range(SEEDS):
                    measurements = row(problem, seed)
                    medians[name, horizon].append(measurements)
                    texts = {key: f"{x:.4g}" for key, x in measurements.items()}
                    out.writerow({"problem": name, "horizon": horizon, "seed": seed} | texts)
                    file.flush()
    for (name, horizon), rows in medians.items():
        print(name, horizon, *(f"{key} {median(x[key] for x in rows):.3f}" for key in NUMBERS))


if __name__ == "__main__":
    main()
