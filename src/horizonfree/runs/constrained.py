"""Plans within constraints: the best policy whose costs are within bounds, with proofs (docs/further-proofs.md).

Everything follows from bounds on single policies and rewards, on the event of the confidence set: for every reward and
policy an interval [low, high] of V^pi, and gap >= V* - V^pi. No other property of a model class is used.
"""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from horizonfree._validation import check_number, require
from horizonfree.errors import HorizonfreeError, OptionError, RewardError
from horizonfree.guarantees.certificate import (
    at_most_one,
    bound_statement,
    confidence_of,
    episodes_text,
    round_up,
)
from horizonfree.mdp.events import Event, EventLift
from horizonfree.mdp.names import name_of
from horizonfree.mdp.policies import is_allowed
from horizonfree.mdp.rewards import Reward, rescale, resolve
from horizonfree.models import certify
from horizonfree.models.base import Confidence
from horizonfree.planning.constrained import ConstrainedSolution, OccupancyProgram
from horizonfree.planning.induction import policy_values
from horizonfree.problems.problem import Problem
from horizonfree.runs.observed import ObservedReward
from horizonfree.runs.plan import (
    UNDECIDED,
    ConstrainedPlan,
    ConstraintResult,
    Memory,
    Plan,
    bound_text,
    make_plan,
    start_distribution_of,
)
from horizonfree.runs.reward_spec import RewardSpec, extend_reward, is_property, on_problem

FEASIBLE, INFEASIBLE = "feasible", "infeasible"
NUM_BISECTIONS = 10  # of how far bounds are tightened: to a thousandth of the slack
NO_MORE = RewardSpec()  # no discount, and nothing paid for transitions or at the end
STRICT = 1e-12  # by how much a contradiction must exceed rounding, as a share of its terms
ESTIMATED = (
    "{} is estimated from recorded rewards, which a plan within constraints does not take; give a table"
)
NO_POSTERIOR = (
    "posteriors of a plan within constraints are not available; for what is likely of its policy, take "
    "run.evaluate(reward, plan.policy)"
)


@dataclass(frozen=True, eq=False)
class Constraint:
    """A bound on the expected total of a cost (`is_upper`) or of a reward: what `at_most` and `at_least` return."""

    reward: Any
    bound: float
    is_upper: bool
    name: str = ""

    @property
    def side(self) -> str:
        """The bound in words."""
        return bound_text(self.is_upper, self.bound)


def at_most(cost: Any, bound: float, *, name: str = "") -> Constraint:
    """A constraint of `Run.plan`: the expected total of a cost is at most `bound`.

    cost: of the forms that rewards have, [H, S, A], [S, A], [S] or a function, with any finite numbers, in the units of
    the bound. name: what answers and reports call it.

    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> run = hf.explore(problem, episodes=300, progress=False)
    >>> plan = run.plan(hf.goal(problem, 3), constraints=[hf.at_most(hf.occupancy(problem, 0), 0.9)])
    >>> plan.status
    'feasible'
    """
    return Constraint(cost, _bound(bound), True, str(name))


def at_least(reward: Any, bound: float, *, name: str = "") -> Constraint:
    """A constraint of `Run.plan`: the expected total of a reward of any form is at least `bound`.

    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> run = hf.explore(problem, episodes=300, progress=False)
    >>> run.plan([0.0, 0, 0, 0], constraints=[hf.at_least(hf.goal(problem, 3), 0.99)]).status
    'infeasible'
    """
    return Constraint(reward, _bound(bound), False, str(name))


def _bound(bound: Any) -> float:
    largest = np.finfo(np.float64).max
    return check_number(bound, "bound", -largest, largest, "a finite number, in the units of the cost")


