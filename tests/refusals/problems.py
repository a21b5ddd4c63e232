"""Ways to make a problem."""

import numpy as np
import scipy.sparse as sp

import horizonfree as hf
from horizonfree._validation import short_repr
from horizonfree.errors import FeatureError, KernelError, OptionError, ShapeError
from tests.refusals.rows import (
    EYE,
    HUGE_ROWS,
    KERNELS,
    MASKED,
    NAN,
    PHI,
    RAGGED,
    START_ROWS,
    Function,
    masked,
)

TABLE: dict[str, Function] = {
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
                "kernels[0] has shape (0, 3); it must be [S*A, S], as a sparse kernel",
                ShapeError,
            ),
            (
                {"kernels": [sp.csr_array(np.eye(3, dtype=complex))]},
                "kernels[0] has type complex128",
                ShapeError,
            ),
            ({"weights": [1, 1]}, "weights sum to 2", KernelError),
            ({"weights": [0.5]}, "weights has shape (1,); it must be (2,)", ShapeError),
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
            *(({"bound": x}, f"bound is {short_repr(x)}") for x in HUGE_ROWS),
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
            ({"bound": "1"}, "bound is '1'; it must be B, a positive number", FeatureError),
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
                "P(s'=0 | s=0, a=0) is 1; support says it is impossible",
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
            ({"support": np.zeros((3, 2, 3))}, "at least one possible successor"),
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
    "as_tabular": Function(
        hf.Tabular(3, 2, 3).as_tabular, {"support": "any"}, [({"support": "all"}, "support is 'all'")]
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
}
