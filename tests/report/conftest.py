"""One explored grid for all reports, its page and its figures."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from horizonfree import report
from horizonfree.runs import certificates
from horizonfree.runs.run import Run

from .example_runs import grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@pytest.fixture(scope="session")
def run() -> Run:
    return grid()


@pytest.fixture(scope="package")
def text(run: Run, _few_radii: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of its report."""
    return report.write_report(run, tmp_path_factory.mktemp("report") / "r.html").read_text(encoding="utf-8")


@pytest.fixture(scope="package")
def figures(run: Run, _few_radii: None) -> "dict[str, Figure]":
    """To be looked at only."""
    return report.figures(run)


@pytest.fixture(autouse=True, scope="package")
def _few_radii() -> Iterator[None]:
    """Of how wrong the class may be: a curve of few points, since a page takes longest over it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "GRID", (0.0, 1e-3, 1e-1))
        patch.setattr(certificates, "NUM_BISECTIONS", 2)
        yield
