"""Noise with any distribution, as an alternative to a mixture of given distributions (docs/alternatives.md).

The distribution p of the noise is averaged over Dirichlet distributions with parameters k b_w for outcome w, where
b = 0.9 (mean of the given distributions) + 0.1 (uniform). A large k gives a large likelihood near the class, a small k
far from it; the likelihoods for k = n/2, 2n and 8n, n outcomes, are averaged.
"""

from typing import cast

import numpy as np
from jaxtyping import Int

from horizonfree.guarantees.e_processes import mean_of
from horizonfree.mdp.space import Space
from horizonfree.models.mixture import alternatives
from horizonfree.problems.classes import Mixture
from horizonfree.problems.noise import AFTER, LAWS, OUTCOMES
from horizonfree.problems.problem import Problem

UNIFORM_SHARE = 0.1  # of b: some outcomes may have probability 0 in every given distribution
PSEUDO_COUNTS = (0.5, 2.0, 8.0)  # k / n


def any_law(problem: Problem) -> Problem | None:
    """The class of all distributions on the outcomes, for noise that is a mixture of given ones; else None."""
    next_states, outcomes = problem.layout.get(AFTER), problem.layout.get(OUTCOMES)
    if next_states is None or outcomes is None or LAWS not in problem.layout:
        return None
    return Mixture.from_noise(next_states, outcomes, horizon=problem.horizon, start=problem.start)


def log_any_law(problem: Problem, counts: Int[np.ndarray, "S A n"]) -> float | None:
    """The log of the averaged likelihood of these transitions; None where there is no such class."""
    rich_problem = any_law(problem)
    if rich_problem is None:
        return None
    counts_seen = transfer_counts(problem.space, counts, rich_problem.space)
    if counts_seen is None:
        return -np.inf
    laws, valid = np.asarray(problem.layout[LAWS]), cast(Mixture, rich_problem).model.valid
    n = laws.shape[1]
    center = (1 - UNIFORM_SHARE) * laws.mean(0) + UNIFORM_SHARE / n
    rows = alternatives.on_rows(valid, counts_seen[None])
    logs = [alternatives.over_weights(valid, rows, k * n * center) for k in PSEUDO_COUNTS]
    return mean_of(logs, np.full(len(logs), 1 / len(logs)))


def transfer_counts(
    space: Space, counts: Int[np.ndarray, "S A n"], other: Space
) -> Int[np.ndarray, "S A m"] | None:
    """Counts on the successor lists of another space with the same states and actions; None where one is impossible."""
    s, a, j = np.nonzero(counts)
    successors = np.asarray(space.succ)[s, a, j]
    hit = (np.asarray(other.succ)[s, a] == successors[:, None]) & np.asarray(other.support)[s, a]
    if not hit.any(-1).all():
        return None
    transferred = np.zeros(other.succ.shape, np.int64)
    np.add.at(transferred, (s, a, hit.argmax(-1)), counts[s, a, j])
    return transferred
