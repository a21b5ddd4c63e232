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
def made():
    """The module of the experiments."""
    sys.path.insert(0, SHARED)
    import exponents

    yield exponents
    sys.path.remove(SHARED)
    sys.modules.pop("exponents", None)


def drawn(rng, slope: float, *, bend: float = 0.0, instances: int = 10, seeds: int = 5, spread: float = 0.15):
    """Power laws whose exponents and constants vary between instances, with noise of every run."""
    x = np.log(SIZES) - np.log(SIZES).mean()
    own = slope + spread * rng.standard_normal(instances)
    level = 0.5 * rng.standard_normal(instances)
    noise = 0.2 * rng.standard_normal((len(x), instances, seeds))
    return np.exp(level[:, None] + x[:, None, None] * own[:, None] + bend * x[:, None, None] ** 2 + noise)


def test_a_power_law_has_its_exponent_and_no_bend(made):
    values = np.array(SIZES)[:, None, None] ** 0.75 * np.ones((5, 4, 3))
    found = made.exponent(SIZES, values)
    assert found.value == pytest.approx(0.75, abs=1e-12)
    assert (found.low, found.high) == pytest.approx((0.75, 0.75), abs=1e-12)
    assert found.bend == pytest.approx(0, abs=1e-12)
    assert found.last == pytest.approx(0.75, abs=1e-12)
    assert found.sizes == tuple(SIZES)
    assert found.instances == 4
    assert found.spread == "+0.75 to +0.75"


def test_slopes_of_single_instances_leave_out_those_with_censored_values(made):
    values = np.stack([np.array(SIZES) ** x for x in (0.2, 0.4, 0.9, 0.5)], axis=1)[:, :, None] * np.ones(3)
    values[0, 2, 0] = 0.0  # one value of twelve
    found = made.exponent(SIZES, values)
    assert (found.least, found.largest) == pytest.approx((0.2, 0.5), abs=1e-12)
    assert made.exponent(SIZES, values[:, :1]).spread == ""


def test_slope_and_bend_are_those_of_least_squares(made):
    values = drawn(np.random.default_rng(0), 0.4, bend=0.2)
    y, x = np.log(np.median(values.reshape(5, -1), 1)), np.log(SIZES)
    found = made.exponent(SIZES, values)
    assert found.value == pytest.approx(np.polyfit(x, y, 1)[0], abs=1e-9)
    assert found.bend == pytest.approx(np.polyfit(x, y, 2)[0], abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_censoring_on_both_sides_changes_nothing_where_the_ranks_are_known(made, seed):
    values = drawn(np.random.default_rng(seed), 0.5)
    low, high = np.quantile(values[0], 0.08), np.quantile(values[-1], 0.92)
    limited = made.censored(values, cap=high, floor=low)
    assert (limited == 0).sum() >= 4
    assert np.isinf(limited).sum() >= 4
    assert made.exponent(SIZES, limited)[:2] == pytest.approx(made.exponent(SIZES, values)[:2], abs=0.02)
    assert made.exponent(SIZES, limited).value == made.exponent(SIZES, values).value


def test_sizes_of_which_too_much_is_censored_are_dropped(made):
    values = drawn(np.random.default_rng(1), 0.5)
    values[0], values[-1] = 0.0, np.inf
    found = made.exponent(SIZES, values)
    assert found.sizes == (16, 32, 64)
    assert found.dropped == (8, 128)
    assert "16 to 64 only" in str(found)
    assert found.value == made.exponent(SIZES[1:4], values[1:4]).value
    values[1, :, 0] = 0.0  # a fifth
    found = made.exponent(SIZES, values)
    assert np.isnan(found.value)
    assert str(found) == "? (2 of 5 sizes)"
    values[2] = np.nan
    assert made.exponent(SIZES, values).sizes == (64,)


def test_capped_values_would_bend_a_curve_and_are_left_out(made):
    values = np.array(SIZES)[:, None, None] ** 0.6 / 10 * np.ones((5, 4, 3))
    naive = made.exponent(SIZES, np.minimum(values, 1.0))
    found = made.exponent(SIZES, made.censored(values, cap=1.0))
    assert found.sizes == (8, 16, 32)
    assert found.value == pytest.approx(0.6)
    assert not found.is_bent
    assert naive.value < 0.5
    assert naive.is_bent


def test_intervals_cover_new_instances_and_intervals_of_one_instance_do_not(made, monkeypatch):
    monkeypatch.setattr(made, "DRAWS", 200)
    covered = alone = 0
    for seed in range(SETS):
        values = drawn(np.random.default_rng(seed), 0.5)
        found, one = made.exponent(SIZES, values), made.exponent(SIZES, values[:, :1])
        covered += found.low <= 0.5 <= found.high
        alone += one.low <= 0.5 <= one.high
    assert covered >= 0.85 * SETS  # P(Bin(200, 0.95) < 170) < 1e-7
    assert alone <= 0.75 * SETS  # what one instance says of others: far from 95 %


def test_few_straight_curves_are_called_bent_and_bent_ones_are_found(made, monkeypatch):
    monkeypatch.setattr(made, "DRAWS", 200)
    straight = [made.exponent(SIZES, drawn(np.random.default_rng(i), 0.5)).is_bent for i in range(SETS)]
    bent = [made.exponent(SIZES, drawn(np.random.default_rng(i), 0.5, bend=0.2)).is_bent for i in range(20)]
    assert sum(straight) <= 0.16 * SETS  # P(Bin(200, 0.05) > 32) < 1e-8
    assert all(bent)


def test_a_crossing_is_where_the_curve_stays_below_the_target(made):
    K = np.array([10.0, 40.0, 160.0, 640.0])
    assert made.crossing(K, K**-0.5, 0.1) == pytest.approx(100)
    assert made.crossing(K, K**-0.5, 0.01) == np.inf
    assert made.crossing(K, K**-0.5, 1.0) == 0
    assert 160 < made.crossing(K, np.array([0.05, 0.2, 0.2, 0.05]), 0.1) < 640
