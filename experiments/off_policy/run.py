"""Off-policy evaluation on FrozenLake: confidence intervals of importance sampling, and those of a model.

    python experiments/off_policy/run.py [--seeds 10] [--episodes 10000]

Writes results/rows.jsonl, one line per log, and prints the table of docs/off-policy-evaluation.md. The log is recorded
with uniform actions. Two policies are evaluated: the best one, and the uniform one mixed with it half and half.
"""

import argparse
import json
from pathlib import Path

import gymnasium
import numpy as np
from scipy import stats

import horizonfree as hf
from horizonfree import planning

HERE = Path(__file__).parent
STEPS, GOAL, LEVEL, RESAMPLES = 19, 15, 0.95, 400


def lake() -> hf.Problem:
    """FrozenLake 4x4, slippery, as an unknown table with known final states: 19 moves, and the state after them."""
    env = gymnasium.make("FrozenLake-v1", is_slippery=True).unwrapped
    P, final = np.zeros((16, 4, 16)), set()
    for s, actions in env.P.items():
        for a, outcomes in actions.items():
            for p, t, _, is_over in outcomes:
                P[s, a, t] += p
                final |= {t} if is_over else set()
    for s in final:
        P[s] = np.eye(16)[s]
    return hf.Tabular.from_table(P, horizon=STEPS + 1, start=0, terminal=sorted(final))


def importance_weights(s: np.ndarray, a: np.ndarray, policy: np.ndarray, final: np.ndarray) -> np.ndarray:
    """Ratios [K, H] of each step, 1 after the episode is over; the log has uniform actions."""
    ratio = policy[np.arange(STEPS), s[:, :STEPS], a[:, :STEPS]] * 4
    return np.where(final[s[:, :STEPS]], 1.0, ratio)


def sampling(weights: np.ndarray, success: np.ndarray, rng: np.random.Generator) -> dict[str, list[float]]:
    """Intervals [low, high] of importance sampling at 0.95, within [0, 1]; and the estimates."""
    w = weights.prod(1)
    x, K = w * success, len(w)
    mean, deviation = x.mean(), x.std(ddof=1)
    picks = rng.integers(K, size=(RESAMPLES, K))
    weighted = (x[picks].sum(1), np.maximum(w[picks].sum(1), 1e-300))
    t = stats.t.ppf((1 + LEVEL) / 2, K - 1) * deviation / np.sqrt(K)
    log_term = np.log(4 / (1 - LEVEL))  # two sides
    bernstein = deviation * np.sqrt(2 * log_term / K) + 7 * 4.0**STEPS * log_term / (3 * (K - 1))

    def clipped(low: float, high: float) -> list[float]:
        return [float(np.clip(low, 0, 1)), float(np.clip(high, 0, 1))]

    tail = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    return {
        "importance sampling, bootstrap": clipped(*np.quantile(x[picks].mean(1), tail)),
        "weighted importance sampling, bootstrap": clipped(*np.quantile(weighted[0] / weighted[1], tail)),
        "importance sampling, Student's t": clipped(mean - t, mean + t),
        "importance sampling, empirical Bernstein": clipped(mean - bernstein, mean + bernstein),
    }


def row(problem: hf.Problem, policy: np.ndarray, episodes: int, seed: int) -> dict[str, list[float]]:
    """All intervals of one log."""
    uniform = np.full((STEPS + 1, 16, 4), 0.25)
    log = hf.simulate(problem, uniform, episodes=episodes, seed=seed)
    s, a = np.asarray(log.s)[:, : STEPS + 1], np.asarray(log.a)
    final = np.zeros(16, bool)
    final[[5, 7, 11, 12, GOAL]] = True
    rng = np.random.default_rng(seed)
    estimates = sampling(importance_weights(s, a, policy, final), s[:, STEPS] == GOAL, rng)
    model_class = hf.Tabular(16, 4, STEPS + 1, terminal=[5, 7, 11, 12, GOAL])
    plan = hf.from_episodes(model_class, (s, a[:, :STEPS])).evaluate(hf.goal(model_class, GOAL), policy)
    estimates["this library, proved"] = [plan.value_low, plan.value_high]
    estimates["this library, likely (Dirichlet prior)"] = list(plan.credible_interval(LEVEL))
    return estimates


def table(rows: list[dict]) -> str:
    """Medians of the ends, and how many intervals contain the truth."""
    lines = ["| policy | interval | low | high | contains the truth |", "|---|---|---|---|---|"]
    for name in dict.fromkeys(x["policy"] for x in rows):
        policy_rows = [x for x in rows if x["policy"] == name]
        truth = policy_rows[0]["truth"]
        for method in policy_rows[0]["intervals"]:
            ends = np.array([x["intervals"][method] for x in policy_rows])
            inside = int(((ends[:, 0] <= truth + 1e-12) & (truth <= ends[:, 1] + 1e-12)).sum())
            low, high = np.median(ends, axis=0)
            lines.append(
                f"| {name}, truth {truth:.3f} | {method} | {low:.3f} | {high:.3f} | {inside} of {len(policy_rows)} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Every policy and seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=10_000)
    options = parser.parse_args()
    problem = lake()
    reward = hf.goal(problem, GOAL)
    best = np.eye(4)[planning.optimal(problem.kernel(), reward).policy]
    policies = {"best": best, "half uniform": 0.5 * best + 0.125}
    rows = []
    for name, policy in policies.items():
        truth = float(planning.evaluate(problem.kernel(), reward, policy)[0, 0])
        for seed in range(options.seeds):
            rows.append(
                {
                    "policy": name,
                    "truth": truth,
                    "seed": seed,
                    "episodes": options.episodes,
                    "intervals": row(problem, policy, options.episodes, seed),
                }
            )
    path = HERE / "results" / "rows.jsonl"
    path.write_text("".join(json.dumps(x) + "\n" for x in rows))
    print(table(rows))


if __name__ == "__main__":
    main()
