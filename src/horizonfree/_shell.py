"""Whether this process runs the command line and nothing else, and where the library keeps what was compiled."""

import os
from pathlib import Path

_is_shell = False


def begin_shell() -> None:
    """From now on it does."""
    global _is_shell
    _is_shell = True


def is_shell() -> bool:
    """Whether it does."""
    return _is_shell


def cache_folder() -> Path | None:
    """In the user's cache folder; None where there is no home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "horizonfree"
    except RuntimeError:
        return None
