"""Run folders that someone forged, with seals that are valid: refused with words, whatever is in them."""

import shutil
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError, RunError
from horizonfree.runs import sealed, store
from tests.reference import memory
from tests.reference.resealed import (
    Change,
    Member,
    archive,
    change_run,
    claims,
    gone,
    members,
    npy,
    patched,
    put,
    put_arrays,
    put_manifest,
    seal,
    without_recipe,
)
from tests.runs.test_store import assert_same

NEWEST, OLDER = "checkpoint-0000000004.npz", "checkpoint-0000000002.npz"
HUGE = 10**30


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 4 episodes of a problem that has no recipe and starts anywhere, with checkpoints at 2 and 4."""
    return without_recipe(tmp_path_factory.mktemp("hostile") / "a")


@pytest.fixture
def folder(stored: Path, tmp_path: Path) -> Path:
    """A copy of the run without a recipe."""
    return Path(shutil.copytree(stored, tmp_path / "a"))


# Archives that `sealed.write_npz` never writes. Each function changes the entries, or makes the sealed bytes.


def with_member(*more: Member) -> Callable[[list[Member]], bytes]:
    return lambda entries: archive([*entries, *more])


def with_method(method: int) -> Callable[[list[Member]], bytes]:
    return lambda entries: archive([entry._replace(method=method) for entry in entries])


def with_header(text: bytes) -> Callable[[list[Member]], bytes]:
    return lambda entries: archive([*members(text, {}), *entries[1:]])


def with_first(data: bytes) -> Callable[[list[Member]], bytes]:
    """The first array after the header is these bytes."""
    return lambda entries: archive([entries[0], entries[1]._replace(data=data), *entries[2:]])


def said(shape: str, kind: str = "<f8", data: bytes = b"\0" * 8, version: int = 1) -> bytes:
    return claims(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}", data, version)


def doubled(entries: list[Member]) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return archive([*entries, entries[1]])


ARCHIVES: dict[str, Callable[[list[Member]], bytes]] = {
    "deflated": with_method(zipfile.ZIP_DEFLATED),
    "bzip2": with_method(zipfile.ZIP_BZIP2),
    "LZMA": with_method(zipfile.ZIP_LZMA),
    "method 97": lambda entries: patched(archive(entries), 8, 97),
    "encrypted": lambda entries: patched(archive(entries), 6, 1),
    "an array, no archive": lambda entries: seal(entries[1].data),
    "nothing": lambda entries: seal(b""),
    "no entries": lambda entries: archive([]),
    "no header": lambda entries: archive(entries[1:]),
    "a foreign member": with_member(Member("readme.txt", b"hello")),
    "a folder": with_member(Member("deep/", b"")),
    "a doubled member": doubled,
    "a member that is no array": with_member(Member("x.npy", b"hello")),
    "an empty member": with_member(Member("x.npy", b"")),
    "objects": with_first(said("(1,)", "|O")),
    "a pickle": with_member(Member("x.npy", npy(np.zeros(1)).replace(b"<f8", b"|O "))),
    "a huge shape": with_first(said("(1000000000000,)")),
    "a shape beyond 64 bits": with_first(said(f"({HUGE}, {HUGE})")),
    "a negative shape": with_first(said("(-1, -1)")),
    "a shape of bools": with_first(said("(True,)")),
    "a shape that is code": with_first(said("__import__('os').getcwd()")),
    "an empty shape of empty text": with_first(said(f"({HUGE},)", "|V0", b"")),
    "more bytes than it says": with_first(said("()", data=b"\0" * 9)),
    "fewer bytes than it says": with_first(said("()", data=b"\0" * 7)),
    "version 3": with_first(said("()", version=3)),
    "a type that is none": with_first(said("()", "<f3")),
    "deep brackets": with_first(claims("(" * 10_000)),
    "a deep header": with_header(b"[" * 100_000),
    "a deep header of objects": with_header(b'{"a":' * 100_000),
    "a list for a header": with_header(b"[]"),
    "text for a header": with_header(b'"x"'),
    "half a header": with_header(b'{"format":'),
    "a header that is no UTF-8": with_header(b'{"\xff": 1}'),
    "a header with a number of many digits": with_header(b'{"a": ' + b"9" * 5000 + b"}"),
}


def entries_of(path: Path) -> list[Member]:
    header, arrays, _ = sealed.read_npz(path)
    return members(header, arrays)


@pytest.mark.parametrize("case", ARCHIVES)
def test_an_archive_that_is_not_as_we_write_them_is_damaged(case: str, folder: Path) -> None:
    put_arrays(folder, ARCHIVES[case](entries_of(folder / "arrays.npz")))
    with pytest.raises(RunError, match=r"arrays\.npz is damaged"):
        hf.load(folder)


@pytest.mark.parametrize("case", ARCHIVES)
def test_a_checkpoint_that_is_not_as_we_write_them_is_passed_over(
    case: str, folder: Path, stored: Path
) -> None:
    (folder / NEWEST).write_bytes(ARCHIVES[case](entries_of(folder / NEWEST)))
    with pytest.warns(store.RunWarning, match=rf"{NEWEST} is damaged.*read up to episode 2"):
        run = hf.load(folder)
    assert_same(run.resume(episodes=2), hf.load(stored))


def test_plain_archives_made_by_the_helper_are_read(folder: Path, stored: Path) -> None:
    """Else the refusals above would mean nothing."""
    put_arrays(folder, archive(entries_of(folder / "arrays.npz")))
    (folder / NEWEST).write_bytes(archive(entries_of(folder / NEWEST)))
    assert_same(hf.load(folder), hf.load(stored))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_STORED])
def test_a_bomb_is_refused_within_four_megabytes(method: int, folder: Path) -> None:
    """16 MB of zeros, packed; or a gigabyte that is only claimed."""
    lines = claims(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({2**30},), }}")
    data = lines if method == zipfile.ZIP_STORED else lines + bytes(2**24)
    put_arrays(folder, archive([*entries_of(folder / "arrays.npz"), Member("x.npy", data, method)]))
    assert (folder / "arrays.npz").stat().st_size < 2**20
    with memory.counted() as most:
        with pytest.raises(RunError, match=r"arrays\.npz is damaged"):
            sealed.read_npz(folder / "arrays.npz")
        assert most() < 2**22


# What run.json says


SPACE = ("problem", "model", "space")
NONE = (
    (3, "3"),
    (None, "None"),
    ("x", "'x'"),
    ([], r"\[\]"),
)  # of what is no object, and as messages show it
SAID: list[tuple[Change, str]] = [
    *((put(x, "seed"), "seed is") for x in (-1, 2**63, HUGE, 1.0, 1.5, True, "1", None, [1], {})),
    *((put(x, "is_simulated"), "is_simulated is") for x in (1, 0, None, "true", [])),
    *((put(x, *SPACE, "horizon"), "horizon is") for x in (0, -3, 3.5, 3.0, True, "3", None, [3], 10**7, HUGE)),
    *((put(x, *SPACE, "start"), "start") for x in (0, -1, 3, 1.5, True, "0", [0], [0.5, 0.5], HUGE)),
    *((put(x, *SPACE, "is_dense"), "is_dense is") for x in (1, None, "yes", [])),
    *((put(x, "problem", "model", "bound"), "bound is") for x in (0, -1.0, 1e301, True, "1", None, [1], HUGE**11)),
    *((put(x, "problem", "model", "unit"), "unit is") for x in (0, -1.0, 1e301, True, "1", None, [1])),
    *((put(x, "problem", "class"), rf"run\.json: problem\.class is {why}; it must be text") for x, why in (
        (None, "None"), (3, "3"), (["mixture"], r"\['mixture'\]"))),
    (put("os.system", "problem", "class"), r"run\.json: problem\.class is 'os\.system'; it must be .*'mixture'"),
    (put("tabular", "problem", "class"), r"run\.json: problem\.(class is 'tabular'|model\.\S+ is missing)"),
    *((put(x, "problem", "layout"), rf"run\.json: problem\.layout is {why}; it must be an object") for x, why in NONE),
    *((put(x, "problem", "name"), "name is") for x in (3, None, ["x"])),
    *((put(x, "problem"), rf"run\.json: problem is {why}; it must be an object") for x, why in NONE),
    (put({}, "problem"), r"run\.json: problem\.fingerprint is missing"),
    *((put(x, "problem", "model"), rf"run\.json: problem\.model is {why}; it must be an object") for x, why in NONE),
    (put({}, "problem", "model"), r"run\.json: problem\.model\.space is missing"),
    (put({"space": 3}, "problem", "model"), r"run\.json: problem\.model\.space is 3; it must be an object"),
    *((gone("problem", x), rf"run\.json: problem\.{x} is missing")
      for x in ("name", "layout", "class", "model")),
    *((gone(*SPACE, x), rf"run\.json: problem\.model\.space\.{x} is missing")
      for x in ("horizon", "start", "is_dense")),
    *((put({"recipe": x, "fingerprint": ""}, "problem"), rf"run\.json: problem\.recipe is {why}; it must be an object")
      for x, why in NONE),
    *((put({"recipe": {"name": x, "parameters": {}}, "fingerprint": ""}, "problem"),
       rf"run\.json: problem\.recipe\.name is {why}; it must be text") for x, why in ((3, "3"), (None, "None"))),
    *((put({"recipe": {"name": "river-swim", "parameters": x}, "fingerprint": ""}, "problem"),
       rf"run\.json: problem\.recipe\.parameters is {why}; it must be an object") for x, why in NONE),
    *((put(x, "explorer", "name"), "no explorer is called") for x in ("informatoin", 3, None, ["information"])),
    *((put(x, "explorer", "options"), rf"run\.json: explorer\.options is {why}; it must be an object")
      for x, why in NONE),
    *((put({x: 1}, "explorer", "options"), f"'information' has no option '{x}'") for x in ("budget", "x", "self")),
    *((put(x, "explorer"), rf"run\.json: explorer is {why}; it must be an object") for x, why in NONE if x is not None),
    (put({}, "explorer"), r"run\.json: explorer\.name is missing"),
    *((put(x, "versions"), rf"run\.json: versions is {why}; it must be an object") for x, why in NONE),
    *((put(x, "format"), rf"run\.json has format {why}, this library reads {store.FORMAT}") for x, why in (
        (99, "99"), (None, "None"), (f"{store.FORMAT}", f"'{store.FORMAT}'"), ([2], r"\[2\]"), ({}, r"\{\}"))),
    (gone("format"), r"run\.json has format None"),
    (gone("arrays"), r"arrays\.npz belongs to another"),
    *((gone(x), rf"run\.json: {x} is missing") for x in ("problem", "explorer", "seed", "is_simulated", "versions")),
    *((put(x, "arrays"), r"arrays\.npz belongs to another") for x in ("0" * 64, None, 3, [])),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(SAID)))
def test_what_run_json_says_is_checked_as_arguments_are(case: int, folder: Path) -> None:
    change, words = SAID[case]
    if words.startswith("arrays"):
        header, _ = sealed.read_json(folder / "run.json")
        change(header, {})
        put_manifest(folder, header)
    else:
        change_run(folder, change)
    with pytest.raises(HorizonfreeError, match=words):
        hf.load(folder)


@pytest.mark.parametrize("versions", [3, None, "x", [], {"horizonfree": [1]}])
def test_versions_that_are_none_do_not_hide_what_is_wrong(versions: Any, folder: Path) -> None:
    header, _ = sealed.read_json(folder / "run.json")
    put_manifest(folder, header | {"versions": versions, "format": 7})
    with pytest.raises(RunError, match=r"run\.json has format 7"):
        hf.load(folder)
