"""What people read first: what is proved of the goals together, and intervals in words.

A goal is the reward "be in this state at the end". The gaps of all goals hold together, so the largest of them is one
promise for every goal there is, at no cost in delta. Numbers of an interval are rounded outwards: the low end down, the
high end up, to two digits of its width, so that what is said stays true.
"""

import math
from dataclasses import replace

import numpy as np
from jaxtyping import Int

from horizonfree.guarantees.certificate import Certificate
from horizonfree.mdp.rewards import goal
from horizonfree.report.history import GoalStates, goal_states
from horizonfree.runs.run import Run

MOST = 200  # goals that are certified one by one; beyond it those that are scored, evenly spread
FINEST = 1e-6  # the smallest unit of an interval that is shown
ROUNDING = 1e-9  # units by which a number may miss a round one, as in `round_up`


def of_goals(run: Run, delta: float = 0.05) -> Certificate:
    """The largest gap of the plans for the goals: of all of them, or of evenly spread ones, which the words count."""
    goals = goal_states(run)
    if len(goals.every) <= MOST:
        return run.certificate(delta, rewards="goals")
    found = run.certificate(delta, rewards=[goal(run.problem, int(s)) for s in goals.scored])
    counted = f"{name_of(goals)}, evenly spread among {len(goals.every):,}"
    return replace(found, words=found.words.replace(f"all {len(goals.scored)} rewards", counted, 1))


def certified(goals: GoalStates) -> Int[np.ndarray, " G"]:
    """The goals that `of_goals` is about."""
    return goals.every if len(goals.every) <= MOST else goals.scored


def name_of(goals: GoalStates) -> str:
    """These goals in words."""
    count = len(certified(goals))
    return f"all {count} goals" if count == len(goals.every) else f"worst of {count} goals"


def interval(low: float, high: float) -> str:
    """Two numbers that something lies between, such as "0.65 and 0.76"."""
    unit = max(FINEST, 10.0 ** (math.floor(math.log10(max(high - low, FINEST))) - 1))
    below, above = math.floor(low / unit + ROUNDING) * unit, math.ceil(high / unit - ROUNDING) * unit
    digits = max(0, -math.floor(math.log10(unit) + 0.5))
    return " and ".join(f"{x + 0.0:,.{0 if x == int(x) else digits}f}" for x in (below, above))
