"""What one reward can lose: bounds on V*_theta - V^pi_theta for every theta in the ellipsoid, in one backward pass.

P_theta = p + z'u with ||u|| <= 1 is linear in u, so a policy's values expand around theta_hat exactly:

    V_theta = V + J'u + u'B u + remainder,   |remainder| <= R
    Q_theta = Q + gQ'u + u'bQ u + sum_s' (z'u)(u'B u) + P_theta (remainder)
    gQ = sum z V + sum p J,   bQ = sym(sum z J') + sum p B;   J, B, R are gQ, bQ, rQ at the policy's action

and its regret obeys V*_theta - V^pi_theta = max_a [A_theta(s,a) + P_theta (V*_theta - V^pi_theta)]. The regret is built
of *advantages*, whose uncertainty ||gQ(s,a) - J(s)|| + ||bQ(s,a) - B(s)|| is far smaller than that of the values.

The same pass gives the optimistic value minus the pessimistic value of pi, pi's own divergence from theta_hat, which
sharpens the uniform bound, and an interval for the true value of pi. Expansions of two policies, subtracted, bound the
difference of their values: what they have in common cancels. docs/certificates.md has the proofs.

A policy is a table of actions [H, S], or of their probabilities [H, S, A].

Rewards of single states (`bounds_of_states`) share a pass. Where the rewarded state g cannot be reached in the steps
that are left, all values are zero, and only the divergence of the policy remains, which is the same for all g. So a
pass needs the pairs (g, s) from which g can still be reached, and one zero reward for all other pairs. On a grid of 100
by 100 cells with H = 50 these are, on average over g, 4,300 of 500,000 pairs of a step and a state.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.guarantees.divergence import Divergence, RowDivergence, gap
from horizonfree.mdp.rewards import StateRewards
from horizonfree.mdp.space import Kernel, Predecessors, Space, distances, occupied_states, predecessors
from horizonfree.models.base import Bounds, Number, Policy, length, opnorm
from horizonfree.planning.induction import greedy, occupied_blocks
from horizonfree.planning.native import threads

MAX_SECOND_ORDER = 12  # largest q with B; above it B = 0, since q^3 numbers per pair cost more than they gain
OPTIMALITY_TOLERANCE = 1e-12  # a policy this close to the best action counts as optimal in the estimate
REWARDS_PER_BLOCK = 64


Choice = Int[np.ndarray, " S"] | Float[np.ndarray, "S A"]  # a policy at one step


@runtime_checkable
class EllipsoidAround(Protocol):
    """The ellipsoid on successor lists, P_theta = p + z'u, and the divergence of trajectories: a confidence set."""

    @property
    def space(self) -> Space:
        """States, actions and successor lists."""

    @property
    def step(self) -> RowDivergence:
        """One transition: the kernel p of the estimate, its cost and its leak (guarantees/divergence.py)."""

    @property
    def divergence(self) -> Divergence:
        """Where the comparison stops, and the largest kappa and hit of any policy."""

    @property
    def tilts(self) -> Float[np.ndarray, "S A n q"]:
        """The directions z."""

    @property
    def eps(self) -> Any:
        """What a plan loses that is optimal under theta_hat from everywhere; infinite where that is not proved."""


class Values(NamedTuple):
    """The state of the backward pass, for each state."""

    V_star: Float[np.ndarray, " S"]  # the best value under theta_hat
    kappa: Float[np.ndarray, " S"]  # divergence of the policy
    hit: Float[np.ndarray, " S"]  # probability that the policy leaves the comparison
    V: Float[np.ndarray, " S"]  # of the policy under theta_hat
    R: Float[np.ndarray, " S"]  # remainder of the expansion
    D: Float[np.ndarray, " S"]  # regret of the policy
    upper: Float[np.ndarray, " S"]  # best value of any theta and policy
    lower: Float[np.ndarray, " S"]  # smallest value of the policy
    higher: Float[np.ndarray, " S"]  # largest value of the policy
    J: Float[np.ndarray, "S q"]
    B: Float[np.ndarray, "S e e"]  # e = q, or 0 without second order


