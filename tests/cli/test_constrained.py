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
    asked = f"plan {tmp_path / 'swim'} --goal 3 --draws 0"
    code, out, err = shell(f"{asked} --at-most cost.csv=0.2 --at-least cost.csv=-1 --json")
    assert (code, err) == (0, "")
    value = json.loads(out)
    within = [hf.at_most([0, 0.125, 0, 0], 0.2), hf.at_least([0, 0.125, 0, 0], -1)]
    expected = run.plan(hf.goal(problem, 3), constraints=within)
    assert value["status"] == "feasible"
    assert value["gap"] == pytest.approx(expected.gap)
    assert [x["status"] for x in value["constraints"]] == ["satisfied", "satisfied"]
    code, out, _ = shell(f"{asked} --at-most cost.csv=0.2")
    assert code == 0
    assert "is satisfied" in out
    for wrong in ("cost.csv", "cost.csv=", "=0.2", "cost.csv=low"):
        code, _, err = shell(f"{asked} --at-most {wrong}")
        assert code == 2
        assert "FILE=NUMBER" in err
    Path("mine.json").write_text(json.dumps([1, 1, 1, 1]))
    code, _, err = shell(f"{asked} --at-most cost.csv=0.2 --policy mine.json")
    assert code == 2
    assert "leave --policy" in err


def test_events_trade_offs_and_risk(shell, tmp_path):
    problem = hf.make("river-swim", states=4, horizon=8)
    run = hf.explore(problem, episodes=300, seed=0, progress=False)
    run.save(tmp_path / "swim")
    folder = tmp_path / "swim"
    code, out, err = shell(f"plan {folder} --goal 3 --at-most reach:2=0.5 --draws 0 --json")
    assert (code, err) == (0, "")
    thin = hf.at_most(hf.reach(problem, 2), 0.5)
    assert json.loads(out)["gap"] == pytest.approx(run.plan(hf.goal(problem, 3), constraints=[thin]).gap)
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
