"""Checks of arguments that many functions share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from horizonfree._validation import (
    MAX_REPR,
    check_bool,
    check_count,
    check_floats,
    check_int,
    check_integers,
    check_probability,
    check_real,
    short_repr,
    suggestion,
)
from horizonfree.errors import HorizonfreeError, OptionError, ShapeError
from tests.refusals.rows import HUGE_ROWS, NAN, RAGGED, masked


def test_values_within_their_range_pass() -> None:
    for value in (0, 3, np.int32(2), np.uint8(1), 3.0):
        result = check_int(value, "x", 0, 3, "0 to 3")
        assert type(result) is int
        assert result == value
    for probability in (0.5, np.float32(0.1), np.array(0.9)):
        check_probability(probability, "delta")
    for answer in (True, False, None, np.True_):
        check_bool(answer, "progress")
    assert check_count(np.int64(3), "x") == 3
    assert check_integers([2, 3], "x").dtype.kind == "i"
    assert check_floats([1, 2], "x").dtype == np.float64
    assert check_real(np.int8([1, 2]), "x").dtype == np.int8
    table = np.zeros(3)
    assert check_floats(table, "x") is table


CHECKS: list[tuple[Callable[[Any], Any], tuple[Any, ...], type[HorizonfreeError], str]] = [
    (
        lambda x: check_int(x, "x", 0, 3, "0 to 3", ShapeError),
        (-1, 4, True, 1.5, NAN, "1", None, [1], np.array([1])),
        ShapeError,
        r"x is .*; it must be 0 to 3",
    ),
    (
        lambda x: check_probability(x, "delta"),
        (0, 1, -0.1, NAN, "0.5", None, [0.5], 1j),
        OptionError,
        r"delta is .*; a failure probability lies strictly between 0 and 1",
    ),
    (
        lambda x: check_floats(x, "x"),
        ("x", None, [1, "a"], [1j], object(), RAGGED),
        ShapeError,
        r"x (has type .*; it must hold real numbers|is not an array)",
    ),
    (
        lambda x: check_integers(x, "x"),
        (1.0, [True], [0.5, 1]),
        ShapeError,
        r"x has type .*; it must hold whole numbers",
    ),
    (lambda x: check_count(x, "x"), (0,), OptionError, "x is 0; it must be a whole number of at least 1"),
    (
        lambda x: check_real(x, "x"),
        (masked([1.0, 2.0]),),
        ShapeError,
        "x is a masked array, whose hidden values",
    ),
]


def test_values_out_of_their_range_are_refused(subtests: pytest.Subtests) -> None:
    for check, values, error, words in CHECKS:
        for value in values:
            with subtests.test(words, value=short_repr(value)), pytest.raises(error, match=words):
                check(value)


def test_an_unknown_name_is_answered_with_the_closest_or_with_all() -> None:
    names = ["river-swim", "combination-lock"]
    assert suggestion("riverswim", names) == "did you mean 'river-swim'?"
    assert suggestion("xyz", names) == "choose one of: combination-lock, river-swim"


def test_long_values_are_shortened_in_errors() -> None:
    assert short_repr("x" * MAX_REPR * 9).endswith("xxx'")
    assert len(short_repr(np.zeros(10**4))) <= len(short_repr("x" * 10**5)) <= MAX_REPR
    assert short_repr([1, "a"]) == "[1, 'a']"
    for value in HUGE_ROWS:
        assert short_repr(value) == f"a {type(value).__name__} too long to be written"
    with pytest.raises(OptionError, match=r"x is 'yyy.* \.\.\. y*'; it must be a number"):
        check_int("y" * 10**6, "x", 0, 1, "a number")