class Means(NamedTuple):
    """sum_s' p f of everything carried, per (s,a)."""

    V_star: Float[np.ndarray, "S A"]
    kappa: Float[np.ndarray, "S A"]
    hit: Float[np.ndarray, "S A"]
    V: Float[np.ndarray, "S A"]
    R: Float[np.ndarray, "S A"]
    D: Float[np.ndarray, "S A"]
    upper: Float[np.ndarray, "S A"]
    lower: Float[np.ndarray, "S A"]
    higher: Float[np.ndarray, "S A"]
    J: Float[np.ndarray, "S A q"]
    B: Float[np.ndarray, "S A e e"]


class Slopes(NamedTuple):
    """sum_s' z f of what depends on theta: by how much P_theta f changes along u. J and B with second order only."""

    V: Float[np.ndarray, "S A q"]
    R: Float[np.ndarray, "S A q"]
    D: Float[np.ndarray, "S A q"]
    upper: Float[np.ndarray, "S A q"]
    lower: Float[np.ndarray, "S A q"]
    higher: Float[np.ndarray, "S A q"]
    J: Float[np.ndarray, "S A e q"]
    B: Float[np.ndarray, "S A ee q"]


def bounds_at(around: EllipsoidAround, at: Values, shortfall: Number) -> Bounds:
    """The bounds, from the result of the backward pass at the start.

    A plan that is optimal under theta_hat from everywhere has the gap of the confidence, too.
    """
    most = around.divergence
    uniform = gap(at.V_star - at.V + at.hit + most.hit, np.asarray(most.kappa), at.kappa)
    if shortfall <= OPTIMALITY_TOLERANCE:
        uniform = np.fmin(uniform, around.eps)
    low, high = _interval(at)
    return Bounds(at.V, low, high, {"uniform": uniform, "interval": at.upper - low, "tangent": at.D})


def difference(
    around: EllipsoidAround, reward: Float[np.ndarray, "H S A"], policies: tuple[Policy, Policy]
) -> tuple[float, float]:
    """By the difference of their expansions: what both have in common cancels."""
    (a, _), (b, _) = (at_start(around, reward, policy) for policy in policies)
    (a_low, a_high), (b_low, b_high) = _interval(a), _interval(b)
    radius = length(a.J - b.J) + opnorm(a.B - b.B) + a.R + b.R
    low, high = np.fmax(a_low - b_high, a.V - b.V - radius), np.fmin(a_high - b_low, a.V - b.V + radius)
    return float(low), float(high)


def at_start(
    around: EllipsoidAround, reward: Float[np.ndarray, "H S A"], policy: Policy
) -> tuple[Values, Number]:
    """`Values` at the start, and how far the policy is from optimal under theta_hat in any step and state.

    Steps and states that no episode can come to do not count (`occupied_blocks`).
    """
    after, largest, is_last = at_end(around), np.zeros(()), True
    steps = zip(reward[::-1], policy[::-1], occupied_states(around.space)[::-1], strict=True)
    for r, pi, occupied in steps:
        now = at_end(around)
        for s in occupied_blocks(around.space, occupied):
            own = around if isinstance(s, slice) else _rows_of(around, s, np.asarray(around.space.succ)[s])
            values, shortfall = back(own, after, r[s], pi[s], is_last=is_last)
            for x, x_now in zip(values, now, strict=True):
                x_now[s] = x
            largest = np.maximum(largest, shortfall)
        after, is_last = now, False
    return Values(*(around.space.at_start(np.moveaxis(x, 0, -1)) for x in after)), largest


def at_end(around: EllipsoidAround) -> Values:
    """After the last step."""
    S, q = around.tilts.shape[0], around.tilts.shape[-1]
    e = q if q <= MAX_SECOND_ORDER else 0
    return Values._make([*np.zeros((len(Values._fields) - 2, S)), np.zeros((S, q)), np.zeros((S, e, e))])


