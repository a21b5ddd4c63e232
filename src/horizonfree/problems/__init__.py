"""Named problems, and Gymnasium in both directions."""

from horizonfree.problems import chains, grids, lower_bounds, operations, random
from horizonfree.problems._registry import Parameter, ProblemSpec, make, problem, problems
from horizonfree.problems.from_gym import from_gymnasium
from horizonfree.problems.live import check_env_matches, run_episode

__all__ = [
    "Parameter",
    "ProblemSpec",
    "chains",
    "check_env_matches",
    "from_gymnasium",
    "grids",
    "lower_bounds",
    "make",
    "operations",
    "problem",
    "problems",
    "random",
    "run_episode",
]
