"""Many episodes at once of a noisy system of one real number, under a plan of its cells."""

import numpy as np


def simulated_return(policy, bins, goal, drift, sigma, low=10.0, high=30.0, start=15.0, episodes=20_000):
    """The share of episodes that end in one of the goal's cells."""
    rng, width = np.random.default_rng(0), (high - low) / bins
    x = np.full(episodes, start)
    cell = lambda x: np.minimum(((x - low) / width).astype(int), bins - 1)  # noqa: E731
    for h in range(len(policy) - 1):
        x = np.clip(drift(x, policy[h, cell(x)]) + sigma * rng.standard_normal(episodes), low, high)
    return float(np.isin(cell(x), goal).mean())
