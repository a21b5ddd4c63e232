"""Rows of the second question: kernels from N samples of every row, and what they allow after 10,000 episodes.

    python experiments/robustness/simulators.py      # rows -> results/simulators.jsonl, and their table

Three simulators of a queue are sampled N times at every pair; the real system is a mixture of the three. `few` is the
queue on which the theory was developed, where at most two customers arrive; `queue` is the library's. Which states may
follow is declared beforehand, or not.
"""

import json
import time
from itertools import product
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import horizonfree as hf
from horizonfree._x64 import scope, to_device, to_numpy
from horizonfree.explorers.loop import init_progress, simulate_block
from horizonfree.explorers.registry import ExplorerSpec, make_explorer
from horizonfree.guarantees.e_processes import ladder
from horizonfree.planning.traced import Sampler
from horizonfree.problems.named.operations import input_models, kernel
from horizonfree.runs.recipes import versions

HERE = Path(__file__).parent
EPISODES, SAMPLES, SEEDS = 10_000, (10**4, 10**5, 10**6), (0, 1, 2)
BLOCK = 256
_block = eqx.filter_jit(simulate_block)


def sample_problem(seed: int) -> hf.Problem:
    """The library's queue, but with at most two arrivals."""
    arrivals = input_models(3, 0.2, 1.0, 2)
    s, a, leaves, N = np.indices((16, 3, 2, 3))
    rate = (a + 1) / 4
    next_state = np.minimum(np.maximum(s - leaves, 0) + N, 15)
    kernels = [kernel(s, a, next_state, np.where(leaves, rate, 1 - rate) * model[N]) for model in arrivals]
    weights = np.random.default_rng(seed).dirichlet(np.ones(3))
    return hf.Mixture.from_kernels(kernels, horizon=30, weights=weights)


PROBLEMS = {
    "few": lambda: sample_problem(0),
    "queue": lambda: hf.make("queue", capacity=15, horizon=30, seed=1),
}


def simulator_kernels(problem: hf.Problem) -> np.ndarray:
    """Those of the three simulators, [d, S, A, S]."""
    model = problem.model
    unit_weights = np.eye(len(problem.layout.get("weights", range(3))))
    return np.stack([np.asarray(model.kernel(model.parameter(x, "one")).dense()) for x in unit_weights])


def explore(problem: hf.Problem, P: np.ndarray, seed: int) -> hf.Run:
    """A run of `optimal-design` in the system P [S, A, S], with what is known of it."""
    space = problem.space
    S, A, n = space.succ.shape
    s, a, _ = np.indices((S, A, n))
    prob = np.where(np.asarray(space.support), P[s, a, np.asarray(space.succ)], 0.0)
    with scope():
        model, explorer = to_device(problem.model), make_explorer("optimal-design")
        empty_evidence = model.init_evidence(ladder(EPISODES, model.burn_in), has_history=True)
        progress, sampler = (
            init_progress(explorer, model, empty_evidence),
            Sampler.of(to_device(space.kernel(prob))),
        )
        for done in range(0, EPISODES, BLOCK):
            count = jnp.int32(min(EPISODES - done, BLOCK))
            progress, _ = _block(explorer, model, sampler, None, jax.random.key(seed), progress, count, BLOCK)
        final = to_numpy(progress)
        spec = ExplorerSpec.of(explorer)
        return hf.Run(problem, spec, seed, final.evidence, final.state, {}, is_simulated=False)


def row(problem: hf.Problem, N: int, seed: int, *, is_declared: bool) -> dict:
    """What N samples of every row allow."""
    kernels, rng = simulator_kernels(problem), np.random.default_rng([seed, N])
    may_follow = kernels.any(0) if is_declared else None
    known_problem = hf.from_simulators(
        [rng.multinomial(N, P) for P in kernels], horizon=problem.horizon, successors=may_follow
    )
    run = explore(known_problem, np.asarray(problem.kernel().dense()), seed)
    start_time = time.process_time()
    certificate = run.certificate()
    seconds = time.process_time() - start_time
    gaps, true_losses = [], []
    for s in np.linspace(0, problem.num_states - 1, 16).astype(int):
        plan = run.plan(hf.goal(known_problem, s))
        gaps.append(plan.gap)
        true_losses.append(hf.true_gap(problem, hf.goal(problem, s), plan.policy))
    return {
        "zeta": certificate.parts["zeta"],
        "eps": certificate.eps,
        "floor": known_problem.sampling.floor(),
        "goal_median": float(np.median(gaps)),
        "goal_largest": max(gaps),
        "lost_largest": max(true_losses),
        "violations": int(np.sum(np.array(true_losses) > gaps)),
        "seconds": round(seconds, 3),
    }


def table(rows: list[dict]) -> str:
    """Medians over the seeds."""
    names = ("zeta", "eps", "floor", "goal_median", "goal_largest", "lost_largest")
    heads = ("problem", "successors", "N", *names, "goals exceeded")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    groups: dict[tuple, list[dict]] = {}
    for x in rows:
        groups.setdefault((x["problem"], x["successors"], x["samples"]), []).append(x)
    for (problem, successors, N), group in groups.items():
        cells = [problem, successors, f"{N:,}"]
        cells += [f"{np.median([x[name] for x in group]):.4f}" for name in names]
        cells.append(f"{sum(x['violations'] for x in group)}/{16 * len(group)}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    out = HERE / "results" / "simulators.jsonl"
    with out.open("w") as file:
        for (name, make), is_declared, N, seed in product(PROBLEMS.items(), (True, False), SAMPLES, SEEDS):
            description = {
                "problem": name,
                "successors": "declared" if is_declared else "any",
                "samples": N,
                "seed": seed,
            }
            record = description | row(make(), N, seed, is_declared=is_declared) | {"versions": versions()}
            file.write(json.dumps(record) + "\n")
            file.flush()
    print(table([json.loads(line) for line in out.read_text().splitlines()]))


if __name__ == "__main__":
    main()
