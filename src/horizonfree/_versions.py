"""Installed versions, for bug reports."""

import platform
from importlib.metadata import PackageNotFoundError, version

from horizonfree.native.library import build_name

PACKAGES = ("horizonfree", "numpy", "scipy", "jax", "jaxlib", "equinox")


def show_versions() -> None:
    """Print the versions of Python, of the dependencies, and of the native library.

    >>> import horizonfree as hf
    >>> hf.show_versions()  # doctest: +ELLIPSIS
    Python ...
    """
    for name, text in versions().items():
        print(f"{name:<15} {text}")


def versions() -> dict[str, str]:
    """Versions by name, without importing JAX."""
    result = {"Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}"}
    for name in PACKAGES:
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            result[name] = "not installed"
    build = build_name()
    result["native library"] = "none (no C compiler at installation)" if build is None else build
    return result
