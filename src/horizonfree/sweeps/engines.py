"""Where tasks run: processes of this machine, Dask, or Ray. All three are driven alike.

An engine takes as many tasks as it has slots, and says which are finished. Whatever happens to a worker, its task comes
back with an error in words and the others go on.
"""

import abc
from typing import Any

DIED = "the worker that ran it ended in the middle: it was killed, or there was not enough memory"
Outcome = dict[str, Any]  # rows and what they were made by, or an "error"


class Engine(abc.ABC):
    """`slots` tasks at once, each called by a key."""

    slots: int

    @abc.abstractmethod
    def submit(self, key: str, task: dict[str, Any]) -> None:
        """Begin a task."""

    @abc.abstractmethod
    def finished(self, seconds: float) -> list[tuple[str, Outcome]]:
        """The tasks that have ended since; waits so long for one."""

    @abc.abstractmethod
    def close(self) -> None:
        """End all workers."""