def back(
    around: EllipsoidAround, after: Values, r: Float[np.ndarray, "S A"], pi: Choice, *, is_last: bool
) -> tuple[Values, Number]:
    """One step back, and by how much the policy falls short of the best action under theta_hat, at most."""
    step, stop = around.step, around.divergence.stop
    mean, slope = sums(around, after)
    (V, J, B, R), advantage = advantages(around, after, (mean, slope), r, pi)
    D = (advantage + np.minimum(1.0, mean.D + length(slope.D))).max(-1)
    kappa = np.where(stop, 0.0, step.cost + mean.kappa / (1 - step.leak))
    hit = np.where(stop, 1.0, step.leak + mean.hit)
    Q_star = r + mean.V_star
    V_star = Q_star.max(-1)
    zeros = np.zeros_like(V)
    now = Values(
        V_star=V_star,
        kappa=zeros if is_last else average_over_actions(kappa, pi),  # the last transition touches no reward
        hit=zeros if is_last else average_over_actions(hit, pi),
        V=V,
        R=R,
        D=np.clip(D, 0.0, 1.0),
        upper=np.minimum(1.0, r + mean.upper + length(slope.upper)).max(-1),
        lower=np.maximum(0.0, average_over_actions(r + mean.lower - length(slope.lower), pi)),
        higher=np.minimum(1.0, average_over_actions(r + mean.higher + length(slope.higher), pi)),
        J=J,
        B=B,
    )
    shortfalls = np.where(around.space.reachable, V_star - average_over_actions(Q_star, pi), 0.0)
    return now, shortfalls.max(initial=0.0)  # a block of rewards may have no state at a step


def sums(around: EllipsoidAround, after: Values) -> tuple[Means, Slopes]:
    """Means and slopes of what comes after each (s,a): one product for all of them."""
    p, z = around.step.kernel.prob, around.tilts
    (S, A, _, q), e = z.shape, after.B.shape[1]
    carried = [after.V_star, after.kappa, after.hit]
    tilted = [after.V, after.R, after.D, after.upper, after.lower, after.higher]
    k, t, first = len(carried) + len(tilted), len(tilted), len(carried)
    flat = np.concatenate(
        [np.stack([*carried, *tilted], axis=1), after.J, after.B.reshape(len(after.V), -1)], 1
    )
    last = flat.shape[1] if e else k
    if around.space.is_dense:
        pf = np.einsum("san,nm->sam", p, flat, optimize=True)
        zf = np.einsum("sanq,nm->samq", z, flat[:, first:last], optimize=True)
    else:
        at_slot = flat.take(around.space.succ, axis=0)
        pf = (p[:, :, None] @ at_slot)[:, :, 0]
        zf = at_slot[..., first:last].swapaxes(-1, -2) @ z
    J, B = pf[..., k : k + q], pf[..., k + q :].reshape(S, A, e, e)
    means = Means._make([*np.moveaxis(pf[..., :k], -1, 0), J, B])
    return means, Slopes._make([*np.moveaxis(zf[:, :, :t], 2, 0), zf[:, :, t : t + e], zf[:, :, t + e :]])


def advantages(
    around: EllipsoidAround,
    after: Values,
    mean_slope: tuple[Means, Slopes],
    r: Float[np.ndarray, "S A"],
    pi: Choice,
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Float[np.ndarray, "S A"]]:
    """V, J, B, R of the policy, and at most by how much each action is better than its own.

    bQ is the quadratic term of Q_theta, rQ bounds its remainder.
    """
    mean, slope = mean_slope
    Q, gQ, bQ = r + mean.V, slope.V + mean.J, mean.B
    most = 1 + length(gQ)  # of a remainder, as values lie in [0,1]
    if bQ.shape[-1]:
        bQ = (slope.J + slope.J.swapaxes(-1, -2)) / 2 + bQ
        rest = length(slope.B.reshape(*Q.shape, -1))  # of the cubic form
        most = most + length(bQ.reshape(*Q.shape, -1))
    else:
        # u'(sum z J')u = sum (z'u)((J - mean J)'u), since the z of one pair sum to zero
        J_slot = after.J if around.space.is_dense else after.J[around.space.succ]
        rest = (length(around.tilts) * length(J_slot - mean.J[:, :, None])).sum(-1)
    rQ = np.minimum(rest + mean.R + length(slope.R), most)
    V, J, B, R = (average_over_actions(x, pi) for x in (Q, gQ, bQ, rQ))
    unsure = length(gQ - J[:, None])
    if bQ.shape[-1]:
        unsure = unsure + opnorm(bQ - B[:, None])
    advantage = np.minimum(1.0, Q - V[:, None] + unsure + rQ + R[:, None])
    is_own = np.arange(Q.shape[1]) == pi[:, None] if pi.ndim == 1 else pi == 1
    return (V, J, B, R), np.where(is_own, 0.0, advantage)


