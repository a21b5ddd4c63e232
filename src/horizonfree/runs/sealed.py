"""Files that are either whole and unchanged, or refused.

Writing goes to a temporary file that is flushed to the disk and then renamed, so a file is the old one or the new one
at every moment. Every file carries the SHA-256 of all its other bytes: JSON as its first entry, npz as the comment of
the archive (NumPy reads such a file as any other). The seal tells accidents, it is no signature: whoever can write the
file can seal it anew. So what is read is checked as input is, links are not followed and nothing is ever unpickled.
"""

import errno
import hashlib
import io
import json
import math
import os
import secrets
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from horizonfree._inputs import shown
from horizonfree.errors import RunError

LOCK = "lock"  # held while someone writes into the folder
PARTIAL = ".partial"  # what a write that was cut short leaves behind; the next write replaces it
HEADER = "header"  # the entry of an npz that holds a JSON text, as bytes
DESCRIPTIONS = 1024  # of arrays that are remembered
_HEX = 64  # digits of a SHA-256


def place(path: Any) -> Path:
    """The full path of a folder that a user named, there or not; what no folder can be called is refused."""
    try:
        folder = Path(path).expanduser().absolute()
        with suppress(FileNotFoundError, NotADirectoryError):
            folder.lstat()
    except (RuntimeError, OSError, ValueError, TypeError) as error:
        # no such user, a name that is too long or has a null character
        why = str(getattr(error, "strerror", None) or error).rstrip(".")
        name = shown(str(path) if isinstance(path, os.PathLike) else path)
        raise RunError(f"{name} cannot be a folder: {why}; choose another") from None
    if folder.is_symlink() and not folder.exists():
        raise RunError(f"{folder} is a link that leads nowhere; remove it, or choose another folder")
    return folder


def is_blank(folder: Path) -> bool:
    """Whether a folder holds nothing, or only what is left where the very first write was cut short."""
    return all(x.name in (LOCK, PARTIAL) for x in folder.iterdir())


@contextmanager
def begun(folder: Path) -> Iterator[Path]:
    """A folder to be filled. A new one gets its name when it is whole.

    One that exists is filled where it is, and held meanwhile: someone may stand in it, or it may be a disk of its own.
    """
    if folder.exists():
        with locked(folder):
            yield folder
        return
    fresh = folder.with_name(f".new-{secrets.token_hex(4)}")
    with told(folder):
        fresh.mkdir(parents=True)
        try:
            yield fresh
            os.replace(fresh, folder)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        sync(folder.parent)


def write_json(path: Path, value: Mapping[str, Any]) -> str:
    """Write a JSON object and return its seal."""
    text, seal = _sealed_text(value)
    replace(path, text.encode())
    return seal


def seal_of(value: Mapping[str, Any]) -> str:
    """The seal that a JSON object will have."""
    return _sealed_text(value)[1]


def read_json(path: Path) -> tuple[dict[str, Any], str]:
    """A JSON object and its seal."""
    data = read(path)
    try:
        value = json.loads(data)
        value.pop("seal")
        text, seal = _sealed_text(value)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise damaged(path) from None
    if text.encode() != data:
        raise damaged(path)
    return value, seal


def write_npz(
    path: Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], aside: str = PARTIAL
) -> str:
    """Write named arrays and a JSON header, and return the seal; `aside` as in `replace`."""
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), np.uint8)
    entries: dict[str, Any] = {HEADER: text, **arrays}
    np.savez(buffer, **entries)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = b"0" * _HEX
    body = buffer.getvalue()[:-_HEX]
    seal = hashlib.sha256(body).hexdigest()
    replace(path, body + seal.encode(), aside)
    return seal


def read_npz(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray], str]:
    """The JSON header, the arrays, which cannot be written to, and the seal."""
    data = read(path)
    seal = hashlib.sha256(memoryview(data)[:-_HEX]).hexdigest()
    if seal.encode() != data[-_HEX:]:
        raise damaged(path)
    try:
        arrays = _unpacked(data)
        header = json.loads(arrays.pop(HEADER).tobytes())
    except Exception:  # a seal is no signature: whoever made a new one may have put anything under it
        raise damaged(path) from None
    if not isinstance(header, dict):
        raise damaged(path)
    return header, arrays, seal


def seal_in(path: Path) -> str:
    """The seal that an npz carries, whether or not it is true: `read_npz` looks."""
    return read(path)[-_HEX:].decode(errors="replace")


