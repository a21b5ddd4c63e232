"""Folders of batches that someone forged, with seals that are valid: refused with words, whatever is in them."""

import functools
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.batch import job
from horizonfree.errors import RunError
from horizonfree.models.plain import arrays_of
from horizonfree.runs import sealed
from tests.reference import memory
from tests.reference.resealed import Change, Member, archive, claims, gone, members, npy, put, seal

HUGE = 10**30
FIRST = "chunk-00000000.npz"
HOW = {"episodes": 4, "seeds": 4, "checkpoints": [2, 4], "curves": ["eps", "gap"]}


def explore(folder: Path | None, **how: Any) -> hf.Batch:
    """The batch of these tests: 4 members of a small problem, 2 in a chunk."""
    problem = hf.make("river-swim", states=3, horizon=3)
    return hf.explore_many(problem, "goal-cycling", out=folder, progress=False, **HOW | how)


@pytest.fixture(autouse=True, scope="module")
def in_pairs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "MOST_MEMBERS", {True: 2, False: 2})
        yield


@pytest.fixture(scope="module")
def stored(in_pairs: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "a"
    explore(folder)
    return folder


@pytest.fixture
def folder(stored: Path, tmp_path: Path) -> Path:
    """A copy of the batch."""
    return Path(shutil.copytree(stored, tmp_path / "a"))


@functools.cache
def names() -> list[str]:
    """What the arrays progress.0, progress.1, ... are."""
    return list(arrays_of(explore(None).progress))


def leaf(name: str) -> str:
    return f"progress.{names().index(name)}"


def change_settings(folder: Path, change: Change) -> None:
    """Other entries of batch.json, and chunks that belong to it."""
    header, _ = sealed.read_json(folder / "batch.json")
    change(header, {})
    mark = sealed.write_json(folder / "batch.json", header)
    for path in folder.glob("chunk-*.npz"):
        said, arrays, _ = sealed.read_npz(path)
        sealed.write_npz(path, said | {"batch": mark}, arrays)


def change_chunk(folder: Path, change: Change) -> None:
    """Other entries of the first chunk."""
    header, arrays, _ = sealed.read_npz(folder / FIRST)
    change(header, arrays)
    (folder / FIRST).write_bytes(archive(members(header, arrays)))


def test_what_the_helpers_write_unchanged_is_read(folder: Path) -> None:
    """Else the refusals below would mean nothing."""
    change_settings(folder, lambda header, arrays: None)
    change_chunk(folder, lambda header, arrays: None)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.name != "lock"}
    found, expected = explore(folder), explore(None)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.name != "lock"} == before
    for name, x in arrays_of((found.progress, found.records, found.curves)).items():
        assert np.array_equal(x, arrays_of((expected.progress, expected.records, expected.curves))[name])


# What batch.json says

ENTRIES = (
    "problems",
    "explorers",
    "seeds",
    "episodes",
    "bets",
    "checkpoints",
    "curves",
    "rewards",
    "delta",
    "versions",
)
SETTINGS: list[tuple[str, Change, str]] = [
    *((f"size {x!r:.20}", put(x, "size"), rf"batch\.json: size is {why}; it must be .* from 1 to 4") for x, why in (
        (0, "0"), (-1, "-1"), (5, "5"), (2**31, "2147483648"), (HUGE, "10+"), (1.5, "1.5"), (True, "True"),
        ("2", "'2'"), (None, "None"), ([2], r"\[2\]"), ({}, r"\{\}"))),
    ("no size", gone("size"), r"batch\.json: size is None"),
    *((f"{name} {x!r:.20}", put(x, name), f"begun with other {name};.*says {name} {why}")
      for name in ENTRIES
      for x, why in ((None, "None"), (-1, "-1"), ("x", "'x'"), ([], r"\[\]"), ({}, r"\{\}"), (HUGE, "10+"))),
    *((f"no {x}", gone(x), f"begun with other {x};") for x in ENTRIES),
    *((f"seeds {x!r:.30}", put(x, "seeds"), "begun with other seeds;.*says seeds") for x in (
        [0, 1, 2], [0, 1, 2, -3], [0, 1, 2, HUGE], [0, 1, 2, 2.5], [0, 1, 2, "3"], [0, 1, 2, None], [[0, 1, 2, 3]],
        list(range(100_000)))),
    *((f"episodes {x!r:.20}", put(x, "episodes"), f"other episodes;.*says episodes {x}") for x in (0, 5, 4.5, -4)),
    ("a foreign entry", put(1, "x"), "begun with other x;.*says x 1"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "words"), SETTINGS, ids=[x[0] for x in SETTINGS])
