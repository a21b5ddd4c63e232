"""A log of one's own as a run: the class of dynamics it belongs to, and where the run is kept."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horizonfree.cli._shared import expand_user, make_problem, spinner
from horizonfree.cli.settings import parse_values
from horizonfree.errors import OptionError

if TYPE_CHECKING:
    from horizonfree import Run

OF_TABLE = ("num_states", "num_actions", "horizon", "start")


def run_of(
    log: Path,
    *,
    problem: str | None = None,
    kernels: Path | None = None,
    param: Sequence[str] = (),
    unknown: Sequence[str] = (),
    out: Path | None = None,
) -> "Run":
    """The run of a log, saved where that is asked for; without a class, an unknown table."""
    given: dict[str, Any] = parse_values(param, "--param")
    with spinner(f"reading {log}"):
        from horizonfree import from_log

        if problem is None and kernels is None:
            odd = next((name for name in given if name not in OF_TABLE), None)
            if odd is not None:
                raise OptionError(f"--param {odd}: an unknown table has {', '.join(OF_TABLE)}")
            run = from_log(log, **given)
        else:
            run = from_log(log, make_problem(problem, kernels, given, unknown))
        if out is not None:
            run.save(expand_user(out))
    return run
