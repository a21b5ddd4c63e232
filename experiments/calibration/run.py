"""Are posteriors calibrated? Rows of two questions, one line each, written as soon as they are known.

    python experiments/calibration/run.py ranks       # rows -> results/ranks.jsonl
    python experiments/calibration/run.py coverage    # rows -> results/coverage.jsonl

ranks: simulation-based calibration. A kernel is drawn from the prior and episodes from the kernel; the rank of a
quantity of the kernel among its values under L posterior draws is uniform on 0..L. coverage: fixed problems, new data
in each repetition; how often intervals of posterior probability 0.95 hold the truth. README.md has the answers.
"""

import argparse
import datetime
import json
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import stats

import horizonfree as hf
from horizonfree.models.posterior import Posterior, posterior
from horizonfree.planning.induction import best_plan, policy_values
from horizonfree.runs.recipes import versions

HERE = Path(__file__).parent
DRAWS, BINS = 99, 20  # ranks 0..99 in bins of five
LEVEL = 0.95
EPISODES = (10, 100, 1000)
QUANTITIES = ("parameter", "value", "best value", "gap")


def table(support: str) -> hf.Problem:
    """An unknown table with two terminal rows; of any successors, or of three."""
    possible = np.zeros((5, 2, 5), bool)
    for s, a in np.ndindex(5, 2):
        possible[s, a, [s, (s + 1) % 5, (s + 2 + a) % 5]] = True
    kwargs = {} if support == "any" else {"support": possible}
    return hf.Tabular(5, 2, 6, **kwargs)


def mixture(d: int, redundant: bool = False) -> hf.Problem:
    """Random kernels that overlap; redundant: the last one is the mean of the first two."""
    P = np.random.default_rng(d).dirichlet(np.ones(5), size=(d, 5, 2))
    if redundant:
        P[-1] = (P[0] + P[1]) / 2
    return hf.Mixture.from_kernels(P, horizon=6)


CLASSES: dict[str, Callable[[], hf.Problem]] = {
    "table, any successor": lambda: table("any"),
    "table, three successors": lambda: table("given"),
    "mixture of 2 kernels": lambda: mixture(2),
    "mixture of 4 kernels, one redundant": lambda: mixture(4, redundant=True),
}

FIXED: dict[str, Callable[[], tuple[hf.Problem, np.ndarray]]] = {}


def fixed(name: str, problem: hf.Problem, reward: np.ndarray) -> None:
    """The problem as it is, a mixture, and as tables of either kind."""
    FIXED[f"{name}, mixture"] = lambda: (problem, reward)
    for support in ("given", "any"):
        FIXED[f"{name}, table, {support}"] = lambda s=support: (problem.as_tabular(support=s), reward)


def fixed_problems() -> None:
    """FrozenLake, inventory, river."""
    lake, shop, river = hf.from_gymnasium("FrozenLake-v1", 20), hf.make("inventory"), hf.make("river-swim")
    fixed("FrozenLake", lake, hf.goal(lake, 15))
    stock = np.minimum(np.arange(shop.num_states), 4) / 4
    orders = np.arange(shop.num_actions) / (4 * (shop.num_actions - 1))
    sold = np.clip(stock[:, None] - orders, 0, None) / shop.horizon
    fixed("inventory", shop, np.broadcast_to(sold, shop.space.sizes).copy())
    fixed("river", river, hf.goal(river, river.num_states - 1))


def sampled(problem: hf.Problem, P: np.ndarray, episodes: int, rng: np.random.Generator) -> tuple:
    """States [K, H+1] and actions [K, H] of random actions in a dense kernel."""
    H, S, A = problem.space.sizes
    first = problem.space.starts() / problem.space.starts().sum()
    if problem.space.initial is not None:
        first = np.asarray(problem.space.initial)
    s, a = np.zeros((episodes, H + 1), int), rng.integers(A, size=(episodes, H))
    s[:, 0] = rng.choice(S, episodes, p=first)
    below = np.cumsum(P, -1)
    for h in range(H):
        u = rng.random(episodes)[:, None]
        s[:, h + 1] = np.minimum((u > below[s[:, h], a[:, h]]).sum(1), S - 1)
    return s, a


def quantities(draws: Posterior, reward: np.ndarray, policy: np.ndarray, plan: np.ndarray) -> dict:
    """Of every draw: an entry of the parameter, a fixed policy's value, the best value, what the plan loses."""
    return {
        "parameter": draws.parameters.reshape(len(draws), -1)[:, 1],
        "value": draws.values(reward, policy),
        "best value": draws.best_values(reward),
        "gap": draws.gaps(reward, plan),
    }


