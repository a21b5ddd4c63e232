"""Rows on the double chain: how wrong values are in the estimated model, and where the visits went.

python experiments/rf_ucrl_double_chain/run.py [--seeds N] [--out FILE]

All samplers are scored in the same way, from the counts of all steps together: p_hat = frequencies, 1/S without visits.
"""

import argparse
import json
import os
import tomllib
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np

import horizonfree as hf

HERE = Path(__file__).parent


def best(P: np.ndarray, rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """V* [R, S] of the first step and the policies [R, H, S], for tables P [S, A, S] and rewards [R, H, S, A]."""
    R, H, S, _ = rewards.shape
    V, policy = np.zeros((R, S)), np.zeros((R, H, S), int)
    for h in reversed(range(H)):
        Q = rewards[:, h] + np.einsum("sat,rt->rsa", P, V)
        V, policy[:, h] = Q.max(-1), Q.argmax(-1)
    return V, policy


def policy_value(P: np.ndarray, rewards: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """V [R, S] of the policies."""
    V = np.zeros(policy[:, 0].shape)
    for h in reversed(range(policy.shape[1])):
        Q = rewards[:, h] + np.einsum("sat,rt->rsa", P, V)
        V = np.take_along_axis(Q, policy[:, h, :, None], -1)[..., 0]
    return V


def score(problem, counts: np.ndarray) -> dict:
    """Errors |V_hat* - V*| at the start and what the plans lose, over the suite and for the reward of the paper."""
    states, s1 = range(problem.num_states), problem.space.start
    suite = [hf.goal(problem, s) for s in states] + [hf.occupancy(problem, s) for s in states]
    paper = problem.horizon * hf.occupancy(
        problem, problem.num_states - 1
    )  # 1 at every step in the right end
    rewards, P = np.stack([*suite, paper]), problem.kernel().dense()
    n = counts.sum(-1, keepdims=True)
    P_hat = np.where(n > 0, counts / np.maximum(n, 1), 1 / problem.num_states)
    V, (V_hat, plans) = best(P, rewards)[0], best(P_hat, rewards)
    error, loss = np.abs(V_hat - V)[:, s1], (V - policy_value(P, rewards, plans))[:, s1]
    return {
        "suite_error": float(error[:-1].max()),
        "suite_loss": float(loss[:-1].max()),
        "paper_error": float(error[-1]),
        "paper_loss": float(loss[-1]),
        "paper_value": float(V[-1, s1]),
        "unvisited": int((n == 0).sum()),
    }


def generated(problem, episodes: int, seed: int) -> np.ndarray:
    """Counts of a generative model that samples every pair equally often, with the same total number of transitions."""
    P, rng = problem.kernel().dense(), np.random.default_rng(seed)
    S, A = problem.num_states, problem.num_actions
    per_pair, remainder = divmod(episodes * problem.horizon, S * A)
    n = np.full(S * A, per_pair)
    n[rng.permutation(S * A)[:remainder]] += 1
    return rng.multinomial(n, P.reshape(S * A, S)).reshape(S, A, S)


def sample_counts(problem, sampler: dict, sweep: dict, seed: int):
    """(episodes, counts [S, A, S], the bound E of the algorithm or None) after each checkpoint."""
    run = None
    options = {key: value for key, value in sampler.items() if key not in ("label", "name")}
    for k in sweep["checkpoints"]:
        if "name" not in sampler:
            yield k, generated(problem, k, seed), None
            continue
        if run is None:
            delta = sweep["delta"]
            run = hf.explore(
                problem, sampler["name"], episodes=k, seed=seed, delta=delta, progress=False, **options
            )
        else:
            run = run.resume(episodes=k - run.episodes, progress=False)
        is_theirs = sampler["name"] == "rf-ucrl"
        claim = run.certificate(sweep["delta"], method="paper") if is_theirs else None
        yield k, np.asarray(run.evidence.counts), claim and claim.parts["E"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "rows.jsonl")
    args = parser.parse_args()
    sweep = tomllib.loads((HERE / "sweep.toml").read_text())
    options = dict(sweep["problem"])
    problem = hf.make(options.pop("name"), **options).as_tabular()
    with args.out.open("w") as file:
        for sampler in sweep["samplers"]:
            for seed in range(args.seeds or sweep["seeds"]):
                for k, counts, E in sample_counts(problem, sampler, sweep, seed):
                    row = {"sampler": sampler["label"], "seed": seed, "episodes": k, "E": E}
                    row |= score(problem, counts) | {"visits": counts.sum((1, 2)).tolist()}
                    file.write(json.dumps(row) + "\n")
                file.flush()


if __name__ == "__main__":
    main()
