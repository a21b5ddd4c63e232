"""Plans of a report within constraints, the trade-off, and what is true of them where the truth is known."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from horizonfree.errors import HorizonfreeError
from horizonfree.mdp.policies import is_allowed
from horizonfree.mdp.rewards import Reward
from horizonfree.mdp.space import Kernel
from horizonfree.planning.constrained import OccupancyProgram
from horizonfree.planning.induction import policy_values
from horizonfree.runs.constrained import Constraint, Question, check_constraints, check_costs
from horizonfree.runs.pareto import TradeOff
from horizonfree.runs.plan import ConstrainedPlan, ConstraintResult, start_distribution_of
from horizonfree.runs.run import Run

POINTS = 8  # policies of a trade-off
MIN_RANGE = 1e-6  # of its costs; below it the best plan is as cheap as any
COLUMNS = ("costs", "cost_low", "cost_high", "values", "value_low", "value_high")  # of its table


class ConstraintStatus(NamedTuple):
    """What is proved of the constraints under a plan. `truth`: their true totals, or None."""

    status: str
    forecast: str
    constraints: tuple[ConstraintResult, ...]
    truth: tuple[float, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        rows = [x.to_dict() for x in self.constraints]
        if self.truth is not None:
            rows = [row | {"truth": x} for row, x in zip(rows, self.truth)]
        return {"status": self.status, "forecast": self.forecast, "constraints": rows}


class Answer(NamedTuple):
    """A plan, its value in the estimate from every state at the first step, and the best true value and the true loss
    among policies within the constraints, or None.
    """

    plan: ConstrainedPlan
    V: Float[np.ndarray, " S"]
    best: float | None
    loss: float | None
    within: ConstraintStatus


class Limits(NamedTuple):
    """The constraints of a report; titles of plans that are refused, with the reason; the trade-off for `cost`."""

    constraints: list[Constraint]
    refused: list[tuple[str, str]]
    cost: Constraint | None
    trade_off: TradeOff | None

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        result: dict[str, Any] = {
            "refused": [{"title": title, "reason": reason} for title, reason in self.refused]
        }
        if self.cost is not None and self.trade_off is not None:
            columns = {name: getattr(self.trade_off, name) for name in COLUMNS}
            result["trade_off"] = {"cost": self.cost.name, "bound": self.cost.bound, **columns}
        return result


def with_names(run: Run, constraints: Sequence[Constraint]) -> list[Constraint]:
    """The constraints, if any, each with a name; refuses those that do not fit the problem."""
    if isinstance(constraints, Sequence) and not constraints:
        return []
    check_costs(run.problem, constraints)
    return [replace(x, name=x.name or f"constraint {i + 1}") for i, x in enumerate(constraints)]


def answer(run: Run, reward: Any, constraints: Sequence[Constraint], delta: float) -> Answer:
    """`run.plan(reward, constraints=constraints)`, and what a report shows beside it."""
    check_constraints(run.problem, reward, constraints)
    question = Question(run, reward, constraints, "total", (delta, 0.0))
    plan = question.answer()
    policy, kernel = plan.policy, question.confidence.kernel
    if len(policy) < question.space.horizon:  # one more step, whose actions change nothing
        policy = np.concatenate([policy, policy[-1:]])
    V = policy_values(kernel, question.reward.table, policy)[0][: run.problem.num_states]
    within = ConstraintStatus(plan.status, plan.certificate.forecast, plan.constraints)
    if run.problem.truth is None:
        return Answer(plan, V, None, None, within)
    kernel = (
        run.problem.kernel() if question.memory is None else question.memory.lift.kernel(run.problem.kernel())
    )
    program = OccupancyProgram(
        kernel, start_distribution_of(question.space), question.signed, is_allowed(question.space)
    )
    solution = program.best(question.reward.table, question.limits)
    best = None if solution is None else question.reward.factor * solution.value + question.reward.offset
    loss = None if best is None else max(0.0, best - _total(question, kernel, question.reward, policy))
    truth = tuple(_total(question, kernel, cost, policy) for cost in question.costs)
    return Answer(plan, V, best, loss, within._replace(truth=truth))


def limits_of(
    run: Run, reward: Any, constraints: list[Constraint], refused: list[tuple[str, str]], delta: float
) -> Limits:
    """The constraints, with the trade-off between a reward and the first cost with an upper bound."""
    cost, curve = next((x for x in constraints if x.is_upper), None), None
    if cost is not None:
        with suppress(HorizonfreeError):  # the plans show why they are refused
            curve = run.pareto(reward, cost.reward, points=POINTS, delta=delta)
    if curve is not None and np.ptp(curve.costs) < MIN_RANGE:
        curve = None
    return Limits(constraints, refused, cost, curve)


def _total(question: Question, kernel: Kernel, reward: Reward, policy: np.ndarray) -> float:
    """The total of a policy in a kernel, in the units of the reward."""
    value = question.space.at_start(policy_values(kernel, reward.table, policy)[0])
    return reward.factor * float(value) + reward.offset
