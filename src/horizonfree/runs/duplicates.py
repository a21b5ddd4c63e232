"""Logs that hold episodes twice: certificates count each as a new one, and may then be false.

Two tests, each wrong with a probability of about 1e-6 for episodes that are independent draws:

- the whole log was copied k times, in any order: all counts of the D distinct episodes are multiples of k >= 2, which
  has a probability of about k^-(D-1) where transitions are random;
- a block of consecutive episodes stands twice, where the probability of its starts and transitions, by their
  frequencies in the log, is below 1e-6 / K^2. Actions do not count: somebody may repeat them on purpose. Likely
  episodes at the ends of a block are not counted.

Episodes that are alike because few things can happen pass both.
"""

import math

import numpy as np
from jaxtyping import Float, Int

RARE = 1e-6  # the probability of a false alarm, about


def num_repeated(s: Int[np.ndarray, "K H1"], a: Int[np.ndarray, "K H"], length: Int[np.ndarray, " K"]) -> int:
    """How many episodes of a log are copies of others, beyond what chance explains."""
    (K, H), rng = a.shape, np.random.default_rng(0)
    is_seen = np.arange(H + 1) <= length[:, None]
    rows = np.concatenate([np.where(is_seen, s, -1), np.where(is_seen[:, 1:], a, -1)], axis=1)
    keys = rows.astype(np.uint64) @ rng.integers(
        2**63, size=2 * H + 1, dtype=np.uint64
    )  # a hash of each episode
    _, first, block, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    each = _log_probability(s[first], a[first], length[first], counts)
    k, unlikely = math.gcd(*counts.tolist()), math.log(RARE)
    if k > 1 and each.sum() < unlikely and -(len(counts) - 1) * math.log(k) < unlikely:
        return int(K - K // k)
    rare = unlikely - 2 * math.log(K)
    alone = each[block]
    log_p = np.cumsum(np.r_[0.0, alone])
    steps, width = np.zeros(K + 1, int), 1  # +1 where a copied block begins, -1 behind its end
    while True:
        starts = np.flatnonzero(log_p[width:] - log_p[:-width] < rare)
        _, earliest, which = np.unique(block[starts], return_index=True, return_inverse=True)
        copies = starts[starts >= starts[earliest[which]] + width]
        # Every rare block has an episode like this. Likelier ones at its ends may agree with others by chance.
        rarer = np.flatnonzero(alone < rare / (2 * width))
        np.add.at(steps, rarer[np.searchsorted(rarer, copies)], 1)
        np.add.at(steps, rarer[np.searchsorted(rarer, copies + width) - 1] + 1, -1)
        if 4 * width > K:
            return int((np.cumsum(steps) > 0).sum())
        # a block of twice the width is a pair of blocks
        pairs = block[:-width].astype(np.int64) * (block.max() + 1) + block[width:]
        block, width = np.unique(pairs, return_inverse=True)[1], 2 * width


def _log_probability(
    s: Int[np.ndarray, "D H1"],
    a: Int[np.ndarray, "D H"],
    length: Int[np.ndarray, " D"],
    counts: Int[np.ndarray, " D"],
) -> Float[np.ndarray, " D"]:
    """Of each distinct episode, given its actions; what follows a pair n times of N has the probability n / (N + 1)."""
    is_taken = np.arange(a.shape[1]) < length[:, None]
    weight = np.broadcast_to(counts[:, None], a.shape)[is_taken]
    now, act, after = s[:, :-1][is_taken], a[is_taken], s[:, 1:][is_taken]
    pair = now * (a.max() + 1) + act
    found = np.zeros(a.shape)
    found[is_taken] = _log_share(pair, after, weight)
    start = _log_share(np.zeros(len(s), np.int64), s[:, 0], counts)
    return np.asarray(start + found.sum(1))


def _log_share(
    given: Int[np.ndarray, " m"], outcome: Int[np.ndarray, " m"], weight: Int[np.ndarray, " m"]
) -> Float[np.ndarray, " m"]:
    """log n(given, outcome) / (n(given) + 1)."""
    joint = given * (outcome.max() + 1) + outcome
    totals = []
    for key in (joint, given):
        _, which = np.unique(key, return_inverse=True)
        totals.append(np.bincount(which, weight)[which])
    return np.asarray(np.log(totals[0]) - np.log(totals[1] + 1))
