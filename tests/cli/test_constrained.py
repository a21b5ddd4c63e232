"""`horizonfree plan --at-most --at-least`."""

import json
from pathlib import Path

import pytest

import horizonfree as hf


def test_plans_within_constraints(shell, tmp_path):
    problem = hf.make("river-swim", states=4, horizon=8)
    run = hf.explore(problem, episodes=300, seed=0, progress=False)
    run.save(tmp_path / "swim")
    Path("cost.csv").write_text("0\n0.125\n0\n0\n")
    command = f"plan {tmp_path / 'swim'} --goal 3 --draws 0"
    code, out, err = shell(f"{command} --at-most cost.csv=0.2 --at-least cost.csv=-1 --json")
    assert (code, err) == (0, "")
    value = json.loads(out)
    constraints = [hf.at_most([0, 0.125, 0, 0], 0.2), hf.at_least([0, 0.125, 0, 0], -1)]
    expected = run.plan(hf.goal(problem, 3), constraints=constraints)
    assert value["status"] == "feasible"
    assert value["gap"] == pytest.approx(expected.gap)
    assert [x["status"] for x in value["constraints"]] == ["satisfied", "satisfied"]
    code, out, _ = shell(f"{command} --at-most cost.csv=0.2")
    assert code == 0
    assert "is satisfied" in out
    for wrong in ("cost.csv", "cost.csv=", "=0.2", "cost.csv=low"):
        code, _, err = shell(f"{command} --at-most {wrong}")
        assert code == 2
        assert "FILE=NUMBER" in err
    Path("mine.json").write_text(json.dumps([1, 1, 1, 1]))
    code, _, err = shell(f"{command} --at-most cost.csv=0.2 --policy mine.json")
    assert code == 2
    assert "leave --policy" in err


def test_events_trade_offs_and_risk(shell, tmp_path):
    problem = hf.make("river-swim", states=4, horizon=8)
    run = hf.explore(problem, episodes=300, seed=0, progress=False)
    run.save(tmp_path / "swim")
    folder = tmp_path / "swim"
    code, out, err = shell(f"plan {folder} --goal 3 --at-most reach:2=0.5 --draws 0 --json")
    assert (code, err) == (0, "")
    constraint = hf.at_most(hf.reach(problem, 2), 0.5)
    assert json.loads(out)["gap"] == pytest.approx(
        run.plan(hf.goal(problem, 3), constraints=[constraint]).gap
    )
    code, out, _ = shell(f"pareto {folder} --goal 3 --price reach:2 --points 3 --out curve.svg --json")
    assert code == 0
    curve = run.pareto(hf.goal(problem, 3), hf.reach(problem, 2), points=3)
    assert json.loads(out)["value_low"] == pytest.approx(curve.value_low.tolist())
    assert Path("curve.svg").exists()
    Path("cost.csv").write_text("0\n1\n0\n0\n")
    code, out, _ = shell(f"risk {folder} --cost cost.csv --share 0.2 --json")
    assert code == 0
    plan = run.plan([0.0, -1, 0, 0], scale="rescale")
    expected = run.risk([0.0, -1, 0, 0], plan.policy).cvar(0.2)
    assert json.loads(out)["cvar"]["low"] == pytest.approx(expected.low)
    code, _, err = shell(f"risk {folder} --cost cost.csv --out figure.pdf")
    assert code == 2
    assert ".svg or .png" in err
    code, out, _ = shell(f"pareto {folder} --goal 3 --price reach:2 --points 3")
    assert code == 0
    assert "any stopping time" in out


def test_a_report_tells_what_plan_tells(shell, tmp_path):
    """JSON and page have the numbers of `plan`."""
    problem = hf.make("river-swim", states=4, horizon=8)
    hf.explore(problem, episodes=300, seed=0, progress=False).save(tmp_path / "swim")
    Path("cost.csv").write_text("0\n0.125\n0\n0\n")
    options = "--at-most cost.csv=0.2 --at-least cost.csv=-1 --at-most reach:2=0.5"
    output = shell.json(f"report swim {options} --figures f")
    assert output["refused"] == []
    assert "f/trade-off.svg" in output["figures"]
    titles = {"--goal": "End in state", "--stay": "Stay in state", "--reach": "Reach state"}
    for option, title in titles.items():
        entry = next(x for x in output["plans"] if x["title"].startswith(title))
        state = entry["title"].split()[3 if option != "--reach" else 2]
        plan = shell.json(f"plan swim {option} {state} {options} --draws 0")
        for name in ("value", "value_low", "value_high", "gap", "status"):
            assert entry[name] == plan[name]
        assert entry["summary"] == plan["certificate"]["summary"]
        assert entry["forecast"] == plan["certificate"]["forecast"]
        true = [x.pop("truth") for x in entry["constraints"]]
        assert entry["constraints"] == plan["constraints"]
        assert len(true) == 3
        assert [x["name"] for x in plan["constraints"]] == ["cost.csv", "reach:2", "cost.csv"]
    page = Path("swim/report.html").read_text()
    assert "cost.csv</strong>: an expected total of at most 0.2" in page
    curve = shell.json("pareto swim --goal 1 --price cost.csv --points 8")
    assert output["trade_off"]["value_low"] == curve["value_low"]


def test_a_report_says_what_is_undecided_or_out_of_reach(shell, tmp_path):
    problem = hf.make("river-swim", states=4, horizon=8)
    hf.explore(problem, episodes=300, seed=0, progress=False).save(tmp_path / "swim")
    Path("late.json").write_text(json.dumps(hf.goal(problem, 3).tolist()))
    code, out, _ = shell("report swim --at-least late.json=0.7")
    assert code == 0
    assert "without constraints, all 4 goals" in out
    assert out.count("no policy satisfies the constraints") == 4
    code, out, _ = shell("report swim --at-least late.json=0.45")
    assert code == 0
    text = shell("plan swim --goal 1 --at-least late.json=0.45 --draws 0")[1]
    forecast = next(line for line in text.splitlines() if "more episodes decide" in line)
    assert forecast.strip() in out
    code, _, err = shell("report swim --at-most late.json")
    assert (code, "FILE=NUMBER" in err) == (2, True)
    Path("cost.csv").write_text("0\n1\n0\n0\n")
    decision = shell.json("report swim --cost cost.csv --at-least late.json=0.2")["decision"]
    assert decision["within"]["status"] == "feasible"
    code, _, err = shell("report swim --cost cost.csv --at-most reach:2=0.5")
    assert code == 2
    assert "leave --cost and --reward out" in " ".join(err.split())
