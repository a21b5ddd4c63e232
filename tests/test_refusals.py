"""Bad arguments of public functions: every error names the argument, shows the value and says what it must be.

TABLE has one entry for each function: valid arguments, and changes to them with the words of the error. The symbol …
in the words stands for text that is left out.
"""

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

import horizonfree as hf
from horizonfree import theory
from horizonfree._inputs import LONG, closest, count, flag, integers, numbers, real, share, shown, whole
from horizonfree.errors import (
    FeatureError,
    HorizonfreeError,
    KernelError,
    OptionError,
    RewardError,
    ShapeError,
    SimulationError,
    UnknownNameError,
)
from horizonfree.explorers.uniform import Uniform
from tests.shell import Shell

PROBLEM = hf.make("river-swim", states=3, horizon=3)
KERNELS = np.random.default_rng(0).dirichlet(np.ones(3), (2, 3, 2))
PHI = np.moveaxis(KERNELS, 0, -1)
EYE = np.broadcast_to(np.eye(3)[:, None], (3, 2, 3))
EYES = np.array([np.eye(2)] * 2)
STATES, ACTIONS = [[0, 0, 1, 1]], [[0, 1, 0]]
POLICY = np.zeros((3, 3), int)
REWARD = [0, 0, 0.1]
NAN, INF = float("nan"), float("inf")
HUGE = 10**5000  # Python does not write more than 4300 digits
NO_PROBLEMS = (None, "river-swim", 3, KERNELS, {}, hf.Problem)
RAGGED = [[1], [1, 2]]


@cache
def run() -> hf.Run:
    return hf.explore(PROBLEM, "uniform", episodes=1, progress=False)


@cache
def mixture(**sizes: int) -> hf.Problem:
    sizes = {"states": 5, "actions": 2, "dim": 3, "successors": 3, "horizon": 4, "seed": 0} | sizes
    return hf.make("random-mixture", **sizes)


def masked(x: Any) -> np.ma.MaskedArray:
    """No value is hidden, but one might be."""
    return np.ma.masked_array(np.asarray(x), mask=np.zeros(np.shape(x), bool))


MASKED = "is a masked array, whose hidden values would count; fill them (x.filled(...)) first"

# Rows of several functions: (changed arguments, words of the error) or (changed arguments, words, class of the error).
Row = tuple[dict[str, Any], str] | tuple[dict[str, Any], str, type[HorizonfreeError]]

