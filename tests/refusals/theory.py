"""Numbers of the papers."""

import numpy as np

import horizonfree as hf
from horizonfree import theory
from horizonfree._validation import short_repr
from horizonfree.errors import OptionError
from tests.refusals.rows import EYES, HUGE_ROWS, INF, MASKED, NAN, RAGGED, SCALE_ROWS, Function, masked

SIZES = {"delta": 0.1, "d": 2, "H": 10, "B": 1.5}
TABLE: dict[str, Function] = {
    "home": Function(
        hf.theory.home,
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
        theory.zeta, {"K": 3, "H": 3, "delta": 0.1}, [({"K": x}, f"K is {short_repr(x)}") for x in HUGE_ROWS]
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
            *(({"B": x}, f"B is {short_repr(x)}") for x in HUGE_ROWS),
        ],
    ),
    "theory.table": Function(
        theory.table,
        {"eps": 0.1, **SIZES, "K": 9},
        [
            *(
                ({name: x}, f"{name} is {short_repr(x)}; it must be a number")
                for name in ("eps", "delta", "d", "H", "B", "K")
                for x in ("3", None, "", [3], True, 1j, b"3", {})
                if (name, x) != ("K", None)
            ),
            ({"eps": 1e-300}, "eps is 1e-300; it must be a number between 1e-50 and 1e", OptionError),
            ({"eps": 1e300}, "eps is 1e+300", OptionError),
            ({"B": 1e200}, "B is 1e+200; it must be a number between 1e-30 and 1e+30", OptionError),
            ({"B": 1e-200}, "B is 1e-200", OptionError),
            ({"H": 10**400}, "H is 1000 … ; it must be a number between 1 and 1e+15", OptionError),
            ({"d": 10**23 - 1}, "d is 9999 … ; it must be a number between 1 and 1e+15", OptionError),
            ({"K": 1e300}, "K is 1e+300", OptionError),
            ({"delta": 1e-320}, "delta is 1e-320; it must be a number between 1e-300 and 1", OptionError),
        ],
    ),
}
