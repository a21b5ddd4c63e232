"""Old public names: each works for one more version, with a DeprecationWarning that names the new one."""

import inspect
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parent)
REMOVAL = "will be removed in horizonfree 0.3"


def warn_renamed(old: str, new: str) -> None:
    """Warn, at the caller's line outside of this package, that a name has changed."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"{old} is now called {new}; the old name {REMOVAL}", DeprecationWarning, stacklevel=level)
