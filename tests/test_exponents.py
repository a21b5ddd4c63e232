"""The exponents of the experiments, on synthetic data of known exponent and known censoring.

Random tests count how often something holds in SETS data sets; their bounds are passed by chance with a probability
below 1e-6 if the intervals have the level that they claim (binomial tails).
"""

import sys
from pathlib import Path

import numpy as np
import pytest

SHARED = str(Path(__file__).parents[1] / "experiments" / "shared")
SIZES = [8.0, 16.0, 32.0, 64.0, 128.0]
SETS = 200


@pytest.fixture(scope="module")
def exponents():
    """The module of the experiments."""
    sys.path.insert(0, SHARED)
    import exponents

    yield exponents
    sys.path.remove(SHARED)
    sys.modules.pop("exponents", None)


def sample_values(
    rng, slope: float, *, curvature: float = 0.0, instances: int = 10, seeds: int = 5, spread: float = 0.15
):
    """Power laws whose exponents and constants vary between instances, with noise of every run."""
    x = np.log(SIZES) - np.log(SIZES).mean()
    slopes = slope + spread * rng.standard_normal(instances)
    level = 0.5 * rng.standard_normal(instances)
    noise = 0.2 * rng.standard_normal((len(x), instances, seeds))
    return np.exp(
        level[:, None] + x[:, None, None] * slopes[:, None] + curvature * x[:, None, None] ** 2 + noise
    )


def test_a_power_law_has_its_exponent_and_no_bend(exponents):
    values = np.array(SIZES)[:, None, None] ** 0.75 * np.ones((5, 4, 3))
    fit = exponents.exponent(SIZES, values)
    assert fit.value == pytest.approx(0.75, abs=1e-12)
    assert (fit.low, fit.high) == pytest.approx((0.75, 0.75), abs=1e-12)
    assert fit.bend == pytest.approx(0, abs=1e-12)
    assert fit.last == pytest.approx(0.75, abs=1e-12)
    assert fit.sizes == tuple(SIZES)
    assert fit.instances == 4
    assert fit.spread == "+0.75 to +0.75"


def test_slopes_of_single_instances_leave_out_those_with_censored_values(exponents):
    values = np.stack([np.array(SIZES) ** x for x in (0.2, 0.4, 0.9, 0.5)], axis=1)[:, :, None] * np.ones(3)
    values[0, 2, 0] = 0.0  # one value of twelve
    fit = exponents.exponent(SIZES, values)
    assert (fit.least, fit.largest) == pytest.approx((0.2, 0.5), abs=1e-12)
    assert exponents.exponent(SIZES, values[:, :1]).spread == ""


def test_slope_and_bend_are_those_of_least_squares(exponents):
    values = sample_values(np.random.default_rng(0), 0.4, curvature=0.2)
    y, x = np.log(np.median(values.reshape(5, -1), 1)), np.log(SIZES)
    fit = exponents.exponent(SIZES, values)
    assert fit.value == pytest.approx(np.polyfit(x, y, 1)[0], abs=1e-9)
    assert fit.bend == pytest.approx(np.polyfit(x, y, 2)[0], abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_censoring_on_both_sides_changes_nothing_where_the_ranks_are_known(exponents, seed):
    values = sample_values(np.random.default_rng(seed), 0.5)
    low, high = np.quantile(values[0], 0.08), np.quantile(values[-1], 0.92)
    censored_values = exponents.censored(values, cap=high, floor=low)
    assert (censored_values == 0).sum() >= 4
    assert np.isinf(censored_values).sum() >= 4
    assert exponents.exponent(SIZES, censored_values)[:2] == pytest.approx(
        exponents.exponent(SIZES, values)[:2], abs=0.02
    )
    assert exponents.exponent(SIZES, censored_values).value == exponents.exponent(SIZES, values).value


def test_sizes_of_which_too_much_is_censored_are_dropped(exponents):
    values = sample_values(np.random.default_rng(1), 0.5)
    values[0], values[-1] = 0.0, np.inf
    fit = exponents.exponent(SIZES, values)
    assert fit.sizes == (16, 32, 64)
    assert fit.dropped == (8, 128)
    assert "16 to 64 only" in str(fit)
    assert fit.value == exponents.exponent(SIZES[1:4], values[1:4]).value
    values[1, :, 0] = 0.0  # a fifth
    fit = exponents.exponent(SIZES, values)
    assert np.isnan(fit.value)
    assert str(fit) == "? (2 of 5 sizes)"
    values[2] = np.nan
    assert exponents.exponent(SIZES, values).sizes == (64,)


def test_capped_values_would_bend_a_curve_and_are_left_out(exponents):
    values = np.array(SIZES)[:, None, None] ** 0.6 / 10 * np.ones((5, 4, 3))
    naive = exponents.exponent(SIZES, np.minimum(values, 1.0))
    fit = exponents.exponent(SIZES, exponents.censored(values, cap=1.0))
    assert fit.sizes == (8, 16, 32)
    assert fit.value == pytest.approx(0.6)
    assert not fit.is_bent
    assert naive.value < 0.5
    assert naive.is_bent


def test_intervals_cover_new_instances_and_intervals_of_one_instance_do_not(exponents, monkeypatch):
    monkeypatch.setattr(exponents, "DRAWS", 200)
    covered = covered_by_one = 0
    for seed in range(SETS):
        values = sample_values(np.random.default_rng(seed), 0.5)
        fit, one_instance = exponents.exponent(SIZES, values), exponents.exponent(SIZES, values[:, :1])
        covered += fit.low <= 0.5 <= fit.high
        covered_by_one += one_instance.low <= 0.5 <= one_instance.high
    assert covered >= 0.85 * SETS  # P(Bin(200, 0.95) < 170) < 1e-7
    assert covered_by_one <= 0.75 * SETS  # what one instance says of others: far from 95 %


def test_few_straight_curves_are_called_bent_and_bent_ones_are_found(exponents, monkeypatch):
    monkeypatch.setattr(exponents, "DRAWS", 200)
    straight = [
        exponents.exponent(SIZES, sample_values(np.random.default_rng(i), 0.5)).is_bent for i in range(SETS)
    ]
    is_bent = [
        exponents.exponent(SIZES, sample_values(np.random.default_rng(i), 0.5, curvature=0.2)).is_bent
        for i in range(20)
    ]
    assert sum(straight) <= 0.16 * SETS  # P(Bin(200, 0.05) > 32) < 1e-8
    assert all(is_bent)


def test_a_crossing_is_where_the_curve_stays_below_the_target(exponents):
    K = np.array([10.0, 40.0, 160.0, 640.0])
    assert exponents.crossing(K, K**-0.5, 0.1) == pytest.approx(100)
    assert exponents.crossing(K, K**-0.5, 0.01) == np.inf
    assert exponents.crossing(K, K**-0.5, 1.0) == 0
    assert 160 < exponents.crossing(K, np.array([0.05, 0.2, 0.2, 0.05]), 0.1) < 640
