"""What a run answers at one confidence: plans, values and comparisons of policies, for checked rewards.

A run in memory computes with compiled calls, one that was kept in its folder with NumPy (kept.py): the same formulas.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from horizonfree._arrays import leaf
from horizonfree._shapes import Float
from horizonfree.mdp.allowed import check_allowed, named_allowed
from horizonfree.mdp.names import Named
from horizonfree.mdp.part import inside, outside, resolve_inside
from horizonfree.mdp.policies import policy_table
from horizonfree.mdp.rewards import Reward
from horizonfree.mdp.space import Kernel, Space
from horizonfree.models.said import Said, given
from horizonfree.models.world import Bounds
from horizonfree.planning.induction import Solution, best_policy, lost, policy_values
from horizonfree.runs.plan import Comparison, Plan, start_of

Table = Float[np.ndarray, "H S A"]
Policies = tuple[np.ndarray, np.ndarray]


class Whole(NamedTuple):
    """All states, and the estimate for them."""

    space: Space
    kernel: Kernel


def whole_of(problem: Any, confidence: Any) -> Whole:
    """Of a problem that is computed with in part."""
    return Whole(problem.space, problem.model.kernel(confidence.theta))


@dataclass(frozen=True, eq=False)
class Answers:
    """One confidence, ready to be asked: the estimate, what is said of it, and how plans and bounds are computed.

    `kernel` is the estimate, in which policies are valued; `centre` is the kernel whose optimal plans have the uniform
    certificate, which is another one for tables (models/interface.py).
    `truth` is the true kernel, where it is known. `where` says where episodes start, where that is not as usual.
    `whole`: all states, where those of the space are part of them: policies are for all, rewards come from `resolve`.
    `layout` says what states and actions are called.
    """

    space: Space
    kernel: Kernel
    centre: Kernel
    said: Said
    solve: Callable[[Kernel, Table], Solution]
    values: Callable[[Kernel, Table, np.ndarray], Float[np.ndarray, "H1 S"]]
    bounds: Callable[[np.ndarray, np.ndarray], Bounds]
    difference: Callable[[np.ndarray, Policies], tuple[float, float]]
    truth: Kernel | None = None
    where: str = ""
    whole: Whole | None = None
    layout: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(H, S, A) of all states."""
        return (self.whole or self).space.sizes

    @property
    def named(self) -> Named:
        """All states and actions, and what they are called."""
        return Named((self.whole or self).space, self.layout)

    def resolve(self, reward: Any, scale: str = "total") -> Reward:
        """A reward of any form, over all states, as it is asked about."""
        return resolve_inside((self.whole or self).space, self.space, reward, scale=scale)

    def plan(self, checked: Reward, solve: Callable[[Table], Solution] | None = None) -> Plan:
        """The policy for a reward with the smallest certified gap: the best one in the estimate, or that in the centre.

        The first of them where they tie. So the uniform certificate, which is proved for plans in the centre, holds for
        what is returned. solve: another way to plan, whose values are its own.
        """
        if solve is not None:
            planned = solve(checked.table)
            value = float(self.space.at_start(planned.V[0]))
            return self._certified(checked, self._allowed(planned), value)
        plan = self._certified(checked, self._allowed(self.solve(self.kernel, checked.table)))
        if np.array_equal(self.kernel.prob, self.centre.prob):
            return plan
        other = self._certified(checked, self._allowed(self.solve(self.centre, checked.table)))
        return min(plan, other, key=lambda x: x.gap)

    def _allowed(self, planned: Solution) -> np.ndarray:
        return named_allowed(self.space, np.array(planned.policy, np.int32))

    def evaluate(self, checked: Reward, policy: Any) -> Plan:
        """A policy as a plan."""
        return self._certified(checked, self._policy(policy))

    def compare(self, checked: Reward, policy_a: Any, policy_b: Any) -> Comparison:
        """By how much policy a is better than policy b."""
        table = checked.table
        a, b = self._policy(policy_a), self._policy(policy_b)
        low, high = self.said.between(self.space, (a, b), lambda pair: self.difference(table, pair))
        found = [self._value(table, policy) for policy in (a, b)]
        factor = checked.factor
        return Comparison(factor * (found[0] - found[1]), factor * low, factor * high, self.said.delta)

    def true_loss(self, checked: Reward, policy: np.ndarray) -> float | None:
        """What a policy really loses, in the reward's units; None where the truth is not known."""
        if self.truth is None:
            return None
        table: Any = checked.table
        policy = inside(self.space, policy, axis=1)
        best, own = best_policy(self.truth, table)[1], policy_values(self.truth, table, leaf(policy))
        return checked.factor * lost(self.space, np.asarray(best), np.asarray(own))

    def _value(self, table: Table, policy: np.ndarray) -> float:
        """In the estimate."""
        return float(self.space.at_start(self.values(self.kernel, table, policy)[0]))

    def _policy(self, policy: Any) -> np.ndarray:
        """A policy for all states, checked, on those of the space."""
        table = policy_table(policy, *self.sizes)
        check_allowed((self.whole or self).space, table)
        return inside(self.space, table, axis=1)

    def _certified(self, checked: Reward, policy: np.ndarray, value: float | None = None) -> Plan:
        """A policy with what is certified of it; its value is that in the estimate, where no other is given."""
        bounds, certificate = self.said.of(self.bounds(*given(checked.table, policy)), checked.factor)
        if self.where:
            certificate = replace(certificate, words=f"{certificate.words}, {self.where}")

        def in_caller_units(x: Any) -> float:
            return checked.factor * float(x) + checked.offset

        own = outside(self.space, policy, self.sizes[1], axis=1)
        return Plan(
            named_allowed((self.whole or self).space, own) if own.ndim == 2 else own,
            in_caller_units(self._value(checked.table, policy) if value is None else value),
            in_caller_units(bounds.low),
            in_caller_units(bounds.high),
            checked.factor * certificate.eps,
            certificate,
            (self.whole or self).kernel,
            start_of((self.whole or self).space),
            self.layout,
        )
