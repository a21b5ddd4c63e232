"""Objects of the wrong kind, and functions that do not do what was asked, are refused in words."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree._inputs import shown
from horizonfree.errors import OptionError, RewardError
from tests.shell import Shell

from .test_refusals import KERNELS, POLICY, PROBLEM, explore, many, refuses, run  # noqa: F401

WRONG = [None, "river-swim", 3, KERNELS, {}, hf.Problem]


@pytest.mark.parametrize("problem", WRONG, ids=lambda x: shown(x)[:20])
def test_what_is_no_problem_is_refused(problem: Any) -> None:
    words = f"the problem is a {type(problem).__name__}; it must be a Problem"
    refuses(lambda: hf.goal(problem, 0), words)
    refuses(lambda: hf.occupancy(problem, 0), words)
    refuses(lambda: hf.rescale(problem, [0, 0, 1]), words)
    refuses(lambda: hf.true_gap(problem, [0, 0, 1], POLICY), words)
    refuses(lambda: hf.simulate(problem, POLICY), words)
    refuses(lambda: hf.from_episodes(problem, ([[0, 0, 1, 1]], [[0, 1, 0]])), words)
    refuses(lambda: explore(problem=problem), "it must be a gymnasium.Env")
    refuses(
        lambda: hf.explore_many(problem, episodes=1, seeds=1), f"problem is {shown(problem)}; it must be a"
    )
    if problem is not None:
        kind = type(problem).__name__
        refuses(
            lambda: explore(problem=object(), known=problem), f"known is a {kind}; it must be a Problem, such"
        )


def test_a_problem_is_known_already() -> None:
    refuses(lambda: explore(known=PROBLEM), "this problem carries its own known class")


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (None, "states has type object"),
        ("x", "there is no state 'x'; states are 0 to 2"),
        ([], "states is empty; it must hold whole numbers, at least one"),
        ([[0]], "states has shape (1, 1); it must be a state or a list of states"),
        ([0, [1]], "states is not an array"),
        (-1, "state -1 does not exist; states are 0 to 2"),
        ([0, 3], "state 3 does not exist; states are 0 to 2"),
        (1.5, "states has type float64; it must hold whole numbers"),
        (True, "states has type bool; it must hold whole numbers"),
        ({0}, "states has type object"),
        (2**70, "states has type object"),
        (slice(1), "states has type object"),
    ],
)
def test_what_is_no_state_is_no_goal(states: Any, words: str) -> None:
    refuses(lambda: hf.goal(PROBLEM, states), words)
    refuses(lambda: hf.occupancy(PROBLEM, states), words)


@pytest.mark.parametrize("step", [-1, 3, 1.5, True, "0", [0], float("nan")])
def test_what_is_no_step_is_refused(step: Any) -> None:
    refuses(lambda: hf.goal(PROBLEM, 0, step=step), f"step is {step!r}; it must be a step, 0 to 2")


@pytest.mark.parametrize("explorer", [3, [], {}, object, "", "x\0", np.array("uniform")])
def test_what_is_no_explorer_is_refused_with_those_that_are(explorer: Any) -> None:
    for call in (lambda: explore(explorer=explorer), lambda: many(explorer=explorer)):
        refuses(call, f"no explorer is called {shown(explorer)}; ")
        refuses(call, "uniform")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"over": []}, "over is []; it must name one number of the explorer"),
        ({"over": 3}, "over is 3; it must name one number"),
        ({"over": "scale"}, "over is 'scale'; it must name one number"),
        ({"over": {}}, "over is {}; it must name one number"),
        ({"over": {"a": [1], "b": [2]}}, "it must name one number"),
        ({"over": {"sacle": [1]}}, "over names 'sacle'; the numbers of this explorer are"),
        ({"over": {3: [1]}}, "over names 3; the numbers of this explorer are"),
        ({"over": {"scale": 3}}, "over['scale'] is 3; it must be a list of at least one value"),
        ({"over": {"scale": []}}, "over['scale'] is []; it must be a list of at least one value"),
        ({"over": {"scale": "x"}}, "over['scale'] has type <U1; it must hold real numbers"),
        ({"over": {"scale": None}}, "over['scale'] has type object; it must hold real numbers"),
        ({"over": {"scale": [np.nan]}}, "scale is nan; it must lie between"),
        ({"checkpoints": None}, "checkpoints is None; it must be a list of numbers of episodes"),
        ({"checkpoints": 1}, "checkpoints is 1; it must be a list"),
        ({"checkpoints": "1"}, "checkpoints is '1'; it must be a list"),
        ({"checkpoints": [0]}, "checkpoint is 0; it must be a number of episodes from 1 to 1"),
        ({"checkpoints": [2]}, "checkpoint is 2; it must be"),
        ({"checkpoints": [1.5]}, "checkpoint is 1.5; it must be"),
        ({"checkpoints": [True]}, "checkpoint is True; it must be"),
        ({"checkpoints": [[1]]}, "checkpoint is [1]; it must be"),
        ({"checkpoints": {"a": 1}}, "checkpoint is 'a'; it must be"),
        ({"curves": None}, "curves is None; it must be a list of gap, own_gap"),
        ({"curves": 3}, "curves is 3; it must be a list of gap"),
        ({"curves": "gap"}, "curves is 'gap'; it must be a list of gap"),
        ({"curves": ["gaps"]}, "no curve is called 'gaps'; there are gap, own_gap"),
        ({"curves": [None]}, "no curve is called None; there are gap"),
        ({"curves": [np.zeros(2)]}, "no curve is called array([0., 0.]); there are gap"),
        ({"truths": 3}, "truths is 3; it must be a list of parameters"),
        ({"truths": object}, "truths is <class 'object'>; it must be a list of parameters"),
        ({"truths": []}, "truths is empty; give at least one"),
        ({"truths": [3]}, "truths[0] has shape (); it must have shape (3,)"),
        ({"rewards": 3}, "rewards is 3; it must be a list of at least one reward"),
        ({"rewards": []}, "rewards is []; it must be a list of at least one reward"),
        ({"seeds": None}, "seeds is None; it must be how many"),
        ({"seeds": []}, "seeds is []; it must be how many"),
        ({"seeds": ["a"]}, "seed is 'a'; it must be a whole number"),
        ({"memory": 0}, "memory is 0; it must be a whole number of bytes"),
    ],
    ids=str,
)
def test_what_no_batch_can_be_told_is_refused(changes: dict[str, Any], words: str) -> None:
    refuses(lambda: many(**{"explorer": "hf-ucrl-rfe++", "checkpoints": [1]} | changes), words)


def test_checkpoints_and_curves_may_be_any_collection() -> None:
    found = many(checkpoints={1}, curves=(name for name in ("eps", "gap")))
    assert found.checkpoints.tolist() == [1]
    assert list(found.curves) == ["eps", "gap"]
    assert many(checkpoints={}).curves == {}


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda h, s, a: 10**400, "OverflowError: int too large to convert to float"),
        (lambda h, s, a: -(10**400), "OverflowError: int too large to convert to float"),
        (lambda h, s, a: "much", "ValueError: could not convert string to float: 'much'"),
        (lambda h, s, a: [1, 2], "ValueError: setting an array element with a sequence"),
        (lambda h, s, a: 1j, "TypeError: "),
        (lambda h, s, a: {}[h], "KeyError: 0"),
        (lambda h, s, a: 1 // h, "ZeroDivisionError: "),
        (lambda: 0.0, "TypeError: "),
    ],
)
def test_a_reward_function_that_gives_no_number_is_refused(function: Any, words: str, run: hf.Run) -> None:  # noqa: F811
    for call in (run.plan, lambda x: hf.rescale(PROBLEM, x), PROBLEM.to_gymnasium):
        with pytest.raises(RewardError) as refusal:
            call(function)
        assert "the reward function gives no number at (h, s, a) = (0, 0, 0): " in str(refusal.value)
        assert words in str(refusal.value)
        assert str(refusal.value).endswith("; it takes h, s and a")


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_a_reward_function_gives_finite_numbers(value: Any, run: hf.Run) -> None:  # noqa: F811
    refuses(lambda: run.plan(lambda h, s, a: value), "reward[0, 0, 0] is ")
    refuses(lambda: run.plan(lambda h, s, a: value), "rewards must be finite")


# ---- building problems -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [1, "bogus", [], 2.5])
def test_options_that_gymnasium_does_not_take_are_repeated(mode: Any) -> None:
    with pytest.raises(OptionError, match=r"gymnasium cannot make 'FrozenLake-v1' with \{'render_mode': "):
        hf.from_gymnasium("FrozenLake-v1", 3, render_mode=mode)


@pytest.mark.parametrize("start", [[[1], [1, 2]], [0.5, [0.5]]])
def test_a_ragged_start_is_refused(start: Any) -> None:
    refuses(lambda: hf.Mixture.from_tabular(KERNELS[0], horizon=2, start=start), "start is not an array")
    refuses(lambda: hf.from_gymnasium("FrozenLake-v1", 3, start=start), "start is not an array")


@pytest.mark.parametrize("value", [3, [1], "x", np.zeros(2)])
def test_a_layout_is_a_dictionary_and_a_name_is_text(value: Any) -> None:
    refuses(
        lambda: hf.Mixture.from_tabular(KERNELS[0], horizon=2, layout=value),
        f"layout is {shown(value)}; it must",
    )
    if not isinstance(value, str):
        refuses(
            lambda: hf.Mixture.from_kernels(KERNELS, horizon=2, name=value),
            f"name is {shown(value)}; it must be text",
        )


@pytest.mark.parametrize("value", ["x", None, [[1], [1, 2]], {}, [1, "a"], 2**2000, 1j])
def test_home_takes_numbers_only(value: Any) -> None:
    eye, eyes = np.eye(2), np.array([np.eye(2)] * 2)
    assert hf.home(eye, eye, eyes, eyes, 1, 1, 1).shape == (2,)
    refuses(lambda: hf.home(value, eye, eyes, eyes, 1, 1, 1), "phi ")
    refuses(lambda: hf.home(eye, eye, value, eyes, 1, 1, 1), "Sigma ")
    refuses(lambda: hf.home(eye, eye, eyes, eyes, value, 1, 1), "beta ")
    refuses(
        lambda: hf.home(eye, eye, eyes, eyes, 1, 1, float("inf")), "gamma is inf; it must be a finite number"
    )
    refuses(
        lambda: hf.home(eye, eye, eyes, eyes, 1, [1.0, 1.0], 1),
        "alpha is [1.0, 1.0]; it must be a finite number",
    )


# ---- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["x = " + "[" * 100_000, "x = " + "{a=" * 100_000, "[" + "a." * 2_000 + "a]"],
    ids=["lists", "tables", "names"],
)
def test_settings_that_are_nested_too_deeply_are_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(tmp_path, capsys, monkeypatch)
    Path("deep.toml").write_text(text)
    code, out, err = shell("explore zoned-grid --episodes 1 --settings deep.toml")
    assert (code, out) == (2, "")
    assert len(err) < 400
    assert err.startswith("horizonfree: error: settings deep.toml")
