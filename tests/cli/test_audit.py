"""From a raw log to a decision on the command line."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from tests.runs.test_log_rows import machines
from tests.shell import Shell

OPTIONS = "--columns episode=machine,step=week,state=status,action=order --missing drop --horizon 5"


@pytest.fixture
def files(shell: Shell) -> None:
    """A log with a hole, costs with a state that never occurs, and two policies."""
    rows = machines(60, 10)
    rows["status"][25] = ""
    tables = {
        "log.csv": [list(rows), *zip(*rows.values())],
        "cost.csv": [["state", "mend", "run"], ["good", 2, 0], ["fair", 3, 1], ["bad", 6, 4], ["lost", 9, 9]],
        "new.csv": [["state", "action"], ["good", "run"], ["fair", "run"], ["bad", "mend"]],
        "old.csv": [["state", "action"], *([x, "run"] for x in ("bad", "fair", "good"))],
    }
    for name, table in tables.items():
        with Path(name).open("w", newline="") as file:
            csv.writer(file).writerows(table)


def test_a_log_is_audited_and_kept_and_reported(shell: Shell, files: None) -> None:
    code, out, err = shell(
        f"audit log.csv {OPTIONS} --policy new.csv --incumbent old.csv --cost cost.csv --out a"
    )
    assert code == 0, err
    assert "there is no state 'lost'" in err
    for text in (
        "Proved: ",
        "Likely: the new policy is better with probability",
        "not proved: Bayesian",
        "old.csv",
    ):
        assert text in out
    assert re.search(r"bad +[\d.]+% +mend +run", out)
    assert "2 of 600 steps are incomplete or missing" in out
    assert "Tested: not refuted" in out
    assert "does not depend on the state that it led to" in out
    second = shell.json("audit a --policy new.csv --incumbent old.csv --cost cost.csv")
    assert second["difference"]["value"] < 0
    assert second["check"] is None
    decision = shell.json("report a --cost cost.csv --policy old.csv")["decision"]
    assert {x["state"]: (x["plan"], x["today"]) for x in decision["rows"]}["good"] == ("run", "run")
    page = Path("a/report.html").read_text()
    assert page.index("What to do in log") < page.index("logged episodes</h1>")
    assert "today&#39;s policy" in page


def test_policies_are_tidy_tables_with_names(shell: Shell, files: None) -> None:
    assert shell(f"certify --log log.csv {OPTIONS} --out a")[0] == 0
    plan = shell.json("plan a --cost cost.csv --out plan.csv")
    lines = list(csv.reader(Path("plan.csv").read_text().splitlines()))
    assert lines[0] == ["step", "state", "action"]
    assert lines[1][:2] == ["1", "bad"]
    assert len(lines) == 1 + 5 * 3
    assert shell.json("plan a --cost cost.csv --policy plan.csv")["policy"] == plan["policy"]
    Path("drawn.csv").write_text(
        "state,action,probability\nbad,mend,0.5\nbad,run,0.5\nfair,run,1\ngood,run,1\n"
    )
    policy = shell.json("plan a --cost cost.csv --policy drawn.csv")["policy"]
    np.testing.assert_array_equal(np.array(policy)[:, 0], np.full((5, 2), 0.5))
    for text, message in (
        ("state,action\nbad,mend\nfair,run\n", "good has 0 actions; it must have one"),
        ("state,action\nbad,mned\nfair,run\ngood,run\n", "row 2: nothing is known of the action 'mned'"),
        ("step,state,action\n6,bad,mend\n", "row 2: step is 6; steps are counted from 1 to 5"),
        ("state,action,when\nbad,mend,1\n", "it needs state and action, and may have step and probability"),
        (
            "state,action,probability\nbad,run,0.5\nfair,run,1\ngood,run,1\n",
            "bad has probabilities that sum to 0.5",
        ),
    ):
        Path("wrong.csv").write_text(text)
        code, _, err = shell("plan a --cost cost.csv --policy wrong.csv")
        assert (code, message in err) == (2, True), err


def test_costs_are_tidy_tables_too(shell: Shell, files: None) -> None:
    assert shell(f"certify --log log.csv {OPTIONS} --out a")[0] == 0
    wide = list(csv.reader(Path("cost.csv").read_text().splitlines()))
    rows = [(row[0], action, x) for row in wide[1:] for action, x in zip(wide[0][1:], row[1:])]
    with Path("tidy.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("state", "action", "euros"), *reversed(rows)])
    with Path("steps.csv").open("w", newline="") as file:
        steps = [(h, *row) for h in range(1, 6) for row in rows]
        csv.writer(file).writerows([("step", "state", "action", "euros"), *steps])
    plans = [shell.json(f"plan a --cost {name}.csv") for name in ("cost", "tidy", "steps")]
    assert plans[0]["value"] == plans[1]["value"]
    assert plans[0]["policy"] == plans[1]["policy"] == plans[2]["policy"]
    for text, message in (
        ("state,action,euros\nbad,run,1\n", "names bad and mend 0 times; it needs each once"),
        ("state,action,euros\nbad,run,1\nbad,run,2\n", "names bad and"),
        ("state,action,euros\nbad,run,much\n", "row 2: 'much' is not a number"),
        ("state,action,euros,pounds\nbad,run,1,2\n", "it needs state, action and one of numbers"),
    ):
        Path("wrong.csv").write_text(text)
        code, _, err = shell("plan a --cost wrong.csv")
        assert (code, message in err) == (2, True), err


def test_an_audit_that_is_refused_keeps_no_run(shell: Shell, files: None) -> None:
    line = f"audit log.csv {OPTIONS} --policy new.csv --cost missing.csv --out kept"
    assert shell(line)[0] == 2
    assert not Path("kept").exists()


def test_what_is_asked_wrongly_is_one_line(shell: Shell, files: None) -> None:
    for line, text in {
        "audit log.csv --policy new.csv": "say what is to be valued: --cost FILE, --reward FILE or --goal STATE",
        "audit log.csv --policy new.csv --cost cost.csv": "has no column 'episode'",
        f"certify --log log.csv {OPTIONS} --bins wear": "--bins wear: write it as --bins wear=5 or --bins wear=20,40",
        "certify --log log.csv --columns state": "--columns state: write it as --columns state=status,action=order",
        f"certify --log log.csv {OPTIONS} --start god": "there is no state 'god'; did you mean 'good'",
        "report log.csv --policy new.csv": "--policy is compared for costs or rewards",
    }.items():
        code, _, err = shell(line)
        assert (code, text in err) == (2, True), err


def test_power_of_a_decision_on_the_command_line(shell: Shell, files: None) -> None:
    assert shell(f"certify --log log.csv {OPTIONS} --out a")[0] == 0
    line = "power a --cost cost.csv --policy new.csv --incumbent old.csv --draws 5 --episodes 5,20000"
    code, out, err = shell(f"{line} --episode-cost 2")
    assert code == 0, err
    for text in (
        "Decision: the policy is better than the incumbent",
        "the policy of the log",
        "90%: ",
        "cost",
    ):
        assert text in out
    output = shell.json(line)
    first, last = output["curve"]
    assert first["probability"] <= last["probability"] == 1
    assert output["needed"][0]["episodes"] <= output["needed"][1]["episodes"] <= 20_000
    assert shell.json(f"{line} --gather new.csv")["gathered_by"] == "the given policy"
    command = "power a --cost cost.csv --policy new.csv --draws 2 --episodes 5 --at-most"
    assert shell.json(f"{command} 100")["is_decided"]
    assert "the cost of the policy is at most 0.1" in shell(f"{command} .1")[1]
    for wrong, text in {
        "power a --target 1": "say what is to be decided about",
        "power a --goal good --target .1 --episodes ten": "write numbers as --episodes 100,1000,10000",
        "power a --goal good --episodes 10": "say which decision",
        "power a --goal good --policy new.csv --at-most 3": "--at-most is for --cost",
    }.items():
        code, _, err = shell(wrong)
        assert code == 2
        assert text in err
