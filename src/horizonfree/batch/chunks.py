"""A batch on disk: a folder with its settings and one checksummed file for each finished chunk of members.

    batch.json              settings of the batch, and the number of members of a chunk
    chunk-<first>.npz       progress, records and curves of the members from that one on
    lock                    held while a process writes to the folder

A chunk is written when it is finished, so an interrupted batch resumes with the first chunk that is missing. Files must
contain arrays of the types and shapes that the same call would write.
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
MAX_HEADER_BYTES = 2**12  # of an array in a file, beside its numbers
MAX_SETTINGS_BYTES = 2**24  # of a settings file, beside four times the expected size


class ArraySpec(NamedTuple):
    """Shape and type of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype


ArraySpecs = dict[str, ArraySpec]


class ChunkSource(Protocol):
    """Computes chunks."""

    def array_specs(self, first: int, size: int) -> ArraySpecs:
        """Shapes and types of all arrays of a chunk."""


class ChunkStore(Protocol):
    """Storage of finished chunks; `size` is the number of members of a chunk."""

    size: int

    def load(self, first: int, source: ChunkSource) -> Arrays | None:
        """The chunk that starts with this member, None if it is not stored."""

    def save(self, first: int, arrays: Arrays) -> None:
        """Store a chunk."""


class NullStore:
    """Stores nothing."""

    def __init__(self, size: int) -> None:
        self.size = size

    def load(self, first: int, source: ChunkSource) -> None:
        """None."""

    def save(self, first: int, arrays: Arrays) -> None:
        """Do nothing."""


class FolderStore:
    """Chunks as files of a folder whose settings have the checksum `batch_id`."""

    def __init__(self, path: Path, size: int, batch_id: str) -> None:
        self.path, self.size, self.batch_id = path, size, batch_id

    def load(self, first: int, source: ChunkSource) -> Arrays | None:
        """The chunk; raises RunError if it is damaged, belongs to another batch, or has other arrays than expected."""
        path = self._file(first)
        with files.os_errors(path):
            if not path.exists():
                return None
        specs = source.array_specs(first, self.size)
        num_bytes = sum(math.prod(x.shape) * x.dtype.itemsize for x in specs.values())
        _check_file_size(path, num_bytes + MAX_HEADER_BYTES * (len(specs) + 1))
        header, arrays, _ = files.read_npz(path)
        if header != {"batch": self.batch_id, "first": first}:
            raise RunError(f"{path} belongs to another batch; remove it from this folder")
        _check_arrays(path, arrays, specs)
        return arrays

    def save(self, first: int, arrays: Arrays) -> None:
        """Write the file atomically; raises RunError if the folder was moved, emptied or replaced."""
        settings = self.path / SETTINGS
        if not settings.exists() or files.read_json(settings)[1] != self.batch_id:
            raise RunError(
                f"{self.path} is no longer the folder of this batch: another process moved, emptied or replaced it; "
                "nothing more was written"
            )
        files.write_npz(self._file(first), {"batch": self.batch_id, "first": first}, arrays)

    def _file(self, first: int) -> Path:
        return self.path / f"chunk-{first:08d}.npz"


def _check_file_size(path: Path, max_bytes: int) -> None:
    """Refuse a file that is longer than any file of this batch, before it is read."""
    with files.os_errors(path):
        size = path.stat().st_size
    if size > max_bytes:
        raise RunError(f"{path} has {size:,} bytes, a file of this batch at most {max_bytes:,}; remove it")


def _check_arrays(path: Path, arrays: Arrays, specs: ArraySpecs) -> None:
    for name in sorted({*arrays, *specs}):
        actual, expected = (
            "nothing" if x is None else f"{x.dtype}{list(x.shape)}"
            for x in (arrays.get(name), specs.get(name))
        )
        if actual != expected:
            raise RunError(
                f"{path}: {name} is {actual}, but this batch has {expected} there; remove the file, and its members "
                "are explored again"
            )


@contextmanager
def open_store(
    out: str | PathLike[str] | None, settings: Mapping[str, Any], size: int, members: int
) -> Iterator[ChunkStore]:
    """The store of a batch, locked; an existing folder must have the same settings."""
    if out is None:
        yield NullStore(size)
        return
    path = files.resolve_path(out)
    with files.os_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        if not files.is_empty(path) and not (path / SETTINGS).exists():
            raise RunError(f"{path} holds no batch and is not empty; choose another folder")
    with files.lock(path):
        if not (path / SETTINGS).exists():
            files.write_json(path / SETTINGS, {**settings, "size": size})
        _check_file_size(path / SETTINGS, MAX_SETTINGS_BYTES + 4 * len(json.dumps(settings, indent=1)))
        stored_settings, batch_id = files.read_json(path / SETTINGS)
        size = stored_settings.pop("size", None)
        differing = sorted(
            name for name in {*stored_settings, *settings} if stored_settings.get(name) != settings.get(name)
        )
        if differing:
            raise RunError(
                f"{path} is a batch with other {', '.join(differing)}; repeat the call that started it, or choose "
                f"another folder ({SETTINGS} has {differing[0]} = {short_repr(stored_settings.get(differing[0]))})"
            )
        meaning = f"the number of members of a chunk, an integer from 1 to {members}"
        yield FolderStore(
            path, check_int(size, f"{path / SETTINGS}: size", 1, members, meaning, RunError), batch_id
        )
