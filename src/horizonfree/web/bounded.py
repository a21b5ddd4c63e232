"""Plans that avoid marked states: the probability to be in one of them at least once is at most a bound.

They remember whether a marked state was entered, so policies and values are of lifted states (mdp/events.py).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree._validation import check_int, require, short_repr
from horizonfree.errors import HorizonfreeError, RewardError, ShapeError
from horizonfree.mdp.events import Event, EventLift, reach
from horizonfree.mdp.space import Kernel
from horizonfree.planning.induction import policy_values
from horizonfree.problems.problem import Problem
from horizonfree.runs.constrained import at_most, check_constraints
from horizonfree.runs.plan import ConstrainedPlan, Plan
from horizonfree.runs.run import Run

MAX_TRANSITIONS = 10**7  # of lifted states in all steps: about a minute
SHELL = "horizonfree plan RUN --goal STATE --at-most reach:STATE,STATE=BOUND"


class Bound(NamedTuple):
    """Marked states, and the largest probability to be in one of them at least once."""

    states: tuple[int, ...]
    most: float


class Avoidance(NamedTuple):
    """What a plan within a bound remembers, its value, and its risk to enter a marked state, on lifted states.

    `after`: the first of the rows for those that have entered one. `true_risk`: None where the truth is unknown.
    """

    lift: EventLift
    after: int
    V: Float[np.ndarray, "H1 X"]
    risk: Float[np.ndarray, "H1 X"]
    true_risk: float | None


def bound_of(question: Mapping[str, Any], num_states: int) -> Bound | None:
    """Marked states and their bound from untrusted JSON; None without marks."""
    states, limit = question.get("avoid", []), question.get("bound")
    if not isinstance(states, list):
        raise ShapeError("avoid must be a list of states")
    numbers = [check_index(s, num_states, f"avoid[{i}]") for i, s in enumerate(states)]
    if len(set(numbers)) < len(numbers):
        raise ShapeError("avoid has a state twice; give it once")
    if limit is None and not numbers:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit <= 1:
        raise RewardError(
            f"bound is {short_repr(limit)}; it must be a probability, 0 to 1, to be in one of the states of avoid"
        )
    return Bound(tuple(sorted(numbers)), float(limit)) if numbers else None


def bound_refusal(run: Run, delta: float) -> str | None:
    """Why this run has no plans within a bound, as a sentence; None where it has."""
    problem = run.problem
    (H, S, A), event = problem.space.sizes, reach(problem, [0])
    if H == 1:
        return "Not for this run: with one step an episode, no plan decides where it is."
    if 2 * H * problem.space.succ.size > MAX_TRANSITIONS:
        size = f"{H:,} steps, {S:,} states and {A} actions"
        return f"A plan within a bound takes minutes for {size}; at the shell: {SHELL}."
    try:
        check_constraints(problem, event, [at_most(event, 1.0)])
        run.confidence(delta).lifted(event.lift(problem.space))
    except HorizonfreeError as error:
        return f"Not for this run: {error}."
    return None


def plan_within(
    run: Run, reward: Float[np.ndarray, "H S A"] | Event, bound: Bound, **options: Any
) -> tuple[ConstrainedPlan, Avoidance]:
    """The plan for a reward, or for an event, within a bound."""
    problem = run.problem
    plan = run.plan(reward, constraints=[at_most(reach(problem, list(bound.states)), bound.most)], **options)
    assert isinstance(plan, ConstrainedPlan)
    assert plan.memory is not None  # of the marked states, and of the reward if it is an event
    lift, events = plan.memory.lift, plan.memory.events
    last = len(events) - 1
    goal_payments = lift.paid(events[0], 0) if isinstance(reward, Event) else reward[:, lift.origin]
    entry_payments = lift.paid(events[last], last)
    true_risk = None
    if problem.truth is not None:
        chances = policy_values(lift.kernel(problem.kernel()), entry_payments, plan.policy)[0]
        true_risk = float(lift.space.at_start(chances))
    V, risk = (policy_values(plan.kernel, table, plan.policy) for table in (goal_payments, entry_payments))
    return plan, Avoidance(lift, 2**last * problem.num_states, V, risk, true_risk)


def answer_of(plan: ConstrainedPlan, avoidance: Avoidance, risk: float) -> dict[str, Any]:
    """The status of a plan and what is known of its risk, for the page; `risk`: from the state that was asked for."""
    (result,) = plan.constraints
    return {
        "status": plan.status,
        "risk": risk,
        "risk_summary": result.summary(),
        "forecast": plan.certificate.forecast,
        "true_risk": avoidance.true_risk,
    }


def draws_of(rules: Float[np.ndarray, "S A"] | Int[np.ndarray, " S"]) -> list[list[Any]]:
    """[state, [[action, probability], ...]] where a policy draws its action."""
    if rules.ndim == 1:
        return []
    randomised = np.flatnonzero((rules > 0).sum(axis=-1) > 1)
    return [[int(s), [[int(a), float(rules[s, a])] for a in np.flatnonzero(rules[s])]] for s in randomised]


def world_of(problem: Problem, plan: Plan, lift: EventLift | None) -> Kernel:
    """The kernel in which episodes are simulated: the truth if it is known, else the estimate."""
    if problem.truth is None:
        return plan.kernel
    return problem.kernel() if lift is None else lift.kernel(problem.kernel())


def check_index(value: Any, size: int, name: str, low: int = 0) -> int:
    """An integer from `low` to size - 1 from untrusted JSON."""
    meaning = f"an integer from {low} to {size - 1}"
    require(isinstance(value, int), name, value, meaning, ShapeError)
    return check_int(value, name, low, size - 1, meaning, ShapeError)
