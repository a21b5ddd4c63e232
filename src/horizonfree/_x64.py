"""64-bit arithmetic inside a scope, and the border between NumPy and JAX.

Neither importing nor using the library changes a global setting of JAX that numbers depend on, and none of them changes
the library's numbers: inside the scope the settings that episodes and shapes depend on are always the same. Only where
JAX keeps compiled programs is set, once, unless it is set already: most of a small run is compilation.

Trees of arrays (models, evidence, states) are NumPy's between calls and JAX's inside them: a public function moves
them once, on its way in and out. Everything that is traced is typed `Array`, everything on the host `np.ndarray`;
only the fields of such trees are a `Leaf`.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

from horizonfree._arrays import Leaf as Leaf
from horizonfree._arrays import Number as Number
from horizonfree._arrays import register_nodes
from horizonfree.errors import ProcessError

register_nodes()
_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")


_process: int | None = None  # the one that has used JAX through this library


def keep_compiled() -> None:
    """Set JAX's cache of compiled programs to the user's cache folder, unless a cache is set or disabled.

    The folder is the user's alone: who can write to it can have JAX run what is there.
    """
    settings: Any = jax.config
    if settings.jax_compilation_cache_dir is not None or not settings.jax_enable_compilation_cache:
        return
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "horizonfree" / "jax"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home, no space or no permission: nothing is kept
        return
    if os.access(folder, os.W_OK):
        settings.update("jax_compilation_cache_dir", str(folder))
        settings.update("jax_persistent_cache_min_compile_time_secs", 0.0)


@contextmanager
def scope() -> Iterator[None]:
    """64 bits, one generator of random numbers, and the usual rules of promotion, whatever the caller has set."""
    global _process
    if _process is None:
        _process = os.getpid()
        keep_compiled()
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
    leaves, shape = jax.tree.flatten(tree)
    indices = [i for i, x in enumerate(leaves) if isinstance(x, np.ndarray)]
    # all at once: one by one, each shape would be compiled by itself
    for i, x in zip(indices, jax.device_put([leaves[i] for i in indices], may_alias=False), strict=True):
        leaves[i] = x
    return jax.tree.unflatten(shape, leaves)
