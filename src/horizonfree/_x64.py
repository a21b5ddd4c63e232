"""64-bit arithmetic inside a scope, and the border between NumPy and JAX.

Neither importing nor using the library changes a global setting. Trees of arrays (models, evidence, states) are
NumPy's between calls and JAX's inside them: a public function moves them once, on its way in and out. Everything that
is traced is typed `Array`, everything on the host `np.ndarray`; only the fields of such trees are a `Leaf`.
"""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import jax
import numpy as np

if TYPE_CHECKING:
    Leaf = jax.Array  # as compiled code sees it; code on the host goes through np.asarray
else:
    Leaf = jax.Array | np.ndarray

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")


def x64(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Run a public function in JAX's 64-bit scope."""

    @wraps(function)
    def scoped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with jax.enable_x64(True):
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
