"""Constrained plans in a known kernel: the linear programme over occupancy measures.

    max_d  sum_h <d_h, r_h>   subject to   sum_h <d_h, c_{i,h}> <= b_i   for all i,
    sum_a d_1(s,a) = mu(s),   sum_a d_{h+1}(s,a) = sum_{s',a'} d_h(s',a') P(s|s',a'),   d >= 0

(Altman 1999, Constrained Markov decision processes, chapter 2). The policy is pi_h(a|s) = d_h(s,a) / sum_a' d_h(s,a').
Rows of the kernel may sum to less than one: the rest of the mass leaves, and is paid nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from horizonfree._validation import check_size
from horizonfree.planning.induction import best_policy

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from horizonfree.mdp.space import Kernel

MIN_MASS = 1e-9  # of a state at a step; below it the solver's tolerance would choose the actions
SOLVED, NO_SOLUTION = 0, 2  # of `scipy.optimize.linprog`
MAX_NONZEROS = 10**7  # of the matrix of the programme: about a gigabyte in the solver


class ConstrainedSolution(NamedTuple):
    """A policy, the multiplier >= 0 of each constraint, and the largest total, or the smallest excess."""

    policy: Float[np.ndarray, "H S A"]
    multipliers: Float[np.ndarray, " m"]
    value: float


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
        from scipy import sparse  # loads slowly

        self.kernel, self.costs, self.allowed = kernel, costs, allowed
        H, S, A = costs.shape[1:]
        reached = _reached(kernel, initial, H, allowed)
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
        """The best policy within the bounds; None where the solver has none."""
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
        return ConstrainedSolution(self._policy(result.x, priced), multipliers, float(-result.fun))

    def safest(self, limits: Float[np.ndarray, " m"]) -> ConstrainedSolution | None:
        """The policy with the smallest excess max_i (cost_i - b_i), and multipliers that sum to one.

        They prove it: no policy has a smaller sum of multiplier_i (cost_i - b_i). None where the solver fails.
        """
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
        return ConstrainedSolution(self._policy(result.x[:n], priced), weights, float(result.fun))

    def _policy(
        self, measure: Float[np.ndarray, " n"], priced: Float[np.ndarray, "H S A"]
    ) -> Float[np.ndarray, "H S A"]:
        """The policy of an occupancy measure; where it does not come, the best for the reward less priced costs."""
        H, S, A = priced.shape
        forbidden = np.where(self.allowed, 0.0, -np.inf)
        greedy, _ = best_policy(self.kernel, priced + forbidden)
        policy = (greedy[:, :, None] == np.arange(A)).astype(np.float64)
        d = np.zeros((H, S, A))
        d[self.at] = np.maximum(measure, 0.0)
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


def _reached(
    kernel: Kernel, initial: Float[np.ndarray, " S"], H: int, allowed: Bool[np.ndarray, "S A"]
) -> Bool[np.ndarray, "H S"]:
    """Which states the kernel can come to at each step."""
    succ, is_possible = np.asarray(kernel.succ), (np.asarray(kernel.prob) > 0) & allowed[..., None]
    reached = np.zeros((H, len(succ)), bool)
    reached[0] = initial > 0
    for h in range(H - 1):
        reached[h + 1, succ[reached[h]][is_possible[reached[h]]]] = True
    return reached
