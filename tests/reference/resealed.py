"""Run folders as someone would forge them: other content under a seal that is valid."""

import functools
import hashlib
import io
import json
import operator
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import horizonfree as hf
from horizonfree.models.plain import rebuild, under
from horizonfree.models.registry import CLASSES
from horizonfree.problems.problem import Problem
from horizonfree.runs import recipes, sealed

Change = Callable[[dict[str, Any], dict[str, np.ndarray]], None]
ENTRY, DIRECTORY = b"PK\x03\x04", b"PK\x01\x02"


class Member(NamedTuple):
    """An entry of an archive."""

    name: str
    data: bytes
    method: int = zipfile.ZIP_STORED


def npy(x: Any) -> bytes:
    """The bytes of an .npy file."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(x))
    return file.getvalue()


def claims(header: str, data: bytes = b"", version: int = 1) -> bytes:
    """An .npy file that says of itself what it likes."""
    text = header.encode().ljust(117) + b"\n"
    return (
        b"\x93NUMPY"
        + bytes([version, 0])
        + struct.pack("<H" if version == 1 else "<I", len(text))
        + text
        + data
    )


def members(header: Any, arrays: Mapping[str, Any]) -> list[Member]:
    """The entries that `sealed.write_npz` would write; a header of bytes stands as it is."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    entries = {"header": np.frombuffer(text, np.uint8), **arrays}
    return [Member(f"{name}.npy", npy(x)) for name, x in entries.items()]


def archive(entries: Sequence[Member]) -> bytes:
    """A sealed archive of these entries."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        for entry in entries:
            zipped.writestr(entry.name, entry.data, entry.method)
        zipped.comment = b"0" * 64
    return seal(file.getvalue()[:-64])


def seal(body: bytes) -> bytes:
    """The bytes with their SHA-256 behind them."""
    return body + hashlib.sha256(body).hexdigest().encode()


def patched(data: bytes, offset: int, value: int) -> bytes:
    """A sealed archive with two bytes changed in every entry; the offset is that of the local header."""
    body = bytearray(data[:-64])
    for mark, shift in ((ENTRY, 0), (DIRECTORY, 2)):
        at = body.find(mark)
        while at >= 0:
            struct.pack_into("<H", body, at + offset + shift, value)
            at = body.find(mark, at + 4)
    return seal(bytes(body))


def change_run(folder: Path, change: Change) -> None:
    """Other entries of run.json or arrays.npz; every seal and the fingerprint fit again."""
    header, _ = sealed.read_json(folder / "run.json")
    said, arrays, _ = sealed.read_npz(folder / "arrays.npz")
    change(header, arrays)
    with suppress(Exception):  # a fingerprint of what makes no sense cannot be had
        header["problem"]["fingerprint"] = recipes.fingerprint(forged(header["problem"], arrays))
    put_arrays(folder, archive(members(said, arrays)), header)


def put_arrays(folder: Path, data: bytes, header: dict[str, Any] | None = None) -> None:
    """Other bytes for arrays.npz, and everything that speaks of them."""
    if header is None:
        header, _ = sealed.read_json(folder / "run.json")
    (folder / "arrays.npz").write_bytes(data)
    if "arrays" in header:
        header["arrays"] = hashlib.sha256(data[:-64]).hexdigest()
    put_manifest(folder, header)


def put_manifest(folder: Path, header: dict[str, Any]) -> None:
    """Another run.json, and checkpoints that belong to it."""
    mark = sealed.write_json(folder / "run.json", header)
    for path in folder.glob("checkpoint-*.npz"):
        said, arrays, _ = sealed.read_npz(path)
        sealed.write_npz(path, said | {"run": mark}, arrays)


def change_checkpoint(path: Path, change: Change) -> None:
    """Other entries of a checkpoint."""
    header, arrays, _ = sealed.read_npz(path)
    change(header, arrays)
    path.write_bytes(archive(members(header, arrays)))


def forged(said: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Problem:
    """The problem of these entries, unchecked."""
    model = rebuild(CLASSES[said["class"]], said["model"], under(arrays, "model."))
    return Problem(model, arrays.get("truth"), said["name"])


def put(value: Any, *path: str) -> Change:
    """Another value at a place in the header."""

    def change(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        functools.reduce(operator.getitem, path[:-1], header)[path[-1]] = value

    return change


def gone(*path: str) -> Change:
    """No value at a place in the header."""

    def change(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        functools.reduce(operator.getitem, path[:-1], header).pop(path[-1])

    return change


def without_recipe(folder: Path) -> Path:
    """A run of 4 episodes of a problem that has no recipe and starts anywhere, with checkpoints at 2 and 4."""
    kernels = np.random.default_rng(0).dirichlet(np.ones(3), (2, 3, 2))
    problem = hf.Mixture.from_kernels(kernels, horizon=3, start=[0.5, 0.25, 0.25], weights=[0.4, 0.6])
    hf.explore(problem, "information", episodes=4, out=folder, save_episodes=2)
    return folder
