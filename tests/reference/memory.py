"""How much memory something takes."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def peak_memory() -> Iterator[Callable[[], int]]:
    """In here memory is counted; what comes with it says how many bytes there were at most."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
