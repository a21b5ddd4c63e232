"""Damaged run folders: every damage is detected, the error names the file, and intact checkpoints are still used.

Forgery is not tested: anyone who can write a file can also recompute its checksum.
"""

import errno
import hashlib
import io
import json
import os
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import RunError
from horizonfree.runs import files, storage
from tests.reference import memory
from tests.runs.test_store import assert_same

MANIFEST, ARRAYS, RECORDS = "run.json", "arrays.npz", "records.jsonl"
NEWEST, OLDER = "checkpoint-0000000009.npz", "checkpoint-0000000006.npz"
ONLY_COPIES = (MANIFEST, ARRAYS)  # without one of these files the run is lost


def flip(path: Path, position: float, mask: int = 4) -> None:
    """Change one byte of a file in place, at a fraction of its length."""
    data = bytearray(path.read_bytes())
    data[int(position * (len(data) - 1))] ^= mask
    path.write_bytes(data)


def flipped_everywhere(path: Path) -> Iterator[tuple[int, bytes]]:
    """The file with one byte changed, for every byte: one random bit, and all eight bits."""
    data = bytearray(path.read_bytes())
    for i, bit in enumerate(np.random.default_rng(0).integers(8, size=len(data))):
        for mask in (1 << int(bit), 0xFF):
            data[i] ^= mask
            yield i, bytes(data)
            data[i] ^= mask


def truncated_everywhere(path: Path) -> Iterator[bytes]:
    """Every prefix of the file, alone and padded with zeros as after a power cut; and one byte too many."""
    data = path.read_bytes()
    for i in range(len(data)):
        yield data[:i]
        if any(data[i:]):
            yield data[:i] + bytes(len(data) - i)
    yield from (data + bytes([x]) for x in (0, 10, 32, 48))


def is_damaged(read: Callable[..., Any], *arguments: Any) -> bool:
    """Whether reading fails with the message that a file is damaged."""
    try:
        read(*arguments)
    except RunError as error:
        return "is damaged" in str(error)
    return False