def test_what_batch_json_says_is_checked(name: str, change: Change, words: str, folder: Path) -> None:
    change_settings(folder, change)
    with pytest.raises(RunError, match=words):
        explore(folder)


TEXTS: dict[str, bytes] = {
    "nothing": b"",
    "a list": b"[]",
    "text": b'"x"',
    "a number": b"3",
    "no seal": b"{}",
    "half": b'{"seal": "',
    "no UTF-8": b'{"\xff": 1}',
    "NaN": b'{"seal": "0", "size": NaN}',
    "a number of many digits": b'{"seal": "0", "size": ' + b"9" * 5000 + b"}",
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
}


@pytest.mark.parametrize("case", TEXTS)
def test_a_text_that_is_not_as_we_write_it_is_damaged(case: str, folder: Path) -> None:
    (folder / "batch.json").write_bytes(TEXTS[case])
    with pytest.raises(RunError, match=r"batch\.json is damaged"):
        explore(folder)


# What a chunk holds


def array(name: str, new: Callable[[np.ndarray], Any]) -> Change:
    """Another array in place of a state's, or of one that has the name itself."""

    def change(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        key = name if name.startswith(("records.", "curves.", "x")) else leaf(name)
        arrays[key] = np.asarray(new(np.array(arrays.get(key))))

    return change


def missing(name: str) -> Change:
    return lambda header, arrays: arrays.__delitem__(name if "." in name else leaf(name))


def entry(value: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The same array with another last entry."""

    def new(x: np.ndarray) -> np.ndarray:
        x.flat[-1] = value
        return x

    return new


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "flat": lambda x: x.reshape(-1)[1:],
    "a number": lambda x: x.reshape(-1)[0],
    "of three members": lambda x: np.concatenate([x, x[:1]]),
    "of one member": lambda x: x[:1],
    "of none": lambda x: x[:0],
    "float32": lambda x: x.astype("float32"),
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "complex": lambda x: x.astype(complex),
    "text": lambda x: x.astype("S8"),
    "times": lambda x: x.astype("M8[s]"),
}
KEPT = ("state.policy", "state.aims", "evidence.counts", "episode", "records.chance", "curves.eps")
CHUNKS: list[tuple[str, Change, str]] = [
    *((f"{name} {how}", array(name, new), "(progress|records|curves).* is .*, but this batch keeps")
      for name in KEPT for how, new in FORMS.items()),
    *((f"no {x}", missing(x), f"{x} is nothing, but this batch keeps")
      for x in ("records.chance", "curves.eps", "curves.gap")),
    ("no progress", missing("progress.0"), r"progress\.0 is nothing, but this batch keeps int32\[2\]"),
    ("a foreign array", array("x", lambda x: np.ones(3)), r"x is float64\[3\], but this batch keeps nothing"),
    *((f"a policy of {x}", array("state.policy", entry(x)), rf"state\.policy\[1, 2, 2\] is {x}; actions are 0 to 1")
      for x in (-1, 2, 2**31 - 1)),
    *((f"aims of {x}", array("state.aims", entry(x)), rf"state\.aims\[1, 2, 1\] is {x}") for x in (-1, -(2**31))),
    *((f"a chance of {x}", array("state.chance", entry(x)), rf"state\.chance\[1\] is {x}")
      for x in (np.nan, np.inf, -np.inf)),
    *((f"an episode of {x}", array("episode", entry(x)), rf"episode\[1\] is {x}; there are 4")
      for x in (-1, 0, 3, 2**31 - 1)),
    *((f"{x} episodes of evidence", array("evidence.episodes", entry(x)), rf"evidence\.episodes\[1\] is {x}")
      for x in (-1, 5)),
    ("counts of -1", array("evidence.counts", entry(-1)), r"evidence\.counts\[1, .*\] is -1; a count is not negative"),
    *((f"weights of {x}", array("evidence.weights", entry(x)), rf"evidence\.weights\[1, 7\] is {x}")
      for x in (np.nan, np.inf)),
    ("other weights", array("evidence.weights", entry(0.5)), r"evidence\.weights\[1\] is .*0\.5 *\]; the bets of this"),
    ("other starts", array("evidence.starts", entry(7)), r"evidence\.starts\[1\] is .* 7\]; the bets of this batch"),
    *((f"{x} of NaN", array(f"curves.{x}", entry(np.nan)), rf"curves\.{x}\[1, 1\] is nan") for x in ("eps", "gap")),
    *((f"first {x!r:.20}", put(x, "first"), "belongs to another batch") for x in (2, -1, None, "0", [], HUGE)),
    *((f"batch {x!r:.20}", put(x, "batch"), "belongs to another batch") for x in ("0" * 64, None, 3)),
    *((f"no {x}", gone(x), "belongs to another batch") for x in ("first", "batch")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "words"), CHUNKS, ids=[x[0] for x in CHUNKS])
def test_a_chunk_that_this_batch_could_not_have_written_is_refused(
    name: str, change: Change, words: str, folder: Path
) -> None:
    change_chunk(folder, change)
    with pytest.raises(RunError, match=rf"{FIRST}.*{words}"):
        explore(folder)


def test_a_chunk_that_was_removed_is_explored_again(folder: Path, stored: Path) -> None:
    """The advice that the refusals give."""
    change_chunk(folder, array("state.policy", entry(7)))
    with pytest.raises(RunError, match="remove it, and its members are explored again"):
        explore(folder)
    (folder / FIRST).unlink()
    assert np.array_equal(explore(folder).curves["eps"], explore(None).curves["eps"])


ARCHIVES: dict[str, Callable[[list[Member]], bytes]] = {
    "deflated": lambda entries: archive([x._replace(method=zipfile.ZIP_DEFLATED) for x in entries]),
    "LZMA": lambda entries: archive([x._replace(method=zipfile.ZIP_LZMA) for x in entries]),
    "an array, no archive": lambda entries: seal(entries[1].data),
    "nothing": lambda entries: seal(b""),
    "no seal": lambda entries: b"",
    "no header": lambda entries: archive(entries[1:]),
    "a foreign member": lambda entries: archive([*entries, Member("readme.txt", b"hello")]),
    "a pickle": lambda entries: archive([*entries, Member("x.npy", npy(np.zeros(1)).replace(b"<f8", b"|O "))]),
    "a list for a header": lambda entries: archive([*members(b"[]", {}), *entries[1:]]),
    "a deep header": lambda entries: archive([*members(b"[" * 3_000, {}), *entries[1:]]),
    "a huge shape": lambda entries: archive([*entries, Member("x.npy", said(f"({2**40},)"))]),
    "a negative shape": lambda entries: archive([*entries, Member("x.npy", said("(-1, -1)"))]),
    "a bomb": lambda entries: archive([*entries, Member("x.npy", zeros(2**20), zipfile.ZIP_DEFLATED)]),
}  # fmt: skip


def zeros(number: int) -> bytes:
    return said(f"({number},)") + bytes(8 * number)


def said(shape: str) -> bytes:
    return claims(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}")


@pytest.mark.parametrize("case", ARCHIVES)
def test_an_archive_that_is_not_as_we_write_them_is_damaged(case: str, folder: Path) -> None:
    header, arrays, _ = sealed.read_npz(folder / FIRST)
    (folder / FIRST).write_bytes(ARCHIVES[case](members(header, arrays)))
    with pytest.raises(RunError, match=f"{FIRST} is damaged"):
        explore(folder)


def test_a_chunk_of_something_else_is_refused(folder: Path) -> None:
    """What NumPy itself writes, and a chunk of another batch."""
    np.savez(folder / FIRST, x=np.zeros(3))
    with pytest.raises(RunError, match=f"{FIRST} is damaged"):
        explore(folder)
    (folder / FIRST).unlink()
    shutil.copy(folder / "chunk-00000002.npz", folder / FIRST)
    with pytest.raises(RunError, match=f"{FIRST} belongs to another batch"):
        explore(folder)


@pytest.mark.parametrize("name", ["batch.json", FIRST])
def test_a_file_that_is_none_is_refused(name: str, folder: Path, tmp_path: Path) -> None:
    """A link, a pipe (which nobody waits at), a folder."""
    path = folder / name
    path.rename(tmp_path / "aside")
    for make, words in (
        (lambda: path.symlink_to(tmp_path / "aside"), "links are not followed"),
        (lambda: os.mkfifo(path), "is not a regular file"),
        (lambda: path.mkdir(), "is not a regular file|Is a directory"),
    ):
        make()
        with pytest.raises(RunError, match=f"{name}.*({words})"):
            explore(folder)
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize("name", ["batch.json", FIRST])
def test_a_file_of_a_gigabyte_is_refused_before_it_is_read(name: str, folder: Path) -> None:
    """Sparse, so that it takes no disk."""
    os.truncate(folder / name, 2**30)
    with memory.counted() as most:
        with pytest.raises(RunError, match=f"{name} has 1,073,741,824 bytes"):
            explore(folder)
        assert most() < 2**24
