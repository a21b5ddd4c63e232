"""What is no input is refused in words: what is wrong, which value it is, and what to do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree._inputs import LONG, flag, shown, whole
from horizonfree.errors import HorizonfreeError, OptionError

PROBLEM = hf.make("river-swim", states=3, horizon=3)
KERNELS = np.random.default_rng(0).dirichlet(np.ones(3), (2, 3, 2))
STATES, ACTIONS = [[0, 0, 1, 1]], [[0, 1, 0]]
POLICY = np.zeros((3, 3), int)
HUGE = 10**5000  # more digits than Python writes


@pytest.fixture(scope="module")
def run() -> hf.Run:
    return hf.explore(PROBLEM, "uniform", episodes=1, progress=False)


def many(**changes: Any) -> hf.Batch:
    how = {"episodes": 1, "seeds": 1, "progress": False} | changes
    return hf.explore_many(PROBLEM, how.pop("explorer", "uniform"), **how)


def explore(**changes: Any) -> hf.Run:
    how = {"problem": PROBLEM, "explorer": "uniform", "episodes": 1, "progress": False} | changes
    return hf.explore(how.pop("problem"), how.pop("explorer"), **how)


def refuses(call: Any, words: str) -> None:
    with pytest.raises(HorizonfreeError) as refusal:
        call()
    assert words in str(refusal.value)
    assert len(str(refusal.value)) < 600


# ---- arrays ----------------------------------------------------------------------------------------------------------


def masked(x: Any) -> np.ma.MaskedArray:
    """Nothing is hidden in it yet; it is refused all the same, since something might be."""
    return np.ma.masked_array(np.asarray(x), mask=np.zeros(np.shape(x), bool))


MASKED = {
    "states": lambda run: hf.from_episodes(PROBLEM, (masked(STATES), ACTIONS)),
    "actions": lambda run: hf.certify(PROBLEM, (STATES, masked(ACTIONS))),
    "kernels[0]": lambda run: hf.Mixture.from_kernels(masked(KERNELS), horizon=2),
    "weights": lambda run: hf.Mixture.from_kernels(KERNELS, horizon=2, weights=masked([0.5, 0.5])),
    "phi": lambda run: hf.Mixture.from_features(masked(np.moveaxis(KERNELS, 0, -1)), horizon=2, bound=1),
    "P": lambda run: hf.Mixture.from_tabular(masked(KERNELS[0]), horizon=2),
    "support": lambda run: hf.Mixture.from_tabular(KERNELS[0], horizon=2, support=masked(KERNELS[0] > 0)),
    "start": lambda run: hf.Mixture.from_tabular(KERNELS[0], horizon=2, start=masked([0.5, 0.5, 0])),
    "policy": lambda run: hf.simulate(PROBLEM, masked(POLICY)),
    "the reward": lambda run: run.plan(masked([0.0, 0.0, 0.1])),
    "over['scale']": lambda run: many(explorer="hf-ucrl-rfe++", over={"scale": masked([1.0])}),
    "truths[0]": lambda run: many(truths=[masked(PROBLEM.model.in_units(PROBLEM.truth))]),
    "Sigma": lambda run: hf.home(np.eye(2), np.eye(2), masked([np.eye(2)] * 2), [np.eye(2)] * 2, 1, 1, 1),
}


@pytest.mark.parametrize("name", MASKED)
def test_masked_arrays_are_refused_wherever_they_come_in(name: str, run: hf.Run) -> None:
    words = f"{name} is a masked array, whose hidden values would count; fill them (x.filled(...)) first"
    refuses(lambda: MASKED[name](run), words)


@pytest.mark.parametrize(
    ("episodes", "words"),
    [
        (([[0, 1], [0]], ACTIONS), "states has shape (2, 2), actions (1, 3)"),
        ((STATES, [[0, 1, 0], [1]]), "states has shape (1, 4), actions (2, 3)"),
        (([["0", "0", "1", "1"]], ACTIONS), "states has type <U1; it must hold real numbers"),
        ((STATES, [["left", "up", "up"]]), "actions has type <U4; it must hold real numbers"),
        (([[0.0, 0.0, 1.0, 1.0]], ACTIONS), "states has type float64; it must hold whole numbers"),
        (([[True] * 4], ACTIONS), "states has type bool; it must hold whole numbers"),
        (([[None] * 4], ACTIONS), "states has type object; it must hold real numbers"),
        (([[0, 0, 2**70, 1]], ACTIONS), "states has type object; it must hold real numbers"),
        (([[0, 0, -1, 1]], ACTIONS), "states[0, 2] is -1; states are 0 to 2"),
        ((STATES, [[0, 2, 0]]), "actions[0, 1] is 2; actions are 0 to 1"),
        (([], []), "states is empty; it must hold whole numbers, at least one"),
        (([STATES], [ACTIONS]), "they must be [K, H+1]=(K, 4) and [K, H]=(K, 3)"),
        (([[1, 1, 1, 1]], ACTIONS), "episode 0 starts in state 1; the problem starts in 0"),
        (None, "episodes must be a pair of arrays"),
        ("ab", "episodes must be a pair of arrays"),
        ({"states": STATES, "actions": ACTIONS}, "episodes must be a pair of arrays"),
        ((STATES,), "episodes must be a pair of arrays"),
    ],
)
def test_logs_that_are_no_episodes_are_refused(episodes: Any, words: str) -> None:
    refuses(lambda: hf.from_episodes(PROBLEM, episodes), words)
    refuses(lambda: hf.certify(PROBLEM, episodes), words)


# ---- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "budget", [-5, 0, True, 7.9, float("inf"), float("nan"), "9", [3], 2**70, HUGE], ids=shown
)
def test_what_is_no_budget_is_refused(budget: Any, run: hf.Run) -> None:
    words = f"budget is {shown(budget)}; it must be a whole number of at least 1"
    for call in (
        lambda: hf.certify(PROBLEM, (STATES, ACTIONS), budget=budget),
        lambda: hf.from_episodes(PROBLEM, (STATES, ACTIONS), budget=budget),
        lambda: explore(budget=budget),
        lambda: many(budget=budget),
    ):
        refuses(call, words)


@pytest.mark.parametrize("budget", [None, 1, 7.0, np.int64(9), 2**40, 2**63 - 1])
def test_any_whole_number_of_episodes_is_a_budget(budget: Any) -> None:
    """More than can ever be gathered is no mistake: the certificate is only less sharp."""
    assert 0 < hf.certify(PROBLEM, (STATES, ACTIONS), budget=budget).eps <= 1


@pytest.mark.parametrize("value", [HUGE, -HUGE, [HUGE]], ids=["above", "below", "in a list"])
def test_numbers_of_thousands_of_digits_are_told_in_brief(value: Any, run: hf.Run) -> None:
    """Python writes no whole number of more than 4300 digits."""
    for call in (
        lambda: explore(episodes=value),
        lambda: explore(seed=value),
        lambda: run.certificate(value),
        lambda: run.certificate(method=value),
        lambda: hf.make("river-swim", states=value),
        lambda: hf.make(value),
        lambda: explore(explorer=value),
        lambda: hf.goal(PROBLEM, 0, step=value),
        lambda: many(checkpoints=value),
        lambda: many(seeds=value),
        lambda: hf.theory.zeta(value, 3, 0.1),
        lambda: hf.theory.lower_bound(0.1, 0.1, 3, 3, value),
        lambda: hf.Mixture.from_features(np.moveaxis(KERNELS, 0, -1), horizon=2, bound=value),
        lambda: hf.load(value),
    ):
        refuses(call, "")
    assert shown(value) == f"a {type(value).__name__} too long to be written"


def test_long_values_are_told_in_brief() -> None:
    assert shown("x" * LONG * 9).endswith("xxx'")
    assert len(shown(np.zeros(10**4))) <= len(shown("x" * 10**5)) <= LONG
    assert shown([1, "a"]) == "[1, 'a']"
    with pytest.raises(OptionError, match=r"x is 'yyy.* \.\.\. y*'; it must be a number"):
        whole("y" * 10**6, "x", 0, 1, "a number")


@pytest.mark.parametrize("value", ["yes", [], np.ones(2), 0.5, {}])
def test_what_is_neither_yes_nor_no_is_refused(value: Any, run: hf.Run, tmp_path: Path) -> None:
    words = f"progress is {shown(value)}; it must be True, False or None"
    refuses(lambda: explore(progress=value, out=tmp_path / "a"), words)
    refuses(lambda: many(progress=value, out=tmp_path / "b"), words)
    refuses(lambda: run.resume(episodes=1, progress=value), words)
    assert not list(tmp_path.iterdir())
    for fine in (True, False, None, np.True_):
        flag(fine, "progress")


@pytest.mark.parametrize("value", ["3", None, "", [3], True, 1j, b"3", {}])
@pytest.mark.parametrize("name", ["eps", "delta", "d", "H", "B", "K"])
def test_theory_takes_numbers_only(name: str, value: Any) -> None:
    given = {"eps": 0.1, "delta": 0.1, "d": 3, "H": 3, "B": 2.0, "K": 9} | {name: value}
    if name == "K" and value is None:
        assert hf.theory.table(**given)
        return
    refuses(lambda: hf.theory.table(**given), f"{name} is {shown(value)}; it must be a number")


@pytest.mark.parametrize("value", ["Total", None, 3, [], {}, np.zeros(2), ["total"]])
def test_a_scale_is_one_of_three_words(value: Any, run: hf.Run) -> None:
    words = f"scale is {shown(value)}; it must be 'total'"
    sizes = {"delta": 0.1, "d": 1, "H": 1, "B": 1}  # a lower bound of 0, whatever the scale
    refuses(lambda: hf.theory.lower_bound(0.1, **sizes, scale=value), words)
    refuses(lambda: hf.theory.sample_complexity(0.1, **sizes, scale=value), words)
    refuses(lambda: hf.theory.suboptimality(3, **sizes, scale=value), words)
    refuses(lambda: run.plan([0, 0, 0.1], scale=value), words)
    refuses(lambda: hf.true_gap(PROBLEM, [0, 0, 0.1], POLICY, scale=value), words)


@pytest.mark.parametrize("value", ["x", None, 3, [], {}, np.zeros(2), ["uniform"], np.array("uniform")])
def test_a_method_and_a_model_are_words(value: Any, run: hf.Run) -> None:
    refuses(lambda: run.certificate(method=value), f"method is {shown(value)}; it must be one of 'uniform'")
    refuses(lambda: run.plan([0, 0, 0.1], model=value), f"model is {shown(value)}; it must be 'likelihood'")
