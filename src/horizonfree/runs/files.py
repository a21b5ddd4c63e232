"""Atomic files with checksums.

A file is written to a temporary one, flushed to the disk and renamed, so at every moment it is either the old or the
new one. Every file contains a SHA-256 of its other bytes: JSON as its first entry, npz as the comment of the archive
(NumPy reads such a file as any other). Checksums detect damage, not forgery. Links are not followed, and nothing is
unpickled.
"""

import errno
import hashlib
import io
import json
import os
import secrets
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from horizonfree._validation import short_repr
from horizonfree.errors import RunError

try:
    import fcntl
except ImportError:  # Windows: folders are not locked there
    fcntl = None  # type: ignore[assignment]

LOCK = "lock"  # held while a process writes into the folder
PARTIAL = ".partial"  # temporary file; the next write replaces one that was left behind
HEADER = "header"  # the entry of an npz that holds a JSON text, as bytes
_DIGEST_LENGTH = 64  # of a SHA-256, in hexadecimal digits
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def resolve_path(path: Any) -> Path:
    """The absolute path of a folder, whether it exists or not."""
    try:
        folder = Path(path).expanduser().absolute()
        with suppress(FileNotFoundError, NotADirectoryError):
            folder.lstat()
    except (RuntimeError, OSError, ValueError, TypeError) as error:
        # no such user, a name that is too long or has a null character
        reason = str(getattr(error, "strerror", None) or error).rstrip(".")
        name = short_repr(str(path) if isinstance(path, os.PathLike) else path)
        raise RunError(f"{name} cannot be a folder: {reason}; choose another") from None
    if folder.is_symlink() and not folder.exists():
        raise RunError(f"{folder} is a link that leads nowhere; remove it, or choose another folder")
    return folder


def is_empty(folder: Path) -> bool:
    """Whether a folder is empty, except for what an interrupted first write leaves behind."""
    return all(x.name in (LOCK, PARTIAL) for x in folder.iterdir())


@contextmanager
def new_directory(folder: Path) -> Iterator[Path]:
    """A folder to be filled; a new one is renamed when it is complete.

    An existing one is filled in place and locked meanwhile: it may be a mount point or a working directory.
    """
    if folder.exists():
        with lock(folder):
            yield folder
        return
    temporary = folder.with_name(f".new-{secrets.token_hex(4)}")
    with os_errors(folder):
        temporary.mkdir(parents=True)
        try:
            yield temporary
            os.replace(temporary, folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        _sync_folder(folder.parent)


def write_json(path: Path, value: Mapping[str, Any]) -> str:
    """Write a JSON object and return its checksum."""
    text, checksum = _with_checksum(value)
    replace_file(path, text.encode())
    return checksum


def json_checksum(value: Mapping[str, Any]) -> str:
    """The checksum that a JSON object will have."""
    return _with_checksum(value)[1]


def read_json(path: Path) -> tuple[dict[str, Any], str]:
    """A JSON object and its checksum."""
    data = read_bytes(path)
    try:
        value = json.loads(data)
        value.pop("checksum")
        text, checksum = _with_checksum(value)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise damage_error(path) from None
    if text.encode() != data:
        raise damage_error(path)
    return value, checksum


def write_npz(path: Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """Write named arrays and a JSON header, and return the checksum."""
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), np.uint8)
    entries: dict[str, Any] = {HEADER: text, **arrays}
    np.savez(buffer, **entries)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = b"0" * _DIGEST_LENGTH
    body = buffer.getvalue()[:-_DIGEST_LENGTH]
    checksum = hashlib.sha256(body).hexdigest()
    replace_file(path, body + checksum.encode())
    return checksum


def read_npz(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray], str]:
    """The JSON header, the arrays, which are read-only, and the checksum."""
    data = read_bytes(path)
    checksum = hashlib.sha256(memoryview(data)[:-_DIGEST_LENGTH]).hexdigest()
    if checksum.encode() != data[-_DIGEST_LENGTH:]:
        raise damage_error(path)
    try:
        _check_entries(data)
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop(HEADER).tobytes())
    except (ValueError, KeyError, OSError, zipfile.BadZipFile):
        raise damage_error(path) from None
    for x in arrays.values():
        x.flags.writeable = False
    return header, arrays, checksum


def _check_entries(data: bytes) -> None:
    """An error for an archive that could unpack to more than its own size."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > len(data):
                raise ValueError(f"{entry.filename} is compressed")


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file; an error for a link."""
    with os_errors(path), os.fdopen(_open(path, os.O_RDONLY), "rb") as file:
        _check_regular(path, file.fileno())
        return file.read()


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file by these bytes, atomically and durably."""
    partial = path.with_name(PARTIAL)
    with os_errors(path):
        try:
            with os.fdopen(_open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def append_bytes(path: Path, size: int, data: bytes) -> bool:
    """Truncate a file to a size and append these bytes; False, and no change, if it is shorter."""
    with os_errors(path), os.fdopen(_open(path, os.O_WRONLY | os.O_CREAT), "wb") as file:
        _check_regular(path, file.fileno())
        if os.fstat(file.fileno()).st_size < size:
            return False
        file.truncate(size)
        file.seek(size)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return True


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Lock a folder. The system releases the lock when the process ends."""
    path = folder / LOCK
    with os_errors(path):
        handle = _open(path, os.O_RDWR | os.O_CREAT)
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())
        except BlockingIOError:
            holder = os.read(handle, 20).decode(errors="replace")
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


ADVICE = {
    errno.ENOSPC: "the disk is full: free some space and resume; earlier checkpoints are complete",
    errno.EDQUOT: "the quota is used up: free some space and resume; earlier checkpoints are complete",
    errno.EFBIG: "the file may not grow further: raise the limit on file sizes (ulimit -f) and resume",
    errno.ELOOP: "it is a link, and links are not followed: put the file itself in its place",
    errno.ENOENT: "it does not exist",
    errno.EEXIST: "there is a file of that name: choose another folder",
    errno.ENOTDIR: "a part of the path is a file, not a folder: choose another place",
    errno.EACCES: "permission denied: choose a folder that you may use",
    errno.EROFS: "the disk is read-only: copy the folder to where it can be written",
}


@contextmanager
def os_errors(path: Path) -> Iterator[None]:
    """Errors of the operating system as RunError with advice."""
    try:
        yield
    except OSError as error:
        advice = ADVICE.get(error.errno or 0, f"{error.strerror or error}")
        raise RunError(f"{path}: {advice}") from error


def damage_error(path: Path) -> RunError:
    """The error for a file with a wrong checksum."""
    return RunError(f"{path} is damaged: its bytes are not those that were written; restore it from a copy")


def _sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    if os.name == "nt":  # folders cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_regular(path: Path, handle: int) -> None:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise RunError(f"{path} is not a regular file; a run folder contains only regular files")


def _open(path: Path, flags: int) -> int:
    """Open without following links or waiting for a pipe."""
    return os.open(path, flags | _NO_FOLLOW, 0o666)


def _with_checksum(value: Mapping[str, Any]) -> tuple[str, str]:
    """The text of a JSON object with its checksum as the first entry."""
    text = json.dumps(value, indent=1, allow_nan=False)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps({"checksum": checksum, **value}, indent=1, allow_nan=False) + "\n", checksum