def plan_within(
    run: Any,
    reward: Any,
    constraints: Any,
    *,
    scale: str = "total",
    delta: float = 0.05,
    model: str = "likelihood",
    start: Any = None,
    horizon: Any = None,
    misspecification: Any = 0.0,
    spec: RewardSpec = NO_MORE,
) -> ConstrainedPlan:
    """`Run.plan` with constraints."""
    check_constraints(run.problem, reward, constraints, model)
    restarted = run if start is None and horizon is None else run.restart_from(start, horizon)
    return Question(restarted, reward, constraints, scale, (delta, misspecification), spec).answer()


def check_constraints(problem: Problem, reward: Any, constraints: Any, model: str = "likelihood") -> None:
    """Refuse what has no constrained plans."""
    check_list(constraints)
    if isinstance(reward, ObservedReward):
        raise RewardError(ESTIMATED.format("reward"))
    problem.check_exact_kernels(
        "constraints= needs policies that draw actions at random, for which nothing is proved with samples; give the "
        "kernels, or plan without constraints="
    )
    if model != "likelihood":
        raise OptionError("constraints= plans in the maximum-likelihood estimate; leave model= out")


def check_list(constraints: Any) -> None:
    """Refuse what is no list of constraints, whatever the run."""
    require(
        not isinstance(constraints, Constraint) and isinstance(constraints, Sequence) and len(constraints),
        "constraints",
        constraints,
        "a list such as [hf.at_most(cost, 0.01)]",
    )
    for i, constraint in enumerate(constraints):
        is_one = isinstance(constraint, Constraint)
        require(is_one, f"constraints[{i}]", constraint, "made with hf.at_most or hf.at_least")
        if isinstance(constraint.reward, ObservedReward):
            raise RewardError(ESTIMATED.format(f"constraints[{i}]"))


def check_costs(problem: Problem, constraints: Sequence[Constraint]) -> None:
    """Refuse costs that do not fit the problem, before long work."""
    check_list(constraints)
    for i, x in enumerate(constraints):
        try:
            if _event(x.reward, problem) is None:
                resolve(problem, x.reward, scale="rescale")
        except HorizonfreeError as error:
            raise type(error)(f"{x.name or f'constraints[{i}]'}: {error}") from error


def _event(x: Any, problem: Problem) -> Event | None:
    """A reward that is an event; None for any other."""
    if not is_property(x):
        return None
    resolved = on_problem(x, problem)
    if not isinstance(resolved, Event) or not resolved.is_max:
        raise RewardError(
            "of properties, plans within constraints take probabilities with max: for min bound the event by "
            "hf.at_most, for sums give the reward"
        )
    return resolved


