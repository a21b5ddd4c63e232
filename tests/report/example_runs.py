"""Runs of every kind that a report must tell of, each explored once."""

from collections.abc import Sequence
from functools import cache

import numpy as np

import horizonfree as hf
from horizonfree.runs.run import Run

RIVER = hf.make("river-swim", states=8, horizon=4)


@cache
def grid(episodes: int = 70, seed: int = 0, explorer: str = "optimal-design") -> Run:
    problem = hf.make("zoned-grid", size=4, zones=2, horizon=8)
    return hf.explore(problem, explorer, episodes=episodes, seed=seed, progress=False)


@cache
def table(episodes: int = 1500) -> Run:
    """A lake of which nothing is known but its states."""
    problem = hf.make("gymnasium:FrozenLake-v1", horizon=12).as_tabular()
    return hf.explore(problem, episodes=episodes, progress=False)


@cache
def river() -> Run:
    """A river, hardly explored; its second half is out of reach."""
    return hf.explore(RIVER, "uniform", episodes=5, progress=False)


@cache
def run_of_known_kernel() -> Run:
    """One kernel, nothing to learn: q = 0; no cells either."""
    kernel = np.random.default_rng(0).dirichlet(np.ones(3), (1, 3, 2))
    problem = hf.Mixture.from_kernels(kernel, horizon=4, weights=[1.0], name="known")
    return hf.explore(problem, "uniform", episodes=3, progress=False)


@cache
def rejected_run() -> Run:
    """Logged episodes that jump two places at once, which the river cannot do."""
    return hf.from_episodes(RIVER, ([[0, 2, 2, 2, 2]] * 3, [[1, 1, 1, 1]] * 3))


@cache
def logged() -> Run:
    """Recorded episodes of the true system; a report cannot know whether the class contains their truth."""
    episodes = hf.simulate(RIVER, np.ones((4, 8), int), episodes=50)
    return hf.from_episodes(RIVER, episodes)


@cache
def unlabelled() -> Run:
    """A mixture without cells or names of actions."""
    problem = hf.make("random-mixture", states=4, actions=2, dim=3, horizon=4)
    return hf.explore(problem, "uniform", episodes=30, progress=False)


@cache
def run_with_starts(starts: Sequence[int] = (0, 1), episodes: int = 30) -> Run:
    """A frozen lake, 4 x 4, whose first state is drawn from some states, one as likely as the other."""
    start = np.bincount(starts, minlength=16) / len(starts)
    problem = hf.from_gymnasium("FrozenLake-v1", horizon=8, start=start.tolist())
    return hf.explore(problem, "uniform", episodes=episodes, progress=False)
