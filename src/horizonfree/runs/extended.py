"""Rewards beyond a plain sum over the steps: discounted ones, for transitions, and for the state in which it ends.

    sum_{h=1}^H gamma^(h-1) [r_h(s_h, a_h) + t(s_h, a_h, s_{h+1})] + gamma^H f(s_{H+1})

A discount gamma makes the table r_h gamma^(h-1), a reward like any other. A final payment f makes it one step longer,
with r_{H+1}(s, a) = f(s): the action there changes nothing, and no transition follows, so that states which only the
last step can reach need not be known. A payment t for transitions is made one step later, for the state that was
entered; where states do not tell it, they are lifted to those that do (mdp/lift.py). All that is certified of rewards
holds for these.

Without an end, a plan for H steps, followed by whatever may be, loses at most

    gap + gamma^H / (1 - gamma) (max r - min r)

where the reward does not depend on the step: both policies get between min r and max r a step from then on.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from horizonfree._validation import check_finite_rewards, check_floats, short_repr
from horizonfree.errors import OptionError, RewardError, ShapeError
from horizonfree.guarantees.certificate import rounded_up
from horizonfree.mdp.allowed import check_allowed
from horizonfree.mdp.lift import PaymentLift, lifted, payments, separated, separated_everywhere
from horizonfree.mdp.policies import policy_table
from horizonfree.mdp.rewards import Reward, as_table, resolve
from horizonfree.models import certify
from horizonfree.models.misspecification import declared
from horizonfree.planning.induction import policy_values
from horizonfree.problems.problem import Problem
from horizonfree.runs.plan import Plan, plan_of

MISSING = "too few episodes for payments that depend on the next state"


class RewardSpec(NamedTuple):
    """What a reward pays beside its table: see the arguments of `Run.plan`."""

    discount: Any = None
    final: Any = None
    transition: Any = None

    @property
    def is_longer(self) -> bool:
        """Whether something is paid for the state after the last step."""
        return self.final is not None or self.transition is not None


class Extended(NamedTuple):
    """The problem, a step longer where the end is paid for, and the reward as a table of it, or of lifted states."""

    problem: Problem
    table: Float[np.ndarray, "H S A"]
    lift: PaymentLift | None = None


def answer(run: Any, reward: Any, policy: Any, more: RewardSpec, *, within: Any = 0.0, **how: Any) -> Plan:
    """`run.plan` where policy is None, else `run.evaluate`, of such a reward."""
    if declared(within) is not None:
        raise OptionError(
            "misspecification= is for rewards without discount=, final= and transition=; leave it out"
        )
    start, horizon, rest = how.pop("start"), how.pop("horizon"), how
    here = run.problem.moved(start, horizon) if start is not None or horizon is not None else run.problem
    _, table, lift = extended(here, reward, *more)
    is_here = start is None and horizon is None and not more.is_longer
    there = run if is_here else run.seen_from(start, len(table), is_paid_after=more.is_longer)
    found: Plan
    if policy is not None:
        policy = np.concatenate([policy_table(policy, *here.space.sizes)] * 2)[: len(table)]
    if lift is not None:
        found = _in_lift(there, lift, table, policy, **rest)
    elif policy is None:
        found = there.plan(table, **rest)
    else:
        found = there.evaluate(table, policy, **rest)
    words = found.certificate.words
    if more.is_longer and (start is not None or horizon is not None):
        words += f", from {here.first_state()}, in {here.horizon} steps"
    if more.discount is not None and more.discount < 1 and not more.is_longer and _is_steady(reward):
        words += f"; without an end, at most {rounded_up(_tail(table, float(more.discount)))} more"
    return replace(
        found,
        policy=found.policy[: here.horizon],
        certificate=replace(found.certificate, words=words, claim=None),
    )


def _in_lift(
    there: Any,
    lift: PaymentLift,
    table: np.ndarray,
    policy: Any,
    *,
    scale: str,
    delta: float,
    model: str = "likelihood",
) -> Plan:
    """A reward of lifted states. What was paid on the way is no reason to act otherwise: policies are of states."""
    if model != "likelihood":
        raise OptionError(
            "transition= is not of the form g(s, a) + f(s'); that is planned in the estimate of maximum "
            "likelihood: leave model= out, or pay what is expected"
        )
    learner, confidence = there.problem.model, there.confidence(delta)
    checked = resolve(lift.space, table, scale=scale)
    if policy is None:
        policy, bounds = certify.planned(learner, confidence, checked.table, lift)
    else:
        check_allowed(learner.space, policy)
        bounds = certify.bounds(confidence.lifted(lift), checked.table, policy[:, lift.origin])
    values = policy_values(lift.kernel(confidence.kernel), checked.table, policy[:, lift.origin])
    value = float(lift.space.at_start(values[0]))
    return plan_of(there, checked, confidence, policy, bounds, value=value, missing=MISSING, is_claimed=False)


def extended(
    problem: Problem, reward: Any, discount: Any = None, final: Any = None, transition: Any = None
) -> Extended:
    """The reward as a table."""
    if isinstance(reward, Reward):
        raise RewardError("this reward was rescaled; give the reward itself, with the scale 'rescale'")
    table, lift, entered = as_table(problem, reward), None, np.zeros(problem.num_states)
    if transition is not None:
        t = payments(problem.space, transition)
        parts = separated(problem.space, t)
        if problem.sampling is not None and problem.sampling.everywhere:
            parts = separated_everywhere(t)
            if parts is None or callable(transition):
                raise OptionError(
                    "these kernels were estimated from samples, and transitions that no sample showed are possible; "
                    "give transition= as an array [S, A, S] of the form g(s, a) + f(s'), or declare successors="
                )
        if parts is not None:
            table, entered = table + parts[0], parts[1]
    if final is not None or transition is not None:
        last = np.broadcast_to(_final(problem, final)[None, :, None], (1, *table.shape[1:]))
        table = np.concatenate([table, last])
        problem = problem.moved(None, len(table), is_paid_after=True)
    if transition is not None and parts is None:
        lift = lifted(problem.space, t)
        table, entered = table[:, lift.origin], lift.paid
    gamma = (1.0 if discount is None else _checked(discount)) ** np.arange(len(table))
    table = table * gamma[:, None, None]
    table[1:] += gamma[:-1, None, None] * entered[:, None]
    return Extended(problem, table, lift)


def _final(problem: Problem, final: Any) -> Float[np.ndarray, " S"]:
    """What the last state is paid; nothing where that is not said."""
    if final is None:
        return np.zeros(problem.num_states)
    paid = check_floats(final, "final")
    if paid.shape != (problem.num_states,):
        raise ShapeError(
            f"final has shape {paid.shape}; it must be [S]=({problem.num_states},), one per state"
        )
    check_finite_rewards(paid)
    return paid


def _checked(discount: Any) -> float:
    is_number = isinstance(discount, (int, float, np.number)) and not isinstance(discount, bool)
    if not is_number or not 0 < discount <= 1:
        raise OptionError(f"discount is {short_repr(discount)}; it must be a number above 0 and at most 1")
    return float(discount)


def _is_steady(reward: Any) -> bool:
    """Whether a reward is the same at every step by its form, so that it goes on after the last."""
    return not callable(reward) and np.ndim(reward) < 3


def _tail(table: Float[np.ndarray, "H S A"], discount: float) -> float:
    """What can be lost after the last step."""
    return float(discount ** len(table) / (1 - discount) * np.ptp(table[0]))
