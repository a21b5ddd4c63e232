"""Episodes of a problem that knows its truth; compiled."""

from typing import Any

import numpy as np

from horizonfree._validation import check_int, check_seed
from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.errors import ShapeError
from horizonfree.mdp.allowed import check_allowed
from horizonfree.mdp.policies import policy_table
from horizonfree.mdp.space import Kernel, Space
from horizonfree.mdp.trajectory import Trajectory
from horizonfree.planning.rollout import episodes_of
from horizonfree.problems.problem import Problem

MOST_BYTES = 8 * 2**30  # of simulated episodes


@x64
def simulate(problem: Problem, policy: Any, *, episodes: int = 1, seed: int = 0) -> Trajectory:
    """Sample episodes of a problem under a policy, [H, S] actions or [H, S, A] probabilities."""
    if not isinstance(problem, Problem):
        raise ShapeError(f"the problem is a {type(problem).__name__}; it must be a Problem")
    return simulate_kernel(problem.kernel(), problem.space, policy, episodes=episodes, seed=seed)


@x64
def simulate_kernel(
    kernel: Kernel, space: Space, policy: Any, *, episodes: int = 1, seed: int = 0
) -> Trajectory:
    """Episodes of any kernel on a space."""
    most = MOST_BYTES // (12 * space.horizon)
    meaning = f"a whole number from 1 to {most} (more would not fit the memory)"
    number = check_int(episodes, "episodes", 1, most, meaning)
    check_seed(seed)
    table = policy_table(policy, *space.sizes)
    check_allowed(space, table)
    seeded, kernel, space, table = to_device((np.asarray(seed, np.int64), kernel, space, table))
    sampled: Trajectory = to_numpy(episodes_of(seeded, kernel, space, table, number))
    return sampled
