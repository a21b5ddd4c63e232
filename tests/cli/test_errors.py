"""What the command line says to bad input: one line with what is wrong, which value it is, and what to do."""

import re
import shlex
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.cli import app
from tests.shell import TINY, Shell

BAD = {
    "explore zoned-gird --episodes 3": "did you mean 'zoned-grid'",
    "explore": "name a problem",
    "explore zoned-grid": "give --episodes 300, or --until-eps",
    "explore zoned-grid --episodes 0": "episodes is 0; it must be a whole number of at least 1",
    "explore zoned-grid --episodes many": "'--episodes': 'many' is not a whole number; write it in digits",
    "explore zoned-grid --episodes 3 --seed -1": "seed is -1",
    "explore zoned-grid --episodes 3 --explorer optimal-desing": "did you mean 'optimal-design'",
    "explore zoned-grid --episodes 3 --opt scale=2": "has no option 'scale'",
    "explore zoned-grid --episodes 3 --explorer hf-ucrl-rfe++ --opt scale=big": "scale is 'big'",
    "explore zoned-grid --episodes 3 --explorer hf-ucrl-rfe++ --opt delta=0.1": "--delta",
    "explore zoned-grid --episodes 3 --param size=1": "size is 1; it must be an integer from 2 to 200 (cells",
    "explore zoned-grid --episodes 3 --param size": "write it as --param name=value",
    "explore zoned-grid --episodes 3 --settings nothing.toml": "No such file",
    "explore zoned-grid --episodes 3 --settings bad.toml": "there is no setting 'epsodes'",
    "explore zoned-grid --episodes 3 --settings odd.toml": "seed is 'one'; it must be of type int",
    "explore zoned-grid --episodes 3 --out .": "is not an empty folder",
    "explore zoned-grid --resume nothing": "cannot change",
    "explore --resume nothing": "is not a folder",
    "explore zoned-grid --until-eps 2": "until_eps is 2",
    "explore --bogus": "--bogus",
    "plan nothing --goal 3": "is not a folder",
    "plan .": "holds no run",
    "certify nothing": "is not a folder",
    "problems zoned": "there is no problem 'zoned'",
    "explorers unifrom": "did you mean 'uniform'",
    "theory --delta 2": "delta is 2",
    "compare nothing": "is not a folder",
    "explore zoned-grid --episodes 99999999999999999999": "the largest whole number is 9223372036854775807",
    "explore zoned-grid --episodes 3 --param name=x": "has no parameter 'name'",
    "explore zoned-grid --episodes 3 --opt name=x": "has no option 'name'",
    "explore zoned-grid --episodes 3 --save-episodes 0": "save_episodes is 0",
    "explore zoned-grid --episodes 3 --save-seconds nan": "save_seconds is nan",
    "explore zoned-grid --episodes 3 --save-seconds -1": "save_seconds is -1",
    "explore zoned-grid --episodes 3 --settings null.toml": "out is 'a\\x00b'; names must not contain a null character",
    "explore zoned-grid --episodes 3 --out ~nosuchuser/x": "'~nosuchuser/x' cannot be a folder",
    f"explore zoned-grid --episodes 3 --out {'x' * 300}": "File name too long",
    "explore zoned-grid --episodes 3 --reward empty.npy": "empty.npy is not a .npy file",
    "explore --resume nothing --delta 0.3": "--delta belongs to --until-eps or --episodes",
    "explore --resume nothing --episodes 2 --goal 3": "--goal and --reward belong to --until-eps",
    "explore --resume nothing --settings fine.toml": "settings cannot change",
    "certify ~nosuchuser/x": "'~nosuchuser/x' cannot be a folder",
    f"certify {'x' * 300}": "File name too long",
    "compare nothing --episodes 3": "--episodes belongs to --problem",
    "compare nothing --problem zoned-grid": "compare runs, or explore a problem, not both",
    "compare --problem zoned-grid --workers 0": "workers is 0",
    "compare --problem zoned-grid --seeds 0": "seeds is 0",
    "compare --problem zoned-grid --param name=x": "has no parameter 'name'",
    "compare --problem zoned-grid --out empty.npy": "empty.npy: there is a file where a folder should be",
    "compare --problem zoned-grid --out other": "other holds a run",
    "bogus": "there is no command 'bogus'; choose one of: tour, problems, explorers, explore, plan",
    "--bogus": "No such option: --bogus; usage: horizonfree [OPTIONS] COMMAND",
    "explore zoned-grid --episodes 1e3": "'--episodes': '1e3' is not a whole number; write it in digits only",
    "explore zoned-grid --until-eps few": "'--until-eps': 'few' is not a number; write it in digits",
    "plan nothing --horizon x": "'--horizon': 'x' is not a whole number",
    "plan --json": "Missing argument 'RUN'; usage: horizonfree plan [OPTIONS] RUN (see --help)",
    "serve": "Missing argument 'RUN'; usage: horizonfree serve [OPTIONS] RUN",
    "plan nothing extra": "extra argument(s) (extra); usage: horizonfree plan [OPTIONS] RUN",
    "theory --d 2.5": "'--d': '2.5' is not a whole number; write it in digits only, such as 1000",
    "theory --eps abc": "'--eps': 'abc' is not a number; write it in digits, such as 0.05",
    "theory --K": "'--K' requires an argument",
    "robustness a --reward \ud800": "'\\ud800' is not text: it contains half of a surrogate pair",
}


