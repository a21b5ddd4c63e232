"""Problems to explore: named ones, your own, and Gymnasium's."""

from horizonfree.problems.classes import LinearMDP, Mixture, Tabular, problem_of_model
from horizonfree.problems.gymnasium.from_env import from_gymnasium
from horizonfree.problems.named import navigation, operations, synthetic
from horizonfree.problems.problem import Problem
from horizonfree.problems.registry import Parameter, ProblemSpec, make, problem, problems
from horizonfree.problems.simulators import from_simulators

__all__ = [
    "LinearMDP",
    "Mixture",
    "Parameter",
    "Problem",
    "ProblemSpec",
    "Tabular",
    "from_gymnasium",
    "from_simulators",
    "make",
    "navigation",
    "operations",
    "problem",
    "problem_of_model",
    "problems",
    "synthetic",
]