class Question:
    """A reward and constraints of a run, on the scale of totals of 1; lower bounds are upper ones of the negative.

    Where some of them are events, states are lifted. An event may be decided after the last step of the other rewards,
    which then pay nothing.
    """

    def __init__(
        self,
        run: Any,
        reward: Any,
        constraints: Sequence[Constraint],
        scale: str,
        level: tuple[float, Any],
        spec: RewardSpec = NO_MORE,
    ) -> None:
        self.constraints, self.asked, self.where = constraints, run.problem, run._where
        sources = [reward, *(x.reward for x in constraints)]
        resolved = [_event(x, run.problem) for x in sources]
        events = tuple(x for x in resolved if x is not None)
        first = None if resolved[0] is not None else self._resolve_reward(reward, scale, spec)
        H = run.problem.horizon
        T = max(H, H if first is None else len(first.table), *(x.steps + 1 for x in events), 1)
        self.acts = max(H, *(x.steps for x in events), 1)  # steps whose actions matter
        self.run = run if T == H else run.restart_from(None, T, is_paid_after=True)
        self.model, self.space = self.run.problem.model, self.run.problem.space
        self.confidence: Confidence = self.run.confidence(*level)
        self.memory: Memory | None = None
        if events:
            lift = EventLift.of_events(self.space, events)
            self.memory = Memory(lift, events, run.problem.layout)
            self.space, self.confidence = lift.space, self.confidence.lifted(lift)
        places = np.cumsum([x is not None for x in resolved]) - 1
        self.reward = self._on_states(first, resolved[0], int(places[0]))
        self.costs = [
            self._on_states(
                None if event is not None else resolve(run.problem, x, scale="rescale"), event, int(i)
            )
            for x, event, i in zip(sources[1:], resolved[1:], places[1:])
        ]
        self.sign = np.array([1.0 if x.is_upper else -1.0 for x in constraints])
        bounds = [(x.bound - cost.offset) / cost.factor for x, cost in zip(constraints, self.costs)]
        self.limits = self.sign * np.array(bounds)
        self.signed = np.stack([sign * cost.table for sign, cost in zip(self.sign, self.costs)])

    def _resolve_reward(self, reward: Any, scale: str, spec: RewardSpec) -> Reward:
        """A reward that is no event, with its discount and what is paid later."""
        if all(x is None for x in spec):
            return resolve(self.asked, reward, scale=scale)
        problem, table, lift = extend_reward(self.asked, reward, *spec)
        if lift is not None:
            raise OptionError(
                "constraints= takes transition= of the form g(s, a) + f(s') alone; pay what is expected, or for states "
                "and actions"
            )
        return resolve(problem, table, scale=scale)

    def _on_states(self, reward: Reward | None, event: Event | None, number: int) -> Reward:
        """A reward, or event `number`, on the states and steps of the question."""
        if event is not None:
            assert self.memory is not None
            return Reward(self.memory.lift.paid(event, number))
        assert reward is not None
        table, T = reward.table, self.space.horizon
        if len(table) < T:
            table = np.concatenate([table, np.zeros((T - len(table), *table.shape[1:]))])
        elif self.memory is None:
            return reward
        return replace(
            reward, table=table if self.memory is None else table[:, self.memory.lift.origin], occupied=None
        )

    def answer(self) -> ConstrainedPlan:
        """Plan; prove that the constraints hold, or that no policy satisfies them, or neither."""
        program = self.program()
        safest = program.safest(self.limits)
        if safest is None:
            raise OptionError(
                "the linear programme of these constraints was not solved: their bounds differ too much from the "
                "range of the costs"
            )
        first = program.best(self.reward.table, self.limits) if safest.value <= 0 else None
        if first is not None:
            certified = self._find_feasible(program, first, safest)
            if certified is not None:
                prices = [certified.multipliers, first.multipliers]
                return self._plan(certified.policy, FEASIBLE, prices)
        if self._is_contradicted(safest.multipliers):
            return self._plan(safest.policy, INFEASIBLE, [])
        if first is None:
            return self._undecided_plan(safest.policy, [], [safest], safest.multipliers)
        tight = program.best(self.reward.table, self.limits + safest.value)
        candidates = [x for x in (first, tight, safest) if x is not None]
        return self._undecided_plan(first.policy, [first.multipliers], candidates, safest.multipliers)

    def program(self) -> OccupancyProgram:
        """The linear programme in the estimate."""
        start = start_distribution_of(self.space)
        return OccupancyProgram(self.confidence.kernel, start, self._signed_costs(), is_allowed(self.space))

    def _undecided_plan(
        self,
        policy: Float[np.ndarray, "H S A"],
        multipliers: list[Float[np.ndarray, " m"]],
        candidates: list[ConstrainedSolution],
        weights: Float[np.ndarray, " m"],
    ) -> ConstrainedPlan:
        """The plan, and a forecast: after how many more episodes one of the candidates is certified, or (2) holds."""
        plan, forecast = self._plan(policy, UNDECIDED, multipliers), copy(self)
        if plan.certificate.is_rejected:
            return plan

        def is_decided(confidence: Confidence) -> bool:
            forecast.confidence = confidence
            return any(forecast._is_feasible(x.policy) for x in candidates) or forecast._is_contradicted(
                weights
            )

        text = "whether the constraints can be satisfied cannot be foreseen yet"
        episodes = self.confidence.episodes_until(is_decided)
        if math.isfinite(episodes):
            text = f"about {episodes_text(episodes)} more episodes decide the constraints"
        return replace(plan, certificate=replace(plan.certificate, forecast=text))

    def _signed_costs(self) -> Float[np.ndarray, "m H S A"]:
        """Signed costs for the linear programme: mass that the estimate loses where it knows nothing costs all."""
        missing_mass = 1.0 - np.asarray(self.confidence.kernel.prob).sum(-1)
        costs = self.signed.copy()
        costs[self.sign > 0, :-1] += np.where(missing_mass > STRICT, missing_mass, 0.0)
        return costs

    def _find_feasible(
        self, program: OccupancyProgram, first: ConstrainedSolution, safest: ConstrainedSolution
    ) -> ConstrainedSolution | None:
        """The plan for bounds that are tightened as little as a bisection finds, or None."""
        if self._is_feasible(first.policy):
            return first
        tight = program.best(self.reward.table, self.limits + safest.value)
        result = next((x for x in (tight, safest) if x is not None and self._is_feasible(x.policy)), None)
        if result is None:
            return None
        low, high = 0.0, 1.0
        for _ in range(NUM_BISECTIONS):
            middle = (low + high) / 2
            solution = program.best(self.reward.table, self.limits + middle * safest.value)
            if solution is not None and self._is_feasible(solution.policy):
                result, high = solution, middle
            else:
                low = middle
        return result

    def _results(self, policy: Float[np.ndarray, "H S A"]) -> tuple[ConstraintResult, ...] | None:
        """The constraints under a policy; None where the data refute the class."""
        results = []
        for i, cost in enumerate(self.costs):
            bounds, certificate = certify.for_reward(self.model, self.confidence, cost.table, policy)
            if certificate.is_rejected:
                return None
            results.append(self._result(i, policy, bounds.low, bounds.high))
        return tuple(results)

    def _is_feasible(self, policy: Float[np.ndarray, "H S A"]) -> bool:
        results = self._results(policy)
        return results is not None and all(x.status == "satisfied" for x in results)

    def _is_contradicted(self, weights: Float[np.ndarray, " m"]) -> bool:
        """Whether no policy satisfies the constraints for any parameter, by Theorem C3."""
        if self.confidence.is_refuted:
            return False
        candidates = [weights, *np.eye(len(weights))] if len(weights) > 1 else [np.ones(1)]
        return any(self._is_out_of_reach(w) for w in candidates)

    def _is_out_of_reach(self, weights: Float[np.ndarray, " m"]) -> bool:
        """V*(-w.c) + w.b < 0 for every parameter: (2) of docs/further-proofs.md."""
        reward = rescale(self.space, -np.tensordot(weights, self.signed, 1))
        _, bounds = certify.planned(self.model, self.confidence, reward.table)
        bounds, certificate = certify.certified(self.model, self.confidence, bounds)
        if certificate.is_rejected:
            return False
        best = reward.factor * min(1.0, float(bounds.high) + certificate.eps) + reward.offset
        size = 1.0 + reward.factor + abs(reward.offset) + float(weights @ np.abs(self.limits))
        return best + float(weights @ self.limits) < -STRICT * size

    def _gap(
        self,
        policy: Float[np.ndarray, "H S A"],
        multipliers: Float[np.ndarray, " m"],
        results: tuple[ConstraintResult, ...],
    ) -> float:
        """Theorem C2: the gap of reward - multipliers . costs, and what the constraints leave unused at most."""
        reward = rescale(self.space, self.reward.table - np.tensordot(multipliers, self.signed, 1))
        eps = certify.for_reward(self.model, self.confidence, reward.table, policy)[1].eps
        slack = np.zeros(len(results))
        for i, (x, cost) in enumerate(zip(results, self.costs)):
            unused = x.bound - x.low if x.is_upper else x.high - x.bound
            size = abs(x.bound) + abs(cost.offset) + cost.factor
            slack[i] = (unused + STRICT * size) / cost.factor
        rounding = STRICT * (1.0 + reward.factor + float(multipliers.sum()))
        return reward.factor * eps + float(multipliers @ slack) + rounding

    def _plan(
        self, policy: Float[np.ndarray, "H S A"], status: str, multipliers: list[Float[np.ndarray, " m"]]
    ) -> ConstrainedPlan:
        bounds = certify.bounds(self.confidence, self.reward.table, policy)
        V = policy_values(self.confidence.kernel, self.reward.table, policy)[0]
        plan = make_plan(
            self.run,
            self.reward,
            self.confidence,
            policy,
            bounds,
            value=float(self.space.at_start(V)),
            refusal=NO_POSTERIOR,
            is_claimed=False,
        )
        certificate, results = plan.certificate, self._results(policy)
        multipliers_used, eps = np.zeros(len(self.costs)), certificate.eps
        if certificate.is_rejected or results is None:
            results = tuple(self._result(i, policy, 0.0, 1.0) for i in range(len(self.costs)))
            multipliers, status = [], UNDECIDED
        for lam in multipliers:
            gap = max(0.0, self._gap(policy, lam, results))
            if gap < eps:
                multipliers_used, eps = lam, gap
        if status == INFEASIBLE:
            eps = 1.0
        eps = at_most_one(eps)
        gap = self.reward.factor * eps
        if not certificate.is_rejected:
            statement = self._statement(status, gap, round_up(eps) < 1, certificate.statement)
            scope = certify.scope(certify.THIS_POLICY, self.run.problem.space, self.asked.layout, self.acts)
            holds = f"{scope}, among policies that satisfy the constraints"
            certificate = replace(certificate, eps=eps, statement=statement, holds_for=holds)
        units = self.reward.factor * np.array(
            [sign / cost.factor for sign, cost in zip(self.sign, self.costs)]
        )
        fields = {name: getattr(plan, name) for name in Plan.__dataclass_fields__}
        fields |= {"gap": gap, "certificate": certificate, "_space": self.asked.space}
        fields["policy"] = policy[: self.acts]
        if self.memory is not None:
            fields |= {"start": start_distribution_of(self.space), "layout": self._layout(self.memory)}
        return ConstrainedPlan(
            **fields,
            constraints=results,
            status=status,
            multipliers=multipliers_used * np.abs(units),
            memory=self.memory,
        )

    def _layout(self, memory: Memory) -> dict[str, Any]:
        """Names of lifted states."""
        S, number = len(memory.lift.first), len(memory.events)
        states = [name_of(memory.layout, "states", s) for s in range(S)]
        subset_names = [", ".join(str(i + 1) for i in range(number) if m >> i & 1) for m in range(2**number)]
        names = [f"{x} (decided: {text})" if text else x for text in subset_names for x in states]
        return {key: x for key, x in memory.layout.items() if key != "cells"} | {"states": names}

    def _result(self, i: int, policy: Float[np.ndarray, "H S A"], low: Any, high: Any) -> ConstraintResult:
        """Constraint i under a policy, from an interval on the scale of totals of 1."""
        cost, constraint = self.costs[i], self.constraints[i]
        V = self.space.at_start(policy_values(self.confidence.kernel, cost.table, policy)[0])
        value, low, high = (cost.factor * float(x) + cost.offset for x in (V, low, high))
        name = constraint.name or f"constraint {i + 1}"
        return ConstraintResult(constraint.bound, constraint.is_upper, value, low, high, name)

    def _statement(self, status: str, gap: float, is_certified: bool, vacuous: str) -> str:
        delta = float(self.confidence.delta)
        place = f", {self.where}" if self.where else ""
        end = f"{self.confidence.condition()}{place}"
        level = f"({confidence_of(delta)}, any stopping time)"
        if status == INFEASIBLE:
            return f"no policy satisfies the constraints {level}{end}"
        first = {
            FEASIBLE: f"all constraints hold {level}",
            UNDECIDED: "whether the constraints hold is undecided",
        }[status]
        if not is_certified:
            return f"{first}; {vacuous}"
        bound = bound_statement(gap, delta, " against every policy that satisfies the constraints")
        return f"{first}; {bound}{end}"
