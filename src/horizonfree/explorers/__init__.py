"""Every explorer by name: one line per algorithm."""

import dataclasses
import difflib
from typing import Any

from horizonfree.errors import OptionError, UnknownNameError
from horizonfree.explorers._api import Explorer
from horizonfree.explorers.uniform import Uniform

EXPLORERS: dict[str, type[Explorer]] = {
    "uniform": Uniform,
}


def explorers() -> dict[str, dict[str, Any]]:
    """Every explorer with what it is and its options with their defaults."""
    return {
        name: {
            "about": (kind.__doc__ or "").strip().split("\n")[0],
            "options": {field.name: field.default for field in dataclasses.fields(kind)},
        }
        for name, kind in EXPLORERS.items()
    }


def make_explorer(name: str, **options: Any) -> Explorer:
    """An explorer by name; refuses unknown names and options with the closest that exist."""
    if name not in EXPLORERS:
        raise UnknownNameError(f"no explorer is called {name!r}{_closest(name, EXPLORERS)}")
    kind = EXPLORERS[name]
    fields = [field.name for field in dataclasses.fields(kind)]
    for option in options:
        if option not in fields:
            raise UnknownNameError(f"explorer {name!r} has no option {option!r}{_closest(option, fields)}")
    try:
        return kind(**options)
    except TypeError as error:
        raise OptionError(f"explorer {name!r}: {error}") from None


def _closest(name: str, names: Any) -> str:
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.4)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{hint} There are: {', '.join(sorted(names)) or 'none'}"
