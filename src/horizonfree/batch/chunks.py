"""A batch on disk: a folder with its settings and one checksummed file for each chunk of members that is finished.

    batch.json              what is explored and how, and how many members make a chunk
    chunk-<first>.npz       the members from that one on: states, records, curves
    lock                    held while someone explores into the folder

A chunk is written when it is finished, so a batch that was interrupted goes on with the first one that is missing.
Files must hold arrays of the types and shapes that the same call would write.
"""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from horizonfree._validation import check_int, short_repr
from horizonfree.errors import RunError
from horizonfree.runs import files

SETTINGS = "batch.json"
Arrays = dict[str, np.ndarray]
SLACK = 2**12  # bytes that an array may take in a file beside its numbers
MOST_SETTINGS = 2**24  # bytes of settings that are read, and four times as many as there should be


class Due(NamedTuple):
    """What an array must be."""

    shape: tuple[int, ...]
    dtype: np.dtype


Form = dict[str, Due]


class Work(Protocol):
    """What fills chunks, and knows what is in one."""

    def form(self, first: int, size: int) -> Form:
        """Every array of a chunk."""


class Store(Protocol):
    """Where finished chunks are kept; `size` members make one."""

    size: int

    def load(self, first: int, work: Work) -> Arrays | None:
        """The chunk that begins with this member, None if it is not there."""

    def save(self, first: int, arrays: Arrays) -> None:
        """Keep a chunk."""


class Nowhere:
    """Nothing is kept."""

    def __init__(self, size: int) -> None:
        self.size = size

    def load(self, first: int, work: Work) -> None:
        """Nothing is there."""

    def save(self, first: int, arrays: Arrays) -> None:
        """Let go."""


class Folder:
    """Chunks as files of a folder that belong to the settings with this checksum."""

    def __init__(self, path: Path, size: int, batch_id: str) -> None:
        self.path, self.size, self.batch_id = path, size, batch_id

    def load(self, first: int, work: Work) -> Arrays | None:
        """The chunk, refused when it is damaged, belongs to another batch, or is not what the work would fill in."""
        path = self._file(first)
        with files.os_errors(path):
            if not path.exists():
                return None
        form = work.form(first, self.size)
        numbers = sum(math.prod(x.shape) * x.dtype.itemsize for x in form.values())
        _check_length(path, numbers + SLACK * (len(form) + 1))
        header, arrays, _ = files.read_npz(path)
        if header != {"batch": self.batch_id, "first": first}:
            raise RunError(f"{path} belongs to another batch; remove it from this folder")
        _check_form(path, arrays, form)
        return arrays

    def save(self, first: int, arrays: Arrays) -> None:
        """Whole or not at all; refused where somebody moved, emptied or replaced the folder meanwhile."""
        settings = self.path / SETTINGS
        if not settings.exists() or files.read_json(settings)[1] != self.batch_id:
            raise RunError(
                f"{self.path} is no longer the folder of this batch: somebody moved, emptied or replaced it; nothing "
                "more was written"
            )
        files.write_npz(self._file(first), {"batch": self.batch_id, "first": first}, arrays)

    def _file(self, first: int) -> Path:
        return self.path / f"chunk-{first:08d}.npz"


def _check_length(path: Path, most: int) -> None:
    """Refuse a file that is longer than any of ours before it is read."""
    with files.os_errors(path):
        size = path.stat().st_size
    if size > most:
        raise RunError(f"{path} has {size:,} bytes, a file of this batch at most {most:,}; remove it")


def _check_form(path: Path, arrays: Arrays, form: Form) -> None:
    """Refuse an array that is missing, foreign, or of another type or shape."""
    for name in sorted({*arrays, *form}):
        said = [
            f"{x.dtype}{list(x.shape)}" if x is not None else "nothing"
            for x in (arrays.get(name), form.get(name))
        ]
        if said[0] != said[1]:
            raise RunError(
                f"{path}: {name} is {said[0]}, but this batch keeps {said[1]} there; remove the file, and its members "
                "are explored again"
            )


@contextmanager
def opened(
    out: str | PathLike[str] | None, settings: Mapping[str, Any], size: int, members: int
) -> Iterator[Store]:
    """The store of a batch, held alone meanwhile; a folder that exists must have been begun with the same settings."""
    if out is None:
        yield Nowhere(size)
        return
    path = files.resolve_path(out)
    with files.os_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        if not files.is_blank(path) and not (path / SETTINGS).exists():
            raise RunError(f"{path} holds no batch and is not empty; choose another folder")
    with files.locked(path):
        if not (path / SETTINGS).exists():
            files.write_json(path / SETTINGS, {**settings, "size": size})
        _check_length(path / SETTINGS, MOST_SETTINGS + 4 * len(json.dumps(settings, indent=1)))
        found, batch_id = files.read_json(path / SETTINGS)
        size = found.pop("size", None)
        other = sorted(name for name in {*found, *settings} if found.get(name) != settings.get(name))
        if other:
            raise RunError(
                f"{path} was begun with other {', '.join(other)}; repeat the call it was begun with, or choose another "
                f"folder ({SETTINGS} says {other[0]} {short_repr(found.get(other[0]))})"
            )
        meaning = f"the members of a chunk, a whole number from 1 to {members}"
        yield Folder(
            path, check_int(size, f"{path / SETTINGS}: size", 1, members, meaning, RunError), batch_id
        )
