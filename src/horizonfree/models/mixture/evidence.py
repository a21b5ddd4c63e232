"""The evidence of a mixture: counts, and e-processes that test every parameter at once.

Each episode is predicted, before it is seen, with two parameters in Theta made from the episodes before it
(likelihood.predict). Over the episodes of an e-process j that starts after episode m_j,

    L(theta) = - sum log P_theta(s'|s,a),      Lq_i = - sum log P_{theta_t,i}(s'|s,a),      i = 1, 2,
    Lq = - log sum_i a_i exp(-Lq_i),           a_i = 1/4 + (1/2) (posterior of i before episode m_j),

and exp(L(theta_star) - Lq) is a non-negative supermartingale that starts at 1. By Ville's inequality, with probability
1 - delta, for all numbers of episodes at once and all e-processes j with declared weights w_j (sum <= 1), theta_star
lies in

    U_j = {theta in Theta : L_j(theta) <= Lq_j + log(1 / (delta w_j))},

whatever policies gathered the data; Lq is within log 4 of the better predictor. Both are in the class, so these
e-processes can hardly refute the class itself. One more e-process can: a table of frequencies with half a pseudo-count
per possible transition (`table_loss`), which learns any stationary Markov dynamics. If it beats every theta by
log(1/delta), the class is wrong, except with probability delta.

`Evidence` has fixed shapes: it can be carried by a scan and mapped over seeds.

A certificate for a misspecified class (`Record`) needs the same counts block by block.

Episodes fall into blocks, fixed beforehand, each a quarter as long as everything before it. The predictor of a block
is computed from the blocks before it (`predictors`), so it need not be stored. Stored per block are: how often each
row was seen, and how often each action was taken in each state, wherever it led.

A predictor that stands for a quarter more episodes loses about q/2 (1/4 - log(5/4)) = q/75 nats per block against one
that learns after every episode; over the episodes from K/5 to K that is q/10.
"""

from dataclasses import field

import numpy as np
from jaxtyping import Float, Int

from horizonfree._arrays import Array, Leaf, node
from horizonfree.models.base import Evidence
from horizonfree.models.mixture.likelihood import predict
from horizonfree.models.mixture.valid import ValidSet

BLOCKS = 64  # the last begins after about a million episodes, and has no end
EPISODES_PER_BLOCK_EPISODE = 4  # a block has one episode for so many before it


def _block_starts() -> Int[np.ndarray, " T"]:
    starts = [0]
    while len(starts) < BLOCKS:
        starts.append(starts[-1] + max(1, starts[-1] // EPISODES_PER_BLOCK_EPISODE))
    return np.array(starts, np.int32)


STARTS = _block_starts()  # episodes before each block


@node
class Record:
    """`rows` [T, R] counts each row in each block, `visits` [T, S, A] each pair, also where it led nowhere listed."""

    rows: Int[Leaf, "*batch T R"]
    visits: Int[Leaf, "*batch T S A"]


def predictors(valid: ValidSet, rows: Int[np.ndarray, "T R"]) -> Float[np.ndarray, "T d"]:
    """The parameter that each block is predicted with, from the counts of the blocks before it; on the host.

    The one with few pseudo-counts (likelihood.predict), three Newton steps on from the block before, inside Theta.
    """
    before = np.cumsum(rows, axis=0) - rows
    thetas, result = np.tile(np.asarray(valid.center), (2, 1)), []
    for counts in before:
        thetas = predict(valid, counts, thetas)
        result.append(thetas[1])
    return np.stack(result)


@node
class MixtureEvidence(Evidence):
    """The counts of the base class, and e-processes.

    `row_counts` [R] counts each distinct feature row, `since` [J, R] those after the start of e-process j, `losses`
    [J, 2] are those of the two predictors since then. `thetas` are the predictors for the next episode. `table_loss` is
    the loss of the table; infinite where it was not computed, and then the class is not tested. `record` has the counts
    block by block, for certificates of a misspecified class; None where they were not asked for.
    """

    row_counts: Int[Leaf, "*batch R"]
    since: Int[Leaf, "*batch J R"]
    losses: Float[Leaf, "*batch J 2"]
    thetas: Float[Leaf, "*batch 2 d"]
    table_loss: Float[Leaf, "*batch"] = field(default_factory=lambda: np.asarray(np.inf))
    record: Record | None = None

    @property
    def has_history(self) -> bool:
        """Whether `record` is there."""
        return self.record is not None

    @property
    def theta(self) -> Float[Leaf, "*batch d"]:
        """The mean of the predictors, each with its posterior: inside Theta, as Theta is convex."""
        share = _shares(-self._since_the_earliest())
        return (share[..., None] * self.thetas).sum(-2)

    @property
    def loss(self) -> Float[Leaf, "*batch J"]:
        """Lq of each e-process: its predictors mixed with weights that were fixed when it started."""
        xp = self.losses.__array_namespace__()
        weight = 1 / 4 + _shares(self.losses - self._since_the_earliest()[..., None, :]) / 2
        least = self.losses.min(-1)
        mixed: Array = least - xp.log((weight * xp.exp(least[..., None] - self.losses)).sum(-1))
        return mixed

    def _since_the_earliest(self) -> Float[Leaf, "*batch 2"]:
        """The losses of the e-process that starts first."""
        is_first = self.starts == self.starts.min(-1, keepdims=True)
        return (self.losses * is_first[..., None]).sum(-2) / is_first.sum(-1)[..., None]


def _shares(x: Float[Leaf, "*n 2"]) -> Float[Leaf, "*n 2"]:
    """exp(x) as shares of their sum."""
    xp = x.__array_namespace__()
    weight = xp.exp(x - x.max(-1, keepdims=True))
    shares: Array = weight / weight.sum(-1, keepdims=True)
    return shares


def violation(
    valid: ValidSet, evidence: MixtureEvidence, theta: Float[Leaf, " d"], delta: float | Float[Leaf, ""]
) -> Float[Leaf, " J"]:
    """L_j(theta) - Lq_j - log(1 / (delta w_j)) per e-process: theta is in U_j while it is <= 0; NumPy in and out, or
    traced.

    Infinite when theta gives a transition that was seen probability zero.
    """
    p = valid.rows @ theta
    xp = (evidence.since @ p).__array_namespace__()  # JAX's where one of the arrays is traced
    p = xp.maximum(p, 0.0)
    with np.errstate(divide="ignore"):
        loss = -(evidence.since * xp.log(xp.where(evidence.since > 0, p, 1.0))).sum(-1)
    return loss - evidence.loss + xp.log(delta * evidence.weights)
