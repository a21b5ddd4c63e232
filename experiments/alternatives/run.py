"""Rows of the experiment on alternatives: when a class is refuted, by whom, and how often it is wrongly.

    python experiments/alternatives/run.py [--seeds 20]

One line per log and number of weeks, written to results/rows.jsonl as it comes. README.md has the questions.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.stats import poisson

import horizonfree as hf
from horizonfree.guarantees.e_processes import Check
from horizonfree.runs.recipes import versions

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "gallery"))
import readings

MAX_STOCK = 32  # of the stock, and of the demand of a day
LAWS = {"slow": 5.0, "busy": 11.0}  # orders a day, of the two Poisson laws that are mixed
WEEKS = (32, 64, 96, 128)


def shop() -> hf.Problem:
    """Order up to twenty in the morning, sell the smaller of demand and stock; a week is an episode."""
    laws = {name: poisson.pmf(np.arange(MAX_STOCK + 1), mean) for name, mean in LAWS.items()}
    for law in laws.values():
        law[-1] += 1 - law.sum()

    def night(stock: int, order: int, demand: int) -> int:
        return max(min(stock + 2 * order, MAX_STOCK) - demand, 0)

    sizes = {"num_states": MAX_STOCK + 1, "num_actions": 11, "horizon": 7, "start": 16}
    return hf.Mixture.from_noise(night, range(MAX_STOCK + 1), models=laws, name="shop", **sizes)


def weeks(days: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A log of the shop, with orders at random."""
    demand = days[: len(days) // 7 * 7].reshape(-1, 7)
    actions = rng.integers(11, size=demand.shape)
    states = np.full((len(demand), 8), 16)
    for h in range(7):
        states[:, h + 1] = np.maximum(
            np.minimum(states[:, h] + 2 * actions[:, h], MAX_STOCK) - demand[:, h], 0
        )
    return states, actions


def buses() -> tuple[hf.Problem, tuple[list[np.ndarray], list[np.ndarray]], list[str]]:
    """Mileage since the last engine in bins of 5,000 miles; a month adds 0, 1 or 2. One episode is a bus."""

    def month(miles: int, replace: int, increment: int) -> int:
        return min((0 if replace else miles) + increment, 99)

    settings = {"num_states": 100, "num_actions": 2, "horizon": 126, "start": np.full(100, 0.01)}
    problem = hf.Mixture.from_noise(month, {"+0": 0, "+1": 1, "+2": 2}, name="buses", **settings)
    fleet = readings.buses()
    log = [bus.bins for bus in fleet], [bus.replaced for bus in fleet]
    return problem, log, [bus.group for bus in fleet]


def demands(seed: int, real: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Days of several systems: in the class, and out of it in four ways."""
    rng, n = np.random.default_rng(seed), 7 * WEEKS[-1]
    slow, busy = LAWS.values()
    yield "in the class", rng.poisson(np.where(rng.random(n) < 0.5, busy, slow))
    yield "real days, shuffled", rng.choice(real, n)
    demand = np.where(np.arange(n) < n // 2, 0.8, 0.2)
    yield "a change after 64 weeks", rng.poisson(np.where(rng.random(n) < demand, busy, slow))
    demand = np.linspace(0.8, 0.2, n)
    yield "a slow drift", rng.poisson(np.where(rng.random(n) < demand, busy, slow))
    turns = np.cumsum(rng.random(n) < 0.1) % 2
    yield "moods of ten days", rng.poisson(np.where(turns, busy, slow))


def summary(check: Check) -> dict:
    """A check as part of a row."""
    e_values = {name: round(log_e / np.log(10), 3) for name, log_e in check.alternatives}
    strongest = check.strongest.name
    return {"refuted": check.is_refuted, "by": strongest, "log10_e": e_values, "episodes": check.episodes}


def rows(seeds: int) -> Iterator[dict]:
    """All of them."""
    real, problem = readings.orders(), shop()
    in_order = hf.from_episodes(problem, weeks(real, np.random.default_rng(0)))
    yield {"world": "real days, in order", "seed": 0, **summary(in_order.check())}
    for seed in range(seeds):
        for system, days in demands(seed, real):
            log = weeks(days, np.random.default_rng([seed, 1]))
            for number in WEEKS:
                run = hf.from_episodes(problem, tuple(x[:number] for x in log))
                yield {"world": system, "seed": seed, **summary(run.check())}
    fleet, log, groups = buses()
    run = hf.from_episodes(fleet, log)
    yield {"world": "buses", "seed": 0, "weights": run.weights.round(3).tolist(), **summary(run.check())}
    yield {"world": "buses by group", "seed": 0, **summary(run.check(groups))}
    for system, kept_groups in (
        ("buses of 1975, in halves", "a530875"),
        ("buses of g870 and rt50", "g870 rt50"),
    ):
        indices = [i for i, group in enumerate(groups) if group in kept_groups.split()]
        run = hf.from_episodes(fleet, tuple([x[i] for i in indices] for x in log))
        by = [groups[i] if " " in kept_groups else str(k % 2) for k, i in enumerate(indices)]
        yield {"world": system, "seed": 0, **summary(run.check(by))}


def main() -> None:
    """Write the rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    out = HERE / "results" / "rows.jsonl"
    out.parent.mkdir(exist_ok=True)
    start_time = time.perf_counter()
    with out.open("w") as file:
        for row in rows(seeds):
            file.write(json.dumps(row) + "\n")
            file.flush()
        file.write(
            json.dumps({"seconds": round(time.perf_counter() - start_time), "versions": versions()}) + "\n"
        )


if __name__ == "__main__":
    main()
