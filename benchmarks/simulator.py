"""Steps per second of the simulator on FrozenLake 8x8 (slippery, H = 50, a fixed random policy), beside Gymnasium.

Ours is the public `simulate`, timed from the call to the NumPy arrays it returns. Gymnasium runs random actions and
resets when an episode ends. Every row is the median over rounds in which the rows take turns.
"""

import argparse
import statistics

import gymnasium as gym
import numpy as np

from _timing import interleave, one_core, report
from horizonfree import from_gymnasium, simulate

H = 50
SEEDS = (1, 64, 1024)
GYM_STEPS = 2000


def gymnasium_steps() -> object:
    """Some thousand steps of the environment itself; what it returns is of no use."""
    env = gym.make("FrozenLake-v1", map_name="8x8", is_slippery=True).unwrapped
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(4, size=GYM_STEPS).tolist()

    def call() -> None:
        for action in actions:
            _, _, terminated, _, _ = env.step(action)
            if terminated:
                env.reset()

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="shorter samples")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args()
    one_core()
    problem = from_gymnasium("FrozenLake-v1", horizon=H, map_name="8x8", is_slippery=True)
    policy = np.random.default_rng(0).integers(problem.num_actions, size=(H, problem.num_states))
    steps = {f"simulate, {seeds} episodes": seeds * H for seeds in SEEDS}
    calls = {
        name: lambda seeds=seeds: simulate(problem, policy, episodes=seeds)
        for name, seeds in zip(steps, SEEDS)
    }
    steps["Gymnasium step()"], calls["Gymnasium step()"] = GYM_STEPS, gymnasium_steps()
    times = interleave(calls, alternations=5, budget=0.1 if options.quick else 1.0)
    rows = [
        {"what": name, "million steps/s": steps[name] / statistics.median(times[name]) / 1e6}
        for name in steps
    ]
    report(rows, options.json)


if __name__ == "__main__":
    main()
