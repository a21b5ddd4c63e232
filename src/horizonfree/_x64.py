"""64-bit arithmetic inside a scope: neither importing nor using the library changes a global setting."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

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


def to_device(tree: _T) -> _T:
    """Every NumPy array leaf as a JAX array of the same type: what compiled calls want. Call inside the scope."""

    def move(x: Any) -> Any:
        return jax.numpy.asarray(x) if isinstance(x, np.ndarray) else x

    moved: _T = jax.tree.map(move, tree)
    return moved
