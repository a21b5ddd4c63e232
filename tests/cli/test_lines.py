"""Random command lines succeed or end with an error of one line."""

import contextlib
import io
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import horizonfree as hf
from horizonfree.cli.app import run as command_line
from tests.reference.nonsense import QUICK, RARELY

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the lines are typed; a run lies there."""
    path = tmp_path_factory.mktemp("lines")
    hf.explore(
        hf.make("river-swim", states=3, horizon=3), "uniform", episodes=1, out=path / "a", progress=False
    )
    return path


WORDS = [
    "",
    "x",
    "0",
    "-1",
    "1e3",
    "nan",
    "inf",
    "-inf",
    "99999999999999999999",
    "0.5",
    "1_0",
    "é",
    "[b]",
    "{}",
    "%s",
    "a=b",
]
WORDS += [
    "=",
    "--",
    "-",
    "--json",
    "--help",
    "--goal",
    "\\",
    "'",
    "$HOME",
    "~nobody/x",
    ".",
    "/",
    "\udc80",  # a byte that is not UTF-8
    "\ud800",  # a lone surrogate, which comes from no shell
    "9" * 5000,
]
FLAGS = {
    "problems": ["--json", "--bogus"],
    "explorers": ["--json", "-x"],
    "theory": ["--d", "--H", "--B", "--eps", "--delta", "--K", "--scale", "--as-printed", "--json"],
    "plan": ["--goal", "--stay", "--reward", "--scale", "--delta", "--model", "--json"],
    "certify": ["--delta", "--method", "--misspecification", "--json"],
    "robustness": ["--target", "--goal", "--reward", "--delta", "--json"],
    "explore": ["--explorer", "--seed", "--param", "--opt", "--delta", "--budget", "--goal", "--reward", "--settings"]
    + ["--resume", "--until-eps", "--save-episodes", "--save-seconds", "--json"],
}  # fmt: skip
FIRST = {"plan": "a", "certify": "a", "robustness": "a"}
LAST = {"explore": ["--episodes", "none"]}  # so that nothing is ever explored


def check(command: str, folder: Path, data: st.DataObject) -> None:
    flag = st.tuples(st.sampled_from(FLAGS[command]), st.sampled_from(WORDS)).map(list)
    parts = data.draw(st.lists(flag | st.sampled_from(WORDS).map(lambda x: [x]), max_size=3))
    first = data.draw(st.just(FIRST.get(command, "river-swim")) | st.sampled_from(WORDS))
    line = [command, first, *(word for part in parts for word in part), *LAST.get(command, [])]
    out, err = io.StringIO(), io.StringIO()
    old_argv, sys.argv = sys.argv, ["horizonfree", *line]
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = command_line()
    finally:
        sys.argv = old_argv
    assert code in (0, 2), line
    assert "Traceback" not in err.getvalue()
    if code == 2:
        assert err.getvalue().splitlines()[-1].startswith("horizonfree: error: "), line


def try_lines(command: str, folder: Path, examples: settings) -> None:
    @examples
    @given(data=st.data())
    def run_line(data: st.DataObject) -> None:
        check(command, folder, data)

    run_line()


def test_any_line_is_answered_or_refused_in_a_line(folder: Path, subtests: pytest.Subtests) -> None:
    for command in FLAGS:
        with subtests.test(command):
            try_lines(command, folder, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("command", FLAGS)
def test_many_lines_are_answered_or_refused_in_a_line(command: str, folder: Path) -> None:
    try_lines(command, folder, RARELY)
