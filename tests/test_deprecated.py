"""Old public names: each still works, and its DeprecationWarning names the new one and the caller's line."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.batch.compare import explorer_label
from horizonfree.explorers.registry import EXPLORERS, ExplorerSpec, label
from horizonfree.models.draws import Convergence
from tests.shell import Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(tmp_path, capsys, monkeypatch)


def problem() -> hf.Problem:
    return hf.make("zoned-grid", size=4, horizon=3)


def explore(**options: object) -> hf.Run:
    return hf.explore(problem(), episodes=2, progress=False, **options)


def linear() -> hf.LinearMDP:
    return hf.LinearMDP.from_features(np.random.default_rng(0).dirichlet(np.ones(2), size=(3, 2)), horizon=2)


def sampled() -> Any:
    counts = np.ones((3, 2, 3), int)
    return hf.from_simulators([counts, 2 * counts], horizon=3, start=0).sampling


def compare() -> Any:
    return explore().compare(hf.goal(problem(), 1), np.zeros(16, int), np.ones(16, int))


RENAMED = "{} is now called {}".format
OLD = {
    "problem.moved": (
        lambda: problem().moved(1, 2).start_name(),
        RENAMED("Problem.moved", "Problem.with_start"),
        problem().with_start(1, 2).start_name(),
    ),
    "problem.declaring": (
        lambda: linear().declaring("goals").model.declared.shape,
        RENAMED("Problem.declaring", "Problem.with_rewards"),
        linear().with_rewards("goals").model.declared.shape,
    ),
    "problem.seen_as": (
        lambda: type(problem().seen_as("tabular", support="given")),
        RENAMED(r"Problem.seen_as\('tabular'\)", r"Problem.as_tabular\(\)"),
        hf.Tabular,
    ),
    "run.seen_from": (
        lambda: explore().seen_from(1, horizon=2).problem.start_name(),
        RENAMED("Run.seen_from", "Run.restart_from"),
        problem().with_start(1, 2).start_name(),
    ),
    "hf.home": (lambda: hf.home, RENAMED("hf.home", "hf.theory.home"), hf.theory.home),
    "certificate.words": (
        lambda: explore().certificate().words,
        RENAMED("Certificate.words", r"Certificate.summary\(\)"),
        str(explore().certificate()),
    ),
    "check.words": (
        lambda: explore().check().words,
        RENAMED("Check.words", r"Check.summary\(\)"),
        str(explore().check()),
    ),
    "comparison.words": (
        lambda: compare().words,
        RENAMED("Comparison.words", r"Comparison.summary\(\)"),
        str(compare()),
    ),
    "convergence.words": (
        lambda: Convergence(1.0, 500.0, 4, 100).words,
        RENAMED("Convergence.words", r"Convergence.summary\(\)"),
        "4 chains, R-hat 1.000, 500 effective draws",
    ),
    "robustness.words": (
        lambda: explore().robustness().words,
        RENAMED("Robustness.words", r"Robustness.summary\(\)"),
        str(explore().robustness()),
    ),
    "sampling.words": (
        lambda: sampled().words(),
        RENAMED("Sampling.words", "Sampling.summary"),
        str(sampled()),
    ),
    "explore(explorer='information')": (
        lambda: explore(explorer="information").explorer_spec.name,
        "explorer 'information' is now called 'optimal-design'",
        "optimal-design",
    ),
    "explore_many(explorer='information')": (
        lambda: hf.explore_many(problem(), "information", episodes=1, seeds=1)[0].explorer_spec.name,
        "explorer 'information' is now called 'optimal-design'",
        "optimal-design",
    ),
    "compare(['information'])": (
        lambda: hf.compare(problem(), ["information"], episodes=1, seeds=1)[0]["algorithm"],
        "explorer 'information' is now called 'optimal-design'",
        "optimal-design",
    ),
}


@pytest.mark.parametrize("name", OLD)
def test_an_old_name_works_and_warns(name: str) -> None:
    call, message, expected = OLD[name]
    with pytest.warns(
        DeprecationWarning, match=f"^{message}; the old name will be removed in"
    ) as warnings_caught:
        result = call()
    assert result == expected
    assert {Path(warning.filename) for warning in warnings_caught} == {Path(__file__)}


def test_classes_of_problems_are_classes() -> None:
    """Each constructor gives its own class, which changes of a problem keep, and `dir` does not show old names."""
    kinds = {hf.Mixture: problem(), hf.Tabular: hf.Tabular(3, 2, 4), hf.LinearMDP: linear()}
    for kind, instance in kinds.items():
        assert issubclass(kind, hf.Problem)
        assert type(instance) is kind
        assert type(instance.with_start(1, horizon=2)) is kind
    assert type(hf.Tabular.from_table(np.full((3, 2, 3), 1 / 3), horizon=2)) is hf.Tabular
    assert "home" not in dir(hf)


def test_new_names_do_not_warn() -> None:
    assert explore().explorer_spec.name == "optimal-design"
    assert hf.make("random-mixture").name == "random-mixture"


def test_a_run_stored_under_an_old_name_is_read_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as old:
        old.setitem(EXPLORERS, "information", EXPLORERS["optimal-design"])
        replace(explore(), explorer_spec=ExplorerSpec("information", {})).save(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["explorer"]["name"] == "information"
    run = hf.load(tmp_path / "run").resume(episodes=3, progress=False)
    assert (run.episodes, run.explorer_spec.name) == (5, "optimal-design")


def test_rows_stored_under_an_old_name_are_shown_with_the_current_one() -> None:
    assert label("information") == "optimal-design"
    assert explorer_label({"explorer": "mine", "algorithm": "information"}) == "mine"


def test_the_command_line_takes_an_old_name_and_says_so(shell: Shell) -> None:
    assert shell.json("explorers information") == shell.json("explorers optimal-design")
    code, _, err = shell("explore zoned-grid --param size=4 --explorer information --episodes 2 --out a")
    assert code == 0
    assert "note: explorer 'information' is now called 'optimal-design'" in err
    assert hf.load("a").explorer_spec.name == "optimal-design"
