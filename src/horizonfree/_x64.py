"""64-bit arithmetic inside a scope, and the border between NumPy and JAX.

Neither importing nor using the library changes a global setting of JAX, and none of them changes the library's numbers:
inside the scope the settings that episodes and shapes depend on are always the same.

Trees of arrays (models, evidence, states) are NumPy's between calls and JAX's inside them: a public function moves
them once, on its way in and out. Everything that is traced is typed `Array`, everything on the host `np.ndarray`;
only the fields of such trees are a `Leaf`.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import jax
import numpy as np

from horizonfree.errors import ProcessError

if TYPE_CHECKING:
    Leaf = jax.Array  # as compiled code sees it; code on the host goes through np.asarray
    Number = jax.Array | float  # a Python number, or traced
else:
    Leaf = jax.Array | np.ndarray
    Number = jax.Array | np.ndarray | np.number | float

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")


_process: int | None = None  # the one that has used JAX through this library


@contextmanager
def scope() -> Iterator[None]:
    """64 bits, one generator of random numbers, and the usual rules of promotion, whatever the caller has set."""
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        raise ProcessError(
            "this process was forked from one in which JAX was at work, and would hang; start processes afresh: "
            "multiprocessing.get_context('spawn')"
        )
    with (
        jax.enable_x64(True),
        jax.default_prng_impl("threefry2x32"),
        jax.threefry_partitionable(True),
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
    ):
        yield


def x64(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Run a public function in the scope."""

    @wraps(function)
    def scoped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with scope():
            return function(*args, **kwargs)

    return scoped


def to_numpy(tree: _T) -> _T:
    """Every array leaf as a NumPy array: what may leave the scope."""
    converted: _T = jax.tree.map(lambda x: np.asarray(x) if isinstance(x, jax.Array) else x, tree)
    return converted


def to_device(tree: Any) -> Any:
    """Every NumPy array leaf as a JAX array of the same type: what compiled calls want. Call inside the scope."""
    return jax.tree.map(lambda x: jax.numpy.asarray(x) if isinstance(x, np.ndarray) else x, tree)


def leaf(array: np.ndarray) -> Leaf:
    """An array of the host as the field of a tree."""
    return cast(Leaf, array)
