"""Values that no argument expects, and how many of them are tried for each function.

Few in the default suite. Tests marked slow try 120, or two thousand with HYPOTHESIS_PROFILE=thorough, as
`make test-all` does.
"""

import os
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import horizonfree as hf

for name, number in {"usual": 120, "thorough": 2_000}.items():
    settings.register_profile(
        f"fuzz-{name}",
        max_examples=number,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
PROFILE = settings.get_profile(f"fuzz-{os.environ.get('HYPOTHESIS_PROFILE', 'usual')}")
RARELY = settings(PROFILE, max_examples=PROFILE.max_examples // 4)  # where a valid call takes a moment
QUICK = settings(PROFILE, max_examples=10)

NUMBERS = [
    -1,
    0,
    1,
    2,
    -(2**70),
    2**31,
    2**63,
    2**64,
    10**400,
    10**5000,
    0.0,
    -0.0,
    0.5,
    1.0,
    1.5,
    -1.5,
    5e-324,
    1e-320,
]
NUMBERS += [
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    -float("inf"),
    True,
    False,
    1j,
    np.float32(0.5),
    np.int8(1),
]
NUMBERS += [
    np.uint64(2**63),
    np.float64("nan"),
    np.bool_(True),
    np.longdouble(0.5),
    np.float16(1),
    np.datetime64("nat"),
]
OTHERS = [
    None,
    "",
    "x",
    "0",
    "total",
    "\0",
    "\ud800",
    "é" * 300,
    b"",
    b"x",
    [],
    [[]],
    (),
    {},
    set(),
    {1},
    [None],
    ["x"],
]
OTHERS += [
    [[1], [1, 2]],
    [0, "1"],
    {"a": 1},
    {3: []},
    object(),
    object,
    int,
    print,
    range(3),
    slice(1),
    Ellipsis,
    iter([]),
]
OTHERS += [lambda: 0, lambda *x: None, lambda *x: 10**400, lambda *x: "x", lambda *x: 0.0, lambda *x: [1, 2]]
OTHERS += [hf, hf.Problem, ValueError("x"), memoryview(b"ab"), bytearray(b"ab"), type("Odd", (), {})()]
ARRAYS = [
    np.zeros(0),
    np.zeros((0, 3)),
    np.zeros((0, 0, 0)),
    np.zeros((1, 1, 1, 1)),
    np.array(3),
    np.array("x"),
]
ARRAYS += [
    np.array([None, 1]),
    np.array([{}]),
    np.full(3, np.nan),
    np.full((3, 2), 1e308),
    np.zeros(3, "M8[s]"),
]
ARRAYS += [np.zeros(3, complex), np.zeros(3, [("a", int)]), np.ma.masked_array([1.0, 2.0], [True, False])]
ARRAYS += [
    np.ma.masked,
    np.ones(3, bool),
    np.full((3, 3), 2**63, np.uint64),
    sp.csr_array(np.eye(3)),
    sp.coo_array((2, 2)),
]
ARRAYS += [np.zeros((2,) * 9), np.broadcast_to(0.0, (10**4, 10**4)), np.array([b"x"])]
ODD = st.sampled_from(NUMBERS) | st.sampled_from(OTHERS) | st.sampled_from(ARRAYS)


def spoil(array: np.ndarray) -> st.SearchStrategy[Any]:
    """A valid array with something wrong, or at least odd, about it."""

    def dented(x: float, index: int) -> np.ndarray:
        copy = array.astype(float)
        copy.flat[index] = x
        return copy

    bad = st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1.0, 1e-320, 2.0, 0.0])
    strategies = [
        array.astype(object),
        array.astype(np.float32),
        np.ma.masked_array(array),
        array[..., :-1],
        array[None],
    ]
    strategies += [
        array.tolist(),
        array.astype(str),
        array * 0,
        0 - array * 1,
        array.astype(complex),
        array[::-1],
        array.T,
    ]
    return st.builds(dented, bad, st.integers(0, array.size - 1)) | st.sampled_from(strategies)
