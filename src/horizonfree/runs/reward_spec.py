"""Plans for rewards with a discount, for transitions and for the final state, and for events and properties.

    sum_{h=1}^H gamma^(h-1) [r_h(s_h, a_h) + t(s_h, a_h, s_{h+1})] + gamma^H f(s_{H+1})

With a discount gamma the table is r_h gamma^(h-1). A final reward f adds a step with r_{H+1}(s, a) = f(s); no
transition follows it. A transition reward t is paid one step later, for the state that was entered; where states do not
determine it, the state space is lifted (mdp/events.py). Certificates hold for all of these.

With an infinite horizon, a plan for H steps followed by any policy has suboptimality at most

    gap + gamma^H / (1 - gamma) (max r - min r)

if the reward does not depend on the step: after step H both policies get between min r and max r per step.

An event is a reward on lifted states; the reward of a property is an ordinary one. Values are in the units of the
property: probabilities, or sums of the reward. Where a plan minimises, `gap` bounds by how much another policy may be
below it.
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from horizonfree._validation import check_finite_rewards, check_floats, check_number, check_shape, require
from horizonfree.errors import OptionError, RewardError
from horizonfree.guarantees.certificate import round_up_text
from horizonfree.mdp.events import (
    Event,
    PaymentLift,
    check_event,
    lift_payments,
    payments,
    split_payments,
    split_payments_everywhere,
)
from horizonfree.mdp.policies import check_allowed, policy_table
from horizonfree.mdp.rewards import Reward, as_table, resolve
from horizonfree.mdp.space import Kernel
from horizonfree.models import certify
from horizonfree.models.misspecification import declared
from horizonfree.planning.induction import best_plan, policy_values
from horizonfree.problems.problem import Problem
from horizonfree.problems.verification.properties import Accumulated, Property
from horizonfree.runs.certificate_files import of_event
from horizonfree.runs.plan import Plan, make_plan

TOO_FEW_EPISODES = "too few episodes for rewards that depend on the next state"
TOO_FEW_FOR_EVENT = "too few episodes for this event"
NO_POSTERIOR = "posteriors are not available for properties with min yet; ask for the same with max"


class RewardSpec(NamedTuple):
    """Parts of a reward beside its table: see the arguments of `Run.plan`."""

    discount: Any = None
    final: Any = None
    transition: Any = None

    @property
    def is_longer(self) -> bool:
        """Whether there is a reward after the last step."""
        return self.final is not None or self.transition is not None


class ExtendedReward(NamedTuple):
    """The problem, perhaps with one more step, and the reward as a table on its states, or on lifted ones."""

    problem: Problem
    table: Float[np.ndarray, "H S A"]
    lift: PaymentLift | None = None


def plan_or_evaluate(
    run: Any, reward: Any, policy: Any, spec: RewardSpec, *, misspecification: Any = 0.0, **options: Any
) -> Plan:
    """`run.plan` if policy is None, else `run.evaluate`, for a reward with these parts."""
    if declared(misspecification) is not None:
        raise OptionError(
            "misspecification= is for rewards without discount=, final= and transition=; leave it out"
        )
    start, horizon = options.pop("start"), options.pop("horizon")
    problem = (
        run.problem.with_start(start, horizon) if start is not None or horizon is not None else run.problem
    )
    _, table, lift = extend_reward(problem, reward, *spec)
    is_same = start is None and horizon is None and not spec.is_longer
    restart = run if is_same else run.restart_from(start, len(table), is_paid_after=spec.is_longer)
    plan: Plan
    if policy is not None:
        policy = np.concatenate([policy_table(policy, *problem.space.sizes)] * 2)[: len(table)]
    if lift is not None:
        plan = _plan_lifted(restart, lift, table, policy, **options)
    elif policy is None:
        plan = restart.plan(table, **options)
    else:
        plan = restart.evaluate(table, policy, **options)
    statement = plan.certificate.statement
    if spec.is_longer and (start is not None or horizon is not None):
        statement += f", from {problem.start_name()}, in {problem.horizon} steps"
    if spec.discount is not None and spec.discount < 1 and not spec.is_longer and _is_stationary(reward):
        tail = round_up_text(_discounted_tail(table, float(spec.discount)))
        statement += f"; with an infinite horizon, at most {tail} more"
    certificate = replace(plan.certificate, statement=statement, claim=None)
    if certificate.holds_for:
        scope = certify.scope(certify.THIS_POLICY, problem.space, problem.layout)
        certificate = replace(certificate, holds_for=scope)
    return replace(plan, policy=plan.policy[: problem.horizon], certificate=certificate)


def _plan_lifted(
    restart: Any,
    lift: PaymentLift,
    table: np.ndarray,
    policy: Any,
    *,
    scale: str,
    delta: float,
    model: str = "likelihood",
) -> Plan:
    """A plan for a reward on lifted states; policies depend on the original states only."""
    if model != "likelihood":
        raise OptionError(
            "transition= is not of the form g(s, a) + f(s'); that can only be planned in the maximum-likelihood "
            "estimate: leave model= out, or give the expected payment as reward"
        )
    learner, confidence = restart.problem.model, restart.confidence(delta)
    resolved = resolve(lift.space, table, scale=scale)
    if policy is None:
        policy, bounds = certify.planned(learner, confidence, resolved.table, lift)
    else:
        check_allowed(learner.space, policy)
        bounds = certify.bounds(confidence.lifted(lift), resolved.table, policy[:, lift.origin])
    values = policy_values(lift.kernel(confidence.kernel), resolved.table, policy[:, lift.origin])
    value = float(lift.space.at_start(values[0]))
    return make_plan(
        restart,
        resolved,
        confidence,
        policy,
        bounds,
        value=value,
        missing=TOO_FEW_EPISODES,
        lift=lift,
        is_claimed=False,
    )


def extend_reward(
    problem: Problem, reward: Any, discount: Any = None, final: Any = None, transition: Any = None
) -> ExtendedReward:
    """The reward as a table, and the problem and the lifted states that the table is for."""
    if isinstance(reward, Reward):
        raise RewardError("this reward was rescaled; give the original reward, with scale='rescale'")
    table, lift, entry_payments = as_table(problem, reward), None, np.zeros(problem.num_states)
    if transition is not None:
        t = payments(problem.space, transition)
        parts = split_payments(problem.space, t)
        if problem.sampling is not None and problem.sampling.everywhere:
            parts = split_payments_everywhere(t)
            if parts is None or callable(transition):
                raise OptionError(
                    "these kernels were estimated from samples, and transitions that no sample showed are possible; "
                    "give transition= as an array [S, A, S] of the form g(s, a) + f(s'), or declare successors="
                )
        if parts is not None:
            table, entry_payments = table + parts[0], parts[1]
    if final is not None or transition is not None:
        last = np.broadcast_to(_final_values(problem, final)[None, :, None], (1, *table.shape[1:]))
        table = np.concatenate([table, last])
        problem = problem.with_start(None, len(table), is_paid_after=True)
    if transition is not None and parts is None:
        lift = lift_payments(problem.space, t)
        table, entry_payments = table[:, lift.origin], lift.paid
    gamma = (1.0 if discount is None else _check_discount(discount)) ** np.arange(len(table))
    table = table * gamma[:, None, None]
    table[1:] += gamma[:-1, None, None] * entry_payments[:, None]
    return ExtendedReward(problem, table, lift)


def _final_values(problem: Problem, final: Any) -> Float[np.ndarray, " S"]:
    """The reward for the last state, zero by default."""
    if final is None:
        return np.zeros(problem.num_states)
    values = check_shape(check_floats(final, "final"), "final", (problem.num_states,), "[S]")
    check_finite_rewards(values)
    return values


def _check_discount(discount: Any) -> float:
    meaning = "a number above 0 and at most 1"
    value = check_number(discount, "discount", 0, 1, meaning)
    require(value > 0, "discount", discount, meaning)
    return value


def _is_stationary(reward: Any) -> bool:
    """Whether the form of a reward makes it the same at every step."""
    return not callable(reward) and np.ndim(reward) < 3


def _discounted_tail(table: Float[np.ndarray, "H S A"], discount: float) -> float:
    """The largest suboptimality after the last step."""
    return float(discount ** len(table) / (1 - discount) * np.ptp(table[0]))


def is_property(reward: Any) -> bool:
    """Whether a reward is an event or a property."""
    return isinstance(reward, (Event, Property))


def check_event_options(scale: str, horizon: Any, misspecification: Any, is_extended: bool) -> None:
    """Raise an error for options that are for rewards only."""
    if scale != "total" or is_extended or horizon is not None:
        raise OptionError(
            "scale=, horizon=, discount=, final= and transition= are for rewards; an event or a property has its own "
            "number of steps and its own units"
        )
    if declared(misspecification) is not None:
        raise OptionError("misspecification= is for rewards; leave it out for an event or a property")


def on_problem(reward: Event | Property, problem: Problem) -> Event | Accumulated:
    """The event, or what is accumulated, on the states of a problem."""
    event = reward.on_problem(problem) if isinstance(reward, Property) else reward
    if isinstance(event, Event):
        check_event(event, problem.space)
    if event.steps == 0:
        raise OptionError(f"{event.name}: in 0 steps nothing is decided; the bound must be 1 at least")
    return event


class EventValues(NamedTuple):
    """Probabilities of an event in one kernel.

    `V`: that it occurs under the policy, from each step and state, if it is not decided before; `value`: the same at
    the start; `best`: the optimum at the start.
    """

    V: Float[np.ndarray, "H1 S"]
    value: float
    best: float


def event_values(
    problem: Problem, event: Event, policy: Float[np.ndarray, "H S A"] | np.ndarray, kernel: Kernel
) -> EventValues:
    """policy: of all H steps, for an event within H - 1 transitions (`hf.reach`)."""
    lift, table = event.lift(problem.space), event.reward(problem.space)
    lifted_kernel, at_start = lift.kernel(kernel), lift.space.at_start
    V = policy_values(lifted_kernel, table, policy[:, lift.origin])
    best = best_plan(lifted_kernel, table).V[0]
    return EventValues(V[:, lift.first], float(at_start(V[0])), float(at_start(best)))


def plan_or_evaluate_event(
    run: Any,
    reward: Event | Property,
    policy: Any = None,
    *,
    delta: float = 0.05,
    model: str = "likelihood",
    start: Any = None,
) -> Plan:
    """`run.plan` if policy is None, else `run.evaluate`, for an event or a property."""
    event = on_problem(reward, run.problem)
    if model != "likelihood":
        raise OptionError(
            "events and properties are planned in the maximum-likelihood estimate; leave model= out"
        )
    if policy is not None:
        _, S, A = run.problem.space.sizes
        policy = policy_table(policy, event.steps, S, A)
    if isinstance(event, Accumulated):
        return _plan_accumulated(run, event, policy, delta, start)
    restart = run.restart_from(start, event.steps + 1, is_paid_after=True)
    lift, confidence = event.lift(restart.problem.space), restart.confidence(delta)
    resolved = resolve(lift.space, event.reward(restart.problem.space))
    if policy is None:
        policy, bounds = certify.planned(restart.problem.model, confidence, resolved.table, lift)
    else:
        policy = np.concatenate([policy, policy[-1:]])
        check_allowed(restart.problem.space, policy)
        bounds = certify.bounds(confidence.lifted(lift), resolved.table, policy[:, lift.origin])
    values = policy_values(lift.kernel(confidence.kernel), resolved.table, policy[:, lift.origin])
    value = float(lift.space.at_start(values[0]))
    actions = policy[: event.steps]
    options: dict[str, Any] = {
        "missing": TOO_FEW_FOR_EVENT,
        "question": partial(of_event, restart, event, actions),
        "lift": lift,
    }
    plan = make_plan(restart, resolved, confidence, policy, bounds, value=value, **options)
    holds_for = (
        f"this policy and {event.name}, from {restart.problem.start_name()}, within {event.steps} steps"
    )
    plan = replace(plan, policy=actions, certificate=replace(plan.certificate, holds_for=holds_for))
    return plan if event.is_max else _subtract_from(plan, 1.0)


def _plan_accumulated(run: Any, event: Accumulated, policy: Any, delta: float, start: Any) -> Plan:
    sign = 1.0 if event.is_max else -1.0
    H = run.problem.horizon
    is_same = start is None and event.steps == H
    restart = run if is_same else run.restart_from(start, event.steps)
    if policy is None:
        plan = restart.plan(sign * event.paid, scale="rescale", delta=delta)
    else:
        plan = restart.evaluate(sign * event.paid, policy, scale="rescale", delta=delta)
    return plan if event.is_max else _subtract_from(plan, 0.0)


def _subtract_from(plan: Plan, total: float) -> Plan:
    """A plan whose value is `total` minus the one that was maximised."""
    value, low, high = total - plan.value, total - plan.value_high, total - plan.value_low
    credible = replace(plan.credible, refusal=NO_POSTERIOR)
    return replace(plan, value=value, value_low=low, value_high=high, _credible=credible)
