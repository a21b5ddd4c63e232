"""Certificates say no less than what is proved, in words that stay true."""

import numpy as np
import pytest

from horizonfree.guarantees.certificate import (
    Certificate,
    Terms,
    at_most_of,
    claim,
    in_units,
    proved,
    round_up,
    rounded_up,
    surely_of,
)


@pytest.mark.parametrize(
    "eps", [0.0, 1e-7, 0.0123456, 0.3010894, 0.9999, 1.0, *np.random.default_rng(0).random(20)]
)
def test_what_is_said_is_never_less_than_what_is_proved(eps):
    said = float(rounded_up(eps))
    assert said >= eps * (1 - 1e-9)
    assert said <= eps * 1.01 + 1e-300
    assert Certificate(eps, 0.05, "uniform", "", {}).is_vacuous == (said >= 1)


def test_bounds_are_rounded_up_to_three_digits_or_to_what_is_finest():
    assert round_up(0.12301) == pytest.approx(0.124)
    assert round_up(0.123) == pytest.approx(0.123)
    assert round_up(0.12301, finest=0.05) == pytest.approx(0.15)
    assert round_up(-1e-17) == 0
    assert round_up(np.inf) == np.inf


def test_the_probability_is_never_said_to_be_one():
    assert proved(0.123, 0.05) == "at most 0.123 is lost, with probability 0.95"
    assert proved(0.123, 1e-9) == "at most 0.123 is lost, with probability 1 - 1e-09"


def test_confidence_is_rounded_down_and_error_probabilities_up():
    """Words never state more confidence than 1 - delta, and state it to six digits."""
    assert surely_of(1 / 3) == "0.666666"
    assert surely_of(1.4e-6) == "0.999998"
    assert surely_of(0.0049999996) == "0.995"
    assert surely_of(1.23456789e-9) == "1 - 1.23457e-09"
    assert surely_of(1.23456123e-9) == "1 - 1.23457e-09"
    assert [surely_of(x) for x in (0.05, 0.1, 0.3, 0.01, 1e-6)] == ["0.95", "0.9", "0.7", "0.99", "1 - 1e-06"]
    assert at_most_of(1 / 3) == "0.333334"
    assert at_most_of(0.05) == "0.05"
    rng = np.random.default_rng(0)
    random = np.concatenate([rng.uniform(0, 1, 5000), 10.0 ** rng.uniform(-300, 0, 5000)])
    close = np.concatenate([np.round(random, k) for k in range(1, 9)]) + rng.choice([-1e-15, 0, 1e-9], 80_000)
    for delta in (float(x) for x in np.concatenate([random, close]) if 0 < x < 1):
        said = surely_of(delta)
        assert said != "1"
        if said.startswith("1 - "):
            assert delta <= float(said[4:]) <= delta * (1 + 2e-5)
        else:
            assert (1 - delta) * (1 - 2e-5) <= float(said) <= 1 - delta
        assert delta <= float(at_most_of(delta)) <= delta * (1 + 2e-5)


def test_words_follow_the_units_of_the_reward_and_eps_does_not():
    certificate = Certificate(0.5, 0.1, "uniform", "at most 0.5 is lost, with probability 0.9", {})
    scaled = in_units(certificate, 40.0)
    assert scaled.words == "at most 20 is lost, with probability 0.9"
    assert scaled.eps == 0.5
    assert in_units(certificate, 1.0) is certificate
    for nothing in (
        Certificate(1.0, 0.1, "uniform", "vacuous", {}),
        Certificate(1.0, 0.1, "rejected", "no", {}, True),
    ):
        assert in_units(nothing, 40.0) is nothing


PAPER, SCALED = Terms(0.1, "paper", 100), Terms(0.1, "scaled", 100)


def test_an_algorithms_own_claim_says_something_with_the_constants_of_its_paper_only():
    proven = claim(0.25, {"V": 0.1}, "4U", PAPER, 100)
    assert (proven.eps, proven.method, proven.parts) == (0.25, "paper constants, 4U", {"V": 0.1})
    assert proven.words == "at most 0.25 is lost, with probability 0.9, by plans in the explorer's own model"
    far = claim(7.0, {}, "4U", PAPER, 100)
    assert far.eps == 1
    assert far.words == "vacuous: the paper's constants need far more episodes"
    scaled = claim(0.25, {}, "4U", SCALED, 100)
    assert (scaled.eps, scaled.method) == (0.25, "scaled constants, 4U")
    assert scaled.words == "no guarantee: 0.25 with scaled constants, which no theorem backs"


@pytest.mark.parametrize("budget", [None, 99])
def test_a_claim_is_void_beyond_its_budget(budget):
    void = claim(0.25, {}, "4U", Terms(0.1, "paper", budget), 100)
    assert void.eps == 1
    assert void.words == f"vacuous: 100 episodes, but the radius is that of a budget of {budget}"
    assert claim(0.25, {}, "4U", Terms(0.1, "scaled", budget), 100).eps == 0.25


def test_a_claim_is_void_where_its_theorem_needs_more():
    void = claim(0.25, {}, "4U", PAPER, 100, "no exact oracle")
    assert (void.eps, void.words) == (1.0, "vacuous: no exact oracle")
    assert claim(0.25, {}, "4U", SCALED, 100, "no exact oracle").words.startswith("no guarantee: 0.25")
