"""Bad arguments of public functions: every error names the argument, shows the value and says what it must be.

The tables have one entry for each function: valid arguments, and changes to them with the words of the error.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree._validation import short_repr
from horizonfree.errors import HorizonfreeError
from tests.refusals import explorations, problems, runs, theory
from tests.refusals.rows import ACTIONS, PROBLEM, STATES, Function

TABLE: dict[str, Function] = runs.TABLE | explorations.TABLE | problems.TABLE | theory.TABLE


@pytest.mark.parametrize("name", TABLE)
def test_bad_arguments_are_refused(name: str, subtests: pytest.Subtests, tmp_path: Path) -> None:
    call, valid, rows = TABLE[name]
    for changes, pattern, *error in rows:
        if "progress" in changes and "explore" in name:
            changes = changes | {"out": tmp_path / "a"}  # must not be created
        with subtests.test(", ".join(f"{key}={short_repr(x)}" for key, x in changes.items())):
            with pytest.raises(HorizonfreeError) as caught_error:
                call(**valid | changes)
            message = str(caught_error.value)
            assert len(message) < 600
            position = 0
            for part in pattern.split(" … "):
                assert part in message[position:]
                position = message.index(part, position) + len(part)
            assert isinstance(caught_error.value, tuple(error) or HorizonfreeError)
    assert not list(tmp_path.iterdir())


def test_the_arguments_that_bad_ones_replace_are_valid(subtests: pytest.Subtests) -> None:
    """Otherwise a row might be refused for another reason."""
    for name, (call, valid, _) in TABLE.items():
        if name != "load":  # needs a folder: tests/runs
            with subtests.test(name):
                call(**valid | ({"explorer": "uniform"} if name == "explore_many" else {}))
    for budget in (None, 1, 7.0, np.int64(9), 2**40, 2**63 - 1):
        with subtests.test("budget", budget=budget):
            assert 0 < hf.certify(PROBLEM, (STATES, ACTIONS), budget=budget).eps <= 1
    with subtests.test("checkpoints and curves may be any collection"):
        settings = {"episodes": 1, "seeds": 1, "progress": False}
        batch = hf.explore_many(
            PROBLEM, "uniform", checkpoints={1}, curves=(x for x in ("eps", "gap")), **settings
        )
        assert batch.checkpoints.tolist() == [1]
        assert list(batch.curves) == ["eps", "gap"]
        assert hf.explore_many(PROBLEM, "uniform", checkpoints={}, **settings).curves == {}


def test_a_name_in_place_of_a_problem_is_answered_with_a_line_that_works(subtests: pytest.Subtests) -> None:
    settings: dict[str, Any] = {"episodes": 2, "seeds": 1}
    calls = {
        "hf.explore(hf.make('river-swim'), ...)": lambda: hf.explore("river-swin", episodes=2),
        "hf.explore(gymnasium.make('Taxi-v4'), ...)": lambda: hf.explore("Taxi-v4", episodes=2),
        "hf.compare(hf.make('river-swim'), ...)": lambda: hf.compare("river-swim", ["uniform"], **settings),
        "hf.compare(hf.make('gymnasium:FrozenLake-v1', horizon=100), ...)": lambda: hf.compare(
            "gymnasium:FrozenLake-v1", ["uniform"], **settings
        ),
        "hf.explore_many(hf.make('river-swim'), ...)": lambda: hf.explore_many(
            "river-swim", "uniform", **settings
        ),
    }
    for line, call in calls.items():
        with subtests.test(line), pytest.raises(HorizonfreeError, match=re.escape(line)):
            call()
