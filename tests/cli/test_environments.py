"""Environments without a transition table at the shell: explored, resumed, planned, refused."""

import horizonfree as hf
from tests.shell import Shell

PENDULUM = "gymnasium:Pendulum-v1 --param bins=2 --param actions=3"


def test_real_valued_environments_are_explored_and_resumed(shell: Shell) -> None:
    shell.json(f"explore {PENDULUM} --param horizon=5 --param start=unknown --episodes 2 --out a")
    run = hf.load("a")
    assert run.problem.space.sizes == (6, 10, 3)
    assert run.problem.action_name(0) == "(-2)"
    assert shell.json(f"explore {PENDULUM} --resume a --episodes 2")["episodes"] == 4
    assert "gymnasium:Pendulum-v1 --resume a --episodes 100" in shell("explore --resume a --episodes 1")[2]
    assert shell.json("plan a --goal over")["value_low"] == 0


def test_refusals_name_the_flag_that_works(shell: Shell) -> None:
    assert "--param bins=10" in shell("explore gymnasium:Pendulum-v1 --episodes 1")[2]
    assert "--param start=unknown" in shell(f"explore {PENDULUM} --episodes 1")[2]
    assert "--param 'bins=[3, [-1" in shell("explore gymnasium:CartPole-v1 --param bins=3 --episodes 1")[2]
    assert "--param horizon=100" in shell("explore gymnasium:Blackjack-v1 --episodes 1")[2]
    assert "is not a list" in shell("explore gymnasium:CartPole-v1 --param bins=[3 --episodes 1")[2]


def test_a_bound_that_is_not_reached(shell: Shell) -> None:
    options = "--param states=4 --param horizon=8 --episodes 5 --until-eps 0.01 --out a"
    assert "until_eps=0.01 is not reached" in shell(f"explore river-swim {options}")[2]
