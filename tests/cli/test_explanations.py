"""What the command line explains: its commands, options and numbers; and that its documentation works."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.batch import compare as comparing
from horizonfree.explorers.registry import EXPLORERS
from horizonfree.guarantees.certificate import MEANINGS
from tests.shell import TINY, Shell

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS = [
    "tour",
    "problems",
    "explorers",
    "explore",
    "plan",
    "certify",
    "audit",
    "power",
    "verify",
    "robustness",
    "report",
    "compare",
    "leaderboard",
    "serve",
    "theory",
]


def test_help_comes_without_loading_what_is_heavy() -> None:
    code = (
        "import sys, horizonfree.cli.app\n"
        "heavy = {'jax', 'numpy', 'scipy', 'matplotlib', 'gymnasium'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_command_explains_itself(shell: Shell, subtests: pytest.Subtests) -> None:
    for command in COMMANDS:
        with subtests.test(command):
            code, out, _ = shell(f"{command} --help")
            assert code == 0
            assert "--json" in out
            assert command == "tour" or f"horizonfree {command}" in out  # an example


def test_the_overview_names_every_command(shell: Shell) -> None:
    _, out, _ = shell("--help")
    assert all(f" {command} " in out for command in COMMANDS)
    assert "--install-completion" in out
    assert shell("--version")[1] == f"horizonfree {hf.__version__}\n"


def test_problems_and_explorers_come_from_their_definitions(shell: Shell) -> None:
    assert set(shell.json("problems")) == set(hf.problems())
    spec = shell.json("problems zoned-grid")
    assert spec["parameters"]["size"] == {
        "type": "int",
        "default": 8,
        "low": 2,
        "high": 200,
        "meaning": "cells along a side",
    }
    assert set(shell.json("explorers --all")) == set(EXPLORERS)
    paper_explorers = {name for name, entry in EXPLORERS.items() if not entry.is_reconstruction}
    assert set(shell.json("explorers")) == paper_explorers == set(hf.explorers())
    assert shell.json("explorers hf-ucrl-rfe++")["options"]["lazy"] == 0.5
    assert "search with a smaller radius" in shell.json("explorers hf-ucrl-rfe++")["meanings"]["homotopy"]
    for line in ("problems", "problems river-swim", "explorers", "explorers ucrl-vtr"):
        code, out, _ = shell(line)
        assert code == 0
        assert len(out.splitlines()) > 3


def test_every_option_of_an_explorer_is_explained(shell: Shell, subtests: pytest.Subtests) -> None:
    for name in EXPLORERS:
        with subtests.test(name):
            meanings = hf.explorers(all=True)[name]["meanings"]
            assert meanings.keys() == hf.explorers(all=True)[name]["options"].keys()
            code, out, _ = shell(f"explorers {name}")
            assert code == 0
            for option, meaning in meanings.items():
                assert re.search(rf"^{option} .* {re.escape(meaning)}\s*$", out, re.MULTILINE), option


def test_every_number_of_a_certificate_is_explained(shell: Shell) -> None:
    """In the table that is shown."""
    shell.json(f"explore {TINY} --explorer hf-ucrl-rfe++ --opt oracle=relaxed --episodes 2 --out a")
    shell.json(f"explore {TINY} --explorer ucrl-rfe --episodes 2 --out b")
    table = np.random.default_rng(0).dirichlet(np.ones(3), (3, 2))
    hf.explore(hf.Tabular.from_table(table, horizon=3), "uniform", episodes=5, out="c", progress=False)
    for name, out in (("rf-ucrl", "d"), ("rf-express", "e")):
        hf.explore(hf.Tabular.from_table(table, horizon=3), name, episodes=5, out=out, progress=False)
    features = hf.LinearMDP.from_features(table, horizon=3, mu=np.eye(3))
    hf.explore(features, "wang2020", episodes=5, constants="paper", out="f", progress=False)
    river = hf.make("river-swim", states=3, horizon=3)
    hf.explore(river, "hf-ucrl-rfe++", episodes=5, sets="likelihood", out="g", progress=False)
    explained = set()
    for line in (
        "certify a --method direct",
        "certify a --method paper",
        "certify b --method paper",
        "certify a --rewards goals",
        "certify a --misspecification .01",
        "certify a --alternatives",
        "certify c",
        "certify d --method paper",
        "certify e --method paper",
        "certify f",
        "certify f --method paper",
        "certify g --method paper",
    ):
        out = shell(f"{line} --verbose")[1]
        parts = [*shell.json(line)["parts"]]
        for part in parts if "worst" in parts else ["gap", "delta", *parts]:
            state = r"(: that of state \d+)?" if part == "worst" else ""
            assert re.search(rf"^{part} .* {re.escape(MEANINGS[part])}{state}\s*$", out, re.MULTILINE), part
            explained.add(part)
    assert explained == set(MEANINGS)


def examples(name: str) -> list[str]:
    """The commands after a prompt in a page of the documentation."""
    text = (DOCS / name).read_text().replace("\\\n", " ")
    return re.findall(r"^\$ horizonfree (.*)$", text, re.MULTILINE)


@pytest.fixture
def _no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison's explorers in this process, which batch/test_compare.py compares with processes of their own."""

    def in_process(tasks, *_):
        return ((label, comparing._run_task(task)) for label, task in tasks.items())

    monkeypatch.setattr(comparing, "_in_processes", in_process)


@pytest.mark.usefixtures("_no_workers")
@pytest.mark.parametrize("page", ["command-line.md", "runs.md"])
def test_every_command_of_the_documentation_works(page: str, shell: Shell) -> None:
    np.save("reward.npy", np.full(64, 0.05))
    np.savetxt("cost.csv", np.arange(64.0))
    np.savetxt("danger.csv", np.eye(64)[9])
    np.savetxt("mine.csv", np.ones((1, 64)), delimiter=",", fmt="%d")
    Path("settings.toml").write_text(toml_block())
    lines = examples(page)
    assert lines
    for line in lines:
        code, _, err = shell(line)
        assert code == 0, f"{line}: {err}"


def test_the_python_of_the_documentation_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "runs.md").read_text(), re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    assert names["run"].episodes == hf.load("runs/copy").episodes == 50


def toml_block() -> str:
    """The settings file that the documentation shows."""
    text = (DOCS / "command-line.md").read_text()
    match = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert match
    return match[1]
