"""Functions of the library for compiled JAX programs on CPUs: registered with XLA, called inside its programs.

A handler reads the buffers of a call in order (ffi.h). The arguments of a handler, and what it computes, are said where
it is called; its definition in JAX stands there, too, and is what other platforms run.
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
    """Whether the library is there; its handlers are registered then."""
    found = load()
    if found is None:
        return False
    for name in HANDLERS:
        ffi.register_ffi_target(name, ffi.pycapsule(getattr(found[0], name)), platform="cpu")
    return True


def call(handler: str, results: Any, *arguments: Array, **sizes: int) -> Any:
    """The results, of these types and shapes; traced, and under vmap one after the other."""
    if not is_available():
        raise RuntimeError(f"{handler} needs the native library")
    function = ffi.ffi_call(handler, results, vmap_method="sequential")
    return function(*arguments, **{name: np.int64(x) for name, x in sizes.items()})
