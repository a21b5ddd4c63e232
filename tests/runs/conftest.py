"""A stored run, copies of it to be damaged, and a process whose children are killed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import horizonfree as hf
from tests.runs.child import Child


@pytest.fixture(scope="module")
def problem() -> hf.Problem:
    return hf.make("zoned-grid", size=3, zones=1, horizon=4)


@pytest.fixture(scope="module")
def saved_folder(problem: hf.Problem, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 9 episodes with checkpoints at 6 and 9."""
    folder = tmp_path_factory.mktemp("runs") / "a"
    hf.explore(problem, "optimal-design", episodes=9, seed=5, out=folder, save_episodes=3, save_seconds=1e9)
    return folder


@pytest.fixture
def folder(saved_folder: Path, tmp_path: Path) -> Path:
    """A copy of that run, to be damaged."""
    return Path(shutil.copytree(saved_folder, tmp_path / "a"))


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    child = Child(tmp_path_factory.mktemp("cache"))
    yield child
    child.close()
