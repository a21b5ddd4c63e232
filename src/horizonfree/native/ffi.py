"""Handlers of the library for compiled JAX programs on CPUs, registered with XLA.

A handler reads the buffers of a call in order (ffi.h). Its arguments and results are documented where it is called,
next to its definition in JAX, which other platforms run.
"""

from functools import cache
from typing import Any

import jax
import numpy as np

from horizonfree._arrays import Array
from horizonfree.native.library import load

ffi: Any = jax.ffi  # its type annotations are incomplete
HANDLERS = ("horizonfree_oracle", "horizonfree_design")


@cache
def is_available() -> bool:
    """Whether the library can be loaded; if so, its handlers are registered."""
    loaded = load()
    if loaded is None:
        return False
    for name in HANDLERS:
        ffi.register_ffi_target(name, ffi.pycapsule(getattr(loaded[0], name)), platform="cpu")
    return True


def call(handler: str, results: Any, *arguments: Array, **sizes: int) -> Any:
    """Call a handler; `results` are types and shapes. Traced; under vmap one call after the other."""
    if not is_available():
        raise RuntimeError(f"{handler} needs the native library")
    function = ffi.ffi_call(handler, results, vmap_method="sequential")
    return function(*arguments, **{name: np.int64(x) for name, x in sizes.items()})
