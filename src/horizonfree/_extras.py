"""Optional dependencies, whose failing import names the extra that installs them; installed versions."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from horizonfree.errors import OptionError
from horizonfree.native.library import build_name

# The packages of each extra that the library imports; pyproject.toml lists what is installed.
EXTRAS = {
    "gymnasium": ("gymnasium",),
    "report": ("matplotlib", "jinja2"),
    "web": ("starlette", "uvicorn"),
    "dask": ("dask", "distributed"),
    "ray": ("ray",),
    "storm": ("stormpy",),
    "minari": ("minari",),
    "parquet": ("pyarrow",),
}


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Imports in its scope need an extra; purpose: the subject of the error, such as "reports and figures"."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in EXTRAS[extra]:  # something else is missing, or the package is broken
            raise
        raise OptionError(
            f"{purpose}: {package} is not installed; run: pip install 'horizonfree[{extra}]'"
        ) from None


def import_optional(package: str) -> Any:
    """A package that converts results, which no extra installs."""
    try:
        return import_module(package)
    except ImportError:
        raise OptionError(
            f"{package} is not installed: pip install {package}, or use the arrays themselves"
        ) from None


def check_extra(extra: str, purpose: str) -> None:
    """Raise the error of `needs_extra` before long work if a package of the extra is not installed."""
    with needs_extra(extra, purpose):
        for package in EXTRAS[extra]:
            import_module(package)


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
