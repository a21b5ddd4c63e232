"""The files of a run folder by name, and how a checkpoint is read: all that can be said of a run without JAX.

store.py says what the files are.
"""

import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from horizonfree.errors import RunError
from horizonfree.runs import sealed

FORMAT = 3
MANIFEST, ARRAYS, RECORDS = "run.json", "arrays.npz", "records.jsonl"
_CHECKPOINT = re.compile(r"checkpoint-(\d{10})\.npz")


class Mark(NamedTuple):
    """How far a folder has come: episodes, and the length and CRC-32 of their records."""

    episode: int = 0
    size: int = 0
    crc: int = 0


def read_checkpoint(seal: str, path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray], Mark, bytes]:
    """A checkpoint that belongs to this run and whose records are whole."""
    header, arrays, _ = sealed.read_npz(path)
    check_format(path, header)
    if header["run"] != seal:
        raise RunError(f"{path} belongs to another run; remove it from this folder")
    mark = Mark(**{name: header["records"][name] for name in Mark._fields})
    if any(type(x) is not int or x < 0 for x in mark) or mark.episode != episode_of(path):
        raise ValueError(f"it speaks of {mark}")
    if not isinstance(header["versions"], dict):
        raise ValueError(f"versions is {header['versions']!r}")
    lines = sealed.read(path.with_name(RECORDS))[: mark.size]
    if len(lines) < mark.size or zlib.crc32(lines) != mark.crc:
        raise sealed.damaged(path.with_name(RECORDS))
    return header, arrays, mark, lines


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a folder, newest first."""
    with sealed.told(folder):
        return sorted((x for x in folder.iterdir() if _CHECKPOINT.fullmatch(x.name)), reverse=True)


def path_of(folder: Path, episode: int) -> Path:
    """Where the checkpoint after so many episodes is."""
    return folder / f"checkpoint-{episode:010d}.npz"


def episode_of(path: Path) -> int:
    """After how many episodes a checkpoint was made."""
    return int(path.stem.removeprefix("checkpoint-"))


def check_format(path: Path, header: Mapping[str, Any]) -> None:
    """Refuse a file of another format."""
    if header.get("format") != FORMAT:
        versions = header.get("versions")
        wrote = versions.get("horizonfree", "unknown") if isinstance(versions, dict) else "unknown"
        form = f"format {header.get('format')!r}, this library reads {FORMAT}"
        raise RunError(f"{path} has {form}; use the version that wrote it ({wrote})")
