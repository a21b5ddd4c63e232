"""Linear programmes, which this part of SciPy does not solve."""

from typing import Any, NoReturn

from horizonfree.errors import RunError


def linprog(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse, and say where it works."""
    raise RunError(
        "this needs linear programmes, which are not solved in the browser; use `horizonfree serve` instead"
    )
