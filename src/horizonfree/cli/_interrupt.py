"""Ctrl-C exits the process at once, so that no library can swallow it while it is imported.

It is a KeyboardInterrupt only inside `raise_interrupts`, where there is something to save. A process that was started
with Ctrl-C ignored, as shells do in the background, goes on ignoring it.
"""

import _thread
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

RETRY_SECONDS = 0.02  # until a dropped interrupt is repeated
CLEAR_LINE = "\r\x1b[2K\x1b[?25h"  # clears the line of a spinner and shows the cursor


def exit_on_interrupt() -> None:
    """From now on Ctrl-C prints one line and exits with code 130."""
    _set_handler(_exit)


@contextmanager
def raise_interrupts() -> Iterator[None]:
    """Inside, Ctrl-C is a KeyboardInterrupt, also during finalizers of JAX, which drop exceptions."""
    old_handler, hook = signal.getsignal(signal.SIGINT), sys.unraisablehook
    _set_handler(signal.default_int_handler)
    sys.unraisablehook = _repeat
    try:
        yield
    finally:
        sys.unraisablehook = hook
        _set_handler(old_handler)


def _set_handler(handler: Any) -> None:
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)


def _exit(*_: Any) -> None:
    processes = sys.modules.get("multiprocessing")
    for child in processes.active_children() if processes else ():
        child.kill()
    os.write(2, f"{CLEAR_LINE if os.isatty(2) else ''}horizonfree: stopped\n".encode())
    os._exit(130)


def _repeat(lost: "sys.UnraisableHookArgs") -> None:
    if lost.exc_type is KeyboardInterrupt:
        threading.Timer(RETRY_SECONDS, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(lost)
