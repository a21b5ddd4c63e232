"""One explored grid for all reports, its page and its figures."""

from typing import TYPE_CHECKING

import pytest

from horizonfree import report
from horizonfree.runs.run import Run

from .worlds import grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@pytest.fixture(scope="session")
def run() -> Run:
    return grid()


@pytest.fixture(scope="session")
def text(run: Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of its report."""
    return report.write_report(run, tmp_path_factory.mktemp("report") / "r.html").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def figures(run: Run) -> "dict[str, Figure]":
    """To be looked at only."""
    return report.figures(run)
