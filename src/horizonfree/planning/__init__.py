"""Backward induction, policy evaluation, occupancy measures."""

from horizonfree.planning.induction import Solution
from horizonfree.planning.solvers import Best, evaluate, optimal, optimal_values, visits

__all__ = ["Best", "Solution", "evaluate", "optimal", "optimal_values", "visits"]
