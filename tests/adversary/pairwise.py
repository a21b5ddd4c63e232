"""A small list of combinations in which every pair of levels of two factors occurs: greedy and deterministic."""

import itertools

import numpy as np


def pairwise(factors, seed=0, tries=40):
    """factors: {name: levels}. Cases {name: level} that cover all pairs of levels of different factors."""
    rng, names = np.random.default_rng(seed), list(factors)
    uncovered = {
        ((a, x), (b, y))
        for a, b in itertools.combinations(names, 2)
        for x, y in itertools.product(factors[a], factors[b])
    }
    cases = []
    while uncovered:
        first = min(uncovered, key=repr)
        best, most_new = None, -1
        for _ in range(tries):
            case = {name: factors[name][rng.integers(len(factors[name]))] for name in names}
            case |= dict(first)
            covered = len(uncovered & covers(case, names))
            if covered > most_new:
                best, most_new = case, covered
        uncovered -= covers(best, names)
        cases.append(best)
    return cases


def covers(case, names):
    """The pairs of levels of a case."""
    return {((a, case[a]), (b, case[b])) for a, b in itertools.combinations(names, 2)}
