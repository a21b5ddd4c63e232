"""Plans within constraints: the best policy whose costs are within bounds, with proofs (docs/constrained.md).

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

from horizonfree._repr import ReprTable
from horizonfree._validation import check_number, require, short_repr
from horizonfree.errors import OptionError, RewardError
from horizonfree.guarantees.certificate import (
    about,
    at_most_one,
    confidence_of,
    interval,
    proved,
    round_up,
)
from horizonfree.mdp.policies import is_allowed
from horizonfree.mdp.rewards import Reward, rescale, resolve
from horizonfree.models import certify
from horizonfree.models.base import Confidence
from horizonfree.models.misspecification import declared
from horizonfree.planning.constrained import ConstrainedSolution, OccupancyProgram
from horizonfree.planning.induction import policy_values
from horizonfree.problems.problem import Problem
from horizonfree.runs.observed import ObservedReward
from horizonfree.runs.plan import Plan, make_plan, start_distribution_of
from horizonfree.runs.reward_spec import is_property

FEASIBLE, INFEASIBLE, UNDECIDED = "feasible", "infeasible", "undecided"
NUM_BISECTIONS = 10  # of how far bounds are tightened: to a thousandth of the slack
STRICT = 1e-12  # by how much a contradiction must exceed rounding, as a share of its terms
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


@dataclass(frozen=True)
class ConstraintResult:
    """The expected total of one constraint under a plan, in the constraint's units, with its confidence interval."""

    bound: float
    is_upper: bool
    value: float
    low: float
    high: float

    @property
    def status(self) -> str:
        """Whether this plan certainly satisfies the constraint, certainly violates it, or neither is certain."""
        ahead, behind = (self.high, self.low) if self.is_upper else (-self.low, -self.high)
        bound = self.bound if self.is_upper else -self.bound
        return "satisfied" if ahead <= bound else "violated" if behind > bound else "uncertain"

    def summary(self) -> str:
        """The constraint, and what is known of it, in a line."""
        side = "at most" if self.is_upper else "at least"
        return f"{self.value:.4g}, {interval(self.low, self.high)}; {side} {self.bound:.4g} is {self.status}"


@dataclass(frozen=True, eq=False, repr=False)
class ConstrainedPlan(Plan):
    """A plan within constraints. `gap` is against the best policy that satisfies all constraints in the true system.

    `status`: "feasible" where this plan certainly satisfies all constraints, "infeasible" where certainly no policy
    does, "undecided" where neither is proved, each with probability 1 - delta together with all other bounds. Where the
    status is "infeasible" the policy is one with the smallest excess in the estimate, and `gap` says nothing.
    `multipliers`: the prices of the constraints, in units of the reward, with which `gap` was proved.
    """

    constraints: tuple[ConstraintResult, ...] = ()
    status: str = UNDECIDED
    multipliers: Float[np.ndarray, " m"] | None = None

    def _repr_table(self) -> ReprTable:
        table = super()._repr_table()
        rows = [("status", self.status)]
        rows += [(f"constraint {i}", x.summary()) for i, x in enumerate(self.constraints)]
        return ReprTable(table.title, [*rows, *table.lines])


def at_most(cost: Any, bound: float) -> Constraint:
    """A constraint of `Run.plan`: the expected total of a cost is at most `bound`.

    cost: of the forms that rewards have, [H, S, A], [S, A], [S] or a function, with any finite numbers, in the units of
    the bound.

    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> run = hf.explore(problem, episodes=300, progress=False)
    >>> plan = run.plan(hf.goal(problem, 3), constraints=[hf.at_most(hf.occupancy(problem, 0), 0.9)])
    >>> plan.status
    'feasible'
    """
    return Constraint(cost, _bound(bound), True)


