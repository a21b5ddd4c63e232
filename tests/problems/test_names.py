"""Names of states, actions and weights: given once, and then used wherever people read or type them."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError
from horizonfree.mdp import names
from horizonfree.problems.gymnasium.from_env import from_gymnasium
from horizonfree.report.facts import state_text
from horizonfree.web.session import drawing

CALM, STORM = np.eye(3)[:, None].repeat(2, 1), np.full((3, 2, 3), 1 / 3)
NAMES = {"states": ["port", "bay", "sea"], "actions": ["wait", "sail"]}


def harbour(**options: Any) -> hf.Problem:
    return hf.Mixture.from_kernels(
        {"calm": CALM, "storm": STORM}, horizon=2, **{"weights": [0.7, 0.3], **NAMES, **options}
    )


def test_names_are_those_that_were_given() -> None:
    problem = harbour()
    assert [problem.weight_name(i) for i in range(2)] == ["calm", "storm"]
    assert [problem.state_name(s) for s in range(3)] == NAMES["states"]
    assert [problem.action_name(a) for a in range(2)] == NAMES["actions"]
    unnamed = hf.Mixture.from_kernels(np.stack([CALM, STORM]), horizon=2)
    assert (unnamed.state_name(1), unnamed.action_name(0), unnamed.weight_name(1)) == (
        "state 1",
        "action 0",
        "weight 1",
    )
    assert [unnamed.state_number(unnamed.state_name(s)) for s in range(3)] == [0, 1, 2]  # what tables print
    with pytest.raises(HorizonfreeError, match="there is no state '3'; states are 0 to 2"):
        unnamed.state_number("state 3")


def test_rewards_take_states_by_name() -> None:
    problem = harbour()
    for reward in (hf.goal, hf.occupancy):
        np.testing.assert_array_equal(reward(problem, "sea"), reward(problem, 2))
        np.testing.assert_array_equal(reward(problem, ["sea", 0]), reward(problem, [0, 2]))
    assert problem.state_number("bay") == problem.state_number("1") == problem.state_number(1) == 1
    with pytest.raises(HorizonfreeError, match="there is no state 'see'; did you mean 'sea'"):
        hf.goal(problem, "see")


BAD_NAMES = [
    ({"states": ["a", "b"]}, "states has 2 names; there are 3 states"),
    ({"states": ["a", "b", "a"]}, r"states\[2\] is 'a', that of state 0; every name"),
    ({"actions": ["a", ""]}, r"actions\[1\] is '', empty; every name"),
    ({"actions": "ab"}, "actions is 'ab'; it must be a list of names"),
    ({"actions": [1, 2]}, r"actions is \[1, 2\]; it must be a list of names"),
]


def test_names_that_do_not_tell_apart_are_refused(subtests: pytest.Subtests) -> None:
    for options, message in BAD_NAMES:
        with subtests.test(message), pytest.raises(HorizonfreeError, match=message):
            harbour(**options)


def test_a_kernel_that_is_wrong_is_named() -> None:
    with pytest.raises(HorizonfreeError, match="base kernel 'storm': row"):
        hf.Mixture.from_kernels({"calm": CALM, "storm": STORM / 2}, horizon=2)
    with pytest.raises(HorizonfreeError, match="the name of a kernel is 1; it must be text"):
        hf.Mixture.from_kernels({1: CALM}, horizon=2)
    with pytest.raises(HorizonfreeError, match=r"kernels is \{\}; it must be a dictionary of at least one"):
        hf.Mixture.from_kernels({}, horizon=2)


def test_names_come_back_with_a_run(tmp_path: Path) -> None:
    run = hf.explore(harbour(), "uniform", episodes=2, progress=False, out=tmp_path / "a")
    loaded = hf.load(tmp_path / "a").problem
    assert loaded.layout == run.problem.layout
    assert run.plan(hf.goal(loaded, "sea"), start=1).certificate.summary().endswith("from bay, in 2 steps")
    assert state_text(loaded, 2) == "sea"
    assert drawing(loaded)["names"] == NAMES["states"]
    assert drawing(loaded)["actions"] == NAMES["actions"]


def test_other_classes_have_names_too() -> None:
    table = hf.Tabular.from_table(STORM, horizon=2, **NAMES)
    assert table.state_name(2) == "sea"
    random_start = hf.Tabular(3, 2, 2, start="unknown", **NAMES)
    assert [random_start.state_name(s) for s in range(4)] == [*NAMES["states"], "before the start"]
    linear = hf.LinearMDP.from_features(np.ones((3, 2, 1)), horizon=2, **NAMES)
    assert linear.action_name(1) == "sail"
    assert "weights" not in harbour().as_tabular().layout


@pytest.mark.parametrize("name", ["CliffWalking-v1", "FrozenLake-v1", "Taxi-v4"])
def test_the_weight_called_as_intended_is_that_of_the_move_that_was_meant(name: str) -> None:
    """Its kernel is that of the environment without slipping; a turning move distinguishes the sides."""
    problem = from_gymnasium(name, 5)
    names = problem.layout["weights"]
    options = {"Taxi-v4": {"is_rainy": False}}.get(name, {"is_slippery": False})
    deterministic = from_gymnasium(name, 5, **options)
    np.testing.assert_array_equal(
        problem.model.kernel(problem.model.parameter(np.eye(3)[names.index("as intended")], "w")).dense(),
        deterministic.kernel().dense(),
    )
    right = problem.model.kernel(
        problem.model.parameter(np.eye(3)[names.index("off to the right")], "w")
    ).dense()
    action = {x: a for a, x in enumerate(problem.layout["actions"])}
    main_move, side_move = ("north", "east") if name == "Taxi-v4" else ("up", "right")
    free = 24 if name == "CliffWalking-v1" else 9 if name == "FrozenLake-v1" else 20 * 11
    np.testing.assert_array_equal(
        right[free, action[main_move]], deterministic.kernel().dense()[free, action[side_move]]
    )


def test_named_problems_name_their_weights() -> None:
    first_weights = {
        "zoned-grid": "zone 1, as intended",
        "river-swim": "forward",
        "inventory": "mean demand 1",
    }
    for name, first in first_weights.items():
        problem = hf.make(name)
        assert problem.weight_name(0) == first
        assert len(problem.layout["weights"]) == len(problem.truth)
    assert hf.make("inventory").state_name(4) == "stock 4"
    lakes = from_gymnasium(["FrozenLake-v1", "FrozenLake8x8-v1"][:1], 5)
    assert lakes.weight_name(0) == "FrozenLake-v1"


def grid() -> hf.Problem:
    return hf.make("zoned-grid", size=3, zones=2, horizon=6)


def test_a_cell_is_a_state_wherever_one_is_accepted() -> None:
    problem = grid()
    run = hf.explore(problem, "uniform", episodes=5, progress=False)
    for cell in ((1, 2), (np.int64(1), np.int32(2)), "(1, 2)", "(1,2)", "cell (1, 2)"):
        assert problem.state_number(cell) == problem.states_named(cell)[0] == 7
        for reward in (hf.goal, hf.occupancy):
            assert (reward(problem, cell) == reward(problem, 7)).all()
            assert (reward(problem, [cell, (0, 0), 4]) == reward(problem, [7, 0, 4])).all()
        assert (hf.reach(problem, cell).decided == hf.reach(problem, 7).decided).all()
        assert problem.with_start(cell).start_name() == "state 7"
        plan = run.plan(np.eye(9)[4] / 2, start=cell, horizon=2)
        assert plan.value == run.plan(np.eye(9)[4] / 2, start=7, horizon=2).value
        assert plan.act(0, cell) == plan.act(0, 7)
    constrained = run.plan(hf.goal(problem, 8), constraints=[hf.at_most(hf.reach(problem, "(1, 1)"), 0.9)])
    assert constrained.act(1, (0, 1), before=[(0, 0)]) == constrained.act(1, 3, before=[0])
    property = hf.property('Pmax=? [F<=5 "(1, 2)"]').on_problem(problem)
    assert (property.decided == hf.reach(problem, 7).decided).all()


def test_every_text_for_a_state_is_one_that_is_accepted() -> None:
    problems = [grid(), hf.make("river-swim", states=4, horizon=3), harbour(), hf.Tabular(3, 2, 2)]
    part = hf.make("zoned-grid", size=9, horizon=4).reachable_part()
    for problem in (*problems, part):
        texts = [
            [f(s) for s in range(problem.num_states)]
            for f in (problem.state_name, partial(state_text, problem))
        ]
        texts.append([names.state_text(problem.layout, s) for s in range(problem.num_states)])
        for row in texts:
            assert [problem.state_number(text) for text in row] == list(range(problem.num_states)), row


def test_a_tuple_that_is_no_cell_is_refused_in_words() -> None:
    shared = hf.Tabular(3, 2, 2, layout={"cells": np.array([[0, 0], [1, 0], [1, 0]])})
    assert (hf.goal(shared, (1, 0)) == hf.goal(shared, [1, 2])).all()  # all states of the cell
    cases = [
        (grid(), (3, 0), r"\(3, 0\) is no cell; columns are 0 to 2, rows 0 to 2, .*a list, \[3, 0\]"),
        (grid(), (1, 2, 3), r"\(1, 2, 3\) is no cell; .*a list, \[1, 2, 3\]"),
        (grid(), (0.5, 1), "is no cell"),
        (grid(), ("a", "b"), "is no cell"),
        (grid(), "(0, 7)", r"\(0, 7\) is no cell"),
        (grid(), "nowhere", r"no state 'nowhere'; states are 0 to 8, or cells, '\(column, row\)'"),
        (
            harbour(),
            (0, 1),
            "a tuple is a cell.*this problem has no grid; states are 0 to 2, or by name, such as 'port'",
        ),
        (hf.Tabular(3, 2, 2), "(0, 1)", r"there is no state '\(0, 1\)'; states are 0 to 2"),
    ]
    for problem, value, message in cases:
        for ask in (problem.state_number, partial(hf.goal, problem), partial(hf.reach, problem)):
            with pytest.raises(HorizonfreeError, match=message):
                ask(value)
        with pytest.raises(HorizonfreeError, match="start is .*; it must be a state, .*" + message):
            problem.with_start(value)
    with pytest.raises(HorizonfreeError, match="has 2 states: 1, 2; give one of them"):
        shared.state_number((1, 0))


def test_a_start_has_a_name_in_constructors_too() -> None:
    assert harbour(start="sea").start == 2
    assert hf.Tabular(3, 2, 2, "bay", terminal=["sea"], **NAMES).start == 1
    assert hf.Tabular.from_table(STORM, horizon=2, start="bay", **NAMES).start == 1
    assert hf.Mixture.from_tabular(STORM, horizon=2, start="bay", **NAMES).start == 1
    assert hf.LinearMDP.from_features(np.ones((3, 2, 1)), horizon=2, start="sea", **NAMES).start == 2
    terminal = hf.Tabular(3, 2, 2, terminal=["sea", 1], **NAMES).layout["ended"]
    assert terminal.tolist() == hf.Tabular(3, 2, 2, terminal=[1, 2]).layout["ended"].tolist()
    np.testing.assert_allclose(
        harbour(start=(0.5, 0.25, 0.25)).start, [0.5, 0.25, 0.25]
    )  # a tuple of S numbers
    with pytest.raises(
        HorizonfreeError,
        match=r"start is 'see'; it must be a state.*: there is no state 'see'; did you mean 'sea'",
    ):
        harbour(start="see")
    lake = from_gymnasium("FrozenLake-v1", horizon=5, start=(1, 2))
    assert lake.start == 9
    assert lake.recipe is not None
    assert lake.recipe["parameters"]["start"] == 9
