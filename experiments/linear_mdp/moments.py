"""What second moments of declared rewards change: bounds of goals with and without them, on the same data.

python experiments/linear_mdp/moments.py
"""

import dataclasses

import numpy as np

import horizonfree as hf

DELTA, EPISODES = 0.05, (3_000, 30_000)
GOALS = (3, 7, 20, 50)


def dense():
    """S = 100, A = 4, d = 10: features and measures from Dirichlet distributions."""
    rng = np.random.default_rng(0)
    phi = rng.dirichlet(np.full(10, 0.3), (100, 4))
    return hf.LinearMDP.from_features(phi, horizon=10, mu=rng.dirichlet(np.full(100, 0.1), 10))


def main() -> None:
    for name, problem in (("dense", dense()), ("linear-lock", hf.make("linear-lock"))):
        goals = {s: hf.goal(problem, s) for s in GOALS}
        for episodes in EPISODES:
            run = hf.explore(
                problem, episodes=episodes, budget=episodes, rewards=list(goals.values()), progress=False
            )
            confidence = run.confidence(DELTA)
            without_moments = dataclasses.replace(confidence, whole=None)
            for s, goal in goals.items():
                plan = run.plan(goal, delta=DELTA)
                step_bounds = without_moments.bounds(run.resolved(goal).table, plan.policy)
                least, true = min(step_bounds.gaps.values()), hf.true_gap(problem, goal, plan.policy)
                print(
                    f"{name}, K = {episodes:,}, goal {s}: value {plan.value:.4f}, bound without {least:.4f}, "
                    f"with {plan.gap:.4f} ({plan.certificate.method}), true {true:.1g}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
