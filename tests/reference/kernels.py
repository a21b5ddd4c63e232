"""Kernels for tests of planning."""

import numpy as np

from horizonfree.mdp.space import Kernel

SIZES = [(1, 1, 1, 1), (5, 3, 2, 4), (12, 2, 5, 7), (9, 4, 9, 3)]  # S, A, n, H; few, as each is compiled once


def from_table(P):
    """A dense kernel."""
    S, A, _ = P.shape
    succ = np.ascontiguousarray(np.broadcast_to(np.arange(S, dtype=np.int32), (S, A, S)))
    return Kernel(succ, np.asarray(P, np.float64), True)


def both_forms(kernel):
    """On its successor lists, and dense."""
    return kernel, from_table(kernel.dense())


def random_case(case):
    """A kernel on padded successor lists (1 to n real slots a row), a reward, and random action probabilities."""
    (S, A, n, H), seed = case
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.random((S, A, S)), axis=-1)[..., :n]
    is_used = np.arange(n) < rng.integers(1, n + 1, size=(S, A, 1))
    succ = np.sort(np.where(is_used, order, order[..., :1]), axis=-1)  # repeats of one successor pad the row
    new = np.diff(succ, axis=-1, prepend=-1) > 0
    prob = np.where(new, rng.exponential(size=succ.shape), 0.0)
    prob /= prob.sum(axis=-1, keepdims=True)
    kernel = Kernel(succ.astype(np.int32), prob, False)
    reward = rng.standard_normal((H, S, A))
    return kernel, reward, rng.dirichlet(np.ones(A), size=(H, S))
