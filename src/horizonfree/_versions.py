"""What is installed, for reports of problems."""

import platform
from importlib.metadata import PackageNotFoundError, version

from horizonfree.native.library import build_name

PACKAGES = ("horizonfree", "numpy", "scipy", "jax", "jaxlib", "equinox")


def show_versions() -> None:
    """Print the versions of Python and of what numbers depend on, and which build of the native library is used."""
    for name, found in versions().items():
        print(f"{name:<15} {found}")


def versions() -> dict[str, str]:
    """The same by name; JAX is not imported."""
    found = {"Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}"}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    build = build_name()
    found["native library"] = "none (no C compiler at installation)" if build is None else build
    return found
