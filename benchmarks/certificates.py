"""How large certified gaps are on the zoned grid, and what they cost.

    python benchmarks/certificates.py [--seeds 12] [--quick]

Prints the time of one `confidence`, of one plan with its certificate, and of a `confidence` on a large sparse grid
(S = 4900), each after compilation; then the medians over seeds of the uniform gap and of the gaps of all 64 goal
rewards for K = 100, 300, 1000, 3000 episodes of the explorer `optimal-design`.
"""

import argparse
import time

import numpy as np

import horizonfree as hf
from horizonfree.models import certify
from horizonfree.planning import optimal


def fastest_of(call, times: int = 20) -> float:
    call()
    return min(_elapsed(call) for _ in range(times))


def _elapsed(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def gaps(seeds: int, episodes: tuple[int, ...]) -> None:
    problem = hf.make("zoned-grid", size=8, zones=4, horizon=20)
    goals = [hf.goal(problem, state) for state in range(problem.num_states)]
    print("| K | bets | uniform | slack W | tangent, median | tangent, largest | true gap, largest |")
    print("|---|---|---|---|---|---|---|")
    for K in episodes:
        for name, budget in (("ladder", None), ("0 and K/5", K)):
            rows = []
            for seed in range(seeds):
                run = hf.explore(problem, explorer="optimal-design", episodes=K, seed=seed, budget=budget)
                certificate, plans = run.certificate(), [run.plan(goal) for goal in goals]
                plan_gaps = np.array([plan.gap for plan in plans])
                true = max(hf.true_gap(problem, goal, plan.policy) for goal, plan in zip(goals, plans))
                rows.append(
                    (certificate.eps, certificate.parts["slack"], np.median(plan_gaps), plan_gaps.max(), true)
                )
            eps, slack, median, largest, true = np.median(rows, axis=0)
            print(
                f"| {K} | {name} | {eps:.3f} | {slack:.1f} | {median:.2g} | {largest:.2g} | {true:.1g} |",
                flush=True,
            )


def times() -> None:
    problem = hf.make("zoned-grid", size=8, zones=4, horizon=20)
    run = hf.explore(problem, explorer="optimal-design", episodes=300, seed=0)
    model, evidence, goal = problem.model, run.evidence, hf.goal(problem, 63)
    confidence = certify.confidence(model, evidence)

    def plan_with_bounds() -> object:
        policy = optimal(confidence.kernel, goal).policy
        return certify.for_reward(model, confidence, goal, policy)

    print(
        f"confidence, S=64, H=20, q=4: {1e3 * fastest_of(lambda: certify.confidence(model, evidence)):.1f} ms"
    )
    print(f"plan and gap:                {1e3 * fastest_of(plan_with_bounds):.1f} ms")
    large = hf.make("zoned-grid", size=70, zones=4, horizon=20)
    run = hf.explore(large, explorer="uniform", episodes=20, seed=0)
    call = lambda: certify.confidence(large.model, run.evidence)  # noqa: E731  # one line, used once
    print(f"confidence, S=4900:          {1e3 * fastest_of(call, 3):.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    times()
    gaps(options.seeds, (100, 300) if options.quick else (100, 300, 1000, 3000))


if __name__ == "__main__":
    main()
