"""The best policy for a reward, the value of a policy, where it goes."""

from horizonfree.planning.backward import Solution, evaluate, optimal, visits

__all__ = ["Solution", "evaluate", "optimal", "visits"]
