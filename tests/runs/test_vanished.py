"""Folders that somebody changes under a run that goes on: made good to the bit, or an error, never success in ruins."""

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import horizonfree as hf
from horizonfree.batch import job
from horizonfree.errors import RunError
from horizonfree.runs import drive, sealed
from tests.runs.test_store import assert_same

EPISODES = 6
Act = Callable[[Path], Any]


@pytest.fixture(scope="module")
def problem() -> hf.Problem:
    return hf.make("river-swim", states=3, horizon=3)


@pytest.fixture(scope="module")
def whole(problem: hf.Problem, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody disturbs."""
    folder = tmp_path_factory.mktemp("vanished") / "a"
    hf.explore(problem, "information", episodes=EPISODES, out=folder, save_episodes=1)
    return folder


@pytest.fixture(scope="module")
def other(problem: hf.Problem, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another run, of the same problem."""
    folder = tmp_path_factory.mktemp("vanished") / "b"
    hf.explore(problem, "information", episodes=EPISODES, seed=1, out=folder, save_episodes=1)
    return folder


def on(name: str, act: Act) -> Act:
    """Something done to a file of the folder."""
    return lambda folder: act(folder / name)


def on_checkpoints(act: Act, which: slice = slice(None)) -> Act:
    """Something done to checkpoints, newest first."""
    return lambda folder: [act(x) for x in sorted(folder.glob("checkpoint-*"), reverse=True)[which]]


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def flip(path: Path) -> None:
    """In place: the same file, of the same length."""
    with path.open("r+b") as file:
        first = file.read(1)[0]
        file.seek(0)
        file.write(bytes([first ^ 1]))


def rewrite(data: bytes) -> Act:
    """A new file of that name."""

    def act(path: Path) -> None:
        path.unlink()
        path.write_bytes(data)

    return act


def to_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def to_link(path: Path) -> None:
    """To a file that is just the same, elsewhere."""
    elsewhere = path.parent.with_name("elsewhere")
    shutil.move(path, elsewhere)
    path.symlink_to(elsewhere)


def to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def clear(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def swap(folder: Path) -> None:
    """An empty folder in its place."""
    folder.rename(folder.with_name("moved"))
    folder.mkdir()


def to_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("a file")


def copy(folder: Path) -> None:
    """A copy of itself in its place."""
    folder.rename(folder.with_name("moved"))
    shutil.copytree(folder.with_name("moved"), folder)


MADE_GOOD: dict[str, Act] = {
    "records removed": on("records.jsonl", os.remove),
    "records truncated": on("records.jsonl", truncate),
    "records emptied": on("records.jsonl", empty),
    "records flipped": on("records.jsonl", flip),
    "records replaced by shorter ones": on("records.jsonl", rewrite(b"{}\n")),
    "records replaced by longer ones": on("records.jsonl", rewrite(b"{}\n" * 1000)),
    "records grown": on("records.jsonl", lambda path: path.write_bytes(path.read_bytes() + b"more")),
    "checkpoints removed": on_checkpoints(os.remove),
    "checkpoints emptied": on_checkpoints(empty),
    "checkpoints flipped": on_checkpoints(flip),
    "newest checkpoint removed": on_checkpoints(os.remove, slice(1)),
    "newest checkpoint truncated": on_checkpoints(truncate, slice(1)),
    "records and checkpoints removed": lambda x: [on("records.jsonl", os.remove)(x), on_checkpoints(os.remove)(x)],
    "lock removed": on("lock", os.remove),
    "a file of somebody else": on("notes.txt", lambda path: path.write_text("hello")),
    "half a file": on(".partial", lambda path: path.write_text("PK")),
    "a later checkpoint": on("checkpoint-0000000099.npz", lambda path: path.write_text("PK")),
    "copied": copy,
}  # fmt: skip
REFUSED: dict[str, tuple[Act, str]] = {
    "records replaced by a folder": (on("records.jsonl", to_folder), r"records\.jsonl"),
    "records replaced by a pipe": (on("records.jsonl", to_pipe), r"records\.jsonl"),
    "records replaced by a link": (on("records.jsonl", to_link), r"records\.jsonl: it is a link"),
    "half a file is a folder": (on(".partial", to_folder), "a: |checkpoint"),
    "arrays removed": (on("arrays.npz", os.remove), r"arrays\.npz: it does not exist"),
    "arrays truncated": (on("arrays.npz", truncate), r"arrays\.npz is damaged"),
    "arrays flipped": (on("arrays.npz", flip), r"arrays\.npz is damaged"),
    "arrays replaced by a link": (on("arrays.npz", to_link), r"arrays\.npz: it is a link"),
    "settings removed": (on("run.json", os.remove), "no longer the folder"),
    "settings emptied": (on("run.json", empty), r"run\.json is damaged"),
    "settings flipped": (on("run.json", flip), r"run\.json is damaged"),
    "emptied": (clear, "no longer the folder"),
    "removed": (shutil.rmtree, "no longer the folder"),
    "replaced by an empty one": (swap, "no longer the folder"),
    "replaced by a file": (to_file, "no longer the folder"),
    "renamed": (lambda folder: folder.rename(folder.with_name("moved")), "no longer the folder"),
}


def disturb(monkeypatch: pytest.MonkeyPatch, folder: Path, moment: str, act: Act) -> None:
    """Have somebody act once: after the checkpoint of an episode, or within that of the last one."""
    save_if_due, extend, calls = drive._Saver.save_if_due, sealed.extend, 0

    def saved(self: Any, now: Any) -> None:
        save_if_due(self, now)
        if moment == f"after episode {now.episodes}":
            act(folder)

    def extended(path: Path, size: int, data: bytes) -> bool:
        nonlocal calls
        calls += 1
        done = extend(path, size, data)
        if moment == "within the last checkpoint" and calls == EPISODES + 2:  # create, and twice the first
            act(folder)
        return done

    monkeypatch.setattr(drive._Saver, "save_if_due", saved)
    monkeypatch.setattr(sealed, "extend", extended)


MOMENTS = ("after episode 1", f"after episode {EPISODES - 1}", "within the last checkpoint")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("case", MADE_GOOD)
def test_what_is_held_in_memory_is_made_good(
    case: str, moment: str, problem: hf.Problem, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts: list[Path] = []
    disturb(monkeypatch, tmp_path / "a", moment, lambda x: [acts.append(x), MADE_GOOD[case](x)])
    run = hf.explore(problem, "information", episodes=EPISODES, out=tmp_path / "a", save_episodes=1)
    monkeypatch.undo()
    assert len(acts) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(run, hf.load(whole))
        assert_same(hf.load(tmp_path / "a"), hf.load(whole))
    records = (tmp_path / "a" / "records.jsonl").read_bytes()
    assert records.startswith((whole / "records.jsonl").read_bytes())  # what comes after it is not read


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("case", REFUSED)
def test_a_ruined_folder_is_an_error(
    case: str, moment: str, problem: hf.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    act, words = REFUSED[case]
    disturb(monkeypatch, tmp_path / "a", moment, act)
    with pytest.raises(RunError, match=words if moment.startswith("after") else None):
        hf.explore(problem, "information", episodes=EPISODES, out=tmp_path / "a", save_episodes=1)


@pytest.mark.parametrize("name", ["run.json", "arrays.npz", "folder"])
def test_another_run_in_its_place_is_an_error(
    name: str, problem: hf.Problem, other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is written into the other."""

    def act(folder: Path) -> None:
        if name == "folder":
            shutil.rmtree(folder)
            shutil.copytree(other, folder)
        elif name == "arrays.npz":
            _, arrays, _ = sealed.read_npz(other / name)
            sealed.write_npz(folder / name, {}, arrays | {"x": arrays["model.valid.rows"]})
        else:
            shutil.copy(other / name, folder)

    disturb(monkeypatch, tmp_path / "a", "after episode 3", act)
    with pytest.raises(RunError, match=r"no longer the folder|was replaced meanwhile"):
        hf.explore(problem, "information", episodes=EPISODES, out=tmp_path / "a", save_episodes=1)
    if name == "folder":
        assert_same(hf.load(tmp_path / "a"), hf.load(other))


def test_a_renamed_folder_can_be_gone_on_with(
    problem: hf.Problem, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disturb(monkeypatch, tmp_path / "a", "after episode 3", REFUSED["renamed"][0])
    with pytest.raises(RunError, match="somebody moved, emptied or replaced it"):
        hf.explore(problem, "information", episodes=EPISODES, out=tmp_path / "a", save_episodes=1)
    monkeypatch.undo()
    run = hf.load(tmp_path / "moved")
    assert run.episodes == 3
    assert_same(run.resume(), hf.load(whole))


@pytest.mark.parametrize("act", [clear, shutil.rmtree, swap, to_file], ids=lambda act: act.__name__)
def test_a_batch_whose_folder_is_ruined_is_an_error(
    act: Act, problem: hf.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, calls = job.Job.run, 0

    def ran(self: Any, first: int, *args: Any) -> Any:
        nonlocal calls
        calls += 1
        found = run(self, first, *args)
        if calls == 2:
            act(tmp_path / "a")
        return found

    monkeypatch.setattr(job.Job, "run", ran)
    monkeypatch.setitem(job.MOST_MEMBERS, False, 1)
    with pytest.raises(RunError, match="no longer the folder of this batch"):
        hf.explore_many(problem, "uniform", episodes=2, seeds=3, out=tmp_path / "a")
    assert calls == 2
