"""Old public names. Each works for one more version, with a DeprecationWarning that names the new one."""

import functools
import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PACKAGE = str(Path(__file__).parent)
REMOVAL = "will be removed in horizonfree 0.3"


def warn_renamed(old: str, new: str) -> None:
    """Warn that a name has changed, at the line outside of this package that uses it."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"{old} is now called {new}; the old name {REMOVAL}", DeprecationWarning, stacklevel=level)


def renamed(old: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function under its old name."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        warn_renamed(old, function.__qualname__)
        return function(*args, **kwargs)

    call.__doc__ = f"Deprecated: use `{function.__name__}`."
    return call


def renamed_words(kind: str, summary: Callable[..., str]) -> Any:
    """The old attribute `words` of a class: its `summary()`."""

    def summary_with_warning(self: Any) -> str:
        warn_renamed(f"{kind}.words", f"{kind}.summary()")
        return summary(self)

    return property(summary_with_warning, doc="Deprecated: use `summary()`.")
