"""Checks by name, and what they found."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
            listed = "\n".join(f"- {name}: {reason}" for name, reason in self.failed.items())
            raise AssertionError(f"{self.subject} fails {len(self.failed)} checks:\n{listed}")


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
