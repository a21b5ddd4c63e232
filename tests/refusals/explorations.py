"""Explorations, one and many."""

import dataclasses

import numpy as np

import horizonfree as hf
from horizonfree._validation import short_repr
from horizonfree.errors import OptionError, ShapeError, SimulationError, UnknownNameError
from horizonfree.explorers.uniform import Uniform
from horizonfree.models.registry import diagnostics_of
from tests.refusals.rows import (
    BUDGET_ROWS,
    EXPLORER_ROWS,
    HUGE_ROWS,
    MASKED,
    NAN,
    NO_PROBLEMS,
    PROBLEM,
    PROGRESS_ROWS,
    Function,
    masked,
    mixture,
)

TABLE: dict[str, Function] = {
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
            ({"known": PROBLEM}, "this problem has its own model class"),
            *BUDGET_ROWS,
            *PROGRESS_ROWS,
            *EXPLORER_ROWS,
            *(({"explorer": x}, f"no explorer is called {short_repr(x)}") for x in HUGE_ROWS),
            *(({"episodes": x}, f"episodes is {short_repr(x)}") for x in HUGE_ROWS),
            *(({"seed": x}, f"seed is {short_repr(x)}") for x in HUGE_ROWS),
            ({"episodes": None}, "say how long to explore", OptionError),
            ({"episodes": 0}, "episodes is 0", OptionError),
            ({"episodes": True}, "episodes is True", OptionError),
            ({"episodes": 2.5}, "episodes is 2.5", OptionError),
            ({"episodes": "many"}, "episodes is 'many'; it must be a whole number", OptionError),
            ({"until_eps": 1.0}, "until_eps is 1.0", OptionError),
            (
                {"until_eps": "small"},
                "until_eps is 'small'; a bound to be certified lies strictly between",
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
            ({"reward": 0}, "this explorer ignores rewards; plan for", OptionError),
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
            *(
                ({"problem": x}, f"problem is {short_repr(x)}; it must be a")
                for x in NO_PROBLEMS
                if not isinstance(x, str)
            ),
            *BUDGET_ROWS,
            *PROGRESS_ROWS,
            *EXPLORER_ROWS,
            *(({"checkpoints": x}, "checkpoint") for x in HUGE_ROWS),
            *(({"seeds": x}, "seed") for x in HUGE_ROWS),
            ({"over": []}, "over is []; it must be a dictionary of one number of the explorer"),
            ({"over": 3}, "over is 3; it must be a dictionary of one number"),
            ({"over": "scale"}, "over is 'scale'; it must be a dictionary of one number"),
            ({"over": {}}, "over is {}; it must be a dictionary of one number"),
            ({"over": {"a": [1], "b": [2]}}, "it must be a dictionary of one number"),
            (
                {"over": {"scale": [1], "delta": [0.1]}},
                "over is {'scale': [1], 'delta': [0.1]}; it must be a dictionary of one",
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
            ({"over": {"scale": [NAN]}}, "scale is nan; it must be a number from 0 to"),
            ({"over": {"scale": [-1.0]}}, "scale is -1.0", OptionError),
            ({"over": {"scale": masked([1.0])}}, f"over['scale'] {MASKED}"),
            ({"checkpoints": 1}, "checkpoints is 1; it must be a list of numbers of episodes"),
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
            ({"curves": ["gaps"]}, "there is no curve 'gaps'; did you mean 'gap'", UnknownNameError),
            ({"curves": [None]}, "there is no curve None; choose one of: "),
            ({"curves": [np.zeros(2)]}, "there is no curve array([0., 0.]); choose one of: "),
            ({"truths": 3}, "truths is 3; it must be a list of parameters"),
            ({"truths": object}, "truths is <class 'object'>; it must be a list of parameters"),
            ({"truths": []}, "truths is []; it must be a list of at least one", OptionError),
            ({"truths": [3]}, "truths[0] has shape (); it must be (3,)"),
            (
                {"truths": [masked(diagnostics_of(PROBLEM.model).in_units(PROBLEM.truth))]},
                f"truths[0] {MASKED}",
            ),
            ({"problem": mixture(), "truths": [[0.2, 0.3, 0.5], [0.5, 0.5, 0.5]]}, "truths[1]"),
            ({"rewards": 3}, "rewards is 3; it must be a list of at least one reward"),
            ({"rewards": []}, "rewards is []; it must be a list of at least one reward", OptionError),
            ({"rewards": "end"}, "rewards is 'end'", OptionError),
            ({"reward": 0}, "this explorer ignores rewards", OptionError),
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
            ({"problem": [mixture()], "truths": [[0.2, 0.3, 0.5]]}, "have their own truths", OptionError),
            ({"problem": [mixture(), mixture(horizon=5)]}, "problem 1 has horizon 5", ShapeError),
            ({"problem": [mixture(), mixture(dim=4)]}, "problem 1 has bound", ShapeError),
            ({"problem": [mixture(), mixture(actions=3)]}, "of problem 1 has shape", ShapeError),
            ({"problem": dataclasses.replace(mixture(), truth=None)}, "no truth", SimulationError),
        ],
    ),
}
