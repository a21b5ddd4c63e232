"""Answers to the page, in the browser: what the server of `horizonfree serve` does elsewhere."""

import ctypes
import json
import warnings
from pathlib import Path

# NumPy's build asks for the function `backtrace`, which Pyodide does not have.
ctypes.CDLL(str(Path(__file__).with_name("backtrace.so")), ctypes.RTLD_GLOBAL)
warnings.filterwarnings("ignore", message="horizonfree runs without its native library")

import horizonfree as hf  # noqa: E402
from horizonfree.errors import HorizonfreeError  # noqa: E402
from horizonfree.web.session import Session  # noqa: E402


class BrowserSession(Session):
    """Without declared misspecification, which needs linear programmes that are not solved in the browser."""

    @property
    def misspecifications(self) -> list[float]:
        """None but 0: the page has no slider for it."""
        return [0.0]


_sessions: list[Session] = []


def open_run(folder: str) -> str:
    """Load a run; JSON with an error, or without."""
    try:
        _sessions[:] = [BrowserSession(hf.load(folder))]
    except HorizonfreeError as error:
        return json.dumps({"error": str(error)})
    return "{}"


def answer(name: str, question: str) -> str | bytes:
    """The answer to a question of the page: JSON with an answer or an error, or the bytes of a file."""
    (session,) = _sessions
    try:
        if name == "problem":
            return json.dumps({"answer": session.problem()})
        if name == "plan":
            return json.dumps({"answer": session.plan(json.loads(question))})
        return session.file(session.painting(json.loads(question)))
    except HorizonfreeError as error:
        return json.dumps({"error": str(error)})