def at_least(reward: Any, bound: float) -> Constraint:
    """A constraint of `Run.plan`: the expected total of a reward of any form is at least `bound`.

    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> run = hf.explore(problem, episodes=300, progress=False)
    >>> run.plan([0.0, 0, 0, 0], constraints=[hf.at_least(hf.goal(problem, 3), 0.99)]).status
    'infeasible'
    """
    return Constraint(reward, _bound(bound), False)


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
    is_extended: bool = False,
) -> ConstrainedPlan:
    """`Run.plan` with constraints."""
    _check(run.problem, reward, constraints, model, misspecification, is_extended)
    there = run if start is None and horizon is None else run.restart_from(start, horizon)
    return _Question(there, reward, constraints, scale, delta).answer()


def _check(
    problem: Problem, reward: Any, constraints: Any, model: str, misspecification: Any, is_extended: bool
) -> None:
    """Refuse what has no constrained plans."""
    require(
        not isinstance(constraints, Constraint) and isinstance(constraints, Sequence) and len(constraints),
        "constraints",
        constraints,
        "a list such as [hf.at_most(cost, 0.01)]",
    )
    for i, constraint in enumerate(constraints):
        if not isinstance(constraint, Constraint):
            raise OptionError(
                f"constraints[{i}] is {short_repr(constraint)}; make it with hf.at_most or hf.at_least"
            )
    for name, x in [
        ("reward", reward),
        *((f"constraints[{i}]", c.reward) for i, c in enumerate(constraints)),
    ]:
        if is_property(x):
            raise RewardError(
                f"{name} is an event or a property, which a plan within constraints does not take: what happened "
                "before would have to be remembered by its policy; make the states of the event absorbing in the "
                "problem, and take hf.goal(problem, states)"
            )
        if isinstance(x, ObservedReward):
            raise RewardError(
                f"{name} is estimated from recorded rewards, which a plan within constraints does not take; "
                "give a table"
            )
    if problem.sampling is not None:
        raise OptionError(
            "constraints= needs policies that draw actions at random, for which nothing is proved where kernels are "
            "estimates from samples; give the kernels, or plan without constraints="
        )
    if model != "likelihood":
        raise OptionError("constraints= plans in the maximum-likelihood estimate; leave model= out")
    if declared(misspecification) is not None:
        raise OptionError(
            "constraints= needs policies that draw actions at random, for which misspecification= proves nothing; "
            "leave one of them out"
        )
    if is_extended:
        raise OptionError(
            "constraints= is for rewards without discount=, final= and transition=; write them into a table "
            "[H, S, A], or leave them out"
        )


