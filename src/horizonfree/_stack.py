"""Room for the frames of Python's functions.

CPython keeps frames in pieces of 16 KiB, and gives a piece back to the system when the first frame in it returns. A
loop whose calls begin a new piece asks the system for one at every turn: loading the library made and unmade 30,000 of
them, a quarter of its time, or hardly any, as the depth of the stack would have it. A frame that needs much has a piece
as large, and those that are called from it find room there.
"""

from collections.abc import Callable
from typing import TypeVar

_F = TypeVar("_F", bound=Callable[..., object])
ROOM = 2**17  # values: a little above 1 MiB, so that the piece is of 2, of which nearly half is left


def roomy(function: _F) -> _F:
    """The function itself, changed: whatever it calls, however deep, has its frames in one piece."""
    function.__code__ = function.__code__.replace(co_stacksize=ROOM)
    return function
