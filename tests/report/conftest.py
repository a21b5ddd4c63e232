"""One explored grid for all reports."""

import pytest

from horizonfree.runs.run import Run

from .worlds import grid


@pytest.fixture(scope="module")
def run() -> Run:
    return grid()
