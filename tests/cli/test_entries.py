"""Explorers as they are typed for `compare --problem`: names of one's own, and options."""

import pytest

from horizonfree.cli._shared import parse_explorers
from horizonfree.errors import OptionError


def test_an_explorer_may_have_options_and_a_name():
    assert parse_explorers(
        ["optimal-design", "half=ucrl-rfe scale=0.5 pool_steps=true", "ucrl-rfe scale=2"]
    ) == {
        "optimal-design": {"name": "optimal-design"},
        "half": {"name": "ucrl-rfe", "scale": 0.5, "pool_steps": True},
        "ucrl-rfe scale=2": {"name": "ucrl-rfe", "scale": 2},
    }


def test_what_cannot_be_understood_is_refused(subtests):
    for texts in [[""], ["a="], ["=uniform"], ["uniform", "uniform"], ["uniform scale"]]:
        with subtests.test(str(texts)), pytest.raises(OptionError, match="--explorer"):
            parse_explorers(texts)
