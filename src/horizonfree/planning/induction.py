"""Backward induction and policy evaluation, one reward at a time: NumPy in, NumPy out, or traced.

    V_{H+1} = 0,   Q_h(s,a) = r_h(s,a) + [P V_{h+1}](s,a),   V_h(s) = max_a Q_h(s,a)       (paper, section 3)

Ties go to the lowest action. A policy is an integer table [H, S] or action probabilities [H, S, A].
"""

from typing import NamedTuple

import numpy as np

from horizonfree._arrays import Array, backward, library, taken
from horizonfree._shapes import Bool, Float, Int
from horizonfree.mdp.space import Kernel, Space

TIE = 1e-10  # the slack of explorers, as a share: above rounding, below what matters
ROUNDING = 1e-13  # that of plans: what NumPy's sums and XLA's differ by settles nothing


class Solution(NamedTuple):
    """A greedy policy and its values V_1..V_{H+1}, for one reward or a batch of them.

    A tuple: to build an equinox module would take a tenth of the time of a small plan.
    """

    policy: Int[np.ndarray, "*R H S"]
    V: Float[np.ndarray, "*R H1 S"]


def best_policy(
    kernel: Kernel, reward: Float[Array, "H S A"], slack: float = 0.0
) -> tuple[Int[Array, "H S"], Float[Array, "H1 S"]]:
    """The greedy policy and V of one reward; traceable, vmap over rewards. Ties: see `nearly_best`."""

    def step(V: Array, inputs: tuple[Array]) -> tuple[Array, tuple[Array, Array]]:
        V, a = backup(kernel, inputs[0], V, slack)
        return V, (a, V)

    xp = library(kernel.prob, reward)
    end = xp.zeros(kernel.num_states)
    _, (policy, V) = backward(step, end, (xp.asarray(reward),))
    return policy, xp.concatenate([V, end[None]])


def backup(
    kernel: Kernel, r: Float[Array, "S A"], V: Float[Array, " S"], slack: float = 0.0
) -> tuple[Float[Array, " S"], Int[Array, " S"]]:
    """V_h and the greedy action from V_{h+1}."""
    return greedy(r + kernel.expect(V), slack)


def greedy(Q: Float[Array, "S A"], slack: float = 0.0) -> tuple[Float[Array, " S"], Int[Array, " S"]]:
    """The maximum, and the lowest action that attains it, or nearly (XLA's argmax is slow)."""
    A, xp = Q.shape[-1], library(Q)
    is_best = nearly_best(Q, -1, slack)
    return Q.max(axis=-1), xp.where(is_best, xp.arange(A, dtype=xp.int32), A).min(axis=-1)


def nearly_best(x: Float[Array, "..."], axis: int, slack: float = TIE) -> Bool[Array, "..."]:
    """Which entries fall short of the maximum by at most a share `slack` of it.

    True ties, which symmetries and caps make, are broken by rounding. Explorers count what is nearly best as equal and
    take the first, so that they do the same on every device.
    """
    best = x.max(axis=axis, keepdims=True)
    return x >= (best - slack * abs(best) if slack else best)


def policy_values(
    kernel: Kernel, reward: Float[Array, "H S A"], policy: Int[Array, "H S"] | Float[Array, "H S A"]
) -> Float[Array, "H1 S"]:
    """V of a policy: V_h(s) = sum_a pi_h(a|s) Q_h(s,a); traceable."""
    xp = library(kernel.prob, reward, policy)
    s = xp.arange(kernel.num_states)

    def step(V: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
        r, pi = inputs
        if pi.ndim == 1:  # one row per state: A times cheaper than all actions
            V = taken(r, (s, pi)) + own_rows(kernel, pi).expect(V)[:, 0]
        else:
            V = (pi * (r + kernel.expect(V))).sum(axis=-1)
        return V, V

    end = xp.zeros(kernel.num_states)
    _, V = backward(step, end, (xp.asarray(reward), xp.asarray(policy)))
    return xp.concatenate([V, end[None]])


def own_rows(kernel: Kernel, pi: Int[Array, " S"]) -> Kernel:
    """The kernel that is left when state s always takes action pi(s)."""
    xp = library(kernel.prob, pi)
    s = xp.arange(kernel.num_states)
    succ, prob = (taken(xp.asarray(x), (s, pi))[:, None] for x in (kernel.succ, kernel.prob))
    return Kernel(succ, prob, kernel.is_dense)


def best_plan(kernel: Kernel, reward: Float[np.ndarray, "H S A"]) -> Solution:
    """The best policy for one reward that was checked before. Actions that differ by rounding alone are tied."""
    policy, V = best_policy(kernel, np.asarray(reward), ROUNDING)
    return Solution(np.asarray(policy), np.asarray(V))


def largest_totals(
    kernel: Kernel, reward: Float[np.ndarray, "S A"], steps: int, cap: float = np.inf
) -> Float[np.ndarray, "S A"]:
    """The most that so many steps can pay from (s,a) on, each Q at most `cap`; the reward is the same at every step."""
    Q: np.ndarray = np.minimum(reward, cap)
    for _ in range(steps - 1):
        Q = np.minimum(reward + kernel.expect(Q.max(-1)), cap)
    return Q


def lost(space: Space, best: Float[np.ndarray, "H1 S"], own: Float[np.ndarray, "H1 S"]) -> float:
    """What is lost at the start, from the best values and those of a policy; on the host."""
    return float(space.at_start(best[0] - own[0]))
