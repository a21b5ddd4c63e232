"""What exploration leaves behind: counts, and bets against every parameter at once.

Each episode is predicted, before it is seen, with a theta_t in Theta made from the episodes before it
(likelihood.predict). Over the episodes of a bet that starts after episode m,

    L(theta) = - sum log P_theta(s'|s,a),      Lq = - sum log P_{theta_t}(s'|s,a),

and exp(L(theta_star) - Lq) is a non-negative supermartingale that starts at 1. By Ville's inequality, with probability
1 - delta, for all numbers of episodes at once and all bets j with declared weights w_j (sum <= 1), theta_star lies in

    U_j = {theta in Theta : L_j(theta) <= Lq_j + log(1 / (delta w_j))},

whatever policies gathered the data. The predictor is in the class, so these bets can hardly refute the class itself.
One more bet can: a table of frequencies with half a pseudo-count per possible transition (`table_loss`), which learns
any stationary dynamics. If it beats every theta by log(1/delta), the class is wrong, except with probability delta.

`Evidence` has fixed shapes: it can be carried by a scan and mapped over seeds.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from horizonfree.errors import OptionError
from horizonfree.likelihood import PSEUDO_COUNT, log_loss, predict
from horizonfree.mixture import AnyArray
from horizonfree.simulate import UNSEEN, Trajectory
from horizonfree.valid import ValidSet

# Episodes before each bet and its weight, when no budget is declared: most weight where most runs end.
LADDER = {0: 0.05, 20: 0.15, 60: 0.2, 200: 0.2, 600: 0.2, 2_000: 0.1, 6_000: 0.06, 20_000: 0.04}
LATE = 0.9  # of the weight for the bet after a fifth of a declared budget; the rest is for before
ZERO = 1e-9  # the probability of a row that is not free and below this is zero: seeing it refutes the class


class Evidence(eqx.Module):
    """Counts and bets after some episodes.

    `rows` [R] counts each distinct feature row, `since` [J, R] those after the start of bet j, `loss` [J] is Lq_j.
    `theta` is the predictor for the next episode. `impossible` counts transitions that no parameter explains.
    `table_loss` is the loss of the table; infinite where it was not kept, and then the class is not tested.
    """

    counts: Int[AnyArray, "S A n"]
    rows: Int[AnyArray, " R"]
    since: Int[AnyArray, "J R"]
    loss: Float[AnyArray, " J"]
    starts: Int[AnyArray, " J"]
    weights: Float[AnyArray, " J"]
    theta: Float[AnyArray, " d"]
    episodes: Int[AnyArray, ""]
    impossible: Int[AnyArray, ""]
    table_loss: Float[AnyArray, ""] = eqx.field(default_factory=lambda: np.asarray(np.inf))

    @property
    def num_bets(self) -> int:
        """J."""
        return self.starts.shape[0]


def ladder(budget: int | None = None) -> tuple[Int[np.ndarray, " J"], Float[np.ndarray, " J"]]:
    """Starts and weights of the bets, to be declared before the first episode.

    Without a budget: LADDER, good at any time. With a budget of K episodes: K/5, which is the best start for K (it
    minimises slack / (K - start) for few unknowns), and 0.
    """
    if budget is None:
        bets = LADDER
    elif budget < 5:
        bets = {0: 1.0}
    else:
        bets = {0: 1 - LATE, budget // 5: LATE}
    return np.array(list(bets), np.int32), np.array(list(bets.values()))


def init(valid: ValidSet, starts: Int[AnyArray, " J"], weights: Float[AnyArray, " J"]) -> Evidence:
    """No episodes yet; the first prediction is the centre of Theta."""
    starts, weights = np.asarray(starts), np.asarray(weights, np.float64)
    if starts.ndim != 1 or starts.shape != weights.shape or starts.size == 0 or (starts < 0).any():
        raise OptionError(
            f"starts of the bets are {starts}, weights {weights}; give as many of one as of the other, >= 0"
        )
    if not ((weights > 0).all() and weights.sum() <= 1 + 1e-12):
        raise OptionError(f"weights of the bets are {weights}; they must be positive and sum to at most 1")
    R, J = valid.rows.shape[0], len(starts)
    return Evidence(
        counts=jnp.zeros(valid.row_of.shape, jnp.int32),
        rows=jnp.zeros(R, jnp.int32),
        since=jnp.zeros((J, R), jnp.int32),
        loss=jnp.zeros(J, jnp.float64),
        starts=jnp.asarray(starts, jnp.int32),
        weights=jnp.asarray(weights),
        theta=jnp.asarray(valid.center, jnp.float64),
        episodes=jnp.int32(0),
        impossible=jnp.int32(0),
        table_loss=jnp.zeros((), jnp.float64),
    )


def update(valid: ValidSet, evidence: Evidence, trajectory: Trajectory) -> Evidence:
    """Evidence after one more episode; traceable.

    The loss of the episode is that of the predictor fixed before it; only then is the predictor trained on it.
    A slot j outside 0..n-1, or of padding, stands for a transition that the class calls impossible; steps that were not
    seen count for nothing, since what is bet on is decided step by step.
    """
    R, n = valid.rows.shape[0], valid.row_of.shape[2]
    s, a, j = trajectory.s[:-1], trajectory.a, trajectory.j
    is_slot = (j >= 0) & (j < n)
    row = jnp.where(is_slot, jnp.asarray(valid.row_of)[s, a, jnp.where(is_slot, j, 0)], R)
    p = jnp.append(jnp.asarray(valid.rows) @ evidence.theta, 0.0)[row]
    is_possible = p > jnp.append(jnp.where(valid.free, 0.0, ZERO), 1.0)[row]
    seen = jnp.zeros(R, jnp.int32).at[jnp.where(is_possible, row, R)].add(1, mode="drop")
    rows = jnp.asarray(evidence.rows) + seen
    is_on = evidence.episodes >= evidence.starts
    before, slots = jnp.asarray(evidence.counts)[s, a], (jnp.asarray(valid.row_of)[s, a] < R).sum(-1)
    at_slot = jnp.take_along_axis(before, jnp.where(is_slot, j, 0)[:, None], axis=1)[:, 0]
    p_table = (at_slot + PSEUDO_COUNT) / (before.sum(-1) + PSEUDO_COUNT * slots)
    return Evidence(
        counts=jnp.asarray(evidence.counts).at[s, a, jnp.where(is_slot, j, n)].add(1, mode="drop"),
        rows=rows,
        since=evidence.since + is_on[:, None] * seen,
        loss=evidence.loss - is_on * jnp.log(jnp.where(is_possible, p, 1.0)).sum(),
        starts=evidence.starts,
        weights=evidence.weights,
        theta=predict(valid, rows, jnp.asarray(evidence.theta)),
        episodes=evidence.episodes + 1,
        impossible=evidence.impossible + (~is_possible & (j != UNSEEN)).sum(dtype=jnp.int32),
        table_loss=evidence.table_loss - jnp.log(jnp.where(is_possible, p_table, 1.0)).sum(),
    )


def excess(
    valid: ValidSet, evidence: Evidence, theta: Float[AnyArray, " d"], delta: Float[AnyArray, ""] | float
) -> Float[Array, " J"]:
    """L_j(theta) - Lq_j - log(1 / (delta w_j)) per bet: theta is in U_j while it is <= 0; traceable.

    Infinite when theta gives a transition that was seen probability zero.
    """
    p = jnp.asarray(valid.rows) @ theta
    loss = jnp.stack([log_loss(since, p) for since in jnp.asarray(evidence.since)])
    return loss - evidence.loss + jnp.log(delta * evidence.weights)
