"""Functions of the native C library as XLA FFI handlers, called from compiled JAX programs on CPUs.

A handler reads the buffers of a call in order (ffi.h). Its arguments and results are documented at its caller, next to
the same computation in JAX, which runs on other platforms.
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
    library = loaded[0]
    for name in HANDLERS:
        ffi.register_ffi_target(name, ffi.pycapsule(getattr(library, name)), platform="cpu")
    return True


def call(handler: str, results: Any, *arguments: Array, **sizes: int) -> Any:
    """Call a handler; `results`: their shapes and dtypes. Traced; vmap makes one call after the other."""
    if not is_available():
        raise RuntimeError(f"{handler} needs the native library")
    function = ffi.ffi_call(handler, results, vmap_method="sequential")
    return function(*arguments, **{name: np.int64(x) for name, x in sizes.items()})
