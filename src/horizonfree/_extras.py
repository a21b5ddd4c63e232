"""Optional dependencies: an import that fails says which extra of the library installs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from horizonfree.errors import OptionError

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


def check_extra(extra: str, purpose: str) -> None:
    """The same error before long work, if a package of the extra is not installed."""
    with needs_extra(extra, purpose):
        for package in EXTRAS[extra]:
            import_module(package)
