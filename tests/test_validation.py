"""Checks of arguments that many functions share."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from horizonfree._validation import (
    MAX_REPR,
    calling,
    check_at_least,
    check_bool,
    check_count,
    check_floats,
    check_int,
    check_integers,
    check_probability,
    check_real,
    check_size,
    check_square,
    reading,
    require_entries,
    require_shape,
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
    for check, values, error, message in CHECKS:
        for value in values:
            with subtests.test(message, value=short_repr(value)), pytest.raises(error, match=message):
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


def test_shapes_entries_and_sizes_are_refused_with_their_place() -> None:
    table = np.array([[0.5, np.nan], [0.1 + 0.2, 1.0]])
    require_shape(True, "x", table.shape, "[S]")
    require_entries(np.ones((2, 2), bool), "x", table, "it must be finite")
    check_square(np.zeros((2, 3, 2)), "P")
    check_size(3, 3, "three", "take two")
    with pytest.raises(ShapeError, match=r"^x has shape \(2, 2\); it must be \[S\]$"):
        require_shape(False, "x", table.shape, "[S]")
    with pytest.raises(ShapeError, match=r"^x\[0, 1\] is nan; it must be finite$"):
        require_entries(np.isfinite(table), "x", table, "it must be finite")
    with pytest.raises(OptionError, match=r"^x\(s=1, a=0\) is 0.3; it must be below 0.3$"):
        require_entries(table != 0.1 + 0.2, "x", table, "it must be below 0.3", OptionError, "(s={}, a={})")
    with pytest.raises(ShapeError, match=r"^P has shape \(2, 3, 3\); it must be \[S, A, S\]$"):
        check_square(np.zeros((2, 3, 3)), "P")
    with pytest.raises(OptionError, match=r"^four; at most 3 are possible: take three$"):
        check_size(4, 3, "four", "take three")
    with pytest.raises(OptionError, match=r"^x is 0; it must be at least 1$"):
        check_at_least(0, "x", 1)


def test_errors_of_files_and_of_functions_of_the_user_say_what_failed(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"^log a: No such file or directory$"), reading("log a", "a table"):
        (tmp_path / "a").read_text()
    with (
        pytest.raises(OptionError, match=r"^log is not a number: could not convert"),
        reading("log", "a number"),
    ):
        float("x")
    with (
        pytest.raises(OptionError, match=r"^log is not readable: KeyError: 'x'$"),
        reading("log", "readable", KeyError),
    ):
        dict[str, int]()["x"]
    with pytest.raises(KeyError), reading("log", "a number"):  # an error that is not of the content
        dict[str, int]()["x"]
    with pytest.raises(ShapeError, match=r"^x$"), reading("log", "a number", Exception):
        raise ShapeError("x")
    with (
        pytest.raises(OptionError, match=r"^f\(0\) fails: ValueError: .*; it takes x$"),
        calling("f(0)", "it takes x"),
    ):
        math.log(0)
