"""What people read first: what is proved of the goals together.

A goal is the reward "be in this state at the end". The gaps of all goals hold together, so the largest of them is one
promise for every goal there is, at no cost in delta.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Int

from horizonfree.guarantees.certificate import Certificate
from horizonfree.mdp.rewards import goal
from horizonfree.report.history import GoalStates, goal_states
from horizonfree.runs.run import Run

MOST = 200  # goals that are certified one by one; beyond it those that are scored, evenly spread


def of_goals(run: Run, delta: float = 0.05) -> Certificate:
    """The largest gap of the plans for the goals: of all of them, or of evenly spread ones, which the words count."""
    goals = goal_states(run)
    if len(goals.every) <= MOST:
        return run.certificate(delta, rewards="goals")
    found = run.certificate(delta, rewards=[goal(run.problem, int(s)) for s in goals.scored])
    counted = f"{name_of(goals)}, evenly spread among {len(goals.every):,}"
    return replace(found, statement=found.statement.replace(f"all {len(goals.scored)} rewards", counted, 1))


def certified(goals: GoalStates) -> Int[np.ndarray, " G"]:
    """The goals that `of_goals` is about."""
    return goals.every if len(goals.every) <= MOST else goals.scored


def name_of(goals: GoalStates) -> str:
    """These goals in words."""
    count = len(certified(goals))
    return f"all {count} goals" if count == len(goals.every) else f"worst of {count} goals"
