"""Bets: declared before the first episode, with weights that are shares of one."""

import numpy as np
import pytest

from horizonfree.errors import OptionError
from horizonfree.guarantees.e_processes import EProcesses, check_e_processes, ladder


def test_ladders_start_at_once_and_sum_to_at_most_one(subtests):
    for budget in [None, 1, 3, 5, 1000]:
        with subtests.test(budget=budget):
            starts, weights = ladder(budget)
            assert starts[0] == 0
            assert (np.diff(starts) > 0).all()
            assert (weights > 0).all()
            assert weights.sum() <= 1 + 1e-12
            check_e_processes(ladder(budget))


def test_with_a_budget_most_is_on_what_comes_after_a_fifth_of_it():
    starts, weights = ladder(1000)
    np.testing.assert_array_equal(starts, [0, 200])
    assert weights == pytest.approx([0.1, 0.9])


BAD_WEIGHTS = [
    ([0, 5], [0.6, 0.6], "they must be positive and sum to at most 1"),
    ([0], [0.0], "they must be positive and sum to at most 1"),
    ([0], [np.nan], "they must be positive and sum to at most 1"),
    ([0, 1], [1.0], "give as many of one as of the other, >= 0"),
    ([-1], [1.0], "give as many of one as of the other, >= 0"),
    ([], [], "give as many of one as of the other, >= 0"),
]


def test_weights_that_are_no_shares_of_one_are_refused(subtests):
    for starts, weights, message in BAD_WEIGHTS:
        with subtests.test(message), pytest.raises(OptionError, match=message):
            check_e_processes(EProcesses(np.array(starts, np.int32), np.array(weights, float)))
