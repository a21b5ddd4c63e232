"""What a certificate for a class that is a little wrong reads beside the counts: the same counts, block by block.

Episodes fall into blocks, fixed beforehand, each a quarter as long as everything before it. The predictor of a block is
made of the blocks before it (`predictors`), so it need not be kept: the counts of each block tell it. Per block are
kept: how often each row was seen, and how often each action was taken in each state, wherever it led.

A predictor that stands for a quarter more episodes loses about q/2 (1/4 - log(5/4)) = q/75 nats per block against one
that learns after every episode; over the episodes from K/5 to K that is q/10.
"""

import numpy as np
from jaxtyping import Float, Int

from horizonfree._arrays import Leaf, node
from horizonfree.models.mixture.likelihood import predict
from horizonfree.models.mixture.valid import ValidSet

BLOCKS = 64  # the last begins after about a million episodes, and has no end
GROWTH = 4  # a block has one episode for so many before it


def _block_starts() -> Int[np.ndarray, " T"]:
    starts = [0]
    while len(starts) < BLOCKS:
        starts.append(starts[-1] + max(1, starts[-1] // GROWTH))
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
    thetas, found = np.tile(np.asarray(valid.center), (2, 1)), []
    for counts in before:
        thetas = predict(valid, counts, thetas)
        found.append(thetas[1])
    return np.stack(found)
