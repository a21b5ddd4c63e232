"""The tables of Gymnasium's environments as arrays, and how far frequencies may be off."""

import numpy as np


def hoeffding(num_samples: int, num_events: int) -> float:
    """The largest error of these frequencies, exceeded with probability at most 1e-6."""
    return float(np.sqrt(np.log(2 * num_events / 1e-6) / (2 * num_samples)))


def transition_table(env) -> np.ndarray:
    """P as an array, repeated next states added, states entered with terminated = True absorbing."""
    P = env.unwrapped.P
    table = np.zeros((len(P), len(P[0]), len(P)))
    ends = {
        int(s)
        for row in P.values()
        for outcomes in row.values()
        for p, s, _, end in outcomes
        if end and p > 0
    }
    for s, row in P.items():
        for a, outcomes in row.items():
            for p, s_next, _, _ in outcomes:
                table[s, a, s if s in ends else s_next] += p
    return table / table.sum(axis=-1, keepdims=True)
