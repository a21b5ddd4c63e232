"""Problems to explore: named ones, your own, and Gymnasium's."""

from horizonfree.problems.gymnasium.from_env import from_gymnasium
from horizonfree.problems.linear import LinearMDP
from horizonfree.problems.mixture import Mixture
from horizonfree.problems.named import chains, grids, linear, lower_bounds, operations, random
from horizonfree.problems.problem import Problem
from horizonfree.problems.registry import Parameter, ProblemSpec, make, problem, problems
from horizonfree.problems.simulators import from_simulators
from horizonfree.problems.tabular import Tabular

__all__ = [
    "LinearMDP",
    "Mixture",
    "Parameter",
    "Problem",
    "ProblemSpec",
    "Tabular",
    "chains",
    "from_gymnasium",
    "from_simulators",
    "grids",
    "linear",
    "lower_bounds",
    "make",
    "operations",
    "problem",
    "problems",
    "random",
]
