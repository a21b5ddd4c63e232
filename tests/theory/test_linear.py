"""The rows of linear MDPs in numbers: literal constants, fixed points, rates."""

import math

import numpy as np
import pytest

from horizonfree.errors import OptionError
from horizonfree.theory import linear as theory


def test_the_radius_and_episodes_of_wang_with_literal_constants():
    assert theory.wang_beta(0.5, 0.1, 6, 5) == pytest.approx(75.876456755, abs=1e-8)
    assert theory.wang_beta(0.1, 0.05, 8, 10) == pytest.approx(248.906009586, abs=1e-8)
    assert theory.wang_episodes(0.1, 0.05, 8, 10) == pytest.approx(4.956e11, rel=1e-3)
    assert theory.wang_episodes(0.5, 0.1, 6, 5) == pytest.approx(8.6e7, rel=0.1)


@pytest.mark.parametrize("eps", [1e-6, 0.02, 0.9])
def test_accuracy_and_episodes_are_inverse_to_each_other(eps):
    K = theory.wang_episodes(eps, 0.05, 3, 4)
    assert theory.wang_accuracy(K, 0.05, 3, 4) == pytest.approx(eps, rel=1e-9)
    assert theory.wang_accuracy(theory.wang_episodes(1.0, 0.05, 3, 4) - 1, 0.05, 3, 4) == 1.0


@pytest.mark.parametrize(
    ("sizes", "beta", "epochs", "first", "last"),
    [
        ((1.0, 0.1, 2, 2), 11.558432872, 7, 2.386854995e-6, 9.77656e-3),
        ((0.1, 0.05, 8, 10), 122.832656492, 16, None, None),
    ],
)
def test_the_schedule_of_rflin_with_literal_constants(sizes, beta, epochs, first, last):
    schedule = theory.rflin_schedule(*sizes, K_max=1e6)
    assert schedule.beta == pytest.approx(beta, abs=1e-8)
    assert len(schedule.gamma_sq) == len(schedule.lengths) == epochs
    np.testing.assert_allclose(np.diff(np.log2(schedule.gamma_sq)), 2.0, rtol=1e-12)
    if first is not None:
        assert schedule.gamma_sq[0] == pytest.approx(first, rel=1e-9)
        assert schedule.gamma_sq[-1] == pytest.approx(last, rel=1e-5)


def test_the_lengths_of_rflin_are_at_least_those_that_cover():
    """The third term alone for d = 8, H = 10: 1.6e17 episodes with K_max = 1e6, 6.0e17 with that of the schedule."""
    eps, delta, d, H = 0.1, 0.05, 8, 10
    schedule = theory.rflin_schedule(eps, delta, d, H, K_max=1e6)
    cover = [2.0**i * 24 * d / g * math.log(48 * 2.0**i * d / g) for i, g in enumerate(schedule.gamma_sq, 1)]
    assert H * sum(cover) == pytest.approx(1.6e17, rel=0.05)
    assert all(K >= c for K, c in zip(schedule.lengths, cover))
    assert theory.rflin_schedule(1.0, 0.1, 2, 2, K_max=1e6).lengths[0] == pytest.approx(8.6e12, rel=5e-3)
    unlimited = theory.rflin_schedule(eps, delta, d, H)
    total = theory.rflin_episodes(unlimited, H)
    covering = [
        2.0**i * 24 * d / g * math.log(48 * 2.0**i * d / g) for i, g in enumerate(unlimited.gamma_sq, 1)
    ]
    assert H * sum(covering) == pytest.approx(6.0e17, rel=0.01)
    assert total == pytest.approx(2.1e24, rel=0.02)
    repeated = theory.rflin_schedule(eps, delta, d, H, K_max=total)
    assert theory.rflin_episodes(repeated, H) == pytest.approx(total, rel=1e-6)


def test_rates_have_their_exponents_and_nobody_is_below_the_lower_bound():
    rates = theory.rates(0.1, 4, 10)
    assert rates["wang2020"] == pytest.approx(4**3 * 10**6 / 0.01)
    assert rates["lsvi-rfe"] / rates["lower"] == pytest.approx(10)
    assert min(rates.values()) == rates["lower"]
    assert all(x == pytest.approx(4 * y) for x, y in zip(theory.rates(0.05, 4, 10).values(), rates.values()))


def test_the_radius_that_is_horizon_free():
    assert theory.linear_horizon_free_alpha(1000, 10, 4, 0.05) == pytest.approx(600 * math.log(200_000))


def test_the_table_names_every_row_once_and_huge_sizes_stay_numbers():
    lines = theory.table(0.1, 0.05, 8, 10, K=1000)
    names = [line.name for line in lines]
    assert len(set(names)) == len(names)
    assert {f"{x}_order" for x in theory.ORDERS} < set(names)
    assert lines[-1].value == theory.linear_horizon_free_alpha(1000, 10, 8, 0.05)
    for line in theory.table(1e-50, 1e-300, 10**15, 10**15) + theory.table(1e50, 0.9, 1, 1):
        assert math.isfinite(line.value), line.name


OUT_OF_RANGE = [
    (lambda: theory.rates(0.0, 2, 2), "eps is 0.0"),
    (lambda: theory.wang_beta(0.1, 2.0, 2, 2), "delta is 2.0"),
    (lambda: theory.rflin_schedule(0.1, 0.1, 2.5, 2), "d is 2.5"),
    (lambda: theory.rflin_schedule(0.1, 0.1, 2, 2, K_max=0), "K is 0"),
    (lambda: theory.linear_horizon_free_alpha(10, 0, 2, 0.1), "H is 0"),
]


def test_numbers_outside_their_range_are_refused(subtests):
    for call, message in OUT_OF_RANGE:
        with subtests.test(message), pytest.raises(OptionError, match=message):
            call()
