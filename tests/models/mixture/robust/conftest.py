"""A small problem and its recorded evidence, for several files."""

import pytest

from tests.reference import small


@pytest.fixture(scope="session")
def problem():
    return small.dense()


@pytest.fixture(scope="session")
def evidence(problem):
    return small.pick(small.gather_outside(problem, [problem.kernel().dense()], 200, [0]), 0)
