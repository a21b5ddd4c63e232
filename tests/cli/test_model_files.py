"""Models of model checkers, events, properties and certificate files on the command line."""

import shlex
from pathlib import Path

import pytest

from tests.problems.verification.models import random_model
from tests.shell import TINY, Shell

ROBOT = shlex.quote(str(Path(__file__).parents[2] / "gallery" / "robot.prism"))


def test_a_prism_model_from_the_shell(shell: Shell) -> None:
    pytest.importorskip("stormpy", reason="stormpy is not installed")
    command = f"explore {ROBOT} --unknown p --unknown q --param horizon=12 --episodes 100 --out run"
    output = shell.json(command)
    assert [x["name"] for x in output["weights"]] == ["1", "p", "q"]
    questions = ("--property 'Pmax=? [F<=12 \"goal\"]'", "--reach goal", "--goal goal")
    for question in questions:
        plan = shell.json(f"plan run {question}")
        assert plan["value_low"] <= plan["value"] <= plan["value_high"]
        assert plan["true_loss"] <= plan["gap"]
    code, _, err = shell("explore zoned-grid --unknown p --episodes 3")
    assert code == 2
    assert "--unknown names constants" in err


def test_explicit_models_from_the_shell(shell: Shell) -> None:
    random_model(3, is_interval=False).to_drn("a.drn")
    random_model(3, is_interval=False).to_umb("a.umb")
    outputs = [
        shell.json(f"explore a.{kind} --param horizon=4 --episodes 20 --out {kind}")
        for kind in ("drn", "umb")
    ]
    assert outputs[0]["certificate"]["eps"] == outputs[1]["certificate"]["eps"]
    assert (
        shell.json("plan drn --reach bad")["value"]
        == shell.json("plan umb --property 'Pmax=? [F<=3 \"bad\"]'")["value"]
    )
    for message, reason in (
        ("explore a.drn --episodes 3", "has no horizon"),
        ("explore a.drn --param horizon=3 --param p=1 --episodes 3", "--param p"),
        ("explore none.umb --param horizon=3 --episodes 3", "none.umb"),
        ("plan drn --property 'Pmax=? [F \"bad\"]'", "supported are"),
        ("plan drn --reach bad --goal bad", "give one of them"),
        ("plan drn --reach bad --scale rescale", "--scale is for rewards"),
        ("plan drn --reach bad --horizon 2", "--horizon is for rewards"),
        ("plan drn --reach nowhere", "nowhere"),
    ):
        code, _, err = shell(message)
        assert code == 2
        assert reason in err


def test_certificates_are_saved_and_verified(shell: Shell) -> None:
    shell(f"explore {TINY} --episodes 20 --out run")
    shell("certify run --save a.json")
    shell("plan run --reach 8 --save b.json")
    for file in ("a.json", "b.json"):
        assert shell.json(f"verify {file} run")["is_confirmed"]
        code, out, _ = shell(f"verify {file} run")
        assert code == 0
        assert "confirmed: " in out
    shell("explore --resume run --episodes 1")
    code, out, _ = shell("verify a.json run")
    assert code == 1
    assert "not confirmed" in out
    assert "the data of the run" in out
    code, _, err = shell("verify run/run.json run")
    assert code == 2
    assert "no certificate" in err