def test_bad_input_is_one_clear_line_and_exit_code_two(shell: Shell, subtests: pytest.Subtests) -> None:
    Path("bad.toml").write_text("epsodes = 3")
    Path("odd.toml").write_text('seed = "one"')
    Path("null.toml").write_text(r'out = "a\u0000b"')
    Path("fine.toml").write_text("seed = 4")
    Path("empty.npy").touch()
    Path("other").mkdir()
    Path("other/run.json").touch()
    for line, message in BAD.items():
        with subtests.test(ascii(line[:100])):  # execnet sends no lone surrogates
            code, out, err = shell(line)
            assert code == 2
            assert out == ""
            last = err.splitlines()[-1]
            assert last.startswith("horizonfree: error: ")
            assert message in last
            assert "Traceback" not in err
            assert not Path("runs").exists()


def test_a_bad_reward_is_named(shell: Shell) -> None:
    shell.json(f"explore {TINY} --explorer uniform --episodes 2 --out a")
    np.save("object.npy", np.array([{}]), allow_pickle=True)
    np.save("short.npy", np.zeros(3))
    Path("text.npy").write_text("hello")
    Path("empty.npy").touch()
    Path("zip.npy").write_bytes(b"PK\x03\x04 and so on")
    np.savez("several", np.zeros(9))
    Path("several.npz").rename("several.npy")
    np.save("huge.npy", np.zeros(100_000))
    Path("huge.npy").write_bytes(
        Path("huge.npy").read_bytes().replace(b"(100000,), }         ", b"(100000000000000,), }")
    )
    for name, message in {
        **dict.fromkeys(("empty", "zip", "several", "huge"), "not a .npy file"),
        "object": "not a .npy file",
        "short": "shape (3,)",
        "text": "not a .npy file",
        "no": "No such",
    }.items():
        code, _, err = shell(f"plan a --reward {name}.npy")
        assert code == 2
        assert message in err
    assert (
        shell("plan a")[0]
        == shell("plan a --goal 1 --stay 2")[0]
        == shell("plan a --goal 1 --reward short.npy")[0]
        == 2
    )
    assert "states are 0 to 8" in shell("plan a --goal 9")[2]


CANNOT_BE_WRITTEN = [
    "plan a --goal 1 --out a",
    "plan a --goal 1 --out ''",
    "report a --out a",
    "report a --out ''",
    "report a --out /proc/x.html",
    "report a --out plain/x.html",
    f"report a --out {'x' * 300}",
    "report a --figures plain",
    "compare a --out a",
]


