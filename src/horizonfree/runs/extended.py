"""Rewards beyond a plain sum over the steps: discounted ones, and a payment for the state in which an episode ends.

    sum_{h=1}^H gamma^(h-1) r_h(s_h, a_h) + gamma^H f(s_{H+1})

A discount gamma makes the table r_h gamma^(h-1), a reward like any other. A final payment f makes it one step longer,
with r_{H+1}(s, a) = f(s): the action there changes nothing, and no transition follows, so that states which only the
last step can reach need not be known. All that is certified of rewards holds for both.

Without an end, a plan for H steps, followed by whatever may be, loses at most

    gap + gamma^H / (1 - gamma) (max r - min r)

where the reward does not depend on the step: both policies get between min r and max r a step from then on.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from horizonfree._inputs import finite_rewards, numbers, shown
from horizonfree.errors import OptionError, RewardError, ShapeError
from horizonfree.guarantees.certificate import rounded_up
from horizonfree.mdp.policies import policy_table
from horizonfree.mdp.rewards import Reward, as_table
from horizonfree.models.misspecification import declared
from horizonfree.problems.problem import Problem
from horizonfree.runs.plan import Plan


def answer(
    run: Any, reward: Any, policy: Any, discount: Any, final: Any, *, within: Any = 0.0, **how: Any
) -> Plan:
    """`run.plan` where policy is None, else `run.evaluate`, of such a reward."""
    if declared(within) is not None:
        raise OptionError("misspecification= is for rewards without discount= and final=; leave it out")
    start, horizon, rest = how.pop("start"), how.pop("horizon"), how
    here = run.problem.moved(start, horizon) if start is not None or horizon is not None else run.problem
    _, table = extended(here, reward, discount, final)
    is_here = start is None and horizon is None and final is None
    there = run if is_here else run.seen_from(start, len(table), is_paid_after=final is not None)
    found: Plan
    if policy is None:
        found = there.plan(table, **rest)
    else:
        longer = np.concatenate([policy_table(policy, *here.space.sizes)] * 2)[: len(table)]
        found = there.evaluate(table, longer, **rest)
    words = found.certificate.words
    if final is not None and (start is not None or horizon is not None):
        words += f", from {here.first_state()}, in {here.horizon} steps"
    if discount is not None and discount < 1 and final is None and _is_steady(reward):
        words += f"; without an end, at most {rounded_up(_tail(table, float(discount)))} more"
    return replace(
        found, policy=found.policy[: here.horizon], certificate=replace(found.certificate, words=words)
    )


def extended(
    problem: Problem, reward: Any, discount: Any = None, final: Any = None
) -> tuple[Problem, Float[np.ndarray, "H S A"]]:
    """The problem, a step longer where the end is paid for, and the reward as a table of it."""
    if isinstance(reward, Reward):
        raise RewardError("this reward was rescaled; give the reward itself, with the scale 'rescale'")
    table = as_table(problem, reward)
    if final is not None:
        paid = numbers(final, "final")
        if paid.shape != (problem.num_states,):
            raise ShapeError(
                f"final has shape {paid.shape}; it must be [S]=({problem.num_states},), one per state"
            )
        finite_rewards(paid)
        last = np.broadcast_to(paid[None, :, None], (1, *table.shape[1:]))
        table = np.concatenate([table, last])
        problem = problem.moved(None, len(table), is_paid_after=True)
    if discount is not None:
        table = table * _checked(discount) ** np.arange(len(table))[:, None, None]
    return problem, table


def _checked(discount: Any) -> float:
    is_number = isinstance(discount, (int, float, np.number)) and not isinstance(discount, bool)
    if not is_number or not 0 < discount <= 1:
        raise OptionError(f"discount is {shown(discount)}; it must be a number above 0 and at most 1")
    return float(discount)


def _is_steady(reward: Any) -> bool:
    """Whether a reward is the same at every step by its form, so that it goes on after the last."""
    return not callable(reward) and np.ndim(reward) < 3


def _tail(table: Float[np.ndarray, "H S A"], discount: float) -> float:
    """What can be lost after the last step."""
    return float(discount ** len(table) / (1 - discount) * np.ptp(table[0]))
