"""Plans for events and bounded properties, certified on lifted states (mdp/events.py).

The event is a reward of lifted states, the reward of a property an ordinary one. Both have values in the units of the
property: probabilities, or sums of the reward; of a plan that makes them as small as possible the gap says by how much
another policy may be below.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from horizonfree.errors import OptionError
from horizonfree.mdp.events import Event, check_event
from horizonfree.mdp.policies import check_allowed, policy_table
from horizonfree.mdp.rewards import resolve
from horizonfree.models import certify
from horizonfree.models.misspecification import declared
from horizonfree.planning.induction import policy_values
from horizonfree.problems.problem import Problem
from horizonfree.problems.verification.properties import Accumulated, Property
from horizonfree.runs.certificate_files import of_event
from horizonfree.runs.plan import Plan, make_plan

MISSING = "too few episodes for this event"
NO_POSTERIOR = "posteriors are not available for properties with min yet; ask for the same with max"


def is_property(reward: Any) -> bool:
    """Whether a reward is an event or a property."""
    return isinstance(reward, (Event, Property))


def check_plain(scale: str, horizon: Any, misspecification: Any, is_extended: bool) -> None:
    """Refuse what belongs to rewards only."""
    if scale != "total" or is_extended or horizon is not None:
        raise OptionError(
            "scale=, horizon=, discount=, final= and transition= are for rewards; an event or a property has its own "
            "number of steps and its own units"
        )
    if declared(misspecification) is not None:
        raise OptionError("misspecification= is for rewards; leave it out for an event or a property")


def on_problem(reward: Event | Property, problem: Problem) -> Event | Accumulated:
    """The event, or what is accumulated, on the states of a problem."""
    found = reward.on_problem(problem) if isinstance(reward, Property) else reward
    if isinstance(found, Event):
        check_event(found, problem.space)
    if found.steps == 0:
        raise OptionError(f"{found.name}: in 0 steps nothing is decided; the bound must be 1 at least")
    return found


def answer(
    run: Any,
    reward: Event | Property,
    policy: Any = None,
    *,
    delta: float = 0.05,
    model: str = "likelihood",
    start: Any = None,
) -> Plan:
    """`run.plan` where policy is None, else `run.evaluate`, of an event or a property."""
    found = on_problem(reward, run.problem)
    if model != "likelihood":
        raise OptionError(
            "events and properties are planned in the estimate of maximum likelihood; leave model= out"
        )
    if policy is not None:
        _, S, A = run.problem.space.sizes
        policy = policy_table(policy, found.steps, S, A)
    if isinstance(found, Accumulated):
        return _accumulated(run, found, policy, delta, start)
    there = run.restart_from(start, found.steps + 1, is_paid_after=True)
    lift, confidence = found.lift(there.problem.space), there.confidence(delta)
    checked = resolve(lift.space, found.reward(there.problem.space))
    if policy is None:
        policy, bounds = certify.planned(there.problem.model, confidence, checked.table, lift)
    else:
        policy = np.concatenate([policy, policy[-1:]])
        check_allowed(there.problem.space, policy)
        bounds = certify.bounds(confidence.lifted(lift), checked.table, policy[:, lift.origin])
    values = policy_values(lift.kernel(confidence.kernel), checked.table, policy[:, lift.origin])
    value = float(lift.space.at_start(values[0]))
    actions = policy[: found.steps]
    how: dict[str, Any] = {
        "missing": MISSING,
        "question": partial(of_event, there, found, actions),
        "lift": lift,
    }
    plan = make_plan(there, checked, confidence, policy, bounds, value=value, **how)
    words = f"this policy and {found.name}, from {there.problem.start_name()}, within {found.steps} steps"
    plan = replace(plan, policy=actions, certificate=replace(plan.certificate, holds_for=words))
    return plan if found.is_max else _turned(plan, 1.0)


def _accumulated(run: Any, found: Accumulated, policy: Any, delta: float, start: Any) -> Plan:
    sign = 1.0 if found.is_max else -1.0
    H = run.problem.horizon
    is_whole = start is None and found.steps == H
    there = run if is_whole else run.restart_from(start, found.steps)
    if policy is None:
        plan = there.plan(sign * found.paid, scale="rescale", delta=delta)
    else:
        plan = there.evaluate(sign * found.paid, policy, scale="rescale", delta=delta)
    return plan if found.is_max else _turned(plan, 0.0)


def _turned(plan: Plan, total: float) -> Plan:
    """A plan whose value is `total` minus the one that was maximised."""
    values = total - plan.value, total - plan.value_high, total - plan.value_low
    credible = replace(plan.credible, refusal=NO_POSTERIOR)
    return replace(plan, value=values[0], value_low=values[1], value_high=values[2], _credible=credible)