def test_what_cannot_be_written_is_one_line_that_names_it(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Reports are refused before anything is computed."""
    for option in ("facts", "page"):
        monkeypatch.setattr(f"horizonfree.report.{option}.compute_facts", None)
    hf.explore(hf.make("river-swim", states=3, horizon=3), "uniform", episodes=2, out="a")
    Path("plain").touch()
    for line in CANNOT_BE_WRITTEN:
        with subtests.test(ascii(line[:100])):  # execnet sends no lone surrogates
            code, _, err = shell(line)
            assert code == 2
            (last,) = err.splitlines()
            option = shlex.split(line)[-1] or "."
            assert last.startswith(
                (f"horizonfree: error: {option}: ", f"horizonfree: error: policy {option}: ")
            )


def test_without_a_word_there_is_help_and_a_reason(shell: Shell) -> None:
    for line in ("", "plan"):
        code, out, err = shell(line)
        assert code == 2
        assert "Usage: horizonfree" in out
        assert err == "horizonfree: error: give a command; the help above lists them\n"


def test_a_mistake_of_ours_is_shown_in_full(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("about no file")

    monkeypatch.setattr(hf, "load", fail)
    with pytest.raises(OSError, match="about no file"):
        shell.run("certify a")


PYTHON = re.compile(r"\w\(.*\)|\w=['\"]")


def test_errors_about_folders_fit_the_command_line_and_python(shell: Shell) -> None:
    hf.explore(hf.make("river-swim", states=3, horizon=3), "uniform", episodes=2, out="a")
    for line, advice in {
        "plan nothing --goal 1": "give one that a run was explored or saved into",
        f"explore {TINY} --episodes 2 --out a": "resume it, or choose another folder",
    }.items():
        code, _, err = shell(line)
        last = err.splitlines()[-1]
        assert code == 2
        assert last.endswith(advice)
        assert not PYTHON.search(last)


MISSPELT = {
    "explor": "there is no command 'explor'; did you mean 'explore'?",
    "explore --epsiodes 3": "there is no option --epsiodes (did you mean --episodes?)",
    "certify a --rewards goal": "--rewards goal: did you mean 'goals'?",
    "certify a --method unifrm": "did you mean 'uniform'?",
    "plan a --goal 1 --model explorr": "did you mean 'explorer'?",
    "plan a --goal 1 --scale resale": "did you mean 'rescale'?",
    "explore --settings s.toml": "there is no setting 'episods'; did you mean 'episodes'?",
}


def test_a_misspelt_word_is_answered_with_what_was_meant(shell: Shell, subtests: pytest.Subtests) -> None:
    hf.explore(hf.make("river-swim", states=3, horizon=3), "uniform", episodes=2, out="a")
    Path("s.toml").write_text("episods = 3\n")
    for line, message in MISSPELT.items():
        with subtests.test(line):
            code, _, err = shell(line)
            assert code == 2
            assert message in err


def test_an_end_that_is_none_is_refused_before_anything_is_said(shell: Shell) -> None:
    code, _, err = shell("explore river-swim --episodes 0")
    assert code == 2
    assert err == "horizonfree: error: episodes is 0; it must be a whole number of at least 1\n"


def test_settings_that_are_nested_too_deeply_are_refused(shell: Shell, subtests: pytest.Subtests) -> None:
    for name, text in {
        "lists": "x = " + "[" * 100_000,
        "tables": "x = " + "{a=" * 100_000,
        "names": "[" + "a." * 2_000 + "a]",
    }.items():
        with subtests.test(name):
            Path("deep.toml").write_text(text)
            code, out, err = shell("explore zoned-grid --episodes 1 --settings deep.toml")
            assert (code, out) == (2, "")
            assert len(err) < 400
            assert err.startswith("horizonfree: error: settings deep.toml")


def test_deprecations_inside_dependencies_are_not_printed(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(**_: Any) -> None:
        warnings.warn("an old name", DeprecationWarning, stacklevel=2)
        warnings.warn("a damaged file", UserWarning, stacklevel=2)

    monkeypatch.setattr(app, "app", command)
    assert shell("tour") == (0, "", "horizonfree: note: a damaged file\n")
