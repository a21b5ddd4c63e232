"""A Minari data set of FrozenLake, and what it proves: written by a script, read back, planned with.

    pip install horizonfree[minari]
    python gallery/lake_dataset.py

5,000 episodes of a random policy go into the data set `horizonfree/frozen-lake-v0` in a temporary folder.
"""

import os
import tempfile

import gymnasium
import numpy as np

import horizonfree as hf

EPISODES, HORIZON, GOAL = 5_000, 20, 15
NAME = "horizonfree/frozen-lake-v0"


def record(episodes: int = EPISODES, seed: int = 0) -> None:
    """Collect episodes of random actions and store them as a Minari data set."""
    import minari

    env = minari.DataCollector(gymnasium.make("FrozenLake-v1", max_episode_steps=HORIZON))
    rng = np.random.default_rng(seed)
    for k in range(episodes):
        env.reset(seed=seed + k)
        is_over = False
        while not is_over:
            _, _, terminated, truncated, _ = env.step(int(rng.integers(4)))
            is_over = terminated or truncated
    env.create_dataset(
        dataset_id=NAME,
        algorithm_name="random",
        author="horizonfree",
        author_email="",
        code_permalink="",
        description="FrozenLake 4x4, random actions",
    )


def main() -> None:
    """The best policy to be at the goal in the end, and what is proved and likely of it."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = folder
        record()
        run = hf.from_minari(NAME, horizon=HORIZON, terminal=[5, 7, 11, 12, GOAL])
    plan = run.plan(hf.goal(run.problem, GOAL))
    print(run)
    print(plan)
    low, high = plan.credible_interval()
    print(
        f"likely between {low:.3f} and {high:.3f}; loses {plan.credible_gap():.3f} at most, likely (not proved)"
    )


if __name__ == "__main__":
    main()
