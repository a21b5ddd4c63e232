"""Detection of repeated episodes in a log. Certificates count a copy as a new observation, and may then be false.

Two tests. For episodes that are independent draws each has a false-alarm probability of about 1e-6:

- the whole log was copied k times, in any order: all counts of the D distinct episodes are multiples of k >= 2, which
  has a probability of about k^-(D-1) where transitions are random;
- a block of consecutive episodes occurs twice, and the probability of its starts and transitions, by their frequencies
  in the log, is below 1e-6 / K^2. Actions are not part of it, since a policy may repeat them on purpose. Likely
  episodes at the ends of a block are not counted.

Episodes that agree because few transitions are possible pass both tests.
"""

import math

import numpy as np
from jaxtyping import Bool, Float, Int

FALSE_ALARM = 1e-6  # the probability of each test, approximately


def num_repeated(
    s: Int[np.ndarray, "K H1"], a: Int[np.ndarray, "K H"], is_seen: Bool[np.ndarray, "K H"]
) -> int:
    """How many episodes of a log are copies of others, beyond what chance explains.

    is_seen: which transitions were observed.
    """
    (K, H), rng = a.shape, np.random.default_rng(0)
    known = np.pad(is_seen, ((0, 0), (0, 1))) | np.pad(
        is_seen, ((0, 0), (1, 0))
    )  # states of observed transitions
    rows = np.concatenate([np.where(known, s, -1), np.where(is_seen, a, -1)], axis=1)
    weights = rng.integers(2**63, size=2 * H + 1, dtype=np.uint64)
    keys = rows.astype(np.uint64) @ weights  # a hash of each episode
    _, first, block, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    each = _log_probability(s[first], a[first], is_seen[first], counts)
    k, unlikely = math.gcd(*counts.tolist()), math.log(FALSE_ALARM)
    if k > 1 and each.sum() < unlikely and -(len(counts) - 1) * math.log(k) < unlikely:
        return int(K - K // k)
    rare = unlikely - 2 * math.log(K)
    alone = each[block]
    log_p = np.cumsum(np.r_[0.0, alone])
    steps, width = np.zeros(K + 1, int), 1  # +1 at the first episode of a copied block, -1 after its last
    while True:
        starts = np.flatnonzero(log_p[width:] - log_p[:-width] < rare)
        _, earliest, which = np.unique(block[starts], return_index=True, return_inverse=True)
        # compared by number of the episode, not by place in `starts`
        copies = starts[starts >= starts[earliest[which]] + width]
        # A rare block contains an episode this rare. Likelier ones at its ends may agree with others by chance.
        rarer = np.flatnonzero(alone < rare / (2 * width))
        np.add.at(steps, rarer[np.searchsorted(rarer, copies)], 1)
        np.add.at(steps, rarer[np.searchsorted(rarer, copies + width) - 1] + 1, -1)
        if 4 * width > K:
            return int((np.cumsum(steps) > 0).sum())
        # A block of twice the width is a pair of blocks.
        pairs = block[:-width].astype(np.int64) * (block.max() + 1) + block[width:]
        block, width = np.unique(pairs, return_inverse=True)[1], 2 * width


def _log_probability(
    s: Int[np.ndarray, "D H1"],
    a: Int[np.ndarray, "D H"],
    is_seen: Bool[np.ndarray, "D H"],
    counts: Int[np.ndarray, " D"],
) -> Float[np.ndarray, " D"]:
    """Of each distinct episode given its actions; a successor seen n times in N visits has probability n / (N + 1)."""
    weight = np.broadcast_to(counts[:, None], a.shape)[is_seen]
    state, action, successor = s[:, :-1][is_seen], a[is_seen], s[:, 1:][is_seen]
    result = np.zeros(a.shape)
    result[is_seen] = _log_frequency(state * (a.max() + 1) + action, successor, weight)
    start = _log_frequency(np.zeros(len(s), np.int64), s[:, 0], counts)
    return np.asarray(start + result.sum(1))


def _log_frequency(
    condition: Int[np.ndarray, " m"], outcome: Int[np.ndarray, " m"], weight: Int[np.ndarray, " m"]
) -> Float[np.ndarray, " m"]:
    """log n(condition, outcome) / (n(condition) + 1)."""
    if not condition.size:
        return np.zeros(0)
    joint = condition * (outcome.max() + 1) + outcome
    totals = []
    for key in (joint, condition):
        _, which = np.unique(key, return_inverse=True)
        totals.append(np.bincount(which, weight)[which])
    return np.asarray(np.log(totals[0]) - np.log(totals[1] + 1))
