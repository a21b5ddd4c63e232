"""The command line, driven as a person would."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pexpect
import pytest

import horizonfree as hf
from horizonfree.cli import main
from horizonfree.explorers import EXPLORERS

HERE = Path(__file__).parent
COMMAND = Path(sys.executable).with_name("horizonfree")
COMMANDS = [
    "tour",
    "problems",
    "explorers",
    "explore",
    "plan",
    "certify",
    "report",
    "compare",
    "serve",
    "theory",
]
TINY = "zoned-grid --param size=3 --param zones=1 --param horizon=4"


class Shell:
    """A prompt in an empty folder: `shell("problems --json")` gives the exit code, the output and the errors."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capsys, self.monkeypatch = capsys, monkeypatch

    def __call__(self, line: str) -> tuple[int, str, str]:
        self.capsys.readouterr()
        self.monkeypatch.setattr(sys, "argv", ["horizonfree", *shlex.split(line)])
        with pytest.raises(SystemExit) as stop:
            main()
        said = self.capsys.readouterr()
        return int(stop.value.code or 0), said.out, said.err

    def json(self, line: str) -> Any:
        code, out, err = self(f"{line} --json")
        assert code == 0, err
        return json.loads(out)


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("DIR", "MIN_ENTRY_SIZE_BYTES"):
        monkeypatch.setenv(f"JAX_COMPILATION_CACHE_{name}", "")
    return Shell(capsys, monkeypatch)


