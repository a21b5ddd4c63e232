"""Ctrl-C ends the process at once, so that no library that is being loaded can swallow it.

Only where someone asks to be told is it a KeyboardInterrupt: whoever explores has something to save. A process that was
started to ignore Ctrl-C, as shells do in the background, goes on ignoring it.
"""

import _thread
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

AGAIN = 0.02  # seconds after which an interruption that was dropped is repeated
TIDY = "\r\x1b[2K\x1b[?25h"  # clears the line of a spinner and shows the cursor that it hides


def end_at_once() -> None:
    """From now on Ctrl-C says one line and ends the process with exit code 130."""
    _listen(_end)


@contextmanager
def told() -> Iterator[None]:
    """Within, Ctrl-C is a KeyboardInterrupt, even if it comes while JAX cleans up, which drops what is raised there."""
    before, hook = signal.getsignal(signal.SIGINT), sys.unraisablehook
    _listen(signal.default_int_handler)
    sys.unraisablehook = _repeat
    try:
        yield
    finally:
        sys.unraisablehook = hook
        _listen(before)


def _listen(handler: Any) -> None:
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)


def _end(*_: Any) -> None:
    processes = sys.modules.get("multiprocessing")
    for child in processes.active_children() if processes else ():
        child.kill()
    os.write(2, f"{TIDY if os.isatty(2) else ''}horizonfree: stopped\n".encode())
    os._exit(130)


def _repeat(lost: "sys.UnraisableHookArgs") -> None:
    if lost.exc_type is KeyboardInterrupt:
        threading.Timer(AGAIN, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(lost)
