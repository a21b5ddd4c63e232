"""Explore once, without a reward. Then plan for any reward, with a proof of how good the plan is."""

from horizonfree import theory
from horizonfree.certificates import Certificate
from horizonfree.exploration import explore
from horizonfree.explorers import explorers
from horizonfree.mixture import Mixture
from horizonfree.moments import home
from horizonfree.problems import from_gymnasium, make, problems
from horizonfree.rewards import goal, occupancy, rescale
from horizonfree.run import Plan, Run, certify, from_episodes, true_gap
from horizonfree.simulate import simulate

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "Mixture",
    "Plan",
    "Run",
    "certify",
    "explore",
    "explorers",
    "from_episodes",
    "from_gymnasium",
    "goal",
    "home",
    "make",
    "occupancy",
    "problems",
    "rescale",
    "simulate",
    "theory",
    "true_gap",
]