def average_over_actions(x: Float[np.ndarray, "S A *k"], pi: Choice) -> Float[np.ndarray, "S *k"]:
    """x at the actions that a policy takes."""
    result: np.ndarray = x[np.arange(len(pi)), pi] if pi.ndim == 1 else np.einsum("sa,sa...->s...", pi, x)
    return result


def _interval(at: Values) -> tuple[Number, Number]:
    """Where the value of the policy lies: by pessimism and optimism, by its expansion, by its divergence (Pinsker)."""
    by_tangent = length(at.J) + opnorm(at.B) + at.R
    by_divergence = at.hit + np.sqrt(at.kappa / 2)
    radius = np.fmin(by_tangent, by_divergence)
    return np.fmax(at.lower, at.V - radius), np.fmin(at.higher, at.V + radius)


_ZeroReward = tuple[
    np.ndarray, np.ndarray
]  # kappa and hit under the zero reward, of the occupied states of a step


@dataclass(frozen=True, eq=False)
class _AroundRows:
    """The `EllipsoidAround` of some rows in place of all states, as far as a step back needs it."""

    space: Space
    step: RowDivergence
    divergence: Divergence
    tilts: Float[np.ndarray, "N A n q"]
    eps: Any


def _rows_of(
    around: EllipsoidAround, s: Int[np.ndarray, " N"], succ: Int[np.ndarray, "N A n"]
) -> _AroundRows:
    """Rows that are those of the states s; `succ` are their successors among the rows of the next step."""
    step, most = around.step, around.divergence
    support, reachable = np.asarray(around.space.support)[s], np.ones(len(s), bool)
    return _AroundRows(
        Space(succ, support, reachable, None, around.space.horizon, None, False),
        RowDivergence(Kernel(succ, step.kernel.prob[s], False), step.cost[s], step.leak[s]),
        Divergence(most.kappa, most.hit, most.stop[s], most.eps),
        around.tilts[s],
        around.eps,
    )


class GoalRows(NamedTuple):
    """The rows (g, s) of a step in a pass for G rewards; g = G is the zero reward, whose rows are last.

    `row_of` [G+1, S] is the row of every pair: its own, or that of the zero reward.
    """

    g: Int[np.ndarray, " N"]
    s: Int[np.ndarray, " N"]
    row_of: Int[np.ndarray, "G1 S"]


def goal_rows(
    occupied: Bool[np.ndarray, " S"], distance: Int[np.ndarray, "G S"], steps_left: int
) -> GoalRows:
    """The rows of a step after which there are `steps_left` more; `distance` of each state to each rewarded state."""
    G, S = distance.shape
    states = np.flatnonzero(occupied)
    g, i = np.nonzero(distance[:, states] <= steps_left)
    row_of = np.zeros((G + 1, S), np.int32)
    row_of[:, states] = len(g) + np.arange(len(states))
    row_of[g, states[i]] = np.arange(len(g))
    return GoalRows(np.concatenate([g, np.full(len(states), G)]), np.concatenate([states[i], states]), row_of)


