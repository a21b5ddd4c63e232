"""Environments of which nothing is known, on the command line."""

import horizonfree as hf
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.models.tabular.model import TabularModel
from tests.shell import Shell

LAKE = "gymnasium:FrozenLake-v1"


def test_an_environment_is_an_unknown_table_by_default(shell: Shell) -> None:
    code, out, err = shell(f"explore {LAKE} --episodes 300 --out a")
    assert code == 0
    assert "16 states, 4 actions, 100 steps" in err  # its own time limit
    assert "a tabular MDP: no transition is known; explorer tabular-design" in err
    assert "300 episodes in a" in out
    run = hf.load("a")
    assert isinstance(run.problem.model, TabularModel)
    assert not run.problem.model.is_support_known
    output = shell.json("plan a --goal 15")
    assert 0 <= output["value_low"] <= output["value"] <= output["value_high"] <= 1
    assert output["true_loss"] <= output["gap"]
    goals = shell.json("certify a --rewards goals")
    assert goals["summary"].startswith("all 16 goals: suboptimality at most ")
    assert shell.json("explore --resume a --episodes 50")["episodes"] == 350
    assert "theta_hat" not in shell.json("explore --resume a --episodes 1")


def test_with_known_rules_only_how_it_slips_is_unknown(shell: Shell) -> None:
    shell.json(f"explore {LAKE} --known-rules --param horizon=12 --episodes 5 --out a")
    model = hf.load("a").problem.model
    assert isinstance(model, MixtureModel)
    assert model.num_unknown <= 2


def test_what_has_no_rules_or_no_limit_is_told_so(shell: Shell) -> None:
    assert "--known-rules is for gymnasium:ID" in shell("explore zoned-grid --known-rules --episodes 1")[2]
    assert "needs a horizon" in shell("explore gymnasium:CliffWalking-v1 --episodes 1")[2]
    assert (
        "explorer 'optimal-design' learns a MixtureModel"
        in (shell(f"explore {LAKE} --explorer optimal-design --episodes 1")[2])
    )
