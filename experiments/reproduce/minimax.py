"""E4: the hard instances of the lower bound, an exact oracle, and what is left of the signs of mu.

An instance of dimension d is made for K0 episodes, 3 d^2 in E4, several numbers in E4_eps: Delta = 1/sqrt(192 K0).
With so many no algorithm is, for all mu, better than eps_0 = D (1 - t - 2 delta)/((1 - delta) sqrt(192 K0)) with
probability 1 - delta (docs/theory.md), and on average over mu every sign is wrong with probability (1 - t)/2 = 0.346 at
least. A run goes on to multiples of K0, that is to K = c d^2/eps_0^2. Its plan for the reward "1/H in x_3" loses
2 Delta (H-1)/H for each wrong sign.
"""

import math
import sys
from pathlib import Path

import equinox as eqx
import numpy as np

import horizonfree as hf
from horizonfree._x64 import to_device, x64
from horizonfree.planning.traced import optimal_jax
from horizonfree.problems.named.synthetic import sign_vectors
from horizonfree.sweeps.spec import parse
from horizonfree.sweeps.tasks import explorer_options
from horizonfree.theory.bounds import TOTAL_VARIATION

sys.path.append(str(Path(__file__).parents[1] / "shared"))

from exponents import crossing, draws, fits, interval

ABSORBING = 2  # x_3
SHARE = 0.3  # of wrong signs: met between the looks of E4_eps
WRONG = (1 - TOTAL_VARIATION) / 2  # of every sign, with K0 episodes, on average over mu: at least


def tasks(given: dict, lines: list[dict]) -> list[dict]:
    """A task is a dimension and an explorer: every truth with every seed."""
    multiples, truths, sizes = given.pop("multiples"), given.pop("truths"), given.pop("K0", [])
    found = parse({**given, "checkpoints": [1]})
    common = {"multiples": multiples, "truths": truths, "seeds": found.seeds, "delta": found.delta}
    return [
        {"problem": place + name, "explorer": label, "world": world, "who": who, **common, **size}
        for place, world in found.problems.items()
        for label, who in found.explorers.items()
        for name, size in ([(f" K0={x}", {"K0": x}) for x in sizes] or [("", {})])
    ]


def least_eps(K: int, d: int, H: int, delta: float) -> float:
    """eps_0: `theory.lower_bound` solved for eps."""
    D = (d - 1) * (H - 1) / H
    return D * (1 - TOTAL_VARIATION - 2 * delta) / ((1 - delta) * math.sqrt(192 * K))


def wrong_signs(problem, policy: np.ndarray) -> int:
    """In how many signs the action in x_1 differs from mu."""
    return int(((sign_vectors(problem.model.dim)[policy[0, 0]] > 0) != (problem.truth[1:] > 0)).sum())


@eqx.filter_jit
def planned(kernel, reward):
    return optimal_jax(kernel, reward)[0]


@eqx.filter_jit
def own_plan(explorer, model, now, reward):
    return explorer.plan(model, now.state, now.evidence, reward).policy


def rows(task: dict) -> list[dict]:
    """Wrong signs of every member at every multiple of K0."""
    d, H = task["world"]["dim"], task["world"]["horizon"]
    K0 = task.get("K0", 3 * d**2)
    worlds = [hf.make("hard-instance", dim=d, horizon=H, episodes=K0, seed=i) for i in range(task["truths"])]
    unit = 2 * (H - 1) / H / math.sqrt(192 * K0)
    reward = hf.occupancy(worlds[0], ABSORBING)
    looks = [K0 * m for m in task["multiples"]]

    @x64
    def signs(run) -> dict[str, float]:
        model, now, table = to_device((run.problem.model, run.progress, reward))
        kernel = to_device(run.confidence(task["delta"]).kernel)
        plans = {"wrong": planned(kernel, table), "own_wrong": own_plan(run.explorer, model, now, table)}
        return {name: wrong_signs(run.problem, np.asarray(policy)) for name, policy in plans.items()}

    batch = hf.explore_many(
        worlds,
        task["who"]["name"],
        episodes=looks[-1],
        budget=looks[-1],
        seeds=task["seeds"],
        delta=task["delta"],
        checkpoints=looks,
        curves=["eps"],
        measure=signs,
        progress=False,
        **explorer_options(task["who"]),
    )
    out, count = [], len(task["seeds"])
    for i in range(len(batch)):
        for c, m in enumerate(task["multiples"]):
            row = {"truth": i // count, "seed": task["seeds"][i % count], "multiple": m, "episodes": looks[c]}
            row |= {name: x[i, c] for name, x in batch.curves.items()}
            if "V_hat" in batch.records:
                row |= {name: batch.records[name][i, looks[c] - 1] for name in ("V_hat", "relaxed")}
            out.append(row | {"eps_0": least_eps(K0, d, H, task["delta"]), "unit": unit})
    return out


def failures(rows: list[dict], field: str = "wrong") -> float:
    """How often the plan lost more than eps_0."""
    return float(np.mean([row[field] * row["unit"] > row["eps_0"] for row in rows]))


def until_right(rows: list[dict], size: str, power: float = 1.0) -> tuple[str, np.ndarray]:
    """The exponent of size^power in the episodes until SHARE of the signs are wrong, and these episodes at every size.

    The share is a mean over truths and runs. Truths are drawn with replacement, then the runs of each.
    """
    names = (size, "multiple", "truth")
    keys = [sorted({row[name] for row in rows}) for name in names]
    runs = sorted({(row.get("explorer", ""), row["seed"]) for row in rows})
    wrong, K0 = np.zeros((*map(len, keys), len(runs))), np.zeros(len(keys[0]))
    for row in rows:
        at = tuple(values.index(row[name]) for values, name in zip(keys, names))
        wrong[(*at, runs.index((row.get("explorer", ""), row["seed"])))] = row["wrong"] / (row["dim"] - 1)
        K0[at[0]] = row["episodes"] / row["multiple"]

    def episodes(table: np.ndarray) -> np.ndarray:
        return K0 * [crossing(np.array(keys[1]), share, SHARE) for share in table.mean((2, 3))]

    found = np.array(
        [episodes(wrong), *(episodes(wrong[:, :, i, j]) for i, j in zip(*draws(*wrong.shape[2:])))]
    )
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # draws in which the share is not met between the looks
        slopes = fits(power * np.log(keys[0]), np.log(found))[0]
    low, high = interval(slopes[1:], len(keys[2]))
    return f"{slopes[0]:+.2f} [{low:+.2f}, {high:+.2f}]", found[0]
