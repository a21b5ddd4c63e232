"""What exploration leaves behind: counts, and bets against every parameter at once.

Each episode is predicted, before it is seen, with two parameters in Theta made from the episodes before it
(likelihood.predict). Over the episodes of a bet j that starts after episode m_j,

    L(theta) = - sum log P_theta(s'|s,a),      Lq_i = - sum log P_{theta_t,i}(s'|s,a),      i = 1, 2,
    Lq = - log sum_i a_i exp(-Lq_i),           a_i = 1/4 + (1/2) (posterior of i before episode m_j),

and exp(L(theta_star) - Lq) is a non-negative supermartingale that starts at 1. By Ville's inequality, with probability
1 - delta, for all numbers of episodes at once and all bets j with declared weights w_j (sum <= 1), theta_star lies in

    U_j = {theta in Theta : L_j(theta) <= Lq_j + log(1 / (delta w_j))},

whatever policies gathered the data; Lq is within log 4 of the better predictor. Both are in the class, so these bets
can hardly refute the class itself. One more bet can: a table of frequencies with half a pseudo-count per possible
transition (`table_loss`), which learns any stationary Markov dynamics. If it beats every theta by log(1/delta), the
class is wrong, except with probability delta.

`Evidence` has fixed shapes: it can be carried by a scan and mapped over seeds.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array, Leaf, library, taken
from horizonfree.guarantees.bets import Bets, check_bets
from horizonfree.mdp.rollout import UNSEEN, Trajectory
from horizonfree.models.mixture.likelihood import HALF
from horizonfree.models.mixture.predictor import predict
from horizonfree.models.mixture.record import Record, add
from horizonfree.models.mixture.valid import ValidSet

LARGE = 10**5  # R q^2, what a Newton step costs, above which predictors are trained on a schedule
GROWTH = 1.02  # of the episodes, between two fits of it
MANY = 10_000  # rows: of so many an episode looks at its own alone


class Evidence(eqx.Module):
    """Counts and bets after some episodes.

    `row_counts` [R] counts each distinct feature row, `since` [J, R] those after the start of bet j, `losses` [J, 2]
    are those of the two predictors since then. `thetas` are the predictors for the next episode. `impossible` counts
    transitions that no parameter explains. `table_loss` is the loss of the table; infinite where it was not kept, and
    then the class is not tested. `record` has the counts block by block, for certificates of a class that is a little
    wrong, where it is kept.
    """

    counts: Int[Leaf, "*batch S A n"]
    row_counts: Int[Leaf, "*batch R"]
    since: Int[Leaf, "*batch J R"]
    losses: Float[Leaf, "*batch J 2"]
    starts: Int[Leaf, "*batch J"]
    weights: Float[Leaf, "*batch J"]
    thetas: Float[Leaf, "*batch 2 d"]
    episodes: Int[Leaf, "*batch"]
    impossible: Int[Leaf, "*batch"]
    table_loss: Float[Leaf, "*batch"] = eqx.field(default_factory=lambda: np.asarray(np.inf))
    record: Record | None = None

    @property
    def visits(self) -> Int[Leaf, "*batch S A"]:
        """How often each action was taken in each state."""
        return self.counts.sum(-1)

    @property
    def theta(self) -> Float[Leaf, "*batch d"]:
        """The mean of the predictors, each with its posterior: inside Theta, as Theta is convex."""
        share = _shares(-self._since_the_earliest())
        return (share[..., None] * self.thetas).sum(-2)

    @property
    def loss(self) -> Float[Leaf, "*batch J"]:
        """Lq of each bet: its predictors mixed with weights that were fixed when it started."""
        xp = library(self.losses)
        weight = 1 / 4 + _shares(self.losses - self._since_the_earliest()[..., None, :]) / 2
        least = self.losses.min(-1)
        mixed: Array = least - xp.log((weight * xp.exp(least[..., None] - self.losses)).sum(-1))
        return mixed

    def _since_the_earliest(self) -> Float[Leaf, "*batch 2"]:
        """The losses of the bet that starts first."""
        is_first = self.starts == self.starts.min(-1, keepdims=True)
        return (self.losses * is_first[..., None]).sum(-2) / is_first.sum(-1)[..., None]


def _shares(x: Float[Leaf, "*n 2"]) -> Float[Leaf, "*n 2"]:
    """exp(x) as shares of their sum."""
    xp = library(x)
    weight = xp.exp(x - x.max(-1, keepdims=True))
    shares: Array = weight / weight.sum(-1, keepdims=True)
    return shares


class _Seen(eqx.Module):
    """The transitions of an episode: pair, slot, feature row (R where there is none).

    `is_slot`: the state that came is in the list of successors; `is_possible`: some parameter explains it.
    """

    s: Int[Array, " H"]
    a: Int[Array, " H"]
    j: Int[Array, " H"]
    row: Int[Array, " H"]
    p: Float[Array, "H 2"]  # under the predictors
    is_slot: Bool[Array, " H"]
    is_possible: Bool[Array, " H"]


def nothing(valid: ValidSet, bets: Bets) -> Evidence:
    """No episodes yet; the first prediction is the centre of Theta."""
    check_bets(bets)
    R, J = valid.rows.shape[0], len(bets.starts)
    return Evidence(
        counts=jnp.zeros(valid.row_of.shape, jnp.int32),
        row_counts=jnp.zeros(R, jnp.int32),
        since=jnp.zeros((J, R), jnp.int32),
        losses=jnp.zeros((J, 2), jnp.float64),
        starts=jnp.asarray(bets.starts, jnp.int32),
        weights=jnp.asarray(bets.weights, jnp.float64),
        thetas=jnp.tile(jnp.asarray(valid.center, jnp.float64), (2, 1)),
        episodes=jnp.int32(0),
        impossible=jnp.int32(0),
        table_loss=jnp.zeros((), jnp.float64),
    )


def learn(valid: ValidSet, evidence: Evidence, trajectory: Trajectory) -> Evidence:
    """Evidence after one more episode; traceable.

    The loss of the episode is that of the predictors fixed before it; only then are they trained on it.
    A slot j outside 0..n-1, or of padding, stands for a transition that the class calls impossible; steps that were not
    seen count for nothing, since what is bet on is decided step by step.
    """
    R, n = valid.rows.shape[0], valid.row_of.shape[2]
    seen = _seen(valid, evidence, trajectory)
    is_on = evidence.episodes >= evidence.starts
    row_counts, since = _counted(evidence, is_on, jnp.where(seen.is_possible, seen.row, R))
    is_seen = seen.j != UNSEEN
    record = evidence.record
    if record is not None:
        record = add(record, evidence.episodes, seen.s, seen.a, seen.row, is_seen)
    return Evidence(
        counts=evidence.counts.at[seen.s, seen.a, jnp.where(seen.is_slot, seen.j, n)].add(1, mode="drop"),
        row_counts=row_counts,
        since=since,
        losses=evidence.losses - is_on[:, None] * _log_of(seen.p, seen.is_possible[:, None]),
        starts=evidence.starts,
        weights=evidence.weights,
        thetas=_trained(valid, row_counts, evidence),
        episodes=evidence.episodes + 1,
        impossible=evidence.impossible + (~seen.is_possible & is_seen).sum(dtype=jnp.int32),
        table_loss=evidence.table_loss - _log_of(_by_table(valid, evidence, seen), seen.is_possible),
        record=record,
    )


def _counted(
    evidence: Evidence, is_on: Bool[Array, " J"], row: Int[Array, " H"]
) -> tuple[Int[Array, " R"], Int[Array, "J R"]]:
    """`row_counts` and `since` after an episode; R counts for nothing. Many rows are not gone through for its sake."""
    R = evidence.row_counts.shape[0]
    if R > MANY:
        on = is_on[:, None].astype(jnp.int32)
        return evidence.row_counts.at[row].add(1, mode="drop"), evidence.since.at[:, row].add(on, mode="drop")
    counted = jnp.zeros(R, jnp.int32).at[row].add(1, mode="drop")
    return evidence.row_counts + counted, evidence.since + is_on[:, None] * counted


def _trained(valid: ValidSet, row_counts: Int[Array, " R"], evidence: Evidence) -> Float[Array, "2 d"]:
    """The predictors for the next episode. Where a fit costs much it is made on a schedule; any schedule is fair."""
    if valid.rows.shape[0] * valid.num_free**2 <= LARGE:
        return predict(valid, row_counts, evidence.thetas)
    stage = jnp.floor(jnp.log(evidence.episodes + jnp.arange(1.0, 3.0)) / jnp.log(GROWTH))
    is_due = stage[1] > stage[0]
    trained: Array = jax.lax.cond(
        is_due, lambda: predict(valid, row_counts, evidence.thetas), lambda: evidence.thetas
    )
    return trained


def _seen(valid: ValidSet, evidence: Evidence, trajectory: Trajectory) -> _Seen:
    """The transitions of an episode, as the class and its predictors see them.

    A row is possible if some parameter gives it more than nothing, however little.
    """
    R, n = valid.rows.shape[0], valid.row_of.shape[2]
    s, a, j = trajectory.s[:-1], trajectory.a, trajectory.j
    is_slot = (j >= 0) & (j < n)
    row = jnp.where(is_slot, taken(valid.row_of, (s, a, jnp.where(is_slot, j, 0))), R)
    if R > MANY:
        p = jnp.where(row[:, None] < R, taken(valid.rows, jnp.minimum(row, R - 1)) @ evidence.thetas.T, 0.0)
    else:
        p = taken(jnp.concatenate([valid.rows @ evidence.thetas.T, jnp.zeros((1, 2))]), row)
    is_possible = (p > 0).all(-1) & taken(jnp.append(valid.positive, False), row)
    return _Seen(s, a, j, row, p, is_slot, is_possible)


def _by_table(valid: ValidSet, evidence: Evidence, seen: _Seen) -> Float[Array, " H"]:
    """What the table of frequencies of the episodes before gave each transition."""
    before = taken(evidence.counts, (seen.s, seen.a))
    slots = (taken(valid.row_of, (seen.s, seen.a)) < valid.rows.shape[0]).sum(-1)
    at_slot = jnp.take_along_axis(before, jnp.where(seen.is_slot, seen.j, 0)[:, None], axis=1)[:, 0]
    return (at_slot + HALF) / (before.sum(-1) + HALF * slots)


def _log_of(p: Float[Array, "H *i"], is_possible: Bool[Array, "H *one"]) -> Float[Array, "*i"]:
    """The logarithm of the likelihood of what was possible."""
    return jnp.log(jnp.where(is_possible, p, 1.0)).sum(0)


def excess(
    valid: ValidSet, evidence: Evidence, theta: Float[Leaf, " d"], delta: float | Float[Leaf, ""]
) -> Float[Leaf, " J"]:
    """L_j(theta) - Lq_j - log(1 / (delta w_j)) per bet: theta is in U_j while it is <= 0; NumPy in and out, or traced.

    Infinite when theta gives a transition that was seen probability zero.
    """
    xp = library(theta, evidence.since)
    p = xp.maximum(valid.rows @ theta, 0.0)
    with np.errstate(divide="ignore"):
        loss = -(evidence.since * xp.log(xp.where(evidence.since > 0, p, 1.0))).sum(-1)
    return loss - evidence.loss + xp.log(delta * evidence.weights)