def bounds_of_states(around: EllipsoidAround, rewards: StateRewards) -> Iterator[Bounds]:
    """Bounds for the best plan under the estimate, for each reward, in parallel threads."""
    blocks = [
        rewards[first : first + REWARDS_PER_BLOCK] for first in range(0, len(rewards), REWARDS_PER_BLOCK)
    ]
    occupied = occupied_states(around.space)
    zero_reward = _bounds_of_zero_reward(around, occupied)
    bounds_of = partial(_bounds_of_block, around, occupied, predecessors(around.space), zero_reward)
    if threads() == 1:  # as in a browser, where none can be started
        yield from chain.from_iterable(map(bounds_of, blocks))
        return
    pool = ThreadPoolExecutor(threads())
    try:
        for bounds in pool.map(bounds_of, blocks):
            yield from bounds
    finally:
        pool.shutdown(cancel_futures=True)  # the caller may stop early


def _bounds_of_block(
    around: EllipsoidAround,
    occupied: Bool[np.ndarray, "H S"],
    before: Predecessors,
    zero_reward: list[_ZeroReward],
    rewards: StateRewards,
) -> list[Bounds]:
    """The pass for some rewards. Plans are optimal under the estimate, so their shortfall there is 0."""
    (H, S, _), G = around.space.sizes, len(rewards)
    distance = distances(before, rewards.states, H - 1)
    after, row_of = at_end(around), np.zeros((G + 1, S), np.int32)
    with np.errstate(all="ignore"):  # infinite divergences
        for h in range(H - 1, -1, -1):
            rows = goal_rows(occupied[h], distance, H - 1 - h)
            is_own = rows.g < G
            g, s = rows.g[is_own], rows.s[is_own]
            r = rewards.paid(h) * (s == rewards.states[g])
            now = _back_rows(around, after, row_of, GoalRows(g, s, rows.row_of), r, h == H - 1)
            after, row_of = _append_zero_reward(now, zero_reward[h]), rows.row_of
        starts = np.flatnonzero(around.space.starts())
        initial = np.ones(1) if around.space.initial is None else np.asarray(around.space.initial)[starts]
        at_start = [np.tensordot(x[row_of[:G, starts]], initial, (1, 0)) for x in after]
        return [bounds_at(around, Values(*(x[g, ...] for x in at_start)), 0.0) for g in range(G)]


def _bounds_of_zero_reward(around: EllipsoidAround, occupied: Bool[np.ndarray, "H S"]) -> list[_ZeroReward]:
    """The bounds for the zero reward, for the occupied states of each step."""
    H, S, _ = around.space.sizes
    after, row_of, result = at_end(around), np.zeros((1, S), np.int32), []
    with np.errstate(all="ignore"):
        for h in range(H - 1, -1, -1):
            rows = goal_rows(occupied[h], np.zeros((0, S), np.int32), H - 1 - h)
            after = _back_rows(around, after, row_of, rows, np.zeros(len(rows.s)), h == H - 1)
            row_of = rows.row_of
            result.append((after.kappa, after.hit))
    return result[::-1]


def _back_rows(
    around: EllipsoidAround,
    after: Values,
    row_of: Int[np.ndarray, "G1 S"],
    rows: GoalRows,
    r: Float[np.ndarray, " N"],
    is_last: bool,
) -> Values:
    """One step back of rows with rewards r, under their best actions; `row_of`: rows of the next step."""
    succ = row_of[rows.g[:, None, None], np.asarray(around.space.succ)[rows.s]]
    own = _rows_of(around, rows.s, succ)
    later = np.einsum("san,san->sa", own.step.kernel.prob, after.V_star[succ])
    paid = np.broadcast_to(r[:, None], later.shape)
    return back(own, after, paid, greedy(paid + later)[1], is_last=is_last)[0]


def _append_zero_reward(now: Values, zero_reward: _ZeroReward) -> Values:
    """The rows of a step, followed by those of the zero reward: zeros except for the divergence."""
    kappa, hit = zero_reward
    last = Values(*(np.zeros((len(kappa), *x.shape[1:])) for x in now))._replace(kappa=kappa, hit=hit)
    return Values(*(np.concatenate(pair) for pair in zip(now, last, strict=True)))
