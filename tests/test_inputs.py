"""The checks that many inputs share."""

import numpy as np
import pytest

from horizonfree._inputs import closest, count, integers, numbers, real, share, whole
from horizonfree.errors import OptionError, ShapeError


@pytest.mark.parametrize("value", [0, 3, np.int32(2), np.uint8(1), 3.0])
def test_whole_numbers_within_their_range_pass(value):
    found = whole(value, "x", 0, 3, "0 to 3")
    assert type(found) is int
    assert found == value


@pytest.mark.parametrize("value", [-1, 4, True, 1.5, float("nan"), "1", None, [1], np.array([1])])
def test_what_is_no_such_whole_number_is_refused(value):
    with pytest.raises(ShapeError, match=r"x is .*; it must be 0 to 3"):
        whole(value, "x", 0, 3, "0 to 3", ShapeError)


@pytest.mark.parametrize("value", [0.5, np.float32(0.1), np.array(0.9)])
def test_shares_pass(value):
    share(value, "delta")


@pytest.mark.parametrize("value", [0, 1, -0.1, float("nan"), "0.5", None, [0.5], 1j])
def test_what_is_no_share_is_refused(value):
    with pytest.raises(
        OptionError, match=r"delta is .*; a failure probability lies strictly between 0 and 1"
    ):
        share(value, "delta")


def test_numbers_are_doubles_and_real_ones_keep_their_type():
    assert numbers([1, 2], "x").dtype == np.float64
    assert real(np.int8([1, 2]), "x").dtype == np.int8
    table = np.zeros(3)
    assert numbers(table, "x") is table


@pytest.mark.parametrize("value", ["x", None, [1, "a"], [1j], object(), [[1], [1, 2]]])
def test_what_is_no_array_of_real_numbers_is_refused(value):
    with pytest.raises(ShapeError, match=r"x (has type .*; it must hold real numbers|is not an array)"):
        numbers(value, "x")


def test_counts_begin_at_one():
    assert count(np.int64(3), "x") == 3
    with pytest.raises(OptionError, match="x is 0; it must be a whole number of at least 1"):
        count(0, "x")


def test_a_name_that_does_not_exist_is_answered_with_the_nearest_or_with_all():
    names = ["river-swim", "combination-lock"]
    assert closest("riverswim", names) == "did you mean 'river-swim'?"
    assert closest("xyz", names) == "choose one of: combination-lock, river-swim"


@pytest.mark.parametrize("value", [1.0, [True], [0.5, 1]])
def test_what_holds_no_whole_numbers_is_refused(value):
    assert integers([2, 3], "x").dtype.kind == "i"
    with pytest.raises(ShapeError, match=r"x has type .*; it must hold whole numbers"):
        integers(value, "x")


def test_masked_arrays_are_refused():
    with pytest.raises(ShapeError, match="x is a masked array, whose hidden values would count"):
        real(np.ma.masked_array([1.0, 2.0], mask=[True, False]), "x")
