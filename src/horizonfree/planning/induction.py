"""Backward induction, policy evaluation and occupancy measures of a kernel that all steps share: the definitions.

    V_{H+1} = 0,   Q_h(s,a) = r_h(s,a) + [P V_{h+1}](s,a),   V_h(s) = max_a Q_h(s,a)       (paper, section 3)

A policy is an integer table [H, S] or action probabilities [H, S, A]. Arguments are checked in solvers.py. The same is
computed in C by native.py, which `solve` and `best_plan` call, and inside compiled JAX programs by traced.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from horizonfree.planning import native

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from horizonfree.mdp.space import Kernel, Space

STATES_PER_BLOCK = 1024  # of a backward pass: their successors' numbers stay in the cache
TIE = 1e-10  # the slack of explorers, as a share of the maximum: above rounding, below what matters
ROUNDING = 1e-13  # the slack of plans: the order in which a row is summed decides nothing


class Solution(NamedTuple):
    """A greedy policy and its values V_1..V_{H+1}, for one reward or a batch of them."""

    policy: Int[np.ndarray, "*R H S"]
    V: Float[np.ndarray, "*R H1 S"]


def best_policy(
    kernel: Kernel, reward: Float[np.ndarray, "H S A"], slack: float = ROUNDING
) -> tuple[Int[np.ndarray, "H S"], Float[np.ndarray, "H1 S"]]:
    """The greedy policy and V of one reward. Ties: see `nearly_best`."""
    H, S, _ = reward.shape
    policy, V = np.empty((H, S), np.int32), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        V[h], policy[h] = greedy(reward[h] + kernel.expect(V[h + 1]), slack)
    return policy, V


def best_plan(kernel: Kernel, reward: Float[np.ndarray, "H S A"]) -> Solution:
    """The best policy for one reward that was checked before. Actions that differ by rounding alone are tied."""
    return solve(kernel, np.asarray(reward), len(reward))[0]


def solve(
    kernel: Kernel,
    reward: Float[np.ndarray, "*R H|1 S A"],
    horizon: int,
    *,
    all_values: bool = True,
    all_actions: bool = True,
) -> tuple[Solution, bool]:
    """The best policy for one reward or for each of a batch, its values, and whether all numbers are finite.

    A reward of one step is that of every step. all_values, all_actions: of every step, else of the first one alone.
    """
    result = native.solve(kernel, reward, horizon, ROUNDING, all_values, all_actions)
    if result is not None:
        policy, V, is_finite = result
        return Solution(policy, V), is_finite
    S, A = reward.shape[-2:]
    tables = np.broadcast_to(reward, (*reward.shape[:-3], horizon, S, A)).reshape(-1, horizon, S, A)
    with np.errstate(over="ignore", invalid="ignore"):  # is_finite says so
        policies, values = zip(*(best_policy(kernel, r) for r in tables))
    is_finite = bool(np.isfinite(values).all() and np.isfinite(reward).all())
    stacked = np.stack([x[: None if all_actions else 1] for x in policies])
    V = np.stack([x[: None if all_values else 1] for x in values])
    shape = reward.shape[:-3]
    return Solution(stacked.reshape(*shape, *stacked.shape[1:]), V.reshape(*shape, *V.shape[1:])), is_finite


def greedy(
    Q: Float[np.ndarray, "S A"], slack: float = ROUNDING
) -> tuple[Float[np.ndarray, " S"], Int[np.ndarray, " S"]]:
    """The maximum, and the lowest action that attains it, or nearly."""
    return Q.max(-1), nearly_best(Q, -1, slack).argmax(-1).astype(np.int32)


def row_maxima(x: Float[np.ndarray, "R k"]) -> Float[np.ndarray, " R"]:
    """x.max(-1) of many short rows; transposed first, NumPy takes a tenth of the time."""
    result: np.ndarray = np.ascontiguousarray(x.T).max(0)
    return result


def nearly_best(x: Any, axis: int, slack: float = TIE) -> Any:
    """Which entries fall short of the maximum by at most a share `slack` of it; of NumPy's arrays or traced ones.

    True ties, which symmetries and caps make, are broken by rounding. What is nearly best counts as equal and the first
    of it is taken, so that every device and every order of summation gives the same policy.
    """
    best = x.max(axis=axis, keepdims=True)
    return x >= (best - slack * abs(best) if slack else best)


def policy_values(
    kernel: Kernel,
    reward: Float[np.ndarray, "H S A"],
    policy: Int[np.ndarray, "H S"] | Float[np.ndarray, "H S A"],
) -> Float[np.ndarray, "H1 S"]:
    """V of a policy: V_h(s) = sum_a pi_h(a|s) Q_h(s,a)."""
    H, S, _ = reward.shape
    V, s = np.zeros((H + 1, S)), np.arange(S)
    for h in reversed(range(H)):
        r, pi = reward[h], policy[h]
        if pi.ndim == 1:  # one row for each state: A times cheaper than all actions
            V[h] = r[s, pi] + own_rows(kernel, pi).expect(V[h + 1])[:, 0]
        else:
            V[h] = (pi * (r + kernel.expect(V[h + 1]))).sum(-1)
    return V


def state_occupancy(
    kernel: Kernel,
    policy: Int[np.ndarray, "H S"] | Float[np.ndarray, "H S A"],
    initial: Float[np.ndarray, " S"],
) -> Float[np.ndarray, "H S"]:
    """mu_h(s): mu_1 = initial, mu_{h+1}(s') = sum_{s,a} mu_h(s) pi_h(a|s) P(s'|s,a)."""
    mu = np.zeros(policy.shape[:2])
    mu[0] = initial
    for h, pi in enumerate(policy[:-1]):
        if pi.ndim == 1:
            mu[h + 1] = _push(own_rows(kernel, pi), mu[h][:, None])
        else:
            mu[h + 1] = _push(kernel, mu[h][:, None] * pi)
    return mu


def occupancy_measure(
    kernel: Kernel,
    policy: Int[np.ndarray, "H S"] | Float[np.ndarray, "H S A"],
    initial: Float[np.ndarray, " S"],
) -> Float[np.ndarray, "H S A"]:
    """d_h(s,a), the probability that step h is taken in s with a, from an initial distribution."""
    mu = state_occupancy(kernel, policy, initial)[..., None]
    if policy.ndim == 3:
        return np.asarray(mu * policy)
    d = np.zeros((*policy.shape, kernel.num_actions))
    np.put_along_axis(d, policy[..., None], mu, -1)
    return d


def _push(kernel: Kernel, d: Float[np.ndarray, "S A"]) -> Float[np.ndarray, " S"]:
    """The mass of each next state: sum_{s,a} d(s,a) P(s'|s,a), the adjoint of `Kernel.expect`."""
    if kernel.is_dense:
        return np.asarray(d.ravel() @ kernel.prob.reshape(d.size, -1))
    mass = d[..., None] * kernel.prob
    return np.bincount(np.ravel(kernel.succ), mass.ravel(), minlength=kernel.num_states)


def own_rows(kernel: Kernel, pi: Int[np.ndarray, " S"]) -> Kernel:
    """The kernel that is left when state s always takes action pi(s)."""
    s = np.arange(kernel.num_states)
    succ, prob = (np.asarray(x)[s, pi][:, None] for x in (kernel.succ, kernel.prob))
    return type(kernel)(succ, prob, kernel.is_dense)


def largest_totals(
    kernel: Kernel, reward: Float[np.ndarray, "S A"], steps: int, cap: float = np.inf
) -> Float[np.ndarray, "S A"]:
    """The most that so many steps can pay from (s,a) on, each Q at most `cap`; the reward is the same at every step."""
    if (
        steps > 1 and cap == np.inf
    ):  # backward induction; in C twelve times faster than the loop at S = 10,000
        best, is_finite = solve(kernel, reward[None], steps - 1, all_values=False, all_actions=False)
        if is_finite:
            return np.asarray(reward + kernel.expect(best.V[0]))
    Q: np.ndarray = np.minimum(reward, cap)
    for _ in range(steps - 1):
        Q = np.minimum(reward + kernel.expect(row_maxima(Q)), cap)
    return Q


def occupied_blocks(space: Space, occupied: Bool[np.ndarray, " S"]) -> list[Int[np.ndarray, " B"] | slice]:
    """The states of one step of a backward pass, block by block; all of them at once where the kernel is dense.

    A value at the start depends on the states alone that an episode can occupy at each step (`occupied_states`): no
    transition leads from one of these to any other state of the next step. In the others a pass leaves zeros.
    """
    if space.is_dense:
        return [slice(None)]
    states = np.flatnonzero(occupied)
    return [states[i : i + STATES_PER_BLOCK] for i in range(0, len(states), STATES_PER_BLOCK)]


def best_total(space: Space, kernel: Kernel, reward: Float[np.ndarray, "S A"]) -> float:
    """The value of the best policy for a reward that is the same at every step."""
    best, _ = solve(kernel, reward[None], space.horizon, all_values=False, all_actions=False)
    return float(space.at_start(best.V[0]))


def lost(space: Space, best: Float[np.ndarray, "H1 S"], own: Float[np.ndarray, "H1 S"]) -> float:
    """What is lost at the start, from the best values and those of a policy."""
    return float(space.at_start(best[0] - own[0]))
