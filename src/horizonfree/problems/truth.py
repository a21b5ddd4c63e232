"""What a policy really loses, for problems whose truth is known."""

from typing import Any

from horizonfree.mdp import rewards
from horizonfree.mdp.policies import policy_table
from horizonfree.planning import evaluate, optimal
from horizonfree.planning.induction import lost
from horizonfree.problems.problem import Problem


def true_gap(problem: Problem, reward: Any, policy: Any, *, scale: str = "total") -> float:
    """What a policy really loses for a reward, in the reward's units; for problems whose truth is known."""
    checked = rewards.resolve(problem, reward, scale=scale)
    kernel, space = problem.kernel(), problem.space
    table = policy_table(policy, *space.sizes)
    best, own = optimal(kernel, checked.table).V, evaluate(kernel, checked.table, table)
    return checked.factor * lost(space, best, own)
