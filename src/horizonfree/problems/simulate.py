"""Simulated episodes of a problem with a truth; compiled."""

from typing import Any

import numpy as np

from horizonfree._validation import check_instance, check_int, check_seed
from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.mdp.policies import check_allowed, policy_table
from horizonfree.mdp.space import Kernel, Space, Trajectory
from horizonfree.planning.traced import episodes_of
from horizonfree.problems.problem import Problem

MAX_BYTES = 8 * 2**30  # of simulated episodes


@x64
def simulate(problem: Problem, policy: Any, *, episodes: int = 1, seed: int = 0) -> Trajectory:
    """Sample episodes of a problem under a policy, [H, S] actions or [H, S, A] probabilities.

    >>> import numpy as np, horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=3)
    >>> hf.simulate(problem, np.ones((3, 4), int), episodes=5).s.shape
    (5, 4)
    """
    check_instance(problem, Problem, "the problem")
    return simulate_kernel(problem.kernel(), problem.space, policy, episodes=episodes, seed=seed)


@x64
def simulate_kernel(
    kernel: Kernel, space: Space, policy: Any, *, episodes: int = 1, seed: int = 0
) -> Trajectory:
    """Episodes of any kernel on a space."""
    limit = MAX_BYTES // (12 * space.horizon)
    meaning = f"a whole number from 1 to {limit} (more would not fit into memory)"
    number = check_int(episodes, "episodes", 1, limit, meaning)
    check_seed(seed)
    table = policy_table(policy, *space.sizes)
    check_allowed(space, table)
    seeded, kernel, space, table = to_device((np.asarray(seed, np.int64), kernel, space, table))
    sampled: Trajectory = to_numpy(episodes_of(seeded, kernel, space, table, number))
    return sampled
