"""Rows on certificates of one job: FrozenLake 4x4 by our bounds, and by interval MDPs from the same counts.

python experiments/interval_mdp/run.py [--episodes 10000 100000] [--seeds 5] [--out FILE]

Needs stormpy (extra storm). Every method bounds, with probability 1 - delta, the value of one plan (`width` of its
interval) and what a policy can lose (`loss`): ours by the plan's certificate; an interval MDP by the difference between
the best value of any member and policy (cooperative) and the value that its robust policy has in every member (robust),
both computed by Storm. Every row checks its statements against the true kernel.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import stormpy
from scipy.stats import beta

import horizonfree as hf
from horizonfree.mdp.events import reach
from horizonfree.models.tabular.radius import log_kt
from horizonfree.problems.verification.explicit import ExplicitModel, check_model, values_of_policy

HERE = Path(__file__).parent
H, GOAL, DELTA = 50, 15, 0.05
BISECTIONS = 50


def kt(k: np.ndarray, n: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """p with KT(k, n - k) / (p^k (1-p)^(n-k)) < 1/alpha: valid at all times, for one entry of a row."""
    counts = np.stack([k, n - k], -1).reshape(-1, 2).astype(float)
    at_frequencies = log_kt(counts, np.full(len(counts), 2.0)).reshape(k.shape)
    mean = k / np.maximum(n, 1)

    def excess(p: np.ndarray) -> np.ndarray:
        """n kl(k/n, p) + log KT at the frequencies - log(1/alpha)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            kl = np.where(k > 0, k * np.log(mean / p), 0) + np.where(
                n > k, (n - k) * np.log((1 - mean) / (1 - p)), 0
            )
        return kl + at_frequencies - np.log(1 / alpha)

    ends = []
    for outside in (np.zeros(k.shape), np.ones(k.shape)):
        inside = mean.copy()
        for _ in range(BISECTIONS):
            middle = (inside + outside) / 2
            is_in = excess(middle) < 0
            inside, outside = np.where(is_in, middle, inside), np.where(is_in, outside, middle)
        ends.append(np.where(n > 0, outside, outside.round()))
    return ends[0], ends[1]


