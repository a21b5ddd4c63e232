"""Linear MDPs from the shell: rewards that are declared, and what the papers promise."""

import pytest

import horizonfree as hf
from tests.shell import Shell

TINY = "linear-lock --param blocks=3 --param per_block=6 --param actions=2 --param horizon=5"


def test_rewards_are_declared_before_the_first_episode(shell: Shell) -> None:
    shell.json(f"explore {TINY} --episodes 40 --budget 40 --rewards goals --out a")
    run = hf.load("a")
    assert run.problem.model.declared.shape[0] == run.problem.num_states  # type: ignore[attr-defined]
    assert shell.json("certify a --rewards goals")["parts"]["rewards"] == run.problem.num_states


def test_what_cannot_be_declared_is_refused_with_words(shell: Shell) -> None:
    code, _, stderr = shell(f"explore {TINY} --episodes 4 --rewards golas --out a")
    assert code == 2
    assert "'goals', 'occupancies' or a list" in stderr
    code, _, stderr = shell("explore river-swim --episodes 4 --rewards goals --out a")
    assert code == 2
    assert "hold for every reward alike" in stderr


def test_the_rates_of_linear_mdps_are_told(shell: Shell) -> None:
    output = shell.json("theory --linear --d 8 --H 10 --eps 0.1 --delta 0.05")
    assert output["wang2020_order"] == {
        "value": pytest.approx(8**3 * 10**6 / 0.01),
        "meaning": "d^3 H^6/eps^2",
    }
    assert output["wang2020_beta"]["value"] == pytest.approx(248.906009586)
