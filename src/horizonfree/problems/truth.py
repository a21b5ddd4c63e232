"""What a policy really loses, for problems whose truth is known."""

from typing import Any

import numpy as np

from horizonfree.mdp import rewards
from horizonfree.mdp.events import Event, check_event
from horizonfree.mdp.policies import policy_table
from horizonfree.planning import evaluate, optimal
from horizonfree.planning.induction import lost
from horizonfree.problems.problem import Problem
from horizonfree.problems.verification.properties import Accumulated, Property


def true_gap(problem: Problem, reward: Any, policy: Any, *, scale: str = "total") -> float:
    """What a policy really loses for a reward, an event or a property, in its units; where the truth is known."""
    if isinstance(reward, (Event, Property)):
        return _true_gap_of(problem, reward, policy)
    checked = rewards.resolve(problem, reward, scale=scale)
    kernel, space = problem.kernel(), problem.space
    table = policy_table(policy, *space.sizes)
    best, own = optimal(kernel, checked.table).V, evaluate(kernel, checked.table, table)
    return checked.factor * lost(space, best, own)


def _true_gap_of(problem: Problem, reward: Event | Property, policy: Any) -> float:
    """The difference of probabilities, or of sums, between the best policy and this one."""
    found = reward.on_problem(problem) if isinstance(reward, Property) else reward
    _, S, A = problem.space.sizes
    if isinstance(found, Accumulated):
        there = problem.moved(None, found.steps)
        paid = found.paid if found.is_max else -found.paid
        return true_gap(there, paid, policy, scale="rescale")
    check_event(found, problem.space)
    space = problem.moved(None, found.steps + 1, is_paid_after=True).space
    lift, table = found.lift(space), policy_table(policy, found.steps, S, A)
    table = np.concatenate([table, table[-1:]])[:, lift.origin]
    kernel, paid = lift.kernel(problem.kernel()), found.reward(space)
    return lost(lift.space, optimal(kernel, paid).V, evaluate(kernel, paid, table))
