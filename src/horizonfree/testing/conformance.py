"""Checks by name, and what they found."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from horizonfree._validation import check_known
from horizonfree.errors import HorizonfreeError

MAX_TRACE = 3  # last lines of a traceback, for an error of the tested class


@dataclass(frozen=True)
class ConformanceReport:
    """The names of the checks that passed, and of those that failed with the reason."""

    subject: str
    passed: tuple[str, ...]
    failed: Mapping[str, str]

    def raise_for_failures(self) -> None:
        """Raise an AssertionError that lists the failed checks, if there are any."""
        if self.failed:
            sentences = "\n".join(f"- {name}: {reason}" for name, reason in self.failed.items())
            raise AssertionError(f"{self.subject} fails {len(self.failed)} checks:\n{sentences}")


def run_checks(
    subject: str, checks: Mapping[str, Callable[[], None]], only: Sequence[str] | None, *, raise_error: bool
) -> ConformanceReport:
    """Run all checks, or those in `only`; each of them raises an error to fail."""
    for name in only or ():
        check_known(name, checks, "check")
    passed, failed = [], {}
    for name in only or checks:
        try:
            checks[name]()
        except AssertionError as error:
            failed[name] = str(error)
        except HorizonfreeError as error:
            failed[name] = f"{type(error).__name__}: {error}"
        except Exception as error:  # of any type: the tested class is somebody else's
            frames = traceback.extract_tb(error.__traceback__)[-MAX_TRACE:]
            where = ", ".join(f"{Path(x.filename).name}:{x.lineno} in {x.name}" for x in frames)
            failed[name] = f"{type(error).__name__}: {error} ({where})"
        else:
            passed.append(name)
    report = ConformanceReport(subject, tuple(passed), failed)
    if raise_error:
        report.raise_for_failures()
    return report


def require(condition: object, reason: str) -> None:
    """Fail a check with this reason unless the condition holds."""
    if not condition:
        raise AssertionError(reason)


def first_difference(x: Any, y: Any, *, shapes_only: bool = False) -> str | None:
    """Where two trees of arrays differ, to the last bit or only in shapes and types; None where they do not."""
    leaves, structures = zip(*(jax.tree_util.tree_flatten_with_path(tree) for tree in (x, y)), strict=True)
    if structures[0] != structures[1]:
        return " has other fields"
    for (path, u), (_, v) in zip(*leaves, strict=True):
        name = jax.tree_util.keystr(path)
        if (np.shape(u), u.dtype) != (np.shape(v), v.dtype):
            return f"{name} is {u.dtype}{list(np.shape(u))} and {v.dtype}{list(np.shape(v))}"
        if not shapes_only and not np.array_equal(u, v, equal_nan=u.dtype.kind == "f"):
            return f"{name} differs"
    return None


def clear_caches() -> None:
    """Have every program traced again."""
    jax.clear_caches()  # type: ignore[no-untyped-call]
