"""Run folders that are damaged, mixed up or hostile: refused by name, and nothing that is whole is lost."""

import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import RunError
from horizonfree.runs import checkpoints, sealed, store
from tests.runs.test_store import assert_same


@pytest.mark.parametrize("name", ["run.json", "arrays.npz", "checkpoint-0000000009.npz"])
def test_every_flipped_byte_of_a_sealed_file_is_refused(
    name: str, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bit of every byte, also of bytes that NumPy would not look at."""
    path = saved / name
    read = sealed.read_json if name.endswith("json") else sealed.read_npz
    for data in flipped(path):
        monkeypatch.setattr(sealed, "read", lambda _, data=data: data)
        with pytest.raises(RunError, match="damaged"):
            read(path)


@pytest.mark.parametrize("name", ["run.json", "arrays.npz"])
def test_a_flipped_bit_where_there_is_one_copy_is_refused(name: str, folder: Path) -> None:
    flip(folder / name, 0.5)
    with pytest.raises(RunError, match=rf"{name} is damaged: .* restore it from a copy"):
        hf.load(folder)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "foreign"])
def test_a_damaged_checkpoint_is_passed_over_with_a_notice_and_nothing_is_lost(
    damage: str, saved: Path, folder: Path
) -> None:
    path = folder / "checkpoint-0000000009.npz"
    data = path.read_bytes()
    if damage == "flip":
        flip(path, 0.3)
    else:
        path.write_bytes({"cut": data[:-100], "empty": b"", "foreign": b"PK\x03\x04" + b"0" * 100}[damage])
    words = r"checkpoint-0000000009\.npz is damaged.*read up to episode 6"
    with pytest.warns(store.RunWarning, match=words) as warned:
        run = hf.load(folder)
    assert warned[0].filename == __file__  # the line that loads the run
    assert run.episodes == 6
    run = run.resume(episodes=3)  # into the folder: the damaged file goes, the same bits come
    assert_same(run, hf.load(saved))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(hf.load(folder), hf.load(saved))


def test_when_both_checkpoints_are_damaged_the_run_is_refused(folder: Path) -> None:
    flip(folder / "checkpoint-0000000009.npz", 0.3)
    flip(folder / "checkpoint-0000000006.npz", 0.3)
    with pytest.raises(RunError, match="damaged"):
        hf.load(folder)


def test_every_flipped_byte_of_the_records_is_noticed(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, seal = sealed.read_json(saved / "run.json")
    checkpoint, whole = saved / "checkpoint-0000000009.npz", sealed.read
    for data in flipped(saved / "records.jsonl"):
        monkeypatch.setattr(
            sealed, "read", lambda path, data=data: whole(path) if path == checkpoint else data
        )
        with pytest.raises(RunError, match=r"records\.jsonl is damaged"):
            checkpoints.read_checkpoint(seal, checkpoint)


def test_records_damaged_late_cost_the_last_checkpoint_only(folder: Path) -> None:
    flip(folder / "records.jsonl", 0.95)
    with pytest.warns(store.RunWarning, match="read up to episode 6"):
        assert hf.load(folder).episodes == 6
    flip(folder / "records.jsonl", 0.05)
    with pytest.raises(RunError, match=r"records\.jsonl is damaged"):
        hf.load(folder)


@pytest.mark.parametrize("name", ["run.json", "arrays.npz", "records.jsonl"])
def test_a_missing_file_is_named(name: str, folder: Path) -> None:
    (folder / name).unlink()
    with pytest.raises(RunError, match=name):
        hf.load(folder)


def test_what_is_not_a_run_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a folder"):
        hf.load(tmp_path / "nothing")
    with pytest.raises(RunError, match="holds no run"):
        hf.load(tmp_path)


def test_a_run_of_another_format_names_its_version(folder: Path) -> None:
    header, _ = sealed.read_json(folder / "run.json")
    sealed.write_json(folder / "run.json", header | {"format": 99, "versions": {"horizonfree": "9.9"}})
    with pytest.raises(
        RunError,
        match=rf"format 99, this library reads {store.FORMAT}; use the version that wrote it \(9\.9\)",
    ):
        hf.load(folder)


def test_a_run_of_the_first_format_is_refused_with_both_formats(folder: Path) -> None:
    """Its records were in rows.jsonl and its arrays had other names: it is not looked at any further."""
    header, _ = sealed.read_json(folder / "run.json")
    (folder / "records.jsonl").rename(folder / "rows.jsonl")
    (folder / "arrays.npz").write_bytes(b"")
    sealed.write_json(folder / "run.json", header | {"format": 1, "versions": {"horizonfree": "0.0.9"}})
    words = rf"run\.json has format 1, this library reads {store.FORMAT}; use the version that wrote it \(0\.0\.9\)"
    with pytest.raises(RunError, match=words):
        hf.load(folder)


def test_a_checkpoint_of_the_first_format_is_refused_with_both_formats(folder: Path) -> None:
    for path in folder.glob("checkpoint-*.npz"):
        header, arrays, _ = sealed.read_npz(path)
        sealed.write_npz(path, header | {"format": 1}, arrays)
    with pytest.raises(
        RunError, match=rf"checkpoint-0000000009\.npz has format 1, this library reads {store.FORMAT}"
    ):
        hf.load(folder)


def test_a_problem_that_has_changed_since_is_refused(folder: Path) -> None:
    header, _ = sealed.read_json(folder / "run.json")
    header["problem"]["fingerprint"] = "0" * 64
    sealed.write_json(folder / "run.json", header)
    with pytest.raises(RunError, match="no longer the one that was explored"):
        hf.load(folder)


def test_files_of_two_runs_do_not_mix(folder: Path, problem: hf.Problem, tmp_path: Path) -> None:
    hf.explore(problem, "information", episodes=9, seed=6, out=tmp_path / "b")
    shutil.copy(tmp_path / "b" / "checkpoint-0000000009.npz", folder)
    with pytest.warns(store.RunWarning, match="belongs to another run"):
        assert hf.load(folder).episodes == 6
    other = hf.make("zoned-grid", size=4, zones=2, horizon=4)
    hf.explore(other, "uniform", episodes=1, out=tmp_path / "c")
    shutil.copy(tmp_path / "c" / "arrays.npz", folder)
    with pytest.raises(RunError, match=r"arrays\.npz belongs to another run"):
        hf.load(folder)


def test_a_state_of_another_shape_is_refused_by_name(folder: Path) -> None:
    for path in folder.glob("checkpoint-*.npz"):
        header, arrays, _ = sealed.read_npz(path)
        sealed.write_npz(path, header, arrays | {"state.policy": arrays["state.policy"][:2]})
    with pytest.raises(RunError, match=r"state\.policy is int32\[2, 9\], but .* keeps int32\[4, 9\]"):
        hf.load(folder)


@pytest.mark.parametrize(
    "change",
    [{"until": {"first": 0}}, {"records": None}, {"records": {"size": "x"}}, {"versions": 3}, {"until": [1]}],
)
def test_a_checkpoint_that_makes_no_sense_is_passed_over(change: dict[str, object], folder: Path) -> None:
    path = folder / "checkpoint-0000000009.npz"
    header, arrays, _ = sealed.read_npz(path)
    if "versions" in change:  # looked at only where something else is wrong
        arrays.pop("state.policy")
    sealed.write_npz(path, header | change, arrays)
    with pytest.warns(store.RunWarning, match="not a checkpoint of ours"):
        assert hf.load(folder).episodes == 6


def test_going_on_with_other_versions_is_told(saved: Path, folder: Path) -> None:
    path = folder / "checkpoint-0000000009.npz"
    header, arrays, _ = sealed.read_npz(path)
    sealed.write_npz(path, header | {"versions": header["versions"] | {"jax": "0.0.1"}}, arrays)
    run = hf.load(folder)  # looking at it is no matter
    with pytest.warns(store.RunWarning, match=r"last written with jax 0\.0\.1 \(now .*\); it goes on"):
        run = run.resume(episodes=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.resume(episodes=1)


# Attacks


@pytest.mark.parametrize("name", ["run.json", "arrays.npz", "records.jsonl", "checkpoint-0000000009.npz"])
def test_a_link_out_of_the_folder_is_not_followed(name: str, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    shutil.move(folder / name, outside)
    (folder / name).symlink_to(outside)
    if name.startswith("checkpoint"):
        with pytest.warns(store.RunWarning, match="is a link"):
            hf.load(folder)
    else:
        with pytest.raises(RunError, match="links are not followed"):
            hf.load(folder)


@pytest.mark.parametrize("name", ["records.jsonl", "lock", ".partial"])
def test_nothing_is_written_through_a_link(name: str, folder: Path, tmp_path: Path) -> None:
    run = hf.load(folder)
    outside = tmp_path / "outside"
    outside.write_text("precious")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(outside)
    with pytest.raises(RunError, match="links are not followed"):
        run.resume(episodes=1)
    assert outside.read_text() == "precious"


def test_a_pipe_in_place_of_a_file_does_not_hang(folder: Path) -> None:
    (folder / "run.json").unlink()
    os.mkfifo(folder / "run.json")
    with pytest.raises(RunError, match="not a regular file"):
        hf.load(folder)


def test_a_folder_in_place_of_a_checkpoint_is_named(folder: Path) -> None:
    (folder / "checkpoint-0000000030.npz").mkdir()
    with pytest.warns(store.RunWarning, match="0030"):
        run = hf.load(folder)
    with pytest.raises(RunError, match="checkpoint-0000000030"):
        run.resume(episodes=1)


def test_a_name_that_no_folder_can_have_is_refused(problem: hf.Problem) -> None:
    for name in ("~nosuchuser/x", "x" * 300, "a\0b", 5):
        with pytest.raises(RunError, match=r"cannot be a folder: .*; choose another"):
            hf.load(name)
        with pytest.raises(RunError, match="cannot be a folder"):
            hf.explore(problem, "uniform", episodes=1, out=name)
        with pytest.raises(RunError, match="cannot be a folder"):
            hf.explore_many(problem, "uniform", episodes=1, seeds=1, out=name)


def test_the_longest_name_of_a_folder_is_allowed(problem: hf.Problem, tmp_path: Path) -> None:
    hf.explore(problem, "uniform", episodes=1, out=tmp_path / ("x" * 255))
    assert hf.load(tmp_path / ("x" * 255)).episodes == 1


def test_nothing_is_ever_unpickled(folder: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return pytest.fail, ("unpickled",)

    path = folder / "arrays.npz"
    header, arrays, _ = sealed.read_npz(path)
    seal = sealed.write_npz(path, header, arrays | {"model.valid.rows": np.array([Bomb()], object)})
    manifest, _ = sealed.read_json(folder / "run.json")
    sealed.write_json(folder / "run.json", manifest | {"arrays": seal})
    with pytest.raises(RunError, match="damaged"):
        hf.load(folder)


@pytest.mark.parametrize(
    "recipe",
    [
        {"name": "gymnasium:antigravity:Env-v0", "parameters": {"horizon": 3}},
        {"name": "../../etc/passwd", "parameters": {}},
        {"name": "zoned-grid", "parameters": {"size": "../x"}},
        {"name": ["zoned-grid"], "parameters": {}},
    ],
)
def test_a_recipe_cannot_reach_beyond_the_named_problems(recipe: dict[str, object], folder: Path) -> None:
    header, _ = sealed.read_json(folder / "run.json")
    header["problem"]["recipe"] = recipe
    sealed.write_json(folder / "run.json", header)
    with pytest.raises(ValueError):
        hf.load(folder)


def flipped(path: Path) -> Iterator[bytes]:
    """The file with one bit flipped, once for each of its bytes."""
    data = bytearray(path.read_bytes())
    for i, bit in enumerate(np.random.default_rng(0).integers(8, size=len(data))):
        data[i] ^= 1 << int(bit)
        yield bytes(data)
        data[i] ^= 1 << int(bit)


def flip(path: Path, where: float) -> None:
    """Flip one bit at a share of the file's length."""
    data = bytearray(path.read_bytes())
    data[int(where * len(data))] ^= 4
    path.write_bytes(data)
