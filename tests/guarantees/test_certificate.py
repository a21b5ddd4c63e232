"""Printed bounds are never below the proved ones, and the sentences around them are true."""

from decimal import Decimal

import numpy as np
import pytest

from horizonfree.guarantees.certificate import (
    Certificate,
    Terms,
    bound_statement,
    claim,
    confidence_of,
    delta_text,
    round_up,
    round_up_text,
)


def test_what_is_said_is_never_less_than_what_is_proved(subtests):
    for eps in [0.0, 1e-7, 0.0123456, 0.3010894, 0.9999, 1.0, *np.random.default_rng(0).random(20).tolist()]:
        with subtests.test(eps=eps):
            printed_eps = float(round_up_text(eps))
            assert printed_eps >= eps * (1 - 1e-9)
            assert printed_eps <= eps * 1.01 + 1e-300
            assert Certificate(eps, 0.05, "uniform", "", {}).is_vacuous == (printed_eps >= 1)


def test_bounds_are_rounded_up_to_three_digits_or_to_what_is_finest():
    assert round_up(0.12301) == pytest.approx(0.124)
    assert round_up(0.123) == pytest.approx(0.123)
    assert round_up(0.12301, finest=0.05) == pytest.approx(0.15)
    assert round_up(-1e-17) == 0
    assert round_up(np.inf) == np.inf


def test_the_confidence_is_never_more_than_was_asked_for_and_never_one(subtests):
    for delta in [0.05, 1 / 3, 1.4e-6, 0.0049999996, 0.5, 0.999, 0.1, 1e-12, 1 - 1e-9, 5e-324]:
        with subtests.test(delta=delta):
            text = confidence_of(delta)
            if "%" in text:
                text, below = Decimal(text.removesuffix("% confidence")), 100 * (1 - Decimal(repr(delta)))
                assert text <= below
                assert below - text <= max(0.1, 10 * delta)
                assert text < 100
            else:
                assert float(text.removeprefix("1 - ").removesuffix(" confidence")) >= delta


def test_error_probabilities_are_rounded_up():
    assert (delta_text(1 / 3), delta_text(0.05)) == ("0.334", "0.05")


def test_statements_have_the_confidence_in_percent():
    assert bound_statement(0.123, 0.05) == "suboptimality at most 0.123 (95% confidence, any stopping time)"
    assert (
        bound_statement(0.123, 1e-12)
        == "suboptimality at most 0.123 (1 - 1e-12 confidence, any stopping time)"
    )
    assert confidence_of(1 / 3) == "66.6% confidence"


PAPER, SCALED = Terms(0.1, "paper", 100), Terms(0.1, "scaled", 100)


def test_an_algorithms_own_claim_says_something_with_the_constants_of_its_paper_only():
    proven = claim(0.25, {"V": 0.1}, "4U", PAPER, 100)
    assert (proven.eps, proven.method, proven.parts) == (0.25, "paper constants, 4U", {"V": 0.1})
    assert proven.summary() == "suboptimality at most 0.25 (90% confidence) after 100 episodes"
    assert proven.holds_for.startswith("plans in the explorer's own model")
    far = claim(7.0, {}, "4U", PAPER, 100)
    assert far.eps == 1
    assert far.summary() == "vacuous: the paper's constants need far more episodes"
    scaled = claim(0.25, {}, "4U", SCALED, 100)
    assert (scaled.eps, scaled.method) == (0.25, "scaled constants, 4U")
    assert scaled.summary() == "no guarantee: 0.25 with scaled constants, which no theorem backs"


@pytest.mark.parametrize("budget", [None, 99])
def test_a_claim_is_void_beyond_its_budget(budget):
    void = claim(0.25, {}, "4U", Terms(0.1, "paper", budget), 100)
    assert void.eps == 1
    assert void.summary() == f"vacuous: 100 episodes, but the radius is that of a budget of {budget}"
    assert claim(0.25, {}, "4U", Terms(0.1, "scaled", budget), 100).eps == 0.25


def test_a_claim_is_void_where_its_theorem_needs_more():
    void = claim(0.25, {}, "4U", PAPER, 100, "no exact oracle")
    assert (void.eps, void.summary()) == (1.0, "vacuous: no exact oracle")
    assert claim(0.25, {}, "4U", SCALED, 100, "no exact oracle").summary().startswith("no guarantee: 0.25")
