"""Bad arguments of rewards, logs and the methods of runs."""

import numpy as np

import horizonfree as hf
from horizonfree._validation import short_repr
from tests.refusals.rows import (
    ACTIONS,
    EPISODES_ROWS,
    FUNCTION_ROWS,
    HUGE_ROWS,
    INF,
    MASKED,
    NAN,
    POLICY,
    PROBLEM,
    PROBLEM_ROWS,
    PROGRESS_ROWS,
    REWARD,
    SCALE_ROWS,
    STATES,
    STATES_ROWS,
    Function,
    masked,
    run,
)

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
            *(({"step": x}, f"step is {short_repr(x)}; it must be a step") for x in HUGE_ROWS),
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
        lambda **options: run().plan(**options),
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
                ({"model": x}, f"model is {short_repr(x)}; it must be 'likelihood'")
                for x in ("x", 3, [], {}, np.zeros(2), ["uniform"], np.array("uniform"))
            ),
        ],
    ),
    "run.certificate": Function(
        lambda **options: run().certificate(**options),
        {},
        [
            *(
                ({"method": x}, f"method is {short_repr(x)}; it must be 'uniform'")
                for x in ("x", 3, [], {}, np.zeros(2), ["uniform"], np.array("uniform"), *HUGE_ROWS)
            ),
            *(({"delta": x}, f"delta is {short_repr(x)}") for x in HUGE_ROWS),
        ],
    ),
    "run.resume": Function(lambda **options: run().resume(**options), {"episodes": 1}, PROGRESS_ROWS),
    "to_gymnasium": Function(PROBLEM.to_gymnasium, {"reward": REWARD}, FUNCTION_ROWS),
    "make": Function(
        lambda name, **options: hf.make(name, **options),
        {"name": "river-swim"},
        [
            *(({"states": x}, f"states is {short_repr(x)}") for x in HUGE_ROWS),
            *(({"name": x}, short_repr(x)) for x in HUGE_ROWS),
        ],
    ),
    "load": Function(hf.load, {}, [({"path": x}, f"{short_repr(x)} cannot be a folder") for x in HUGE_ROWS]),
}
