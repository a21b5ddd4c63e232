"""A batch on disk: a folder with its settings and one sealed file for each chunk of members that is finished.

    batch.json              what is explored and how, and how many members make a chunk
    chunk-<first>.npz       the members from that one on: states, records, curves
    lock                    held while someone explores into the folder

A chunk is written when it is finished, so a batch that was interrupted goes on with the first one that is missing.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from horizonfree.errors import RunError
from horizonfree.runs import sealed

SETTINGS = "batch.json"
Arrays = dict[str, np.ndarray]


class Store(Protocol):
    """Where finished chunks are kept; `size` members make one."""

    size: int

    def load(self, first: int) -> Arrays | None:
        """The chunk that begins with this member, None if it is not there."""

    def save(self, first: int, arrays: Arrays) -> None:
        """Keep a chunk."""


class Nowhere:
    """Nothing is kept."""

    def __init__(self, size: int) -> None:
        self.size = size

    def load(self, first: int) -> None:
        """Nothing is there."""

    def save(self, first: int, arrays: Arrays) -> None:
        """Let go."""


class Folder:
    """Chunks as files of a folder that belong to the settings with this seal."""

    def __init__(self, path: Path, size: int, seal: str) -> None:
        self.path, self.size, self.seal = path, size, seal

    def load(self, first: int) -> Arrays | None:
        """The chunk, refused when it is damaged or belongs to another batch."""
        path = self._file(first)
        if not path.exists():
            return None
        header, arrays, _ = sealed.read_npz(path)
        if header != {"batch": self.seal, "first": first}:
            raise RunError(f"{path} belongs to another batch; remove it from this folder")
        return arrays

    def save(self, first: int, arrays: Arrays) -> None:
        """Whole or not at all; refused where somebody moved, emptied or replaced the folder meanwhile."""
        settings = self.path / SETTINGS
        if not settings.exists() or sealed.read_json(settings)[1] != self.seal:
            raise RunError(
                f"{self.path} is no longer the folder of this batch: somebody moved, emptied or replaced it; nothing "
                "more was written"
            )
        sealed.write_npz(self._file(first), {"batch": self.seal, "first": first}, arrays)

    def _file(self, first: int) -> Path:
        return self.path / f"chunk-{first:08d}.npz"


@contextmanager
def opened(out: str | PathLike[str] | None, settings: Mapping[str, Any], size: int) -> Iterator[Store]:
    """The store of a batch, held alone meanwhile; a folder that exists must have been begun with the same settings."""
    if out is None:
        yield Nowhere(size)
        return
    path = sealed.place(out)
    with sealed.told(path):
        path.mkdir(parents=True, exist_ok=True)
        if not sealed.is_blank(path) and not (path / SETTINGS).exists():
            raise RunError(f"{path} holds no batch and is not empty; choose another folder")
    with sealed.locked(path):
        if not (path / SETTINGS).exists():
            sealed.write_json(path / SETTINGS, {**settings, "size": size})
        found, seal = sealed.read_json(path / SETTINGS)
        size = found.pop("size")
        other = sorted(name for name in {*found, *settings} if found.get(name) != settings.get(name))
        if other:
            raise RunError(
                f"{path} was begun with other {', '.join(other)}; repeat the call it was begun with, or choose another "
                "folder"
            )
        yield Folder(path, size, seal)
