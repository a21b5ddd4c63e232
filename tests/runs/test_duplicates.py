"""Logs that hold episodes twice."""

import warnings

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import LogWarning
from horizonfree.runs import logged


def num_repeated(s: np.ndarray, a: np.ndarray, length: np.ndarray) -> int:
    """Of episodes that were observed up to a length."""
    return logged.num_repeated(s, a, np.arange(a.shape[1]) < length[:, None])


def episodes(K: int, H: int, S: int, A: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    s = rng.integers(S, size=(K, H + 1))
    s[:, 0] = 0
    return s, rng.integers(A, size=(K, H)), rng.integers(1, H + 1, K)


def repeated(log: tuple[np.ndarray, ...], order: np.ndarray) -> int:
    s, a, length = (x[order] for x in log)
    return num_repeated(s, a, length)


@pytest.mark.parametrize(
    "shape", [(60, 2, 3, 2), (400, 1, 2, 2), (50, 30, 4, 2), (300, 8, 500, 3), (40, 60, 2, 1)]
)
def test_logs_of_distinct_episodes_pass_and_copies_do_not(shape: tuple[int, int, int, int]) -> None:
    """Distinct ones fail with a probability of about 1e-6 each; here there are twenty seeds that do not."""
    for seed in range(20):
        log = episodes(*shape, seed)
        K = shape[0]
        assert repeated(log, np.arange(K)) == 0
        doubled = np.tile(np.arange(K), 2)
        assert repeated(log, doubled) >= K // 2
        rng = np.random.default_rng(seed)
        if shape[1] >= 30:  # long episodes are recognised one by one, in any order
            with_copies = np.r_[np.arange(K), rng.permutation(K)[: K // 4]]
            assert 0 < repeated(log, rng.permutation(with_copies)) <= K // 4 + 1
        if K >= 300:  # a part of the log, exported twice
            assert repeated(log, np.r_[np.arange(K), np.arange(100, 200)]) >= 50 or shape[1] == 1


@pytest.mark.parametrize("times", [2, 60])
def test_copies_in_any_order(times: int) -> None:
    log = episodes(60, 3, 3, 2, 0)
    order = np.random.default_rng(1).permutation(np.tile(np.arange(60), times))
    assert repeated(log, order) == 60 * (times - 1)


def test_two_rare_episodes_that_occur_twice_are_copies_though_neither_is_rare_enough_alone() -> None:
    """Everywhere else state 0 leads to itself; the pair at 10 and 11 stands again at 50 and 51."""
    s = np.zeros((200, 7), int)
    for first in (10, 50):
        s[first], s[first + 1] = [0, 1, 0, 1, 0, 1, 0], [0, 0, 1, 0, 1, 0, 1]
    a, length = np.zeros((200, 6), int), np.full(200, 6)
    assert num_repeated(s, a, length) == 2  # and not their neighbours, which are like most episodes
    s[50] = [0, 1, 0, 0, 1, 0, 1]
    assert num_repeated(s, a, length) == 0


def test_systems_in_which_little_can_happen_are_not_suspected() -> None:
    constant_log = np.zeros((500, 5), int), np.zeros((500, 4), int), np.full(500, 4)
    assert num_repeated(*constant_log) == 0
    for seed in range(20):  # a coin, thrown once an episode
        rng = np.random.default_rng(seed)
        s = np.zeros((1000, 2), int)
        s[:, 1] = rng.integers(2, size=1000)
        assert num_repeated(s, np.zeros((1000, 1), int), np.ones(1000, int)) == 0
    assert num_repeated(np.zeros((1, 3), int), np.zeros((1, 2), int), np.array([2])) == 0


def test_a_run_of_copies_warns_and_one_without_does_not() -> None:
    table = hf.Tabular(3, 2, 2, 0)
    s, a, _ = episodes(60, 2, 3, 2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hf.from_episodes(table, (s, a))
    with pytest.warns(LogWarning, match="60 of 120 episodes are exact copies"):
        hf.from_episodes(table, (np.tile(s, (2, 1)), np.tile(a, (2, 1))))
