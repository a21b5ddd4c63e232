"""Constrained plans in a known kernel: the linear programme over occupancy measures, or its dual for one constraint.

    max_d  sum_h <d_h, r_h>   subject to   sum_h <d_h, c_{i,h}> <= b_i   for all i,
    sum_a d_1(s,a) = mu(s),   sum_a d_{h+1}(s,a) = sum_{s',a'} d_h(s',a') P(s|s',a'),   d >= 0

(Altman 1999, Constrained Markov decision processes, chapter 2). The policy is pi_h(a|s) = d_h(s,a) / sum_a' d_h(s,a').
Rows of the kernel may sum to less than one: the rest of the mass leaves, and is paid nothing.

With one constraint the dual has one price, and dynamic programmes solve it far faster than the linear programme:

    min_{lam >= 0} max_pi V^pi(r) - lam (V^pi(c) - b)

Each policy is a line in lam. Two of the lines that meet at the minimum, one within the bound and one not, are mixed so
that the bound is attained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from horizonfree._validation import check_size
from horizonfree.planning.induction import best_policy, occupancy_measure

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from horizonfree.mdp.space import Kernel

MIN_MASS = 1e-9  # of a state at a step; below it the solver's tolerance would choose the actions
SOLVED, NO_SOLUTION = 0, 2  # of `scipy.optimize.linprog`
MAX_NONZEROS = 10**7  # of the matrix of the programme: about a gigabyte in the solver
MAX_PRICES = 200  # that are tried; about ten are enough
ROUNDING_SHARE = 1e-12  # a difference of totals that is rounding, as a share of their size


class ConstrainedSolution(NamedTuple):
    """A policy, the multiplier >= 0 of each constraint, and the largest total, or the smallest excess."""

    policy: Float[np.ndarray, "H S A"]
    multipliers: Float[np.ndarray, " m"]
    value: float


class _Line(NamedTuple):
    """A deterministic policy: its total of the reward, its cost, and its occupancy measure."""

    value: float
    cost: float
    measure: Float[np.ndarray, "H S A"]


class OccupancyProgram:
    """The programme of a kernel, a start and the costs, for any reward and any bounds.

    allowed: actions that policies may take. Only steps and states that the kernel can come to have variables.
    """

    def __init__(
        self,
        kernel: Kernel,
        initial: Float[np.ndarray, " S"],
        costs: Float[np.ndarray, "m H S A"],
        allowed: Bool[np.ndarray, "S A"],
    ) -> None:
        self.kernel, self.costs, self.allowed, self.initial = kernel, costs, allowed, initial
        if len(costs) > 1:
            self._write()

    def _write(self) -> None:
        """The matrices of the programme."""
        from scipy import sparse  # loads slowly

        kernel, initial, costs, allowed = self.kernel, self.initial, self.costs, self.allowed
        H, S, A = costs.shape[1:]
        reached = _reached_states(kernel, initial, H, allowed)
        self.at = np.nonzero(reached[:, :, None] & allowed)
        h, s, a = self.at
        succ, prob = np.asarray(kernel.succ)[s, a], np.asarray(kernel.prob)[s, a]
        is_moved = (h < H - 1)[:, None] & (prob > 0)
        transitions = np.count_nonzero(is_moved)
        check_size(
            len(h) + transitions + costs.shape[0] * len(h),
            MAX_NONZEROS,
            f"the linear programme of {H} steps, {S} states and {A} actions has {transitions:,} transitions",
            "plan for fewer steps, or for a part of the states",
        )
        row = np.full((H, S), -1)
        row[reached] = np.arange(np.count_nonzero(reached))
        column, slot = np.nonzero(is_moved)
        rows = np.concatenate([row[h, s], row[h[column] + 1, succ[column, slot]]])
        columns = np.concatenate([np.arange(len(h)), column])
        entries = np.concatenate([np.ones(len(h)), -prob[column, slot]])
        self.flow = sparse.csr_array((entries, (rows, columns)), shape=(int(row.max()) + 1, len(h)))
        self.supply = np.where(np.nonzero(reached)[0] == 0, initial[np.nonzero(reached)[1]], 0.0)
        self.cost_rows = costs[:, h, s, a]

    def best(
        self, reward: Float[np.ndarray, "H S A"], limits: Float[np.ndarray, " m"]
    ) -> ConstrainedSolution | None:
        """The best policy within the bounds; None where there is none."""
        if len(self.costs) == 1:
            return self._best_of_one(reward, float(limits[0]))
        result = _solve(
            -reward[self.at],
            A_ub=self.cost_rows,
            b_ub=limits,
            A_eq=self.flow,
            b_eq=self.supply,
        )
        if result is None:
            return None
        multipliers = np.maximum(-result.ineqlin.marginals, 0.0)
        priced = reward - np.tensordot(multipliers, self.costs, 1)
        return ConstrainedSolution(
            self._policy(self._spread(result.x), priced), multipliers, float(-result.fun)
        )

    def safest(self, limits: Float[np.ndarray, " m"]) -> ConstrainedSolution | None:
        """The policy with the smallest excess max_i (cost_i - b_i), and multipliers that sum to one.

        They prove it: no policy has a smaller sum of multiplier_i (cost_i - b_i). None where the solver fails.
        """
        if len(self.costs) == 1:
            (cost,) = self.costs
            cheapest = self._line(-cost, cost)
            policy = self._policy(cheapest.measure, -cost)
            return ConstrainedSolution(policy, np.ones(1), cheapest.cost - float(limits[0]))
        from scipy import sparse

        m, n = self.cost_rows.shape
        flow = sparse.hstack([self.flow, sparse.csr_array((self.flow.shape[0], 1))], format="csr")
        result = _solve(
            np.append(np.zeros(n), 1.0),
            A_ub=np.hstack([self.cost_rows, -np.ones((m, 1))]),
            b_ub=limits,
            A_eq=flow,
            b_eq=self.supply,
            bounds=np.array([(0.0, np.inf)] * n + [(-np.inf, np.inf)]),
        )
        if result is None:
            return None
        weights = np.maximum(-result.ineqlin.marginals, 0.0)
        weights = weights / weights.sum() if weights.sum() > 0 else np.full(m, 1 / m)
        priced = -np.tensordot(weights, self.costs, 1)
        return ConstrainedSolution(
            self._policy(self._spread(result.x[:n]), priced), weights, float(result.fun)
        )

    def _best_of_one(self, reward: Float[np.ndarray, "H S A"], bound: float) -> ConstrainedSolution | None:
        """The best policy within one bound; the price is where the lines `dear` and `cheap` meet."""
        (cost,) = self.costs
        dear, cheap, price = self._line(reward, reward), self._line(-cost, reward), 0.0
        size = ROUNDING_SHARE * (1.0 + abs(bound) + abs(dear.value) + abs(cheap.value))
        if cheap.cost > bound + size:
            return None
        if dear.cost <= bound + size:
            return ConstrainedSolution(self._policy(dear.measure, reward), np.zeros(1), dear.value)
        for _ in range(MAX_PRICES):
            price = max(0.0, (dear.value - cheap.value) / (dear.cost - cheap.cost))
            line = self._line(reward - price * cost, reward)
            known = dear.value - price * (dear.cost - bound)
            if line.value - price * (line.cost - bound) <= known + size * (1.0 + price):
                break
            if line.cost > bound + size:
                dear = line
            else:
                cheap = line
        share = min(1.0, max(0.0, (bound - cheap.cost) / (dear.cost - cheap.cost)))
        measure = share * dear.measure + (1.0 - share) * cheap.measure
        value = share * dear.value + (1.0 - share) * cheap.value
        return ConstrainedSolution(self._policy(measure, reward - price * cost), np.array([price]), value)

    def _line(self, priced: Float[np.ndarray, "H S A"], reward: Float[np.ndarray, "H S A"]) -> _Line:
        """The best policy for `priced`."""
        policy, _ = best_policy(self.kernel, priced + np.where(self.allowed, 0.0, -np.inf))
        measure = occupancy_measure(self.kernel, policy, self.initial)
        return _Line(float((measure * reward).sum()), float((measure * self.costs[0]).sum()), measure)

    def _spread(self, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, "H S A"]:
        """The variables of the programme as an occupancy measure."""
        measure = np.zeros(self.costs.shape[1:])
        measure[self.at] = x
        return measure

    def _policy(
        self, measure: Float[np.ndarray, "H S A"], priced: Float[np.ndarray, "H S A"]
    ) -> Float[np.ndarray, "H S A"]:
        """The policy of an occupancy measure; where it does not come, the best for the reward less priced costs."""
        forbidden = np.where(self.allowed, 0.0, -np.inf)
        greedy, _ = best_policy(self.kernel, priced + forbidden)
        policy = (greedy[:, :, None] == np.arange(priced.shape[-1])).astype(np.float64)
        d = np.maximum(measure, 0.0)
        mass = d.sum(-1)
        is_known = mass > MIN_MASS
        policy[is_known] = d[is_known] / mass[is_known][:, None]
        return np.asarray(policy)


def _solve(c: Float[np.ndarray, " n"], **constraints: Any) -> Any:
    """The solution of HiGHS, or None; its presolve can fail where masses of very different size occur."""
    from scipy.optimize import linprog

    for presolve in (True, False):
        result = linprog(c, method="highs", options={"presolve": presolve}, **constraints)
        if result.status == SOLVED:
            return result
        if result.status == NO_SOLUTION:
            break
    return None


def _reached_states(
    kernel: Kernel, initial: Float[np.ndarray, " S"], H: int, allowed: Bool[np.ndarray, "S A"]
) -> Bool[np.ndarray, "H S"]:
    """Which states the kernel can come to at each step."""
    succ, is_possible = np.asarray(kernel.succ), (np.asarray(kernel.prob) > 0) & allowed[..., None]
    reached = np.zeros((H, len(succ)), bool)
    reached[0] = initial > 0
    for h in range(H - 1):
        reached[h + 1, succ[reached[h]][is_possible[reached[h]]]] = True
    return reached
