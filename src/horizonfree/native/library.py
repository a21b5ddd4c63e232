"""The shared library that hatch_build.py compiles from the C files of this folder, if there is a compiler.

There is one build for every processor and, on x86, one for processors with AVX2 and FMA and one for AVX-512; the best
one that runs here is loaded. Functions for NumPy are called through ctypes, functions for compiled JAX programs through
ffi.py.
"""

import ctypes
import warnings
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
BUILDS = ("baseline", "x86-64-v3", "x86-64-v4")  # indexed by horizonfree_cpu_level


@cache
def load() -> tuple[ctypes.CDLL, str] | None:
    """The library and the name of its build; None, with one warning, if there is none."""
    try:
        level = ctypes.CDLL(str(path_of("baseline"))).horizonfree_cpu_level()
        build = next(x for x in reversed(BUILDS[: level + 1]) if path_of(x).exists())
        return ctypes.CDLL(str(path_of(build))), build
    except OSError:
        warnings.warn(
            "horizonfree runs without its native library, several times slower in some places; install a C compiler "
            "and reinstall it",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def path_of(build: str) -> Path:
    """The path of a build."""
    return FOLDER / f"native-{build}.so"


def is_built() -> bool:
    """Whether the library was compiled; nothing is loaded."""
    return path_of("baseline").exists()


def build_name() -> str | None:
    """The name of the build that is used; None without the library."""
    if not is_built():
        return None
    loaded = load()
    return None if loaded is None else loaded[1]
