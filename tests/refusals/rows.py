"""What the tables of bad arguments share: valid arguments, and rows that several functions have.

A row has changes to valid arguments, the words of the error, and perhaps its class. The symbol … in the words stands
for text that is left out.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import horizonfree as hf
from horizonfree._validation import short_repr
from horizonfree.errors import HorizonfreeError, KernelError, RewardError, ShapeError

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
    ({"budget": x}, f"budget is {short_repr(x)}; it must be a whole number of at least 1")
    for x in (-5, 0, True, 7.9, INF, NAN, "9", [3], 2**70, HUGE)
]
PROGRESS_ROWS: list[Row] = [
    ({"progress": x}, f"progress is {short_repr(x)}; it must be True, False or None")
    for x in ("yes", [], np.ones(2), 0.5, {})
]
SCALE_ROWS: list[Row] = [
    ({"scale": x}, f"scale is {short_repr(x)}; it must be 'total'")
    for x in ("Total", None, 3, [], {}, np.zeros(2), ["total"])
]
EXPLORER_ROWS: list[Row] = [
    ({"explorer": x}, f"no explorer is called {short_repr(x)}; … uniform")
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
        (
            {"reward": x},
            f"the reward function gives no number at (h, s, a) = (0, 0, 0): {message}",
            RewardError,
        )
        for x, message in (
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
        "start has shape (2,); it must be (3,), a distribution over the 3 states",
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
    *(({"layout": x}, f"layout is {short_repr(x)}; it must") for x in (3, [1], "x", np.zeros(2))),
    *(({"name": x}, f"name is {short_repr(x)}; it must be text") for x in (3, [1], np.zeros(2))),
]


class Function(NamedTuple):
    """A public function, valid arguments, and rows of bad ones."""

    call: Callable[..., Any]
    valid: dict[str, Any]
    rows: list[Any]
