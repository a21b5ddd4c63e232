"""What is shown of a plan: arrows, tables, ways and times, on plans that can be followed by hand."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.cli import plan_text as show_plan
from horizonfree.guarantees.certificate import Certificate
from horizonfree.mdp.space import Kernel
from horizonfree.problems.named.navigation import ACTIONS, grid
from horizonfree.runs.plan import Plan
from tests.shell import Shell

CERTIFICATE = Certificate(0.1, 0.05, "by hand", "suboptimality at most 0.1", {})
CELLS, TARGET = grid(np.array([[1, 1, 1], [1, 0, 1]], bool))  # 0 1 2 above, 3 and 4 below, a wall between


def walk(policy: Any, **layout: Any) -> Plan:
    """A plan for moves that never fail, from the top left."""
    kernel = Kernel(TARGET[:, :, None].astype(np.int32), np.ones((5, 4, 1)), False)
    return Plan(np.array(policy), 1.0, 0.9, 1.0, 0.1, CERTIFICATE, kernel, np.eye(5)[0], layout)


ON_GRID = {"cells": CELLS, "actions": ACTIONS}
RIGHT_THEN_DOWN = [[1] * 5, [1] * 5, [2] * 5, [0] * 5]  # 0 -> 1 -> 2 -> 4


def test_arrows_are_those_of_the_step_at_which_the_plan_is_there() -> None:
    text = show_plan.grid(walk(RIGHT_THEN_DOWN, **ON_GRID), 80)
    assert text is not None
    assert [line.split() for line in text.plain.splitlines()] == [["→", "→", "↓"], ["→", "█", "↑"]]
    assert show_plan.grid(walk(RIGHT_THEN_DOWN, **ON_GRID), 8) is None  # no room
    assert show_plan.grid(walk(RIGHT_THEN_DOWN, cells=CELLS), 80) is None  # no directions
    assert show_plan.grid(walk(RIGHT_THEN_DOWN, actions=ACTIONS), 80) is None  # no places


def test_the_way_and_the_time_are_those_of_the_plan() -> None:
    plan = walk(RIGHT_THEN_DOWN, **ON_GRID)
    assert show_plan.likely_path(plan) == [0, 1, 2, 4]
    assert show_plan.path_text(plan) == "(0, 0) → (1, 0) → (2, 0) → (2, 1)"
    assert show_plan.time_text(plan) == "(0, 0) 25%, (1, 0) 25%, (2, 0) 25%, (2, 1) 25%"
    staying = walk(np.zeros((4, 5), int), states=list("abcde"))
    assert show_plan.path_text(staying) == "a (4 steps)"
    long = walk(np.array([[1] * 5, [3] * 5] * 8), states=list("abcde"))
    assert show_plan.path_text(long) == "a → b → a → b → a → b → a → b → .. → b"


def test_a_table_tells_what_is_done_in_a_state_and_when() -> None:
    policy = np.zeros((4, 5), int)
    policy[2] = 1  # up, up, right, up
    lines, num_left_out = show_plan.state_rows(walk(policy, states=list("abcde"), actions=ACTIONS))
    assert lines == [("a", "75%", "up (steps 1-2), right (step 3)"), ("b", "25%", "up")]
    assert num_left_out == 0
    policy = np.array([[0] * 5, [3] * 5] * 3)
    assert show_plan.state_rows(walk(policy))[0] == [("state 0", "100%", "mostly action 0, by step")]


def test_a_policy_that_draws_is_shown_by_its_most_probable_action() -> None:
    probabilities = np.tile([0.1, 0.6, 0.3, 0.0], (4, 5, 1))
    assert (show_plan.actions_of(probabilities) == 1).all()
    assert show_plan.likely_path(walk(probabilities))[:3] == [0, 1, 2]


def test_plan_shows_what_it_does_and_keeps_it(shell: Shell) -> None:
    shell.json("explore zoned-grid --param size=3 --param zones=1 --param horizon=6 --episodes 60 --out a")
    code, out, _ = shell("plan a --goal 8 --policy-out p.csv")
    assert code == 0
    assert len(re.findall(r"^   ([↑→↓←] ){3}$", out, re.MULTILINE)) == 3
    assert "Most likely path: (0, 0) → " in out
    assert "for episodes from (0, 0); for another start: --start STATE" in out
    output = shell.json("plan a --goal 8 --out p.json")
    run = hf.load("a")
    plan = run.plan(hf.goal(run.problem, 8))
    assert output["path"] == show_plan.likely_path(plan)
    np.testing.assert_allclose(output["time"], plan.occupancy.mean(axis=0))
    assert output["names"] == {"actions": ACTIONS}
    for name in ("p.csv", "p.json"):
        second = shell.json(f"plan a --goal 8 --policy {name}")
        np.testing.assert_array_equal(second["policy"], plan.policy)
    np.save("drawn.npy", np.full((9, 4), 0.25))
    assert shell("plan a --goal 8 --policy drawn.npy --out drawn.csv")[0] == 0
    assert Path("drawn.csv").read_text().startswith("step,state,action,probability\n1,0,up,0.25\n")
    second = shell.json("plan a --goal 8 --policy drawn.csv")
    np.testing.assert_array_equal(second["policy"], np.full((6, 9, 4), 0.25))
    code, _, err = shell("plan a --goal 8 --policy drawn.npy --out drawn.txt")
    assert code == 2
    assert "policy drawn.txt: its name must end in one of .csv, .npy, .json" in err


@pytest.mark.parametrize("columns", [60, 100])
def test_a_plan_fits_a_narrow_terminal(columns: int, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from horizonfree.cli._shared import console

    shell.json(
        "explore inventory --param capacity=3 --param max_order=2 --param horizon=4 --episodes 20 --out a"
    )
    monkeypatch.setattr(console, "width", columns)
    out = shell("plan a --goal 'stock 2'")[1]
    assert max(map(len, out.splitlines())) <= columns
    assert "stock 2" in out