def test_every_flipped_byte_is_under_a_checksum(
    saved_folder: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Including bytes that NumPy and JSON ignore."""
    for name in (MANIFEST, ARRAYS, NEWEST):
        read = files.read_json if name == MANIFEST else files.read_npz
        with subtests.test(name), monkeypatch.context() as patch:
            for position, data in flipped_everywhere(saved_folder / name):
                patch.setattr(files, "read_bytes", lambda _, data=data: data)
                assert is_damaged(read, saved_folder / name), f"byte {position} changed unnoticed"
    with subtests.test(RECORDS), monkeypatch.context() as patch:
        _, run_id = files.read_json(saved_folder / MANIFEST)
        run, intact = hf.load(saved_folder), files.read_bytes
        for position, data in flipped_everywhere(saved_folder / RECORDS):
            patch.setattr(
                files, "read_bytes", lambda path, data=data: data if path.name == RECORDS else intact(path)
            )
            assert is_damaged(storage._read_checkpoint, run, run_id, saved_folder / NEWEST), (
                f"byte {position}"
            )


def test_every_truncation_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    small = hf.make("river-swim", states=3, horizon=3)
    hf.explore(small, "uniform", episodes=2, out=tmp_path / "a", save_episodes=1)
    for name in (MANIFEST, ARRAYS, "checkpoint-0000000002.npz"):
        path = tmp_path / "a" / name
        read = files.read_json if name == MANIFEST else files.read_npz
        with subtests.test(name), monkeypatch.context() as patch:
            for data in truncated_everywhere(path):
                patch.setattr(files, "read_bytes", lambda _, data=data: data)
                assert is_damaged(read, path), f"{len(data)} bytes were accepted"


def test_a_damaged_file_without_a_second_copy_is_an_error(folder: Path, subtests: pytest.Subtests) -> None:
    for name in ONLY_COPIES:
        content = (folder / name).read_bytes()
        for position in np.linspace(0, 1, 5):
            with subtests.test(name, place=position):
                flip(folder / name, position)
                with pytest.raises(RunError, match=rf"{name} is damaged: .* restore it from a copy"):
                    hf.load(folder)
            (folder / name).write_bytes(content)
    with subtests.test("both checkpoints"):
        flip(folder / NEWEST, 0.3)
        flip(folder / OLDER, 0.3)
        with pytest.raises(RunError, match="damaged"):
            hf.load(folder)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "first byte flipped": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "last byte flipped": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "truncated": lambda data: data[:-100],
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "another file": lambda data: b"PK\x03\x04" + b"0" * 100,
}


def test_a_damaged_checkpoint_is_replaced_by_the_one_before(
    saved_folder: Path, folder: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A warning names it, and the resumed run has the same bits."""
    for i, (name, damage) in enumerate(DAMAGE.items()):
        with subtests.test(name):
            copy = Path(shutil.copytree(folder, tmp_path / str(i)))
            (copy / NEWEST).write_bytes(damage((copy / NEWEST).read_bytes()))
            message = rf"{NEWEST} is damaged.*read up to episode 6"
            with pytest.warns(storage.RunWarning, match=message) as caught:
                run = hf.load(copy)
            assert caught[0].filename == __file__  # the line that loads the run
            assert run.episodes == 6
            assert_same(run.resume(episodes=3), hf.load(saved_folder))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert_same(hf.load(copy), hf.load(saved_folder))


def test_records_damaged_late_cost_only_the_last_checkpoint(folder: Path) -> None:
    content = (folder / RECORDS).read_bytes()
    (folder / RECORDS).write_bytes(content[:-5])
    with pytest.warns(storage.RunWarning, match="read up to episode 6"):
        assert hf.load(folder).episodes == 6
    (folder / RECORDS).write_bytes(content)
    flip(folder / RECORDS, 0.95)
    with pytest.warns(storage.RunWarning, match="read up to episode 6"):
        assert hf.load(folder).episodes == 6
    flip(folder / RECORDS, 0.05)
    with pytest.raises(RunError, match=r"records\.jsonl is damaged"):
        hf.load(folder)


def test_files_that_a_run_does_not_consist_of_may_change(folder: Path, saved_folder: Path) -> None:
    """The older checkpoint, the lock, records after the newest checkpoint, unfinished writes, files of the user."""
    changes = {
        OLDER: b"PK\x03\x04",
        "lock": b"12345",
        RECORDS: (folder / RECORDS).read_bytes() + b'{"episode": 10, "x": 1}\n\xff',
        ".partial": b"PK\x03\x04",
        "notes.txt": b"hello",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, data in changes.items():
            (folder / name).write_bytes(data)
            assert_same(hf.load(folder), hf.load(saved_folder))
        assert hf.load(folder).resume(episodes=2).episodes == 11


def test_a_missing_file_is_named(folder: Path, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in (*ONLY_COPIES, RECORDS):
        with subtests.test(name):
            copy = Path(shutil.copytree(folder, tmp_path / name))
            (copy / name).unlink()
            with pytest.raises(RunError, match=name):
                hf.load(copy)
    with subtests.test(NEWEST):
        (folder / NEWEST).unlink()
        assert hf.load(folder).episodes == 6


def test_what_is_not_a_run_folder_is_refused(problem: hf.Problem, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a folder"):
        hf.load(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="is not a folder"):
        hf.load(tmp_path / "file")
    with pytest.raises(RunError, match="holds no run"):
        hf.load(tmp_path)
    for name in ("~nosuchuser/x", "x" * 300, "a\0b", 5):
        with pytest.raises(RunError, match=r"cannot be a folder: .*; choose another"):
            hf.load(name)
        with pytest.raises(RunError, match="cannot be a folder"):
            hf.explore(problem, "uniform", episodes=1, out=name)
        with pytest.raises(RunError, match="cannot be a folder"):
            hf.explore_many(problem, "uniform", episodes=1, seeds=1, out=name)
    longest = tmp_path / ("x" * 255)
    hf.explore(problem, "uniform", episodes=1, out=longest)
    assert hf.load(longest).episodes == 1


def test_another_format_is_refused_with_both_versions(folder: Path) -> None:
    header, _ = files.read_json(folder / MANIFEST)
    for number, version, reader in ((1, "0.0.9", "0.1.0"), (99, "9.9", "9.9")):
        other = header | {"format": number, "versions": {"horizonfree": version}}
        files.write_json(folder / MANIFEST, other)
        message = (
            rf"run\.json has format {number}, written by horizonfree {version}; this version reads format "
            rf"{storage.FORMAT}: use horizonfree {reader}"
        )
        with pytest.raises(RunError, match=message):
            hf.load(folder)


def test_a_folder_of_version_0_1_is_refused_with_the_version_that_reads_it(folder: Path) -> None:
    """Its files carry other checksums."""
    old = {"seal": "0" * 64, "format": 3, "versions": {"horizonfree": "0.1.0"}}
    (folder / MANIFEST).write_text(json.dumps(old, indent=1) + "\n")
    with pytest.raises(
        RunError, match=r"has format 3, written by horizonfree 0\.1\.0; .* use horizonfree 0\.1\.0"
    ):
        hf.load(folder)


def test_resuming_with_other_versions_warns_once(folder: Path) -> None:
    header, arrays, _ = files.read_npz(folder / NEWEST)
    files.write_npz(folder / NEWEST, header | {"versions": header["versions"] | {"jax": "0.0.1"}}, arrays)
    run = hf.load(folder)  # no warning: nothing is computed
    with pytest.warns(
        storage.RunWarning, match=r"last written with jax 0\.0\.1 \(now .*\); results may differ"
    ) as caught:
        run = run.resume(episodes=1)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.resume(episodes=1)


def test_a_problem_that_has_changed_since_is_refused(folder: Path) -> None:
    header, _ = files.read_json(folder / MANIFEST)
    header["problem"]["fingerprint"] = "0" * 64
    files.write_json(folder / MANIFEST, header)
    with pytest.raises(RunError, match="no longer the one that was explored"):
        hf.load(folder)


def test_files_of_two_runs_do_not_mix(folder: Path, problem: hf.Problem, tmp_path: Path) -> None:
    hf.explore(problem, "optimal-design", episodes=9, seed=6, out=tmp_path / "b")
    shutil.copy(tmp_path / "b" / NEWEST, folder)
    with pytest.warns(storage.RunWarning, match="belongs to another run"):
        assert hf.load(folder).episodes == 6
    shutil.copy(folder / OLDER, folder / NEWEST)  # of this run, under the name of another episode
    with pytest.warns(storage.RunWarning, match=f"{NEWEST} is not a valid checkpoint"):
        assert hf.load(folder).episodes == 6
    other = hf.make("zoned-grid", size=4, zones=2, horizon=4)
    hf.explore(other, "uniform", episodes=1, out=tmp_path / "c")
    shutil.copy(tmp_path / "c" / ARRAYS, folder)
    with pytest.raises(RunError, match=r"arrays\.npz belongs to another run"):
        hf.load(folder)


def test_a_state_of_another_shape_is_refused_by_name(folder: Path) -> None:
    """As another version of an explorer may have written it."""
    for path in folder.glob("checkpoint-*.npz"):
        header, arrays, _ = files.read_npz(path)
        files.write_npz(path, header, arrays | {"state.policy": arrays["state.policy"][:2]})
    run = hf.load(folder)  # plans and certificates need the evidence alone
    with pytest.raises(RunError, match=r"state\.policy is int32\[2, 9\], but .* needs int32\[4, 9\]"):
        run.resume(episodes=1)


def test_an_oversized_archive_is_refused_before_it_is_unpacked(folder: Path) -> None:
    """16 MB of zeros, compressed."""
    content, buffer = io.BytesIO(), io.BytesIO()
    np.save(content, np.zeros(2**24, np.uint8))
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", content.getvalue())
        archive.comment = b"0" * 64
    body = buffer.getvalue()[:-64]
    (folder / ARRAYS).write_bytes(body + hashlib.sha256(body).hexdigest().encode())
    with memory.peak_memory() as peak:
        with pytest.raises(RunError, match=r"arrays\.npz is damaged"):
            files.read_npz(folder / ARRAYS)
        assert peak() < 2**22


def test_nothing_is_ever_unpickled(folder: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return pytest.fail, ("unpickled",)

    header, arrays, _ = files.read_npz(folder / ARRAYS)
    checksum = files.write_npz(folder / ARRAYS, header, arrays | {"x": np.array([Bomb()], object)})
    manifest, _ = files.read_json(folder / MANIFEST)
    files.write_json(folder / MANIFEST, manifest | {"arrays": checksum})
    with pytest.raises(RunError, match="damaged"):
        hf.load(folder)


def test_links_pipes_and_folders_in_place_of_files_are_refused(folder: Path, tmp_path: Path) -> None:
    """No link is followed, for reading or for writing, and a pipe does not block."""
    run, elsewhere_path = hf.load(folder), tmp_path / "aside"
    for name in (MANIFEST, ARRAYS, RECORDS, NEWEST):
        shutil.move(folder / name, elsewhere_path)
        (folder / name).symlink_to(elsewhere_path)
        if name == NEWEST:
            with pytest.warns(storage.RunWarning, match="is a link"):
                hf.load(folder)
        else:
            with pytest.raises(RunError, match=f"{name}.*links are not followed"):
                hf.load(folder)
        (folder / name).unlink()
        shutil.move(elsewhere_path, folder / name)
    shutil.move(folder / MANIFEST, elsewhere_path)
    os.mkfifo(folder / MANIFEST)
    with pytest.raises(RunError, match="not a regular file"):
        hf.load(folder)
    (folder / MANIFEST).unlink()
    shutil.move(elsewhere_path, folder / MANIFEST)
    user_file = tmp_path / "precious"
    user_file.write_text("precious")
    for name in (RECORDS, "lock", ".partial"):
        original = (folder / name).read_bytes() if (folder / name).exists() else None
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(user_file)
        with pytest.raises(RunError, match="links are not followed"):
            run.resume(episodes=1)
        assert user_file.read_text() == "precious"
        (folder / name).unlink(missing_ok=True)
        if original is not None:
            (folder / name).write_bytes(original)
    (folder / "checkpoint-0000000030.npz").mkdir()
    with pytest.warns(storage.RunWarning, match="0030"):
        run = hf.load(folder)
    with pytest.raises(RunError, match="checkpoint-0000000030"):
        run.resume(episodes=1)


def test_a_folder_without_permission_is_refused(
    folder: Path, problem: hf.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's refusal is simulated: permissions do not bind root."""

    def refuse(path: Any, *_: Any, **__: Any) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    run = hf.load(folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(RunError, match="permission denied: choose a folder that you may use"):
            hf.load(folder)
        with pytest.raises(RunError, match="permission denied"):
            run.resume(episodes=1)
    assert run.resume(episodes=1).episodes == 10


# ---- folders that change while a run writes into them ----------------------------------------------------------------


def clear(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def swap(folder: Path) -> None:
    """Put an empty folder in its place."""
    folder.rename(folder.with_name("moved"))
    folder.mkdir()


def remove_checkpoints(folder: Path) -> None:
    for path in folder.glob("checkpoint-*"):
        path.unlink()


REPAIRED: dict[str, Callable[[Path], Any]] = {
    "records removed": lambda folder: (folder / RECORDS).unlink(),
    "records emptied": lambda folder: os.truncate(folder / RECORDS, 0),
    "records flipped": lambda folder: flip(folder / RECORDS, 0),
    "records grown": lambda folder: (folder / RECORDS).write_bytes(b"{}\n" * 1000),
    "checkpoints removed": remove_checkpoints,
    "lock removed": lambda folder: (folder / "lock").unlink(),
    "a partial write": lambda folder: (folder / ".partial").write_text("PK"),
}
REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "arrays removed": (lambda folder: (folder / ARRAYS).unlink(), r"arrays\.npz: it does not exist"),
    "arrays flipped": (lambda folder: flip(folder / ARRAYS, 0.5), r"arrays\.npz is damaged"),
    "manifest removed": (lambda folder: (folder / MANIFEST).unlink(), "no longer the folder"),
    "manifest flipped": (lambda folder: flip(folder / MANIFEST, 0.5), r"run\.json is damaged"),
    "emptied": (clear, "no longer the folder"),
    "removed": (shutil.rmtree, "no longer the folder"),
    "replaced": (swap, "no longer the folder"),
    "renamed": (lambda folder: folder.rename(folder.with_name("moved")), "it was moved, emptied or replaced"),
}


def explore_with_damage(problem: hf.Problem, folder: Path, act: Callable[[Path], Any]) -> hf.Run:
    """Explore 12 episodes in a folder, with a checkpoint after each; something happens to the folder at the fifth."""
    calls: list[int] = []

    def callback(episodes: int, _: Any) -> None:
        if episodes >= 5 and not calls:
            calls.append(episodes)
            act(folder)

    try:
        return hf.explore(problem, "uniform", episodes=12, out=folder, save_episodes=1, callback=callback)
    finally:
        assert calls
        assert calls[0] < 12


def test_damage_during_a_run_is_repaired_or_an_error(
    problem: hf.Problem, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """What is in memory is written again. A run never ends successfully with an incomplete folder."""
    undamaged = hf.explore(problem, "uniform", episodes=12)
    for i, (name, act) in enumerate(REPAIRED.items()):
        with subtests.test(name), warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_same(explore_with_damage(problem, tmp_path / str(i) / "a", act), undamaged)
            assert_same(hf.load(tmp_path / str(i) / "a"), undamaged)
    for name, (act, message) in REFUSED.items():
        with subtests.test(name), pytest.raises(RunError, match=message):
            explore_with_damage(problem, tmp_path / name / "a", act)
    run = hf.load(tmp_path / "renamed" / "moved")
    assert 0 < run.episodes < 12
    assert_same(run.resume(), undamaged)
