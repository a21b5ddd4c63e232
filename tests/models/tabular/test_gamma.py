"""Sums over counts against the sums themselves, in more digits than ours."""

import numpy as np
import pytest
from scipy.special import gammaln

from horizonfree.models.tabular.radius import HEAD_TERMS, bend, slope, stirling

COUNTS = [0, 1, 2, 3, HEAD_TERMS - 1, HEAD_TERMS, HEAD_TERMS + 1, HEAD_TERMS + 2, 20, 1_000, 30_000]


@pytest.mark.parametrize("z", [1e-9, 1e-3, 0.1, 1.0, 10.0, 1e3, 32768.0])
def test_slope_and_bend_are_the_sums_that_they_stand_for(z):
    wide = np.longdouble(z)
    derivatives = zip(*(sums(np.full(len(COUNTS), z), np.array(COUNTS, float)) for sums in (slope, bend)))
    for N, (first, second) in zip(COUNTS, derivatives, strict=True):
        j = np.arange(1, max(N, 1), dtype=np.longdouble)
        assert first == pytest.approx(float((j / (wide + j)).sum()), rel=1e-12)
        assert second == pytest.approx(float((j * (2 * wide + j) / (wide + j) ** 2).sum()), rel=1e-12)


def test_a_count_of_one_says_nothing():
    """Polygamma functions would give rounding errors instead of zeros."""
    z = np.logspace(-9, 6, 40)
    np.testing.assert_array_equal(slope(z, np.ones(40)), 0.0)
    np.testing.assert_array_equal(bend(z, np.ones(40)), 0.0)


def test_stirling_is_what_the_formula_lacks():
    y = np.logspace(-6, 3, 200)
    formula = (y - 0.5) * np.log(y) - y + 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(stirling(y), gammaln(y) - formula, atol=1e-12)
    assert stirling(np.array([1e9]))[0] == pytest.approx(1 / 12e9, rel=1e-12)
