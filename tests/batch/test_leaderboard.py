"""The leaderboard: what entries say, that they are kept, and that the stored one shows on its page."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import horizonfree as hf
from horizonfree.batch import leaderboard
from horizonfree.cli.app import app
from horizonfree.explorers.registry import EXPLORERS
from horizonfree.theory.table1 import table1

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def board():
    """One algorithm on one problem."""
    return list(
        leaderboard.measure(leaderboard.empty(), ["uniform"], problems=["river-swim"], episodes=20, seeds=2)
    )[-1]


def test_an_entry_says_what_was_measured(board):
    (entry,) = board["entries"]
    batch = hf.explore_many(
        hf.make("river-swim"),
        "uniform",
        episodes=20,
        seeds=2,
        checkpoints=[20],
        curves=("gap", "eps"),
        progress=False,
    )
    for curve in ("eps", "gap"):
        values = batch.curves[curve][:, -1]
        expected = values.min(), np.median(values), values.max()
        np.testing.assert_allclose(entry[curve], expected, rtol=1e-3, atol=1e-12)
    assert entry["seeds"] == [0, 1]
    assert entry["episodes"] == 20
    assert not entry["is_reconstruction"]
    assert entry["constants"] == "none"
    assert board["problems"]["river-swim"] == {
        "class": "mixture",
        "states": 8,
        "actions": 2,
        "horizon": 32,
        "unknown": 2,
    }
    assert json.loads(json.dumps(board)) == board


def test_an_entry_is_kept_and_others_are_replaced(board):
    second = leaderboard.measure(board, ["uniform"], problems=["river-swim"], episodes=20, seeds=2)
    assert list(second) == []
    (longer_entry,) = leaderboard.measure(board, ["uniform"], problems=["river-swim"], episodes=30, seeds=2)
    assert [entry["episodes"] for entry in longer_entry["entries"]] == [30]


def test_an_algorithm_that_refuses_says_why(board):
    name = "river-swim (table)"
    (refused_entry,) = leaderboard.measure(board, ["jin2020"], problems=[name], episodes=5, seeds=1)
    entry = refused_entry["entries"][-1]
    assert entry["eps"] is None
    assert "budget is 5 episodes" in entry["refusal"]
    assert "budget is 5 episodes" in leaderboard.page(refused_entry)


def test_algorithms_are_measured_on_their_class_only(board):
    assert list(leaderboard.measure(board, ["rf-ucrl"], problems=["river-swim"], episodes=5, seeds=1)) == []


@pytest.mark.parametrize("name", sorted(EXPLORERS))
def test_every_algorithm_has_a_paper_or_says_that_there_is_none(name):
    description = leaderboard.describe(name, "river-swim", 10, 1)
    assert description["paper"], name
    assert description["is_reconstruction"] == ("reconstruction" in description["explorer"])
    assert json.loads(json.dumps(description)) == description


def test_the_commit_is_that_of_the_repository():
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    if head.returncode != 0:
        assert leaderboard.commit() is None
    else:
        assert head.stdout.startswith((leaderboard.commit() or "").removesuffix("+"))


def test_wrong_names_and_files_are_refused(tmp_path):
    with pytest.raises(hf.errors.UnknownNameError, match="river-swim"):
        list(leaderboard.measure(leaderboard.empty(), ["uniform"], problems=["river-swum"]))
    with pytest.raises(hf.errors.OptionError, match="not a leaderboard"):
        leaderboard.check({"format": 99})
    file = tmp_path / "board.json"
    for content in ("no json", '{"format": 0}'):
        file.write_text(content)
        assert isinstance(
            CliRunner().invoke(app, ["leaderboard", str(file)]).exception, hf.errors.OptionError
        )
    empty = CliRunner().invoke(app, ["leaderboard", str(tmp_path / "new.json")])
    assert "has no entries" in str(empty.exception)


def test_one_command_adds_an_algorithm(board, tmp_path):
    file, page = tmp_path / "board.json", tmp_path / "board.md"
    file.write_text(json.dumps(board))
    arguments = ["--explorer", "goal-cycling", "--problem", "river-swim", "--episodes", "20", "--seeds", "2"]
    result = CliRunner().invoke(app, ["leaderboard", str(file), *arguments, "--page", str(page)])
    assert result.exit_code == 0, result.output
    stored_board = json.loads(file.read_text())
    assert {entry["explorer"] for entry in stored_board["entries"]} == {"uniform", "goal-cycling"}
    assert [entry["eps"][1] for entry in stored_board["entries"]] == sorted(
        entry["eps"][1] for entry in stored_board["entries"]
    )
    assert page.read_text() == leaderboard.page(stored_board)
    assert "goal-cycling" in result.output


def test_the_stored_page_shows_the_stored_numbers():
    board = leaderboard.check(json.loads((ROOT / "docs" / "leaderboard.json").read_text()))
    assert (ROOT / "docs" / "leaderboard.md").read_text() == leaderboard.page(board)
    assert board["table1"] == leaderboard.empty()["table1"]
    assert len(board["table1"]) == len(table1())
    for entry in board["entries"]:
        assert {"paper", "constants", "is_reconstruction", "seeds", "commit"} <= entry.keys()
        assert entry["commit"]
        assert not entry["commit"].endswith("+")
        if "refusal" in entry:
            assert entry["eps"] is entry["gap"] is None
            continue
        low, middle, high = entry["eps"]
        assert 0 <= low <= middle <= high <= 1
        assert entry["gap"][2] <= 1


def test_certified_medians_of_the_page_are_rounded_up():
    stored = json.loads((ROOT / "docs" / "leaderboard.json").read_text())
    medians = {(x["explorer"], x["problem"]): x["eps"][1] for x in stored["entries"] if x["eps"] is not None}
    found, names = {}, []
    for line in (ROOT / "docs" / "leaderboard.md").read_text().splitlines():
        first, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if first in ("Certified", "True"):
            names = cells if first == "Certified" else []
        elif line.startswith("| "):
            explorer = first.removesuffix(", for one reward")
            found |= {(explorer, name): float(x) for name, x in zip(names, cells) if x not in ("", "-")}
    assert found.keys() == medians.keys()
    assert all(medians[key] <= found[key] <= medians[key] + 0.01 for key in found)


OWN = '''"""Paper: mine, 2026.
Algorithm: uniform.
"""

from horizonfree.explorers.uniform import Uniform


class Mine(Uniform):
    """Every action alike."""
'''


def test_an_algorithm_of_ones_own_is_added_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "own_for_leaderboard.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    names = ["own_for_leaderboard:Mine", "uniform"]
    *_, board = leaderboard.measure(leaderboard.empty(), names, problems=["river-swim"], episodes=10, seeds=1)
    own_entry, uniform = sorted(board["entries"], key=lambda entry: entry["explorer"])
    assert own_entry["explorer"] == "own_for_leaderboard:Mine"
    assert own_entry["paper"] == "mine, 2026."
    assert own_entry["eps"] == uniform["eps"]
