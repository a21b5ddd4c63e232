"""The shared library that hatch_build.py compiles from the C files of this folder, where it finds a compiler.

There is one build for every processor and, on x86, one for processors with AVX2 and FMA; the better one that runs here
is loaded. Functions for NumPy are called through ctypes, functions for compiled JAX programs through ffi.py.
"""

import ctypes
import warnings
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
BUILDS = ("baseline", "x86-64-v3")  # by what horizonfree_cpu_level says of a processor


@cache
def load() -> tuple[ctypes.CDLL, str] | None:
    """The library and which build it is; None, with a warning, where there is none."""
    try:
        baseline = ctypes.CDLL(str(path_of("baseline")))
        build = BUILDS[baseline.horizonfree_cpu_level()]
        return (
            (ctypes.CDLL(str(path_of(build))), build) if path_of(build).exists() else (baseline, "baseline")
        )
    except OSError:
        warnings.warn(
            "horizonfree runs without its native library, several times slower in some places; install a C compiler "
            "and reinstall it",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def path_of(build: str) -> Path:
    """Where the hook puts a build."""
    return FOLDER / f"native-{build}.so"


def is_built() -> bool:
    """Whether there was a compiler; nothing is loaded."""
    return path_of("baseline").exists()


def build_name() -> str | None:
    """Which build is used here; None without the library."""
    if not is_built():
        return None
    found = load()
    return None if found is None else found[1]
