"""The command line, driven as a person would."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pexpect
import pytest
from rich.console import Console

import horizonfree as hf
from horizonfree.cli import tour
from horizonfree.cli._shared import console
from horizonfree.guarantees.certificate import Certificate
from tests.shell import COMMAND, TINY, Shell


def test_folders_of_outputs_are_made(shell: Shell) -> None:
    shell.json(f"explore {TINY} --explorer uniform --episodes 2 --out new/runs/a")
    shell.json("plan new/runs/a --goal 1 --out new/policies/p.npy")
    shell.json("report new/runs/a --out new/pages/a.html --figures new/figures/a")
    shell.json("compare new/runs/a --out new/comparisons/a.html")
    assert np.load("new/policies/p.npy").shape == (4, 9)
    assert Path("new/pages/a.html").exists()
    assert Path("new/comparisons/a.html").exists()
    assert any(Path("new/figures/a").iterdir())


@pytest.mark.parametrize("start", [[COMMAND], [sys.executable, "-m", "horizonfree"]])
def test_the_module_is_the_command(start: list[str]) -> None:
    done = subprocess.run([*start, "--help"], capture_output=True, text=True, check=True)
    assert "Usage: horizonfree" in done.stdout
    assert " explore " in done.stdout


def test_theory_prints_the_table(shell: Shell) -> None:
    output = shell.json("theory --d 4 --H 10 --B 2 --delta 0.1 --K 1000 --eps 0.1")
    assert output["beta"]["value"] == pytest.approx(
        hf.theory.beta(1000, 4, 10, 2.0, 0.1, hf.theory.moment_orders(1000, 10))
    )
    assert "confidence radius" in shell("theory --K 1000")[1]


def test_from_exploration_to_plan_certificate_report_and_comparison(shell: Shell) -> None:
    output = shell.json(f"explore {TINY} --episodes 40 --seed 1 --out runs/a")
    run = hf.load("runs/a")
    assert output["episodes"] == run.episodes == 40
    assert output["certificate"]["eps"] == pytest.approx(run.certificate().eps)
    assert run.seed == 1

    plan = shell.json("plan runs/a --goal 8 --out policy.npy")
    goal_plan = run.plan(hf.goal(run.problem, 8))
    assert plan["value"] == pytest.approx(goal_plan.value)
    assert plan["gap"] == pytest.approx(goal_plan.gap)
    np.testing.assert_array_equal(np.load("policy.npy"), goal_plan.policy)
    np.testing.assert_array_equal(plan["policy"], goal_plan.policy)
    np.save("reward.npy", hf.goal(run.problem, 8))
    assert shell.json("plan runs/a --reward reward.npy") == plan
    assert shell.json("plan runs/a --stay 4")["value"] == pytest.approx(
        run.plan(hf.occupancy(run.problem, 4)).value
    )
    assert "certified" in shell("plan runs/a --goal 8")[1]

    assert shell.json("certify runs/a --delta 0.2")["eps"] == pytest.approx(run.certificate(0.2).eps)
    assert "every reward r_h" in shell("certify runs/a")[1]

    assert shell.json("explore --resume runs/a --episodes 10")["episodes"] == 50
    code, out, err = shell(f"explore {TINY} --explorer uniform --episodes 20 --out runs/b")
    assert code == 0
    assert "horizonfree plan runs/b --goal 4" in out
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


def test_names_are_shown_as_they_are_and_can_be_pasted(shell: Shell) -> None:
    name = "[red]x[/red] :smile: [/]"
    code, out, _ = shell(f"explore {TINY} --explorer uniform --episodes 2 --out '{name}'")
    assert code == 0
    assert f"horizonfree plan '{name}' --goal 4" in out
    assert f"policy written to {name}/p.npy\n" in shell(f"plan '{name}' --goal 8 --out '{name}/p.npy'")[1]
    assert np.load(f"{name}/p.npy").shape == (4, 9)
    assert name in shell(f"compare '{name}'")[1]


@pytest.mark.parametrize("gap", [5.551e-17, -5.551e-17])
def test_what_is_rounding_is_shown_as_no_loss(
    gap: float, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    hf.explore(hf.make("river-swim", states=3, horizon=3), "uniform", episodes=2, out="a")
    monkeypatch.setattr(hf, "true_gap", lambda *_, **__: gap)
    assert shell.json("plan a --goal 2")["true_loss"] == 0
    row = {"run": "a", "explorer": "uniform", "episodes": 2, "certified_gap": 1.0, "worst_true_gap": gap}
    rows = [row | {"goals": 9, "goals_scored": 9, "goals_gap": 1.0}]
    monkeypatch.setattr("horizonfree.report.page.facts_of_runs", lambda *_: {})
    monkeypatch.setattr("horizonfree.report.page.rows_of", lambda _: rows)
    assert shell.json("compare a")["runs"][0]["worst_true_gap"] == 0
    parts = [("uniform", [{"explorer": "uniform", "seed": 0, "episodes": 2, "eps": 1.0, "gap": gap}])]
    monkeypatch.setattr("horizonfree.batch.compare.compare_in_processes", lambda *_, **__: parts)
    assert shell.json("compare --problem zoned-grid")["explorers"][0]["worst_true_gap"] == 0


@pytest.mark.parametrize(
    ("goals", "title"),
    [
        ([(9, 9), (64, 64)], "true, worst goal"),
        ([(None, 9)], "true, worst goal"),
        ([(64, 100), (64, 64), (None, 9)], "true, worst of 64 goals"),
        ([(64, 100), (9, 9)], "true, worst goal evaluated"),
    ],
)
def test_a_comparison_says_of_how_many_goals_a_gap_is_the_worst(
    goals: list[tuple[int | None, int]], title: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    hf.explore(hf.make("river-swim", states=3, horizon=3), "uniform", episodes=2, out="a")
    row = {"run": "a", "explorer": "uniform", "episodes": 2, "certified_gap": 1.0, "worst_true_gap": 0.5}
    rows = [
        row | {"goals_scored": num_scored, "goals": num_goals, "goals_gap": 0.5}
        for num_scored, num_goals in goals
    ]
    monkeypatch.setattr("horizonfree.report.page.facts_of_runs", lambda *_: {})
    monkeypatch.setattr("horizonfree.report.page.rows_of", lambda _: rows)
    assert shell("compare a")[1].splitlines()[0].endswith(title)


def test_the_truth_of_a_real_environment_is_not_known(shell: Shell) -> None:
    problem = hf.make("river-swim", states=3, horizon=3)
    hf.explore(problem.to_gymnasium(), "uniform", known=problem, episodes=2, out="a")
    assert "true_loss" not in shell.json("plan a --goal 2")
    assert "true suboptimality" not in shell("plan a --goal 2")[1]


def test_the_folder_that_one_stands_in_can_hold_the_run(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("x").mkdir()
    monkeypatch.chdir("x")
    code, out, err = shell(f"explore {TINY} --explorer uniform --episodes 2 --out .")
    assert code == 0, err
    assert "horizonfree plan . --goal 4" in out
    assert shell.json("certify .")["episodes"] == 2


def test_a_run_can_be_made_from_a_folder_that_is_gone(shell: Shell, tmp_path: Path) -> None:
    Path("x").mkdir()
    command = f"cd x && rmdir ../x && {COMMAND} explore {TINY} --explorer uniform --episodes 2 --out"
    done = subprocess.run(
        ["bash", "-c", f"{command} {tmp_path}/a"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"horizonfree plan {tmp_path}/a --goal 4" in done.stdout
    Path("x").mkdir()
    done = subprocess.run(["bash", "-c", f"{command} b"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "'b' cannot be a folder: No such file or directory" in done.stderr.splitlines()[-1]


@pytest.mark.usefixtures("undrawn")
def test_a_report_goes_where_its_run_is(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    shell(f"explore {TINY} --explorer uniform --episodes 2 --out a")
    assert shell.json("report '~/a'")["report"] == str(tmp_path / "a" / "report.html")


def test_a_damaged_checkpoint_is_a_note(shell: Shell) -> None:
    shell.json(f"explore {TINY} --explorer uniform --episodes 6 --save-episodes 2 --out a")
    path = Path("a/checkpoint-0000000006.npz")
    path.write_bytes(path.read_bytes()[:-1])
    code, _, err = shell("certify a")
    assert code == 0
    assert re.search(r"horizonfree: note: .*damaged.*read up to episode 4", err)


def test_on_a_terminal_progress_is_live_and_control_c_saves(tmp_path: Path) -> None:
    env = os.environ | {"TERM": "xterm"}
    line = f"explore {TINY} --until-eps 0.0001 --out a"
    child = pexpect.spawn(
        f"{COMMAND} {line}", cwd=tmp_path, env=env, encoding="utf-8", timeout=120, dimensions=(30, 140)
    )
    child.expect(r"64 states|9 states")
    child.expect(r"episode \d+/~?\d+.*suboptimality at most \d\.\d+, target 0\.0001.*left")
    child.sendintr()
    child.expect(r"stopped after episode [\d,]+, saved in a; resume with:\s+horizonfree explore --resume a")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    run = hf.load(tmp_path / "a")
    assert 0 < run.episodes == len(run.records["information"])
    assert run.until is not None
    assert run.until.until_eps == 0.0001


def test_whoever_closes_the_pipe_early_gets_no_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {COMMAND} problems --json | head -c 1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_tour_shows_values_and_gaps_beside_the_truth(shell: Shell) -> None:
    """A plan beyond its gap would have probability at most 0.05 for each of the two explorers; the seeds are fixed."""
    output = shell.json("tour --out t")
    for plans in output["plans"].values():
        for name in ("optimal-design", "hf-ucrl-rfe++"):
            assert plans[name]["true_loss"] <= plans[name]["gap"] + 1e-9
            assert abs(plans[name]["value"] - plans["best"]) < 0.1
            assert (
                plans[name]["value_low"]
                <= plans["best"] - plans[name]["true_loss"]
                <= plans[name]["value_high"]
            )
    for found_by in output["certificates"].values():
        assert found_by["goals"]["summary"].startswith("all 64 goals: suboptimality at most ")
        assert found_by["goals"]["eps"] <= found_by["every_reward"]["eps"]
        assert "more episodes" in found_by["every_reward"]["forecast"]
    assert Path(output["report"]).stat().st_size > 10_000
    assert Path(output["comparison"]).stat().st_size > 10_000
    assert hf.load(output["runs"]["optimal-design"]).episodes == 300
    code, out, _ = shell("tour --out u")
    assert code == 0
    text = " ".join(out.split())  # without the breaks of lines
    assert all(
        word in text
        for word in (
            "upper bound on the suboptimality",
            "true suboptimality",
            "report.html",
            "horizonfree serve",
        )
    )
    assert 0 < out.index("all 64 goals: suboptimality") < out.index("every reward r_h(s, a)")
    assert "95% confidence" in out
    assert "…" not in out


@pytest.mark.parametrize("width", [60, 100])
def test_tables_fit_narrow_terminals(width: int, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison of runs, and what the tour says of certificates and plans."""
    shell.json(f"explore {TINY} --explorer uniform --episodes 4 --out a")
    monkeypatch.setattr(console, "width", width)
    out = shell("compare a")[1]
    assert max(map(len, out.splitlines())) <= width
    assert "certified, every reward" in out
    screen = Console(width=width, record=True, file=io.StringIO())
    certificate = Certificate(
        0.5,
        0.05,
        "x",
        "suboptimality at most 0.5 (95% confidence, any stopping time)",
        {},
        forecast="0.2 needs more",
    )
    numbers = {"value": 0.5, "value_low": 0.4, "value_high": 0.6, "gap": 0.1, "true_loss": 0.01}
    tour._print_certificates(
        screen, {name: {"goals": certificate, "every_reward": certificate} for name in tour.EXPLORERS}
    )
    screen.print(tour._plans(dict.fromkeys(tour.EXPLORERS, numbers)))
    tour._close(screen, Path("runs/tour"))
    text = screen.export_text()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert "[0.40, 0.60]" in text
    assert "   cd runs/tour\n   horizonfree explore --resume optimal-design --episodes 50\n" in text


def test_serve_tells_machines_where_it_is(shell: Shell) -> None:
    """Standard output is one JSON object, with the port that was free; Ctrl-C ends it."""
    shell(f"explore {TINY} --explorer uniform --episodes 2 --out a")
    command = [str(COMMAND), "serve", "a", "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    message = json.loads(process.stdout.readline())
    assert httpx.get(message["address"]).status_code == 200
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert err.endswith("Stopped.\n")