def _unpacked(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of an archive as `write_npz` makes it: entries stored as they are, so none is larger than the file."""
    arrays: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            is_plain = entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & 1
            name = entry.filename.removesuffix(".npy")
            if not is_plain or name == entry.filename or name in arrays or entry.file_size > len(data):
                raise ValueError(f"{entry.filename} is not an entry of ours")
            arrays[name] = _array(archive.read(entry))
    return arrays


def _array(data: bytes) -> np.ndarray:
    """The array in the bytes of an .npy file, which cannot be written to; its size is that of the bytes."""
    begins = npy.MAGIC_LEN + {1: 2, 2: 4}[data[npy.MAGIC_LEN - 2]]  # by the version, so long is a length
    ends = begins + int.from_bytes(data[npy.MAGIC_LEN : begins], "little")
    shape, is_fortran, dtype = _described(data[:ends])
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(data) - ends:
        raise ValueError("not an array of numbers, or not as long as it says")
    array = np.frombuffer(data, dtype, offset=ends).reshape(shape, order="F" if is_fortran else "C")
    array = array.copy(order="K")  # where its numbers lie as the processor likes them
    array.flags.writeable = False
    return array


@lru_cache(maxsize=DESCRIPTIONS)
def _described(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an array, by what an .npy file begins with; it takes longer to parse than all else."""
    file = io.BytesIO(data)
    version = npy.read_magic(file)
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
    found: tuple[tuple[int, ...], bool, np.dtype[Any]] = read_header(file)
    return found


def read(path: Path) -> bytes:
    """The bytes of a regular file; a link is refused."""
    with told(path), os.fdopen(_open(path, os.O_RDONLY), "rb") as file:
        _check_regular(path, file.fileno())
        return file.read()


def replace(path: Path, data: bytes, aside: str = PARTIAL) -> None:
    """Put these bytes in place of a file, at once and for good; `aside`: the name they have until then."""
    partial = path.with_name(aside)
    with told(path):
        try:
            with os.fdopen(_open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        sync(path.parent)


def extend(path: Path, size: int, data: bytes) -> bool:
    """Cut a file to a size and put these bytes after it; False, and nothing is done, where it is shorter than that."""
    with told(path), os.fdopen(_open(path, os.O_WRONLY | os.O_CREAT), "wb") as file:
        _check_regular(path, file.fileno())
        if os.fstat(file.fileno()).st_size < size:
            return False
        file.truncate(size)
        file.seek(size)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return True


def sync(folder: Path) -> None:
    """Make the names in a folder last through a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder alone. The system lets go of the lock when the process ends, however it ends."""
    import fcntl

    path = folder / LOCK
    with told(path):
        handle = _open(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        except BlockingIOError:
            holder = os.pread(handle, 20, 0).decode(errors="replace")
            os.close(handle)
            raise RunError(
                f"{folder} is in use by another exploration (process {holder}); wait until it ends, or stop it"
            ) from None
        except BaseException:
            os.close(handle)
            raise
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def told(path: Path) -> Iterator[None]:
    """What the system refuses, in words, with what to do."""
    try:
        yield
    except OSError as error:
        advice = {
            errno.ENOSPC: "the disk is full: free some space and resume; what was saved before is whole",
            errno.EDQUOT: "the quota is used up: free some space and resume; what was saved before is whole",
            errno.EFBIG: "the file may not grow further: raise the limit on file sizes (ulimit -f) and resume",
            errno.ELOOP: "it is a link, and links are not followed: put the file itself in its place",
            errno.ENOENT: "it does not exist",
            errno.EEXIST: "there is a file of that name: choose another folder",
            errno.ENOTDIR: "a part of the path is a file, not a folder: choose another place",
            errno.EACCES: "permission denied: choose a folder that you may use",
            errno.EROFS: "the disk is read-only: copy the folder to where it can be written",
        }.get(error.errno or 0, f"{error.strerror or error}")
        raise RunError(f"{path}: {advice}") from error


def damaged(path: Path) -> RunError:
    """The refusal of a file that is not what was written."""
    return RunError(f"{path} is damaged: its bytes are not those that were written; restore it from a copy")


def _check_regular(path: Path, handle: int) -> None:
    """Refuse folders, pipes and devices."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise RunError(f"{path} is not a regular file; a run folder holds nothing else")


def _open(path: Path, flags: int) -> int:
    """Never through a link, and without waiting at what is not a file."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def _sealed_text(value: Mapping[str, Any]) -> tuple[str, str]:
    """The text of a JSON object with its seal as the first entry: one text per value."""
    bare = json.dumps(value, indent=1, allow_nan=False)
    seal = hashlib.sha256(bare.encode()).hexdigest()
    return json.dumps({"seal": seal, **value}, indent=1, allow_nan=False) + "\n", seal
