"""Names on the command line: states are typed and shown by name, and weights are listed by name."""

import horizonfree as hf
from tests.shell import Shell

SHOP = "inventory --param capacity=3 --param max_order=2 --param models=2 --param horizon=4"


def test_names_are_typed_and_shown(shell: Shell) -> None:
    code, out, _ = shell(f"explore {SHOP} --episodes 30 --out a")
    assert code == 0
    assert "mean demand 1 " in out
    assert "mean demand 4 " in out
    assert "weight 0" not in out
    output, run = shell.json("plan a --goal 'stock 2' --start 'stock 1' --horizon 3"), hf.load("a")
    assert output["value"] == run.plan(hf.goal(run.problem.with_start(1, 3), 2), start=1, horizon=3).value
    assert "from stock 1, in 3 steps" in output["certificate"]["summary"]
    assert shell.json("plan a --stay 2")["value"] == shell.json("plan a --stay 'stock 2'")["value"]
    assert "did you mean 'stock 2'" in shell("plan a --goal 'stok 2'")[2]
    assert "that of stock" in shell("certify a --rewards goals --verbose")[1]


def test_what_was_learnt_is_in_the_json_of_explore(shell: Shell) -> None:
    output = shell.json(f"explore {SHOP} --episodes 30 --out a")["weights"]
    run = hf.load("a")
    assert [x["name"] for x in output] == ["mean demand 1", "mean demand 4"]
    assert [x["estimate"] for x in output] == run.weights.tolist()
    assert [[x["low"], x["high"]] for x in output] == run.weight_intervals.tolist()


def test_parameters_of_a_problem_are_completed():
    from types import SimpleNamespace

    from horizonfree.cli.explore import _parameters

    context = SimpleNamespace(params={"problem": "river-swim"}, args=[])
    assert "horizon=32" in _parameters(context, "")
    assert _parameters(context, "hor") == ["horizon=32"]
    assert _parameters(SimpleNamespace(params={}, args=["mine:shop"]), "") == []