def test_help_comes_without_loading_what_is_heavy() -> None:
    code = (
        "import sys, horizonfree.cli\n"
        "heavy = {'jax', 'numpy', 'scipy', 'numba', 'matplotlib', 'gymnasium'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, shell: Shell) -> None:
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
    assert set(shell.json("explorers")) == set(EXPLORERS)
    assert shell.json("explorers hf-ucrl-rfe++")["options"]["lazy"] == 0.5
    for line in ("problems", "problems river-swim", "explorers", "explorers ucrl-vtr"):
        code, out, _ = shell(line)
        assert code == 0
        assert len(out.splitlines()) > 3


def test_theory_prints_the_table(shell: Shell) -> None:
    found = shell.json("theory --d 4 --H 10 --B 2 --delta 0.1 --K 1000 --eps 0.1")
    assert found["beta"]["value"] == pytest.approx(
        hf.theory.beta(1000, 4, 10, 2.0, 0.1, hf.theory.moment_orders(1000, 10))
    )
    assert "confidence radius" in shell("theory --K 1000")[1]


def test_from_exploration_to_plan_certificate_report_and_comparison(shell: Shell) -> None:
    made = shell.json(f"explore {TINY} --episodes 40 --seed 1 --out runs/a")
    run = hf.load("runs/a")
    assert made["episodes"] == run.episodes == 40
    assert made["certificate"]["eps"] == pytest.approx(run.certificate().eps)
    assert run.seed == 1

    plan = shell.json("plan runs/a --goal 8 --policy policy.npy")
    own = run.plan(hf.goal(run.problem, 8))
    assert plan["value"] == pytest.approx(own.value)
    assert plan["gap"] == pytest.approx(own.gap)
    np.testing.assert_array_equal(np.load("policy.npy"), own.policy)
    np.testing.assert_array_equal(plan["policy"], own.policy)
    np.save("reward.npy", hf.goal(run.problem, 8))
    assert shell.json("plan runs/a --reward reward.npy") == plan
    assert shell.json("plan runs/a --stay 4")["value"] == pytest.approx(
        run.plan(hf.occupancy(run.problem, 4)).value
    )
    assert "certified gap" in shell("plan runs/a --goal 8")[1]

    assert shell.json("certify runs/a --delta 0.2")["eps"] == pytest.approx(run.certificate(0.2).eps)
    assert "for every reward" in shell("certify runs/a")[1]

    assert shell.json("explore --resume runs/a --episodes 10")["episodes"] == 50
    code, out, err = shell(f"explore {TINY} --explorer uniform --episodes 20 --out runs/b")
    assert code == 0
    assert "horizonfree plan runs/b --goal 8" in out
    assert "episode 20 of 20" in err  # plain lines, as this is no terminal

    assert shell.json("report runs/a")["report"].endswith("report.html")
    assert Path("runs/a/report.html").stat().st_size > 1_000
    rows = shell.json("compare runs/a runs/b --out both.html")["runs"]
    assert [row["episodes"] for row in rows] == [50, 20]
    assert Path("both.html").exists()


def test_options_reach_problem_and_explorer_and_are_written_into_the_run(shell: Shell) -> None:
    Path("s.toml").write_text(
        'problem = "zoned-grid"\nexplorer = "ucrl-vtr"\nepisodes = 3\nseed = 4\ngoal = [8]\n'
        "[param]\nsize = 3\nzones = 3\nhorizon = 4\n[opt]\nscale = 2\n"
    )
    shell.json("explore --settings s.toml --param zones=1 --opt bias_scale=0.5 --episodes 5 --out runs/c")
    run = hf.load("runs/c")
    assert run.problem.recipe == {
        "name": "zoned-grid",
        "parameters": {"size": 3, "zones": 1, "horizon": 4, "seed": 0},
    }
    assert (run.explorer.scale, run.explorer.bias_scale, run.episodes, run.seed) == (2.0, 0.5, 5, 4)
    np.testing.assert_array_equal(run.explorer.reward, hf.goal(run.problem, 8))
    text = json.loads(Path("runs/c/run.json").read_text())
    assert text["explorer"]["options"]["scale"] == 2.0
    assert text["explorer"]["options"]["constants"] == "scaled"


def test_without_a_name_each_run_gets_a_folder_of_its_own(shell: Shell) -> None:
    for _ in range(2):
        shell.json(f"explore {TINY} --explorer uniform --episodes 2")
    assert sorted(x.name for x in Path("runs").iterdir()) == [
        "zoned-grid-uniform-0",
        "zoned-grid-uniform-0-2",
    ]


BAD = {
    "explore zoned-gird --episodes 3": "did you mean 'zoned-grid'",
    "explore": "say what to explore",
    "explore zoned-grid": "say how long to explore: --episodes",
    "explore zoned-grid --episodes 0": "episodes is 0; it must be a whole number of at least 1",
    "explore zoned-grid --episodes many": "'--episodes': Input should be a valid integer",
    "explore zoned-grid --episodes 3 --seed -1": "seed is -1",
    "explore zoned-grid --episodes 3 --explorer informaton": "did you mean 'information'",
    "explore zoned-grid --episodes 3 --opt scale=2": "has no option 'scale'",
    "explore zoned-grid --episodes 3 --explorer hf-ucrl-rfe++ --opt scale=big": "scale is 'big'",
    "explore zoned-grid --episodes 3 --explorer hf-ucrl-rfe++ --opt delta=0.1": "--delta",
    "explore zoned-grid --episodes 3 --param size=1": "size is 1; cells along a side: an integer from 2 to 200",
    "explore zoned-grid --episodes 3 --param size": "write it as --param name=value",
    "explore zoned-grid --episodes 3 --settings nothing.toml": "No such file",
    "explore zoned-grid --episodes 3 --settings bad.toml": "there is no setting 'epsodes'",
    "explore zoned-grid --episodes 3 --settings odd.toml": "seed is 'one'; it must be of type int",
    "explore zoned-grid --episodes 3 --out .": "is not an empty folder",
    "explore zoned-grid --resume nothing": "cannot change now",
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
    "explore zoned-grid --episodes 99999999999999999999": "less than or equal to 9223372036854775807",
    "explore zoned-grid --episodes 3 --param name=x": "has no parameter 'name'",
    "explore zoned-grid --episodes 3 --opt name=x": "has no option 'name'",
    "explore zoned-grid --episodes 3 --save-episodes 0": "save_episodes is 0",
    "explore zoned-grid --episodes 3 --save-seconds nan": "save_seconds is nan",
    "explore zoned-grid --episodes 3 --save-seconds -1": "save_seconds is -1",
    "explore zoned-grid --episodes 3 --settings null.toml": "out is 'a\\x00b'; a name holds no null character",
    "explore zoned-grid --episodes 3 --out ~nosuchuser/x": "'~nosuchuser/x' cannot be a folder",
    f"explore zoned-grid --episodes 3 --out {'x' * 300}": "File name too long",
    "explore zoned-grid --episodes 3 --reward empty.npy": "empty.npy is not a .npy file",
    "explore --resume nothing --delta 0.3": "--delta belongs to a new end",
    "explore --resume nothing --episodes 2 --goal 3": "--goal and --reward say what --until-eps is about",
    "explore --resume nothing --settings fine.toml": "settings cannot change now",
    "certify ~nosuchuser/x": "'~nosuchuser/x' cannot be a folder",
    f"certify {'x' * 300}": "File name too long",
    "compare nothing --episodes 3": "--episodes belongs to --problem",
    "compare nothing --problem zoned-grid": "compare runs, or explore a problem anew, not both",
    "compare --problem zoned-grid --workers 0": "workers is 0",
    "compare --problem zoned-grid --seeds 0": "seeds is 0",
    "compare --problem zoned-grid --param name=x": "has no parameter 'name'",
    "compare --problem zoned-grid --out empty.npy": "empty.npy: there is a file where a folder should be",
    "compare --problem zoned-grid --out other": "other holds a run",
    "bogus": "bogus",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_one_clear_line_and_exit_code_two(line: str, shell: Shell) -> None:
    Path("bad.toml").write_text("epsodes = 3")
    Path("odd.toml").write_text('seed = "one"')
    Path("null.toml").write_text(r'out = "a\u0000b"')
    Path("fine.toml").write_text("seed = 4")
    Path("empty.npy").touch()
    Path("other").mkdir()
    Path("other/run.json").touch()
    code, out, err = shell(line)
    assert code == 2
    assert out == ""
    last = err.splitlines()[-1]
    assert last.startswith("horizonfree: error: ")
    assert BAD[line] in last
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
    for name, words in {
        **dict.fromkeys(("empty", "zip", "several", "huge"), "not a .npy file"),
        "object": "not a .npy file",
        "short": "shape (3,)",
        "text": "not a .npy file",
        "no": "No such",
    }.items():
        code, _, err = shell(f"plan a --reward {name}.npy")
        assert code == 2
        assert words in err
    assert (
        shell("plan a")[0]
        == shell("plan a --goal 1 --stay 2")[0]
        == shell("plan a --goal 1 --reward short.npy")[0]
        == 2
    )
    assert "states are 0 to 8" in shell("plan a --goal 9")[2]


@pytest.mark.parametrize(
    "line",
    [
        "plan a --goal 1 --policy no/p.npy",
        "plan a --goal 1 --policy ''",
        "report a --out a",
        "report a --out ''",
        "report a --out /proc/x.html",
        "report a --out plain/x.html",
        f"report a --out {'x' * 300}",
        "report a --figures plain",
        "compare a --out a",
    ],
)
def test_what_cannot_be_written_is_one_line_that_names_it(line: str, shell: Shell) -> None:
    hf.explore(hf.make("river-swim", states=3, horizon=3), "uniform", episodes=2, out="a")
    Path("plain").touch()
    code, _, err = shell(line)
    assert code == 2
    (last,) = err.splitlines()
    assert last.startswith(f"horizonfree: error: {shlex.split(line)[-1] or '.'}: ")


def test_names_are_shown_as_they_are_and_can_be_pasted(shell: Shell) -> None:
    name = "[red]x[/red] :smile: [/]"
    code, out, _ = shell(f"explore {TINY} --explorer uniform --episodes 2 --out '{name}'")
    assert code == 0
    assert f"horizonfree plan '{name}' --goal 8" in out
    assert f"policy written to {name}/p\n" in shell(f"plan '{name}' --goal 8 --policy '{name}/p'")[1]
    assert np.load(f"{name}/p").shape == (4, 9)
    assert name in shell(f"compare '{name}'")[1]


def test_a_loss_is_never_shown_below_zero(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    hf.explore(hf.make("river-swim", states=3, horizon=3), "uniform", episodes=2, out="a")
    monkeypatch.setattr(hf, "true_gap", lambda *_, **__: -2.776e-17)
    assert shell.json("plan a --goal 2")["true_loss"] == 0


@pytest.mark.parametrize("line", ["", "plan"])
def test_without_a_word_there_is_help_and_a_reason(line: str, shell: Shell) -> None:
    code, out, err = shell(line)
    assert code == 2
    assert "Usage: horizonfree" in out
    assert err == "horizonfree: error: say what to do; the help above shows how\n"


@pytest.mark.usefixtures("shell")
def test_a_mistake_of_ours_is_shown_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("about no file")

    monkeypatch.setattr(hf, "load", fail)
    monkeypatch.setattr(sys, "argv", ["horizonfree", "certify", "a"])
    with pytest.raises(OSError, match="about no file"):
        main()


def test_a_damaged_checkpoint_is_a_note(shell: Shell) -> None:
    shell.json(f"explore {TINY} --explorer uniform --episodes 6 --save-episodes 2 --out a")
    path = Path("a/checkpoint-0000000006.npz")
    path.write_bytes(path.read_bytes()[:-1])
    code, _, err = shell("certify a")
    assert code == 0
    assert re.search(r"horizonfree: note: .*damaged.*read up to episode 4", err)


def test_on_a_terminal_progress_is_live_and_control_c_saves(tmp_path: Path) -> None:
    env = os.environ | {"TERM": "xterm", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    line = f"explore {TINY} --until-eps 0.0001 --out a"
    child = pexpect.spawn(
        f"{COMMAND} {line}", cwd=tmp_path, env=env, encoding="utf-8", timeout=120, dimensions=(30, 140)
    )
    child.expect(r"64 states|9 states")
    child.expect(r"\d+/~?\d+ episodes.*certified gap \d\.\d+, goal 0\.0001.*left")
    child.sendintr()
    child.expect(r"stopped after episode [\d,]+, saved in a; go on with:\s+horizonfree explore --resume a")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    run = hf.load(tmp_path / "a")
    assert 0 < run.episodes == len(run.rows["information"])
    assert run.goal is not None
    assert run.goal.until_eps == 0.0001


def test_whoever_closes_the_pipe_early_gets_no_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {COMMAND} problems --json | head -c 1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr


def examples(name: str) -> list[str]:
    """The commands after a prompt in a page of the documentation."""
    text = (HERE.parent / "docs" / name).read_text().replace("\\\n", " ")
    return re.findall(r"^\$ horizonfree (.*)$", text, re.MULTILINE)


@pytest.mark.parametrize("page", ["command-line.md", "runs.md"])
def test_every_command_of_the_documentation_works(page: str, shell: Shell) -> None:
    (HERE.parent / "docs" / page).read_text()
    np.save("reward.npy", np.full(64, 0.05))
    Path("settings.toml").write_text(toml_block())
    lines = examples(page)
    assert lines
    for line in lines:
        code, _, err = shell(line)
        assert code == 0, f"{line}: {err}"


def test_the_python_of_the_documentation_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (HERE.parent / "docs" / "runs.md").read_text(), re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    assert names["run"].episodes == hf.load("runs/copy").episodes == 50


@pytest.mark.slow
def test_the_tour_shows_values_and_gaps_beside_the_truth(shell: Shell) -> None:
    """A plan beyond its gap would have probability at most 0.05 for each of the two explorers; the seeds are fixed."""
    found = shell.json("tour --out t")
    for plans in found["plans"].values():
        for name in ("information", "hf-ucrl-rfe++"):
            assert plans[name]["true_loss"] <= plans[name]["gap"] + 1e-9
            assert abs(plans[name]["value"] - plans["best"]) < 0.1
    assert Path(found["report"]).stat().st_size > 10_000
    assert Path(found["comparison"]).stat().st_size > 10_000
    assert hf.load(found["runs"]["information"]).episodes == 300
    code, out, _ = shell("tour --out u")
    assert code == 0
    assert all(word in out for word in ("certified gap", "true loss", "report.html", "horizonfree serve"))


def toml_block() -> str:
    """The settings file that the documentation shows."""
    text = (HERE.parent / "docs" / "command-line.md").read_text()
    found = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert found
    return found[1]


def test_serve_tells_machines_where_it_is(shell: Shell) -> None:
    """Standard output is one JSON object, with the port that was free; Ctrl-C ends it."""
    shell(f"explore {TINY} --explorer uniform --episodes 2 --out a")
    command = [str(COMMAND), "serve", "a", "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    assert httpx.get(told["address"]).status_code == 200
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert err.endswith("Stopped.\n")
