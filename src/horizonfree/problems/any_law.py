"""Any law of the noise, as what bets against a mixture of given laws (docs/alternatives.md).

The law p of the noise is averaged over Dirichlet's laws around the middle b of what is given, nine parts the mean of
the laws and one part every outcome alike, with k pseudo-counts in all: k b_w for outcome w. Near the class a large k
bets well, far from it a small one; k = n/2, 2n and 8n for n outcomes are averaged.
"""

from typing import cast

import numpy as np
from jaxtyping import Int

from horizonfree.guarantees.alternatives import mean_of
from horizonfree.mdp.space import Space
from horizonfree.models.mixture import alternatives
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.problems.mixture import Mixture
from horizonfree.problems.noise import AFTER, LAWS, OUTCOMES
from horizonfree.problems.problem import Problem

EVEN = 0.1  # of the middle, for every outcome alike: some may be in no law
PSEUDO = (0.5, 2.0, 8.0)  # pseudo-counts per outcome


def any_law(problem: Problem) -> Problem | None:
    """The class of any law on the outcomes, where the noise of a problem is a mixture of given laws; else None."""
    after, outcomes = problem.layout.get(AFTER), problem.layout.get(OUTCOMES)
    if after is None or outcomes is None or LAWS not in problem.layout:
        return None
    return Mixture.from_noise(after, outcomes, horizon=problem.horizon, start=problem.start)


def log_any_law(problem: Problem, counts: Int[np.ndarray, "S A n"]) -> float | None:
    """The logarithm of what any law gives these transitions, averaged over laws; None where there is no such class."""
    rich = any_law(problem)
    if rich is None:
        return None
    seen = carried(problem.space, counts, rich.space)
    if seen is None:
        return -np.inf
    laws, valid = np.asarray(problem.layout[LAWS]), cast(MixtureModel, rich.model).valid
    n = laws.shape[1]
    middle = (1 - EVEN) * laws.mean(0) + EVEN / n
    rows = alternatives.on_rows(valid, seen[None])
    found = [alternatives.over_weights(valid, rows, k * n * middle) for k in PSEUDO]
    return mean_of(found, np.full(len(found), 1 / len(found)))


def carried(space: Space, counts: Int[np.ndarray, "S A n"], other: Space) -> Int[np.ndarray, "S A m"] | None:
    """Counts on the successor lists of another space with the same states and actions; None where one has no place."""
    s, a, j = np.nonzero(counts)
    to = np.asarray(space.succ)[s, a, j]
    hit = (np.asarray(other.succ)[s, a] == to[:, None]) & np.asarray(other.support)[s, a]
    if not hit.any(-1).all():
        return None
    seen = np.zeros(other.succ.shape, np.int64)
    np.add.at(seen, (s, a, hit.argmax(-1)), counts[s, a, j])
    return seen