class _Question:
    """A reward and constraints of a run, on the scale of totals of 1; lower bounds are upper ones of the negative."""

    def __init__(
        self, run: Any, reward: Any, constraints: Sequence[Constraint], scale: str, delta: float
    ) -> None:
        self.run, self.model, self.space = run, run.problem.model, run.problem.space
        self.constraints = constraints
        self.confidence: Confidence = run.confidence(delta)
        self.reward: Reward = run.resolved(reward, scale)
        self.costs = [resolve(self.space, x.reward, scale="rescale") for x in constraints]
        self.sign = np.array([1.0 if x.is_upper else -1.0 for x in constraints])
        bounds = [(x.bound - cost.offset) / cost.factor for x, cost in zip(constraints, self.costs)]
        self.limits = self.sign * np.array(bounds)
        self.signed = np.stack([sign * cost.table for sign, cost in zip(self.sign, self.costs)])

    def answer(self) -> ConstrainedPlan:
        """Plan; prove that the constraints hold, or that no policy satisfies them, or neither."""
        program = OccupancyProgram(
            self.confidence.kernel,
            start_distribution_of(self.space),
            self._charged(),
            is_allowed(self.space),
        )
        safest = program.safest(self.limits)
        if safest is None:
            raise OptionError(
                "the linear programme of these constraints was not solved: their bounds differ too much from the "
                "range of the costs"
            )
        first = program.best(self.reward.table, self.limits) if safest.value <= 0 else None
        if first is not None:
            certified = self._certified(program, first, safest)
            if certified is not None:
                prices = [certified.multipliers, first.multipliers]
                return self._plan(certified.policy, FEASIBLE, prices)
        if self._is_contradicted(safest.multipliers):
            return self._plan(safest.policy, INFEASIBLE, [])
        if first is None:
            return self._undecided(safest.policy, [], [safest], safest.multipliers)
        tight = program.best(self.reward.table, self.limits + safest.value)
        likely = [x for x in (first, tight, safest) if x is not None]
        return self._undecided(first.policy, [first.multipliers], likely, safest.multipliers)

    def _undecided(
        self,
        policy: Float[np.ndarray, "H S A"],
        multipliers: list[Float[np.ndarray, " m"]],
        candidates: list[ConstrainedSolution],
        weights: Float[np.ndarray, " m"],
    ) -> ConstrainedPlan:
        """The plan, and a forecast: after how many more episodes one of the candidates is certified, or (2) holds."""
        plan, later = self._plan(policy, UNDECIDED, multipliers), copy(self)
        if plan.certificate.is_rejected:
            return plan

        def is_decided(confidence: Confidence) -> bool:
            later.confidence = confidence
            return any(later._is_feasible(x.policy) for x in candidates) or later._is_contradicted(weights)

        words = "whether the constraints can be satisfied cannot be foreseen yet"
        episodes = self.confidence.episodes_until(is_decided)
        if math.isfinite(episodes):
            words = f"about {about(episodes)} more episodes decide the constraints"
        return replace(plan, certificate=replace(plan.certificate, forecast=words))

    def _charged(self) -> Float[np.ndarray, "m H S A"]:
        """Signed costs for the linear programme: mass that the estimate loses where it knows nothing costs all."""
        lost = 1.0 - np.asarray(self.confidence.kernel.prob).sum(-1)
        charged = self.signed.copy()
        charged[self.sign > 0, :-1] += np.where(lost > STRICT, lost, 0.0)
        return charged

    def _certified(
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
            tried = program.best(self.reward.table, self.limits + middle * safest.value)
            if tried is not None and self._is_feasible(tried.policy):
                result, high = tried, middle
            else:
                low = middle
        return result

    def _results(self, policy: Float[np.ndarray, "H S A"]) -> tuple[ConstraintResult, ...] | None:
        """The constraints under a policy; None where the data refute the class."""
        results = []
        for constraint, cost in zip(self.constraints, self.costs):
            bounds, certificate = certify.for_reward(self.model, self.confidence, cost.table, policy)
            if certificate.is_rejected:
                return None
            V = policy_values(self.confidence.kernel, cost.table, policy)[0]
            ends = (
                cost.factor * float(x) + cost.offset
                for x in (self.space.at_start(V), bounds.low, bounds.high)
            )
            results.append(ConstraintResult(constraint.bound, constraint.is_upper, *ends))
        return tuple(results)

    def _is_feasible(self, policy: Float[np.ndarray, "H S A"]) -> bool:
        results = self._results(policy)
        return results is not None and all(x.status == "satisfied" for x in results)

    def _is_contradicted(self, weights: Float[np.ndarray, " m"]) -> bool:
        """Whether no policy satisfies the constraints for any parameter, by Theorem C3."""
        if self.confidence.is_refuted:
            return False
        tried = [weights, *np.eye(len(weights))] if len(weights) > 1 else [np.ones(1)]
        return any(self._is_out_of_reach(w) for w in tried)

    def _is_out_of_reach(self, weights: Float[np.ndarray, " m"]) -> bool:
        """V*(-w.c) + w.b < 0 for every parameter: (2) of docs/constrained.md."""
        paid = rescale(self.space, -np.tensordot(weights, self.signed, 1))
        _, bounds = certify.planned(self.model, self.confidence, paid.table)
        bounds, certificate = certify.certified(self.model, self.confidence, bounds)
        if certificate.is_rejected:
            return False
        best = paid.factor * min(1.0, float(bounds.high) + certificate.eps) + paid.offset
        size = 1.0 + paid.factor + abs(paid.offset) + float(weights @ np.abs(self.limits))
        return best + float(weights @ self.limits) < -STRICT * size

    def _gap(
        self,
        policy: Float[np.ndarray, "H S A"],
        multipliers: Float[np.ndarray, " m"],
        results: tuple[ConstraintResult, ...],
    ) -> float:
        """Theorem C2: the gap of reward - multipliers . costs, and what the constraints leave unused at most."""
        priced = rescale(self.space, self.reward.table - np.tensordot(multipliers, self.signed, 1))
        eps = certify.for_reward(self.model, self.confidence, priced.table, policy)[1].eps
        slack = np.zeros(len(results))
        for i, (x, cost) in enumerate(zip(results, self.costs)):
            unused = x.bound - x.low if x.is_upper else x.high - x.bound
            size = abs(x.bound) + abs(cost.offset) + cost.factor
            slack[i] = (unused + STRICT * size) / cost.factor
        rounding = STRICT * (1.0 + priced.factor + float(multipliers.sum()))
        return priced.factor * eps + float(multipliers @ slack) + rounding

    def _plan(
        self, policy: Float[np.ndarray, "H S A"], status: str, multipliers: list[Float[np.ndarray, " m"]]
    ) -> ConstrainedPlan:
        bounds = certify.bounds(self.confidence, self.reward.table, policy)
        plan = make_plan(
            self.run, self.reward, self.confidence, policy, bounds, refusal=NO_POSTERIOR, is_claimed=False
        )
        certificate, results = plan.certificate, self._results(policy)
        chosen, eps = np.zeros(len(self.costs)), certificate.eps
        if certificate.is_rejected or results is None:
            results = tuple(self._unknown(i, policy) for i in range(len(self.costs)))
            multipliers, status = [], UNDECIDED
        for lam in multipliers:
            gap = max(0.0, self._gap(policy, lam, results))
            if gap < eps:
                chosen, eps = lam, gap
        if status == INFEASIBLE:
            eps = 1.0
        eps = at_most_one(eps)
        gap = self.reward.factor * eps
        if not certificate.is_rejected:
            words = self._words(status, gap, round_up(eps) < 1, certificate.statement)
            holds = f"{certificate.holds_for}, among policies that satisfy the constraints"
            certificate = replace(certificate, eps=eps, statement=words, holds_for=holds)
        units = self.reward.factor * np.array(
            [sign / cost.factor for sign, cost in zip(self.sign, self.costs)]
        )
        fields = {name: getattr(plan, name) for name in Plan.__dataclass_fields__}
        fields |= {"gap": gap, "certificate": certificate}
        return ConstrainedPlan(
            **fields, constraints=results, status=status, multipliers=chosen * np.abs(units)
        )

    def _unknown(self, i: int, policy: Float[np.ndarray, "H S A"]) -> ConstraintResult:
        """A constraint of which nothing is proved."""
        cost, constraint = self.costs[i], self.constraints[i]
        V = self.space.at_start(policy_values(self.confidence.kernel, cost.table, policy)[0])
        value, low, high = (cost.factor * float(x) + cost.offset for x in (V, 0.0, 1.0))
        return ConstraintResult(constraint.bound, constraint.is_upper, value, low, high)

    def _words(self, status: str, gap: float, is_certified: bool, vacuous: str) -> str:
        delta = float(self.confidence.delta)
        where = f", {self.run._where}" if self.run._where else ""
        end = f"{self.confidence.condition()}{where}"
        level = f"({confidence_of(delta)}, any stopping time)"
        if status == INFEASIBLE:
            return f"no policy satisfies the constraints {level}{end}"
        first = {
            FEASIBLE: f"all constraints hold {level}",
            UNDECIDED: "whether the constraints hold is undecided",
        }[status]
        if not is_certified:
            return f"{first}; {vacuous}"
        bound = proved(gap, delta, " against every policy that satisfies the constraints")
        return f"{first}; {bound}{end}"
