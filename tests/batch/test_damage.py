"""Damaged batch folders: refused with the name of the file; a chunk that is removed is explored again."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.batch import job
from horizonfree.errors import RunError
from horizonfree.runs import files
from tests.reference import memory

FIRST, SECOND = "chunk-00000000.npz", "chunk-00000002.npz"
HOW = {"episodes": 4, "seeds": 4, "checkpoints": [2, 4], "curves": ["eps", "gap"]}


@pytest.fixture(autouse=True, scope="module")
def in_pairs() -> Iterator[None]:
    """Two members in a chunk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "MAX_MEMBERS", {True: 2, False: 2})
        yield


def explore(folder: Path | None, **settings: Any) -> hf.Batch:
    problem = hf.make("river-swim", states=3, horizon=3)
    return hf.explore_many(problem, "goal-cycling", out=folder, progress=False, **HOW | settings)


@pytest.fixture(scope="module")
def stored(in_pairs: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damage") / "a"
    explore(folder)
    return folder


@pytest.fixture
def folder(stored: Path, tmp_path: Path) -> Path:
    """A copy of the batch, to be damaged."""
    return Path(shutil.copytree(stored, tmp_path / "a"))


def test_flipped_bytes_and_truncations_are_refused(folder: Path, subtests: pytest.Subtests) -> None:
    for name in ("batch.json", FIRST):
        content = (folder / name).read_bytes()
        damaged = [content[:n] for n in np.linspace(0, len(content) - 1, 5).astype(int)]
        for offset in np.linspace(0, len(content) - 1, 11).astype(int):
            damaged.append(content[:offset] + bytes([content[offset] ^ 1]) + content[offset + 1 :])
        for i, data in enumerate(damaged):
            with subtests.test(name, i=i):
                (folder / name).write_bytes(data)
                with pytest.raises(RunError, match=rf"{name} is damaged"):
                    explore(folder)
        (folder / name).write_bytes(content)
    with subtests.test("an archive that NumPy wrote"):
        np.savez(folder / FIRST, x=np.zeros(3))
        with pytest.raises(RunError, match=f"{FIRST} is damaged"):
            explore(folder)


def test_a_chunk_that_was_removed_is_explored_again(folder: Path) -> None:
    (folder / FIRST).unlink()
    assert np.array_equal(explore(folder).curves["eps"], explore(None).curves["eps"])


def test_other_settings_and_chunks_of_another_batch_are_refused(
    folder: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for name, value in {
        "episodes": 5,
        "seeds": 3,
        "checkpoints": [4],
        "curves": ["eps"],
        "delta": 0.1,
    }.items():
        with subtests.test(name), pytest.raises(RunError, match=f"a batch with other {name}.*has {name} = "):
            explore(folder, **{name: value})
    with subtests.test("another chunk"):
        shutil.copy(folder / SECOND, folder / FIRST)
        with pytest.raises(RunError, match=f"{FIRST} belongs to another batch"):
            explore(folder)
    with subtests.test("another batch"):
        explore(tmp_path / "b", seeds=[7, 8])
        shutil.copy(tmp_path / "b" / FIRST, folder / FIRST)
        with pytest.raises(RunError, match=f"{FIRST} belongs to another batch"):
            explore(folder)


def test_arrays_of_another_shape_are_refused_by_name(folder: Path) -> None:
    """As another version of an explorer may have written them."""
    header, arrays, _ = files.read_npz(folder / FIRST)
    files.write_npz(folder / FIRST, header, arrays | {"curves.eps": arrays["curves.eps"][:1]})
    message = r"curves\.eps is float64\[1, 2\], but this batch has float64\[2, 2\]"
    with pytest.raises(
        RunError, match=rf"{FIRST}.*{message}.*remove the file, and its members are explored again"
    ):
        explore(folder)


def test_links_pipes_and_folders_in_place_of_files_are_refused(folder: Path, tmp_path: Path) -> None:
    for name in ("batch.json", FIRST):
        path = folder / name
        path.rename(tmp_path / "aside")
        for make, message in (
            (lambda path: path.symlink_to(tmp_path / "aside"), "links are not followed"),
            (os.mkfifo, "is not a regular file"),
            (Path.mkdir, "is not a regular file|Is a directory"),
        ):
            make(path)
            with pytest.raises(RunError, match=f"{name}.*({message})"):
                explore(folder)
            path.rmdir() if path.is_dir() else path.unlink()
        (tmp_path / "aside").rename(path)


def test_a_file_of_a_gigabyte_is_refused_before_it_is_read(folder: Path) -> None:
    """A sparse file, which takes no disk."""
    for name in ("batch.json", FIRST):
        num_bytes = (folder / name).stat().st_size
        os.truncate(folder / name, 2**30)
        with memory.peak_memory() as peak:
            with pytest.raises(RunError, match=f"{name} has 1,073,741,824 bytes"):
                explore(folder)
            assert peak() < 2**24
        os.truncate(folder / name, num_bytes)


def test_a_folder_that_is_removed_during_a_batch_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    run = job.Job.run

    def clear(folder: Path) -> None:
        for path in folder.iterdir():
            path.unlink()

    for name, act in {"emptied": clear, "removed": shutil.rmtree}.items():
        with subtests.test(name), monkeypatch.context() as patch:
            calls: list[int] = []

            def ran(self: Any, first: int, *args: Any, act: Any = act, calls: Any = calls) -> Any:
                result = run(self, first, *args)
                calls.append(first)
                if len(calls) == 2:
                    act(tmp_path / "a")
                return result

            patch.setattr(job.Job, "run", ran)
            with pytest.raises(RunError, match="no longer the folder of this batch"):
                explore(tmp_path / "a", seeds=6)
            assert calls == [0, 2]
            shutil.rmtree(tmp_path / "a", ignore_errors=True)