def clopper_pearson(k: np.ndarray, n: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """For a number of samples that is fixed in advance."""
    low = np.where(k > 0, beta.ppf(alpha / 2, np.maximum(k, 1), n - k + 1), 0.0)
    return low, np.where(k < n, beta.ppf(1 - alpha / 2, k + 1, np.maximum(n - k, 1)), 1.0)


def hoeffding(k: np.ndarray, n: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """For a number of samples that is fixed in advance."""
    width = np.sqrt(np.log(2 / alpha) / (2 * np.maximum(n, 1)))
    mean = k / np.maximum(n, 1)
    return np.clip(mean - width, 0, 1), np.clip(mean + width, 0, 1)


ENTRIES = {"KT, anytime": kt, "Clopper-Pearson, fixed n": clopper_pearson, "Hoeffding, fixed n": hoeffding}


def entries(run: hf.Run, method, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Intervals of all entries of unknown pairs, by a union bound over pairs and possible successors."""
    space, pairs = run.problem.space, np.asarray(run.problem.model.pairs)
    support = np.asarray(space.support)
    low = high = np.where(support, 1.0 / support.sum(-1, keepdims=True), 0.0)
    low, high = low.copy(), high.copy()
    s, a = pairs.T
    k = np.asarray(run.evidence.counts)[s, a]
    n = np.broadcast_to(k.sum(-1, keepdims=True), k.shape)
    alpha = delta / support[s, a].sum()
    low[s, a], high[s, a] = (np.where(support[s, a], x, 0.0) for x in method(k, n, alpha))
    return low, high


def interval_mdp(run: hf.Run, low: np.ndarray, high: np.ndarray) -> ExplicitModel:
    """The explicit model of these entries."""
    space = run.problem.space
    S, A, _ = space.succ.shape
    is_possible = np.asarray(space.support) & (high > 0)
    s, a, j = np.nonzero(is_possible)
    first = np.concatenate([[0], np.cumsum(is_possible.reshape(S * A, -1).sum(1))])
    goal = np.arange(S) == GOAL
    parts = np.asarray(space.succ)[s, a, j].astype(np.int64), low[s, a, j], high[s, a, j]
    start = space.starts()
    return check_model(
        ExplicitModel(start, np.arange(S + 1) * A, first, *parts, labels={"goal": goal}), "counts"
    )


def by_storm(model: ExplicitModel, folder: Path) -> dict[str, float]:
    """Robust and cooperative optima, and the time for them."""
    path = str(folder / "lake.drn")
    model.to_drn(path)
    storm_model = stormpy.build_model_from_drn[stormpy.Interval](path)
    (question,) = stormpy.parse_properties(f'Pmax=? [F<={H - 1} "goal"]')
    values, start_time = {}, time.perf_counter()
    for name in ("ROBUST", "COOPERATIVE"):
        mode = getattr(stormpy.UncertaintyResolutionMode, name)
        result = stormpy.model_checking(storm_model, question, uncertainty_resolution_mode=mode)
        values[name] = result.get_value(storm_model.initial_states[0])
    return values | {"seconds": time.perf_counter() - start_time}


def rows(support: str, episodes: int, seed: int, folder: Path) -> list[dict]:
    """All methods on the counts of one run."""
    problem = hf.from_gymnasium("FrozenLake-v1", horizon=H).as_tabular(support=support)
    run = hf.explore(problem, episodes=episodes, seed=seed, progress=False)
    event = reach(problem, GOAL)
    start_time = time.perf_counter()
    plan = run.plan(event, delta=DELTA)
    seconds = time.perf_counter() - start_time
    kernel, target = problem.kernel().dense(), np.arange(problem.num_states) == GOAL

    def true(policy: np.ndarray | None) -> float:
        V = target.astype(float)
        for h in range(H - 2, -1, -1):
            Q = kernel @ V
            V = np.where(target, 1.0, Q.max(1) if policy is None else Q[np.arange(len(V)), policy[h]])
        return float(V[0])

    own_value, best = true(plan.policy), true(None)
    common = {"support": support, "episodes": episodes, "seed": seed}
    is_valid = (
        plan.value_low - 1e-9 <= own_value <= plan.value_high + 1e-9 and best - own_value <= plan.gap + 1e-9
    )
    out = [common | {"method": "ours", "width": plan.value_high - plan.value_low, "loss": plan.gap}]
    out[0] |= {"seconds": seconds, "is_valid": bool(is_valid), "true_loss": best - own_value}
    sets = {"ours, projected": run.confidence(DELTA).entry_intervals()}
    sets |= {name: entries(run, method, DELTA) for name, method in ENTRIES.items()}
    half = run.confidence(DELTA / 2).entry_intervals(), entries(run, kt, DELTA / 2)
    sets["ours and KT, half of delta each"] = (
        np.maximum(half[0][0], half[1][0]),
        np.minimum(half[0][1], half[1][1]),
    )
    for name, (low, high) in sets.items():
        model = interval_mdp(run, low, high)
        choices = np.arange(problem.num_states) * problem.num_actions + plan.policy
        ends = [
            float(values_of_policy(model, event, choices, is_largest=x)[model.initial][0])
            for x in (False, True)
        ]
        solved = by_storm(model, folder)
        contains = bool(
            (
                (model.low - 1e-9 <= to_storm_rows(model, kernel))
                & (to_storm_rows(model, kernel) <= model.high + 1e-9)
            ).all()
        )
        row = {"method": name, "width": ends[1] - ends[0], "loss": solved["COOPERATIVE"] - solved["ROBUST"]}
        row |= {"seconds": solved["seconds"], "is_valid": contains}
        assert abs(solved["ROBUST"] - model.value(f'Pmax=? [F<={H - 1} "goal"]')) < 1e-6
        out.append(common | row)
    return out


def to_storm_rows(model: ExplicitModel, kernel: np.ndarray) -> np.ndarray:
    """The true probability of every branch."""
    A = kernel.shape[1]
    choice = model.choice_of
    return kernel[choice // A, choice % A, model.target]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "rows.jsonl")
    args = parser.parse_args()
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder, args.out.open("w") as file:
        for episodes in args.episodes:
            for support in ("any", "given"):
                for seed in range(args.seeds):
                    for row in rows(support, episodes, seed, Path(folder)):
                        file.write(json.dumps(row) + "\n")
                    file.flush()


if __name__ == "__main__":
    main()
