"""Events within k steps by a sum over all sequences of states, letter by letter."""

from itertools import product

import numpy as np


def probability(P, start, policy, decisions, steps, pays):
    """sum over s_1..s_{k+1} of the chance of the sequence times the worth of its outcome; decided: 0, 1 won, 2 lost."""
    S, total = P.shape[0], 0.0
    for path in product(range(S), repeat=steps + 1):
        chance = start[path[0]]
        for h in range(steps):
            if chance == 0:
                break
            a = policy[h][path[h]]
            mean = P[path[h], a] if np.ndim(a) == 0 else a @ P[path[h]]
            chance *= mean[path[h + 1]]
        outcome = next((decisions[s] for s in path if decisions[s]), 0)
        total += chance * {1: pays[0], 2: pays[1], 0: pays[2]}[outcome]
    return total


def best(P, start, decisions, steps, pays, is_max, allowed=None):
    """The best probability over all policies, by trying every policy."""
    S, A = P.shape[:2]
    actions = [range(A) if allowed is None else np.flatnonzero(allowed[s % S]) for s in range(S)]
    values = [
        probability(P, start, np.array(x).reshape(steps, S), decisions, steps, pays)
        for x in product(*(actions * steps))
    ]
    return max(values) if is_max else min(values)


def reached_within(P, target, steps):
    """The largest probability to reach a target within `steps` steps, from every state: backward induction."""
    V = target.astype(float)
    for _ in range(steps):
        V = np.where(target, 1.0, (P @ V).max(1))
    return V
