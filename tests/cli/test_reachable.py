"""`explore --reachable` and commands on its runs: states have the numbers of the whole problem."""

import csv
from pathlib import Path

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.problems import reachable
from tests.shell import Shell

GRID = "zoned-grid --param size=8 --param zones=2 --param horizon=6"


@pytest.fixture
def folder(shell: Shell) -> str:
    assert shell(f"explore {GRID} --reachable --episodes 8 --out run")[0] == 0
    return "run"


def test_a_note_says_when_to_use_it(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachable, "MIN_OUT_OF_REACH", 30)
    note = shell(f"explore {GRID} --episodes 2")[2]
    assert "note: 36 of 64 states cannot be reached within 6 steps" in note
    assert "--reachable" in note
    assert "note:" not in shell(f"explore {GRID} --reachable --episodes 2")[2]


def test_goals_and_rewards_have_the_numbers_of_the_whole(shell: Shell, folder: str) -> None:
    problem = hf.make("zoned-grid", size=8, zones=2, horizon=6)
    part = problem.reachable_part()
    run = hf.load(folder)
    assert (run.problem.state_ids == part.state_ids).all()
    by_goal = shell.json(f"plan {folder} --goal 18")
    assert by_goal["value"] == pytest.approx(run.plan(part.restrict(hf.goal(problem, 18))).value)
    assert by_goal["state_ids"] == part.state_ids.tolist()
    reward = np.where(np.arange(64) == 18, 1 / 6, 0.0)
    np.save("whole.npy", reward)
    np.save("part.npy", part.restrict(reward))
    with Path("named.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["state", "reward"], *zip(part.state_ids, part.restrict(reward))])
    files = ("whole.npy", "part.npy", "named.csv")
    values = [shell.json(f"plan {folder} --reward {name}")["value"] for name in files]
    assert values == pytest.approx([values[0]] * 3)
    assert values[0] == pytest.approx(run.plan(part.restrict(reward)).value)
    code, _, message = shell(f"plan {folder} --goal 63")
    assert code == 2
    assert "there is no state 63 in this part of a problem" in message


def test_logs_have_the_numbers_of_the_whole() -> None:
    problem = hf.make("zoned-grid", size=8, zones=2, horizon=6)
    log = hf.simulate(problem, np.ones((6, 64), int), episodes=5)
    s, a = np.asarray(log.s), np.asarray(log.a)
    k, h = np.indices(a.shape)
    columns = {"episode": k, "step": h, "state": s[:, :-1], "action": a, "next_state": s[:, 1:]}
    rows = {name: x.ravel() for name, x in columns.items()}
    part = problem.reachable_part()
    assert hf.from_log(rows, part).certificate().eps == pytest.approx(
        hf.from_log(rows, problem).certificate().eps, abs=1e-9
    )
