"""E-values of alternatives: the closed form against a literal product, means, and words."""

import math

import numpy as np
import pytest

from horizonfree.guarantees.e_processes import Alternative, Check, dirichlet, mean_of, power


def test_the_closed_form_is_the_product_of_predictions_in_any_order() -> None:
    """(N_j + 1/2) / (n + m/2), one after the other."""
    rng = np.random.default_rng(0)
    for m in (1, 2, 5):
        outcomes = rng.integers(m, size=40)
        counts, log_q = np.zeros(m, int), 0.0
        for j in outcomes:
            log_q += math.log((counts[j] + 0.5) / (counts.sum() + m / 2))
            counts[j] += 1
        padded, is_outcome = np.append(counts, 0), np.arange(m + 1) < m
        assert dirichlet(padded, is_outcome) == pytest.approx(log_q, abs=1e-9)


def test_the_mean_refutes_and_the_words_name_the_strongest() -> None:
    refuting = Check((Alternative("a", math.log(30)), Alternative("b", math.log(60))), 0.05, 97)
    assert refuting.log_e == pytest.approx(math.log(45), abs=1e-12)
    assert refuting.is_refuted
    assert refuting.summary() == (
        "the class is refuted by 'b': e-value 10^1.7 after 97 episodes (wrong with probability 0.05 at most)"
    )
    not_refuting = Check((Alternative("a", math.log(30)), Alternative("b", -math.inf)), 0.05, 97)
    assert not not_refuting.is_refuted  # a mean of 15
    assert not_refuting.summary() == "not refuted: e-values after 97 episodes are a 10^1.4, b 0"
    assert not Check((), 0.05, 3).is_refuted
    assert mean_of([0.0, math.log(3)], np.array([0.5, 0.25])) == pytest.approx(math.log(1.25), abs=1e-12)
    assert power(math.inf) == "infinity"