PROBLEM_ROWS: list[Row] = [
    ({"problem": x}, f"the problem is a {type(x).__name__}; it must be a Problem") for x in NO_PROBLEMS
]
STATES_ROWS: list[Row] = [
    ({"states": None}, "states has type object"),
    ({"states": "x"}, "there is no state 'x'; states are 0 to 2"),
    ({"states": []}, "states is empty; it must hold whole numbers, at least one"),
    ({"states": [[0]]}, "states has shape (1, 1); it must be a state or a list of states"),
    ({"states": [0, [1]]}, "states is not an array"),
    ({"states": -1}, "state -1 does not exist; states are 0 to 2"),
    ({"states": [0, 3]}, "state 3 does not exist; states are 0 to 2"),
    ({"states": 1.5}, "states has type float64; it must hold whole numbers"),
    ({"states": True}, "states has type bool; it must hold whole numbers"),
    ({"states": {0}}, "states has type object"),
    ({"states": 2**70}, "states has type object"),
    ({"states": slice(1)}, "states has type object"),
]
BUDGET_ROWS: list[Row] = [
    ({"budget": x}, f"budget is {shown(x)}; it must be a whole number of at least 1")
    for x in (-5, 0, True, 7.9, INF, NAN, "9", [3], 2**70, HUGE)
]
PROGRESS_ROWS: list[Row] = [
    ({"progress": x}, f"progress is {shown(x)}; it must be True, False or None")
    for x in ("yes", [], np.ones(2), 0.5, {})
]
SCALE_ROWS: list[Row] = [
    ({"scale": x}, f"scale is {shown(x)}; it must be 'total'")
    for x in ("Total", None, 3, [], {}, np.zeros(2), ["total"])
]
EXPLORER_ROWS: list[Row] = [
    ({"explorer": x}, f"no explorer is called {shown(x)}; … uniform")
    for x in (3, [], {}, object, "", "x\0", np.array("uniform"))
]
EPISODES_ROWS: list[Row] = [
    *BUDGET_ROWS,
    ({"episodes": (masked(STATES), ACTIONS)}, f"states {MASKED}"),
    ({"episodes": (STATES, masked(ACTIONS))}, f"actions {MASKED}"),
    ({"episodes": ([[0, 1], [0]], ACTIONS)}, "states has shape (2, 2), actions (1, 3)"),
    ({"episodes": (STATES, [[0, 1, 0], [1]])}, "states has shape (1, 4), actions (2, 3)"),
    ({"episodes": ([["0", "0", "1", "1"]], ACTIONS)}, "states has type <U1; it must hold real numbers"),
    ({"episodes": (STATES, [["left", "up", "up"]])}, "actions has type <U4; it must hold real numbers"),
    ({"episodes": ([[0.0, 0.0, 1.0, 1.0]], ACTIONS)}, "states has type float64; it must hold whole numbers"),
    ({"episodes": ([[True] * 4], ACTIONS)}, "states has type bool; it must hold whole numbers"),
    ({"episodes": ([[None] * 4], ACTIONS)}, "states has type object; it must hold real numbers"),
    ({"episodes": ([[0, 0, 2**70, 1]], ACTIONS)}, "states has type object; it must hold real numbers"),
    ({"episodes": ([[0, 0, -1, 1]], ACTIONS)}, "states[0, 2] is -1; states are 0 to 2"),
    ({"episodes": (STATES, [[0, 2, 0]])}, "actions[0, 1] is 2; actions are 0 to 1"),
    ({"episodes": ([], [])}, "states is empty; it must hold whole numbers, at least one"),
    ({"episodes": ([STATES], [ACTIONS])}, "they must be [K, H+1]=(K, 4) and [K, H]=(K, 3)"),
    ({"episodes": ([[1, 1, 1, 1]], ACTIONS)}, "episode 0 starts in state 1; the problem starts in 0"),
    *(
        ({"episodes": x}, "episodes must be a pair of arrays")
        for x in (None, "ab", {"states": STATES, "actions": ACTIONS}, (STATES,))
    ),
]
FUNCTION_ROWS: list[Row] = [  # functions in place of rewards
    *(
        ({"reward": x}, f"the reward function gives no number at (h, s, a) = (0, 0, 0): {words}", RewardError)
        for x, words in (
            (lambda h, s, a: 10**400, "OverflowError: int too large to convert to float"),
            (lambda h, s, a: -(10**400), "OverflowError: int too large to convert to float"),
            (lambda h, s, a: "much", "ValueError: could not convert string to float: 'much'"),
            (lambda h, s, a: [1, 2], "ValueError: setting an array element with a sequence"),
            (lambda h, s, a: 1j, "TypeError: "),
            (lambda h, s, a: {}[h], "KeyError: 0"),
            (lambda h, s, a: 1 // h, "ZeroDivisionError: "),
            (lambda: 0.0, "TypeError: … ; it takes h, s and a"),
        )
    ),
]
HUGE_ROWS = [HUGE, -HUGE, [HUGE]]
START_ROWS: list[Row] = [
    (
        {"start": [0.5, 0.5]},
        "start has shape (2,); a distribution over the 3 states has shape (3,)",
        ShapeError,
    ),
    ({"start": [[0.5, 0.5, 0]]}, "start has shape (1, 3)", ShapeError),
    ({"start": [0.5, -0.1, 0.6]}, "start[1] is -0.1; every probability must be a number >= 0", KernelError),
    ({"start": [0.5, NAN, 0.5]}, "start[1] is nan", KernelError),
    ({"start": [0.5, 0.4, 0]}, "start sums to 0.9; it must sum to 1", KernelError),
    ({"start": ["a", "b", "c"]}, "start has type", ShapeError),
    ({"start": 3}, "start is 3; it must be a state, 0 to 2, or a distribution over them", ShapeError),
    ({"start": -1}, "start is -1", ShapeError),
    ({"start": 1.5}, "start is 1.5", ShapeError),
    ({"start": True}, "start is True", ShapeError),
    ({"start": masked([0.5, 0.5, 0])}, f"start {MASKED}"),
    ({"start": RAGGED}, "start is not an array"),
    ({"start": [0.5, [0.5]]}, "start is not an array"),
    ({"horizon": 0}, "horizon is 0; it must be a number of steps, 1 to 1,000,000", ShapeError),
    *(({"layout": x}, f"layout is {shown(x)}; it must") for x in (3, [1], "x", np.zeros(2))),
    *(({"name": x}, f"name is {shown(x)}; it must be text") for x in (3, [1], np.zeros(2))),
]


class Function(NamedTuple):
    """A public function, valid arguments, and rows of bad ones."""

    call: Callable[..., Any]
    valid: dict[str, Any]
    rows: list[Any]


SIZES = {"delta": 0.1, "d": 2, "H": 10, "B": 1.5}
TABLE: dict[str, Function] = {
    "goal": Function(
        hf.goal,
        {"problem": PROBLEM, "states": 0},
        [
            *PROBLEM_ROWS,
            *STATES_ROWS,
            *(
                ({"step": x}, f"step is {x!r}; it must be a step, 0 to 2")
                for x in (-1, 3, 1.5, True, "0", [0], NAN)
            ),
            *(({"step": x}, f"step is {shown(x)}; it must be a step") for x in HUGE_ROWS),
        ],
    ),
    "occupancy": Function(hf.occupancy, {"problem": PROBLEM, "states": 0}, [*PROBLEM_ROWS, *STATES_ROWS]),
    "rescale": Function(hf.rescale, {"problem": PROBLEM, "reward": REWARD}, [*PROBLEM_ROWS, *FUNCTION_ROWS]),
    "true_gap": Function(
        hf.true_gap,
        {"problem": PROBLEM, "reward": REWARD, "policy": POLICY},
        [*PROBLEM_ROWS, *SCALE_ROWS],
    ),
    "simulate": Function(
        hf.simulate,
        {"problem": PROBLEM, "policy": POLICY},
        [*PROBLEM_ROWS, ({"policy": masked(POLICY)}, f"policy {MASKED}")],
    ),
    "from_episodes": Function(
        hf.from_episodes,
        {"problem": PROBLEM, "episodes": (STATES, ACTIONS)},
        [*PROBLEM_ROWS, *EPISODES_ROWS],
    ),
    "certify": Function(hf.certify, {"problem": PROBLEM, "episodes": (STATES, ACTIONS)}, EPISODES_ROWS),
    "run.plan": Function(
        lambda **given: run().plan(**given),
        {"reward": REWARD},
        [
            *SCALE_ROWS,
            *FUNCTION_ROWS,
            ({"reward": masked([0.0, 0.0, 0.1])}, f"the reward {MASKED}"),
            *(
                ({"reward": lambda h, s, a, x=x: x}, "reward[0, 0, 0] is … rewards must be finite")
                for x in (None, NAN, INF)
            ),
            *(
                ({"model": x}, f"model is {shown(x)}; it must be 'likelihood'")
                for x in ("x", None, 3, [], {}, np.zeros(2), ["uniform"], np.array("uniform"))
            ),
        ],
    ),
    "run.certificate": Function(
        lambda **given: run().certificate(**given),
        {},
        [
            *(
                ({"method": x}, f"method is {shown(x)}; it must be one of 'uniform'")
                for x in ("x", None, 3, [], {}, np.zeros(2), ["uniform"], np.array("uniform"), *HUGE_ROWS)
            ),
            *(({"delta": x}, f"delta is {shown(x)}") for x in HUGE_ROWS),
        ],
    ),
    "run.resume": Function(lambda **given: run().resume(**given), {"episodes": 1}, PROGRESS_ROWS),
    "to_gymnasium": Function(PROBLEM.to_gymnasium, {"reward": REWARD}, FUNCTION_ROWS),
    "make": Function(
        lambda name, **given: hf.make(name, **given),
        {"name": "river-swim"},
        [
            *(({"states": x}, f"states is {shown(x)}") for x in HUGE_ROWS),
            *(({"name": x}, shown(x)) for x in HUGE_ROWS),
        ],
    ),
    "load": Function(hf.load, {}, [({"path": x}, f"{shown(x)} cannot be a folder") for x in HUGE_ROWS]),
    "explore": Function(
        hf.explore,
        {"problem": PROBLEM, "explorer": "uniform", "episodes": 1, "progress": False},
        [
            *(({"problem": x}, "it must be a gymnasium.Env") for x in NO_PROBLEMS),
            *(
                (
                    {"problem": object(), "known": x},
                    f"known is a {type(x).__name__}; it must be a Problem, such",
                )
                for x in NO_PROBLEMS[1:]
            ),
            ({"known": PROBLEM}, "this problem carries its own known class"),
            *BUDGET_ROWS,
            *PROGRESS_ROWS,
            *EXPLORER_ROWS,
            *(({"explorer": x}, f"no explorer is called {shown(x)}") for x in HUGE_ROWS),
            *(({"episodes": x}, f"episodes is {shown(x)}") for x in HUGE_ROWS),
            *(({"seed": x}, f"seed is {shown(x)}") for x in HUGE_ROWS),
            ({"episodes": None}, "say how long to explore", OptionError),
            ({"episodes": 0}, "episodes is 0", OptionError),
            ({"episodes": True}, "episodes is True", OptionError),
            ({"episodes": 2.5}, "episodes is 2.5", OptionError),
            ({"episodes": "many"}, "episodes is 'many'; it must be a whole number", OptionError),
            ({"until_eps": 1.0}, "until_eps is 1.0", OptionError),
            (
                {"until_eps": "small"},
                "until_eps is 'small'; a gap to be certified lies strictly between",
                OptionError,
            ),
            ({"delta": 0}, "delta is 0", OptionError),
            ({"delta": "low"}, "delta is 'low'; a failure probability lies strictly between", OptionError),
            ({"seed": "x"}, "seed is 'x'; it must be a whole number", OptionError),
            ({"seed": -1}, "seed is -1", OptionError),
            ({"save_episodes": 0}, "save_episodes is 0", OptionError),
            ({"save_seconds": NAN}, "save_seconds is nan", OptionError),
            ({"save_seconds": -1}, "save_seconds is -1", OptionError),
            ({"explorer": "unifrom"}, "did you mean 'uniform'", UnknownNameError),
            ({"pace": 2}, "no option 'pace'", UnknownNameError),
            ({"explorer": "ucrl-vtr"}, "needs a reward", OptionError),
            ({"reward": 0}, "for all rewards alike; plan for", OptionError),
            ({"explorer": Uniform(), "pace": 2}, "already built", OptionError),
            ({"explorer": "hf-ucrl-rfe++", "scale": "big"}, "scale is 'big'", OptionError),
        ],
    ),
    "explore_many": Function(
        hf.explore_many,
        {
            "problem": PROBLEM,
            "explorer": "hf-ucrl-rfe++",
            "episodes": 1,
            "seeds": 1,
            "checkpoints": [1],
            "progress": False,
        },
        [
            *(({"problem": x}, f"problem is {shown(x)}; it must be a") for x in NO_PROBLEMS),
            *BUDGET_ROWS,
            *PROGRESS_ROWS,
            *EXPLORER_ROWS,
            *(({"checkpoints": x}, "checkpoint") for x in HUGE_ROWS),
            *(({"seeds": x}, "seed") for x in HUGE_ROWS),
            ({"over": []}, "over is []; it must name one number of the explorer"),
            ({"over": 3}, "over is 3; it must name one number"),
            ({"over": "scale"}, "over is 'scale'; it must name one number"),
            ({"over": {}}, "over is {}; it must name one number"),
            ({"over": {"a": [1], "b": [2]}}, "it must name one number"),
            (
                {"over": {"scale": [1], "delta": [0.1]}},
                "over is {'scale': [1], 'delta': [0.1]}; it must name one",
            ),
            ({"over": {"sacle": [1]}}, "over names 'sacle'; the numbers of this explorer are"),
            ({"over": {"chains": [1]}}, "numbers of this explorer are scale, bias_scale, lazy, delta"),
            ({"over": {"lazy": [0.0, 0.5]}}, "cannot vary within a batch"),
            ({"over": {3: [1]}}, "over names 3; the numbers of this explorer are"),
            ({"over": {"scale": 3}}, "over['scale'] is 3; it must be a list of at least one value"),
            ({"over": {"scale": []}}, "over['scale'] is []; it must be a list of at least one value"),
            ({"over": {"scale": "x"}}, "over['scale'] has type <U1; it must hold real numbers", ShapeError),
            ({"over": {"scale": ["big"]}}, "over['scale'] has type", ShapeError),
            ({"over": {"scale": None}}, "over['scale'] has type object; it must hold real numbers"),
            ({"over": {"scale": [NAN]}}, "scale is nan; it must lie between"),
            ({"over": {"scale": [-1.0]}}, "scale is -1.0", OptionError),
            ({"over": {"scale": masked([1.0])}}, f"over['scale'] {MASKED}"),
            ({"checkpoints": None}, "checkpoints is None; it must be a list of numbers of episodes"),
            ({"checkpoints": 1}, "checkpoints is 1; it must be a list"),
            ({"checkpoints": "1"}, "checkpoints is '1'; it must be a list"),
            ({"checkpoints": [0]}, "checkpoint is 0; it must be a number of episodes from 1 to 1"),
            ({"checkpoints": [2]}, "checkpoint is 2; it must be", OptionError),
            ({"checkpoints": [1.5]}, "checkpoint is 1.5; it must be"),
            ({"checkpoints": [NAN]}, "checkpoint is nan; it must be"),
            ({"checkpoints": [True]}, "checkpoint is True; it must be"),
            ({"checkpoints": [[1]]}, "checkpoint is [1]; it must be"),
            ({"checkpoints": {"a": 1}}, "checkpoint is 'a'; it must be"),
            ({"curves": None}, "curves is None; it must be a list of gap, own_gap"),
            ({"curves": 3}, "curves is 3; it must be a list of gap"),
            ({"curves": "gap"}, "curves is 'gap'; it must be a list of gap"),
            ({"curves": ["gaps"]}, "no curve is called 'gaps'; there are gap, own_gap", UnknownNameError),
            ({"curves": [None]}, "no curve is called None; there are gap"),
            ({"curves": [np.zeros(2)]}, "no curve is called array([0., 0.]); there are gap"),
            ({"truths": 3}, "truths is 3; it must be a list of parameters"),
            ({"truths": object}, "truths is <class 'object'>; it must be a list of parameters"),
            ({"truths": []}, "truths is empty; give at least one", OptionError),
            ({"truths": [3]}, "truths[0] has shape (); it must have shape (3,)"),
            ({"truths": [masked(PROBLEM.model.in_units(PROBLEM.truth))]}, f"truths[0] {MASKED}"),
            ({"problem": mixture(), "truths": [[0.2, 0.3, 0.5], [0.5, 0.5, 0.5]]}, "truths[1]"),
            ({"rewards": 3}, "rewards is 3; it must be a list of at least one reward"),
            ({"rewards": []}, "rewards is []; it must be a list of at least one reward", OptionError),
            ({"rewards": "end"}, "rewards is 'end'", OptionError),
            ({"reward": 0}, "for all rewards alike", OptionError),
            ({"seeds": None}, "seeds is None; it must be how many"),
            ({"seeds": []}, "seeds is []; it must be how many", OptionError),
            ({"seeds": 0}, "seeds is 0", OptionError),
            ({"seeds": 2.5}, "seeds is 2.5", OptionError),
            ({"seeds": 10**10}, "seeds is 10000000000", OptionError),
            ({"seeds": [-1]}, "seed is -1", OptionError),
            ({"seeds": ["a"]}, "seed is 'a'; it must be a whole number"),
            ({"memory": 0}, "memory is 0; it must be a whole number of bytes", OptionError),
            ({"memory": NAN}, "memory is nan", OptionError),
            ({"problem": []}, "problem is []; it must be a Problem or a list of at least one", OptionError),
            ({"problem": [mixture()], "truths": [[0.2, 0.3, 0.5]]}, "carry their own", OptionError),
            ({"problem": [mixture(), mixture(horizon=5)]}, "problem 1 has horizon 5", ShapeError),
            ({"problem": [mixture(), mixture(dim=4)]}, "problem 1 has bound", ShapeError),
            ({"problem": [mixture(), mixture(actions=3)]}, "of problem 1 has shape", ShapeError),
            ({"problem": dataclasses.replace(mixture(), truth=None)}, "no truth", SimulationError),
        ],
    ),
    "Mixture.from_kernels": Function(
        hf.Mixture.from_kernels,
        {"kernels": KERNELS, "horizon": 2},
        [
            *START_ROWS,
            ({"kernels": masked(KERNELS)}, f"kernels[0] {MASKED}"),
            ({"weights": masked([0.5, 0.5])}, f"weights {MASKED}"),
            ({"kernels": [EYE * 0.9]}, "base kernel 0: row (s=0, a=0) sums to 0.9", KernelError),
            ({"kernels": [2 * EYE - np.roll(EYE, 1, 2)]}, "(s=0, a=0) -> 1 is -1", KernelError),
            (
                {"kernels": sp.csr_array(np.eye(3))},
                "kernels is a csr_array; give a list of kernels",
                ShapeError,
            ),
            ({"kernels": None}, "kernels is a NoneType; give a list of kernels", ShapeError),
            (
                {"kernels": [sp.csr_array((0, 3))]},
                "kernels[0] has shape (0, 3); a sparse kernel must be",
                ShapeError,
            ),
            (
                {"kernels": [sp.csr_array(np.eye(3, dtype=complex))]},
                "kernels[0] has type complex128",
                ShapeError,
            ),
            ({"weights": [1, 1]}, "weights sum to 2", KernelError),
            ({"weights": [0.5]}, "weights has shape (1,); it must have shape (2,)", ShapeError),
            ({"kernels": [np.ones((3, 2))]}, "kernels[0] has shape (3, 2)", ShapeError),
            ({"kernels": [EYE, EYE[:, :1]]}, "kernels[1] has shape (3, 1, 3)", ShapeError),
            ({"kernels": []}, "kernels is empty", ShapeError),
        ],
    ),
    "Mixture.from_features": Function(
        hf.Mixture.from_features,
        {"phi": PHI, "horizon": 2, "bound": 1.0},
        [
            *START_ROWS,
            ({"phi": masked(PHI)}, f"phi {MASKED}"),
            *(({"bound": x}, f"bound is {shown(x)}") for x in HUGE_ROWS),
            ({"phi": np.full((2, 1, 2, 1), NAN)}, "phi(s'=0 | s=0, a=0)[0] is nan", FeatureError),
            ({"phi": np.zeros((2, 1, 2, 1))}, "(s=0, a=0) has no successor", FeatureError),
            (
                {"phi": EYE[..., None] * np.array([1, 1, 2])[:, None, None, None]},
                "no parameter makes every row of P_theta sum to 1: at (s=0, a=0) the best is 0.6",
                FeatureError,
            ),
            (
                {"phi": np.stack([EYE, EYE], -1), "bound": 0.8, "theta": [1.0, 0.0]},
                "||theta||_2 is 1, above bound=0.8",
                FeatureError,
            ),
            (
                {"phi": EYE[..., None], "bound": 0.5},
                "bound is 0.5, but a parameter that makes every row sum to 1 has norm 1 or more",
                FeatureError,
            ),
            ({"bound": "1"}, "bound is '1'; B must be a positive number", FeatureError),
            ({"bound": 0.0}, "bound is 0", FeatureError),
            ({"phi": ([10**12], [0], [0], [0], [1.0])}, "phi would take", FeatureError),
            ({"phi": (["x"], [0], [0], [0], [1.0])}, "coordinates of phi: s has type", ShapeError),
            (
                {"phi": ([0], [1], [0], [0], [1.0]), "shape": (1, 1, 1)},
                "A of shape is 1; it must be 2 or more",
                ShapeError,
            ),
            ({"shape": (3, 2, 2)}, "shape= is for coordinates", ShapeError),
            (
                {"phi": np.stack([EYE, EYE * (1 + 1e-8 * np.arange(3))[:, None, None]], -1)},
                "too much for rounding, too little for a constraint on theta",
                FeatureError,
            ),
            (
                {"phi": EYE[..., None], "theta": [0.5]},
                "P_theta of the given truth: row (s=0, a=0) sums to 0.5",
                KernelError,
            ),
            ({"phi": np.ones((3, 2, 3))}, "must be [S, A, S, d]", ShapeError),
            ({"phi": ([0], [0, 1], [0], [0], [1.0])}, "coordinates of phi: a has shape", ShapeError),
            ({"phi": [["x"]]}, "phi has type … ; it must hold real numbers", ShapeError),
        ],
    ),
    "Mixture.from_tabular": Function(
        hf.Mixture.from_tabular,
        {"P": KERNELS[0], "horizon": 2},
        [
            *START_ROWS,
            ({"P": masked(KERNELS[0])}, f"P {MASKED}"),
            ({"support": masked(KERNELS[0] > 0)}, f"support {MASKED}"),
            ({"P": None, "support": np.full((2, 1, 2), NAN)}, "it must say True or False", ShapeError),
            (
                {"P": EYE, "support": np.roll(EYE, 1, 2) > 0},
                "P(s'=0 | s=0, a=0) is 1 but support says it is impossible",
                KernelError,
            ),
            ({"P": None}, "needs P, or support", ShapeError),
        ],
    ),
    "Tabular": Function(
        hf.Tabular,
        {"num_states": 3, "num_actions": 2, "horizon": 3},
        [
            ({"num_states": 0}, "num_states is 0"),
            ({"num_actions": 2.5}, "num_actions is 2.5"),
            ({"horizon": 0}, "horizon is 0"),
            ({"start": 5}, "start is 5"),
            ({"terminal": [3]}, "terminal is"),
            ({"support": "given"}, "support is 'given'"),
            ({"support": np.ones((3, 2))}, "support has shape"),
            ({"support": np.zeros((3, 2, 3))}, "no possible successor"),
            ({"name": 4}, "name is 4"),
            ({"layout": 4}, "layout is 4"),
        ],
    ),
    "Tabular.from_table": Function(
        hf.Tabular.from_table,
        {"P": KERNELS[0], "horizon": 3},
        [
            ({"P": KERNELS[0, 0]}, "P has shape"),
            ({"support": "all"}, "support is 'all'"),
            ({"terminal": [0]}, "terminal"),
            ({"P": -KERNELS[0]}, ">= 0"),
        ],
    ),
    "seen_as": Function(
        hf.Tabular(3, 2, 3).seen_as, {"kind": "tabular"}, [({"support": "all"}, "support is 'all'")]
    ),
    "from_gymnasium": Function(
        hf.from_gymnasium,
        {"env": "FrozenLake-v1", "horizon": 3},
        [
            ({"start": RAGGED}, "start is not an array"),
            ({"start": [0.5, [0.5]]}, "start is not an array"),
            *(
                (
                    {"render_mode": x},
                    "gymnasium cannot make 'FrozenLake-v1' with {'render_mode': ",
                    OptionError,
                )
                for x in (1, "bogus", [], 2.5)
            ),
        ],
    ),
    "home": Function(
        hf.home,
        {"phi": np.eye(2), "theta": np.eye(2), "Sigma": EYES, "Sigma_dot": EYES}
        | {"beta": 1, "alpha": 1, "gamma": 1},
        [
            ({"Sigma": masked(EYES)}, f"Sigma {MASKED}"),
            *(
                ({name: x}, f"{name} ")
                for name in ("phi", "Sigma", "beta")
                for x in ("x", None, RAGGED, {}, [1, "a"], 2**2000, 1j)
            ),
            ({"gamma": INF}, "gamma is inf; it must be a finite number"),
            ({"alpha": [1.0, 1.0]}, "alpha is [1.0, 1.0]; it must be a finite number"),
        ],
    ),
    "theory.beta": Function(
        theory.beta,
        {"k": 1, **SIZES},
        [
            ({"k": 0}, "k is 0", OptionError),
            ({"d": 0}, "d is 0", OptionError),
            ({"d": 2.5}, "d is 2.5", OptionError),
            ({"B": -1.0}, "B is -1", OptionError),
            ({"delta": 1.0}, "delta is 1", OptionError),
            ({"M": 0}, "M is 0", OptionError),
        ],
    ),
    "theory.moment_orders": Function(
        theory.moment_orders,
        {"K": 5, "H": 5},
        [({"K": 0}, "K is 0", OptionError), ({"H": 2.5}, "H is 2.5", OptionError)],
    ),
    "theory.zeta": Function(
        theory.zeta, {"K": 3, "H": 3, "delta": 0.1}, [({"K": x}, f"K is {shown(x)}") for x in HUGE_ROWS]
    ),
    "theory.sample_complexity": Function(
        theory.sample_complexity,
        {"eps": 0.1, **SIZES},
        [
            *SCALE_ROWS,
            ({"eps": 0.0}, "eps is 0", OptionError),
            ({"H": 0, "scale": "per-step"}, "H is 0", OptionError),
            ({"scale": "episode"}, "scale is 'episode'", OptionError),
        ],
    ),
    "theory.suboptimality": Function(
        theory.suboptimality, {"K": 3, **SIZES}, [*SCALE_ROWS, ({"K": NAN}, "K is nan", OptionError)]
    ),
    "theory.lower_bound": Function(
        theory.lower_bound,
        {"eps": 0.1, "delta": 0.1, "d": 1, "H": 1, "B": 1},  # a lower bound of 0, whatever the scale
        [
            *SCALE_ROWS,
            ({"delta": 0.0}, "delta is 0", OptionError),
            *(({"B": x}, f"B is {shown(x)}") for x in HUGE_ROWS),
        ],
    ),
    "theory.table": Function(
        theory.table,
        {"eps": 0.1, **SIZES, "K": 9},
        [
            *(
                ({name: x}, f"{name} is {shown(x)}; it must be a number")
                for name in ("eps", "delta", "d", "H", "B", "K")
                for x in ("3", None, "", [3], True, 1j, b"3", {})
                if (name, x) != ("K", None)
            ),
            ({"eps": 1e-300}, "eps is 1e-300; it must lie between 1e-50 and 1e", OptionError),
            ({"eps": 1e300}, "eps is 1e+300", OptionError),
            ({"B": 1e200}, "B is 1e+200; it must lie between 1e-30 and 1e+30", OptionError),
            ({"B": 1e-200}, "B is 1e-200", OptionError),
            ({"H": 10**400}, "H is 1000 … ; it must lie between 1 and 1e+15", OptionError),
            ({"d": 10**23 - 1}, "d is 9999 … ; it must lie between 1 and 1e+15", OptionError),
            ({"K": 1e300}, "K is 1e+300", OptionError),
            ({"delta": 1e-320}, "delta is 1e-320; it must lie between 1e-300 and 1", OptionError),
        ],
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_bad_arguments_are_refused(name: str, subtests: pytest.Subtests, tmp_path: Path) -> None:
    call, valid, rows = TABLE[name]
    for changes, words, *error in rows:
        if "progress" in changes and "explore" in name:
            changes = changes | {"out": tmp_path / "a"}  # must not be created
        with subtests.test(", ".join(f"{key}={shown(x)}" for key, x in changes.items())):
            with pytest.raises(HorizonfreeError) as caught:
                call(**valid | changes)
            message = str(caught.value)
            assert len(message) < 600
            place = 0
            for part in words.split(" … "):
                assert part in message[place:]
                place = message.index(part, place) + len(part)
            assert isinstance(caught.value, tuple(error) or HorizonfreeError)
    assert not list(tmp_path.iterdir())


def test_the_arguments_that_bad_ones_replace_are_valid(subtests: pytest.Subtests) -> None:
    """Otherwise a row might be refused for another reason."""
    for name, (call, valid, _) in TABLE.items():
        if name != "load":  # needs a folder: tests/runs
            with subtests.test(name):
                call(**valid | ({"explorer": "uniform"} if name == "explore_many" else {}))
    for budget in (None, 1, 7.0, np.int64(9), 2**40, 2**63 - 1):
        with subtests.test("budget", budget=budget):
            assert 0 < hf.certify(PROBLEM, (STATES, ACTIONS), budget=budget).eps <= 1
    with subtests.test("checkpoints and curves may be any collection"):
        settings = {"episodes": 1, "seeds": 1, "progress": False}
        batch = hf.explore_many(
            PROBLEM, "uniform", checkpoints={1}, curves=(x for x in ("eps", "gap")), **settings
        )
        assert batch.checkpoints.tolist() == [1]
        assert list(batch.curves) == ["eps", "gap"]
        assert hf.explore_many(PROBLEM, "uniform", checkpoints={}, **settings).curves == {}


# ---- checks that many functions share --------------------------------------------------------------------------------


def test_values_within_their_range_pass() -> None:
    for value in (0, 3, np.int32(2), np.uint8(1), 3.0):
        result = whole(value, "x", 0, 3, "0 to 3")
        assert type(result) is int
        assert result == value
    for probability in (0.5, np.float32(0.1), np.array(0.9)):
        share(probability, "delta")
    for answer in (True, False, None, np.True_):
        flag(answer, "progress")
    assert count(np.int64(3), "x") == 3
    assert integers([2, 3], "x").dtype.kind == "i"
    assert numbers([1, 2], "x").dtype == np.float64
    assert real(np.int8([1, 2]), "x").dtype == np.int8
    table = np.zeros(3)
    assert numbers(table, "x") is table


CHECKS: list[tuple[Callable[[Any], Any], tuple[Any, ...], type[HorizonfreeError], str]] = [
    (
        lambda x: whole(x, "x", 0, 3, "0 to 3", ShapeError),
        (-1, 4, True, 1.5, NAN, "1", None, [1], np.array([1])),
        ShapeError,
        r"x is .*; it must be 0 to 3",
    ),
    (
        lambda x: share(x, "delta"),
        (0, 1, -0.1, NAN, "0.5", None, [0.5], 1j),
        OptionError,
        r"delta is .*; a failure probability lies strictly between 0 and 1",
    ),
    (
        lambda x: numbers(x, "x"),
        ("x", None, [1, "a"], [1j], object(), RAGGED),
        ShapeError,
        r"x (has type .*; it must hold real numbers|is not an array)",
    ),
    (
        lambda x: integers(x, "x"),
        (1.0, [True], [0.5, 1]),
        ShapeError,
        r"x has type .*; it must hold whole numbers",
    ),
    (lambda x: count(x, "x"), (0,), OptionError, "x is 0; it must be a whole number of at least 1"),
    (lambda x: real(x, "x"), (masked([1.0, 2.0]),), ShapeError, "x is a masked array, whose hidden values"),
]


def test_values_out_of_their_range_are_refused(subtests: pytest.Subtests) -> None:
    for check, values, error, words in CHECKS:
        for value in values:
            with subtests.test(words, value=shown(value)), pytest.raises(error, match=words):
                check(value)


def test_an_unknown_name_is_answered_with_the_closest_or_with_all() -> None:
    names = ["river-swim", "combination-lock"]
    assert closest("riverswim", names) == "did you mean 'river-swim'?"
    assert closest("xyz", names) == "choose one of: combination-lock, river-swim"


def test_long_values_are_shortened_in_errors() -> None:
    assert shown("x" * LONG * 9).endswith("xxx'")
    assert len(shown(np.zeros(10**4))) <= len(shown("x" * 10**5)) <= LONG
    assert shown([1, "a"]) == "[1, 'a']"
    for value in HUGE_ROWS:
        assert shown(value) == f"a {type(value).__name__} too long to be written"
    with pytest.raises(OptionError, match=r"x is 'yyy.* \.\.\. y*'; it must be a number"):
        whole("y" * 10**6, "x", 0, 1, "a number")


def test_settings_that_are_nested_too_deeply_are_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:
    shell = Shell(tmp_path, capsys, monkeypatch)
    for name, text in {
        "lists": "x = " + "[" * 100_000,
        "tables": "x = " + "{a=" * 100_000,
        "names": "[" + "a." * 2_000 + "a]",
    }.items():
        with subtests.test(name):
            Path("deep.toml").write_text(text)
            code, out, err = shell("explore zoned-grid --episodes 1 --settings deep.toml")
            assert (code, out) == (2, "")
            assert len(err) < 400
            assert err.startswith("horizonfree: error: settings deep.toml")
