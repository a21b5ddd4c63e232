"""Every byte of a run folder counts: one that is changed is noticed, or is none that the run is made of."""

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import horizonfree as hf
from horizonfree.errors import RunError
from horizonfree.runs import checkpoints, sealed, store
from tests.runs.test_store import assert_same

MANIFEST, ARRAYS, RECORDS = "run.json", "arrays.npz", "records.jsonl"
NEWEST, OLDER = "checkpoint-0000000002.npz", "checkpoint-0000000001.npz"
MASKS = (0x01, 0xFF)  # a digit becomes its neighbour, text is no text any more
BITS = tuple(1 << i for i in range(8))
SAMPLE = 40  # bytes of each file that are changed under a whole load


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two episodes with a checkpoint after each."""
    folder = tmp_path_factory.mktemp("seal") / "a"
    problem = hf.make("river-swim", states=3, horizon=3)
    hf.explore(problem, "uniform", episodes=2, out=folder, save_episodes=1)
    return folder


@pytest.fixture
def folder(stored: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    return Path(shutil.copytree(stored, tmp_path / "a"))


def mutated(data: bytes, masks: tuple[int, ...] = MASKS, step: int = 1) -> Iterator[tuple[int, bytes]]:
    """The place, and the bytes with that one changed."""
    changed = bytearray(data)
    for i in sorted({*range(0, len(data), step), len(data) - 1}):
        for mask in masks:
            changed[i] ^= mask
            yield i, bytes(changed)
            changed[i] ^= mask


def cut(data: bytes) -> Iterator[bytes]:
    """Every beginning of the bytes, alone and filled up with zeros as power cuts leave them; and one byte too many."""
    for i in range(len(data)):
        yield data[:i]
        if any(data[i:]):
            yield data[:i] + bytes(len(data) - i)
    yield from (data + bytes([x]) for x in (0, 10, 32, 48))


def assert_refused(path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the function that reads the file, if it is given these bytes."""
    monkeypatch.setattr(sealed, "read", lambda _: data)
    with pytest.raises(RunError, match="damaged"):
        (sealed.read_json if path.suffix == ".json" else sealed.read_npz)(path)


@pytest.mark.parametrize("name", [MANIFEST, ARRAYS, NEWEST])
def test_every_byte_of_a_sealed_file_is_under_its_seal(
    name: str, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored / name
    for _, data in mutated(path.read_bytes()):
        assert_refused(path, data, monkeypatch)


@pytest.mark.parametrize("name", [MANIFEST, ARRAYS, NEWEST])
def test_a_sealed_file_that_is_cut_or_too_long_is_refused(
    name: str, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored / name
    for data in cut(path.read_bytes()):
        assert_refused(path, data, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", [MANIFEST, ARRAYS, NEWEST])
def test_every_value_of_every_byte_of_a_sealed_file_is_refused(
    name: str, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored / name
    for _, data in mutated(path.read_bytes(), tuple(range(1, 256))):
        assert_refused(path, data, monkeypatch)


def test_every_bit_of_the_records_is_under_their_checksum(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the first episode under that of both checkpoints, those of the second under that of the newest."""
    _, seal = sealed.read_json(stored / MANIFEST)
    whole, path = sealed.read, stored / RECORDS
    first = path.read_bytes().index(b"\n") + 1
    for i, data in mutated(path.read_bytes(), BITS):
        monkeypatch.setattr(sealed, "read", lambda x, data=data: data if x == path else whole(x))
        for checkpoint in (NEWEST, OLDER) if i < first else (NEWEST,):
            with pytest.raises(RunError, match=r"records\.jsonl is damaged"):
                checkpoints.read_checkpoint(seal, stored / checkpoint)
        if i >= first:
            assert checkpoints.read_checkpoint(seal, stored / OLDER)[3] == path.read_bytes()[:first]


def check_whole_loads(
    folder: Path, name: str, stored: Path, step: int, masks: tuple[int, ...] = MASKS
) -> None:
    """A changed byte is an error, or costs the newest checkpoint; the run after one episode is then what is read."""
    one = hf.explore(hf.load(stored).problem, "uniform", episodes=1)
    whole = (folder / name).read_bytes()
    first = {NEWEST: 0, RECORDS: (folder / RECORDS).read_bytes().index(b"\n") + 1}.get(name, len(whole))
    for place, data in mutated(whole, masks, step):
        (folder / name).write_bytes(data)
        if place < first:
            with pytest.raises(RunError, match=rf"{name} is damaged: .* restore it from a copy"):
                hf.load(folder)
        else:
            with pytest.warns(store.RunWarning, match=rf"{name} is damaged.*read up to episode 1"):
                assert_same(hf.load(folder), one)
    (folder / name).write_bytes(whole)
    assert_same(hf.load(folder), hf.load(stored))


@pytest.mark.parametrize("name", [MANIFEST, ARRAYS, NEWEST, RECORDS])
def test_a_changed_byte_is_refused_or_costs_one_checkpoint(name: str, folder: Path, stored: Path) -> None:
    """Bytes at even distances, and the last."""
    step = max(1, (folder / name).stat().st_size // SAMPLE)
    check_whole_loads(folder, name, stored, step)


@pytest.mark.slow
@pytest.mark.parametrize("name", [MANIFEST, ARRAYS, NEWEST, RECORDS])
def test_every_changed_byte_is_refused_or_costs_one_checkpoint(name: str, folder: Path, stored: Path) -> None:
    check_whole_loads(folder, name, stored, 1, MASKS[:1])


def test_only_bytes_that_a_run_is_not_made_of_can_change_unnoticed(folder: Path, stored: Path) -> None:
    """Those of the older checkpoint while the newest is whole, of the lock, of records beyond the newest checkpoint,
    of a write that was cut short, and of files that are not ours."""
    changes = {
        OLDER: next(mutated((folder / OLDER).read_bytes()))[1],
        "lock": b"12345",
        RECORDS: (folder / RECORDS).read_bytes() + b'{"episode": 3, "x": 1}\n\xff',
        ".partial": b"PK\x03\x04",
        "notes.txt": b"hello",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, data in changes.items():
            (folder / name).write_bytes(data)
            assert_same(hf.load(folder), hf.load(stored))
        whole = hf.explore(hf.load(stored).problem, "uniform", episodes=4)
        assert_same(hf.load(folder).resume(episodes=2), whole)
