"""What exploration leaves behind of a table: how often each transition was seen, in any order.

The e-processes of this class (radius.py) are functions of the counts alone, at every number of episodes: they need no
ladder of starts. Those that were declared are stored, as every class does, and not used. learner.py computes the
evidence.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from horizonfree._arrays import node
from horizonfree.mdp.space import Kernel, Space
from horizonfree.models.base import Evidence


@node
class TabularEvidence(Evidence):
    """The counts of the base class; transitions outside the support are `impossible`."""


def frequencies(space: Space, evidence: TabularEvidence) -> Kernel:
    """Every possible successor alike where there are no data; NumPy in, NumPy out, or traced."""
    n = evidence.visits[..., None]
    xp = n.__array_namespace__()
    even = space.support / space.support.sum(-1, keepdims=True)
    return space.kernel(xp.where(n > 0, evidence.counts / xp.maximum(n, 1), even))


@dataclass(frozen=True, eq=False)
class ListedCounts:
    """Counts on lists of successors. Every row has slots that are listed; the others are padding, without counts."""

    succ: Int[np.ndarray, "S A C"]
    counts: Int[np.ndarray, "S A C"]
    is_listed: Bool[np.ndarray, "S A C"]


def full_lists(space: Space, evidence: TabularEvidence) -> ListedCounts:
    """The counts on the lists of all that is possible."""
    return ListedCounts(np.asarray(space.succ), np.asarray(evidence.counts), np.asarray(space.support))


def short_lists(space: Space, evidence: TabularEvidence) -> ListedCounts:
    """The counts on lists of what was seen, or of one possible successor where nothing was.

    On the lists of all that is possible where that saves less than half.
    """
    full = full_lists(space, evidence)
    is_seen = full.counts > 0
    first = full.is_listed & (np.cumsum(full.is_listed, axis=-1) == 1)
    is_listed = np.where(is_seen.any(-1, keepdims=True), is_seen, first)
    length = is_listed.sum(-1, keepdims=True)
    width = int(length.max())
    if 2 * width > full.counts.shape[2]:
        return full
    s, a, j = np.nonzero(is_listed)
    slot = (np.cumsum(is_listed, axis=-1) - 1)[s, a, j]
    succ, counts = np.zeros((2, *is_listed.shape[:2], width), np.int32)
    succ[s, a, slot], counts[s, a, slot] = full.succ[s, a, j], full.counts[s, a, j]
    return ListedCounts(succ, counts, np.arange(width) < length)