def ranks(name: str, count: int) -> dict[str, np.ndarray]:
    """Ranks of `count` draws of the prior; ties are broken at random."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    problem = CLASSES[name]()
    H, S, A = problem.space.sizes
    empty_run = hf.from_episodes(problem, (np.zeros((1, H + 1), int), np.zeros((1, H), int)))
    count_fields = ("counts", "row_counts") if empty_run.has_parameter else ("counts",)
    empty = replace(empty_run.evidence, **{x: 0 * getattr(empty_run.evidence, x) for x in count_fields})
    prior = posterior(problem.model, empty, draws=count, seed=int(rng.integers(2**31)))
    reward = rng.random((H, S, A)) / H
    policy = rng.integers(A, size=(H, S)).astype(np.int32)
    rank_lists: dict[str, list[int]] = {x: [] for x in QUANTITIES}
    for i in range(count):
        kernel = prior.kernel(i)
        data = sampled(problem, kernel.dense(), 3, rng)
        run = hf.from_episodes(problem, data)
        draws = posterior(problem.model, run.evidence, draws=DRAWS, seed=int(rng.integers(2**31)))
        plan = best_plan(draws.kernel(0), reward).policy  # any function of the data and the draws' seed
        truth = Posterior(problem.model, prior.parameters[i : i + 1], "", 0, 0)
        drawn, true = (
            quantities(draws, reward, policy, plan),
            quantities(truth, reward, policy, plan),
        )
        for x in QUANTITIES:
            values = drawn[x][1:]  # draw 0 made the plan
            below, tied = (
                (values < true[x][0] - 1e-12).sum(),
                (np.abs(values - true[x][0]) <= 1e-12).sum(),
            )
            rank_lists[x].append(int(below + rng.integers(tied + 1)))
    return {x: np.array(v) for x, v in rank_lists.items()}


def rank_rows(name: str, count: int) -> Iterator[dict]:
    """A row for each quantity: the counts of its ranks in bins, and Pearson's chi-square test of uniformity."""
    clock = time.perf_counter()
    for quantity, x in ranks(name, count).items():
        bins = np.histogram(x, BINS, (-0.5, DRAWS - 0.5))[0]
        test = stats.chisquare(bins, np.full(BINS, count / BINS) * expected())
        yield {
            "class": name,
            "quantity": quantity,
            "draws_of_prior": count,
            "bins": bins.tolist(),
            "chi2": float(test.statistic),
            "p": float(test.pvalue),
            "seconds": round(time.perf_counter() - clock, 1),
        }


def expected() -> np.ndarray:
    """Shares of the bins, times their number: ranks are 0..98, so that the last bin holds four of 99."""
    sizes = np.histogram(np.arange(DRAWS), BINS, (-0.5, DRAWS - 0.5))[0]
    return sizes * BINS / DRAWS


def coverage_rows(name: str, repetitions: int) -> Iterator[dict]:
    """A row for each number of episodes and prior: how often the truth is inside, and how wide it is."""
    problem, reward = FIXED[name]()
    kernel, priors = problem.kernel(), (None,)
    if "table" in name:
        priors = ("uniform", "jeffreys", "perks")
    best = best_plan(kernel, reward).V[0]
    for episodes in EPISODES:
        clock, cells = time.perf_counter(), {x: [] for x in priors}
        for i in range(repetitions):
            rng = np.random.default_rng([zlib.crc32(name.encode()), episodes, i])
            run = hf.from_episodes(problem, sampled(problem, kernel.dense(), episodes, rng))
            plan = run.plan(reward)
            value = float(problem.space.at_start(policy_values(kernel, reward, plan.policy)[0]))
            gap = float(problem.space.at_start(best)) - value
            for prior in priors:
                draws = posterior(problem.model, run.evidence, draws=400, prior=prior, seed=i)
                low, high = plan.credible_interval(LEVEL, posterior=draws)
                credible_gap = plan.credible_gap(LEVEL, posterior=draws)
                inside, below = low - 1e-9 <= value <= high + 1e-9, gap <= credible_gap + 1e-9
                cells[prior].append(
                    [inside, below, high - low, credible_gap, gap, plan.value_high - plan.value_low, plan.gap]
                )
        for prior, x in cells.items():
            x = np.array(x, float)
            names = ("width", "credible_gap", "true_gap", "proved_width", "proved_gap")
            yield {
                "problem": name,
                "episodes": episodes,
                "prior": prior or "uniform on the valid parameters",
                "repetitions": repetitions,
                "interval_covers": int(x[:, 0].sum()),
                "gap_covers": int(x[:, 1].sum()),
                **dict(zip(names, np.round(x[:, 2:].mean(0), 6).tolist())),
                "seconds": round(time.perf_counter() - clock, 1),
            }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("question", choices=("ranks", "coverage"))
    parser.add_argument("--count", type=int, help="draws of the prior (1000), or repetitions (100)")
    parser.add_argument("--only", help="a part of the names")
    args = parser.parse_args()
    fixed_problems()
    count = args.count or (1000 if args.question == "ranks" else 100)
    names, compute_rows = (CLASSES, rank_rows) if args.question == "ranks" else (FIXED, coverage_rows)
    path = HERE / "results" / f"{args.question}.jsonl"
    path.parent.mkdir(exist_ok=True)
    done = path.read_text() if path.exists() else ""
    provenance = {"date": datetime.date.today().isoformat(), "versions": versions()}
    for name in names:
        if (args.only and args.only not in name) or json.dumps(name) in done:
            continue
        for row in compute_rows(name, count):
            with path.open("a") as file:
                file.write(json.dumps(row | provenance) + "\n")
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
