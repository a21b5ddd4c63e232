"""Run folders: what is written comes back to the bit, and what is not what was written is refused."""

import dataclasses
import errno
import json
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

import horizonfree as hf
from horizonfree import recipes, sealed, store
from horizonfree.errors import OptionError, RunError
from horizonfree.explorers.uniform import Uniform


@pytest.fixture(scope="module")
def problem() -> hf.Mixture:
    return hf.make("zoned-grid", size=3, zones=1, horizon=4)


@pytest.fixture(scope="module")
def saved(problem: hf.Mixture, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 9 episodes with checkpoints at 6 and 9."""
    folder = tmp_path_factory.mktemp("runs") / "a"
    hf.explore(problem, "information", episodes=9, seed=5, out=folder, save_episodes=3)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy of that run, to be damaged."""
    return Path(shutil.copytree(saved, tmp_path / "a"))


def assert_same(a: hf.Run, b: hf.Run) -> None:
    """Equal to the bit: state, evidence, rows."""
    x, y = jax.tree.leaves(a.progress), jax.tree.leaves(b.progress)
    assert len(x) == len(y)
    for left, right in zip(x, y):
        assert np.asarray(left).dtype == np.asarray(right).dtype
        assert np.asarray(left).tobytes() == np.asarray(right).tobytes()
    assert a.rows.keys() == b.rows.keys()
    for name in a.rows:
        assert a.rows[name].dtype == b.rows[name].dtype
        assert a.rows[name].tobytes() == b.rows[name].tobytes()


OPTIONS = {
    "uniform": {},
    "information": {},
    "hf-ucrl-rfe++": {"budget": 12, "scale": 0.5, "moment_orders": 2, "chains": 1, "sweeps": 2},
    "ucrl-vtr": {"budget": 12, "reward": np.full((4, 9, 4), 0.25)},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_run_in_three_pieces_through_a_folder_equals_a_run_in_one(
    name: str, problem: hf.Mixture, tmp_path: Path
) -> None:
    options = OPTIONS[name]
    whole = hf.explore(problem, name, episodes=12, seed=3, **options)
    hf.explore(problem, name, episodes=5, seed=3, out=tmp_path / "a", save_episodes=2, **options)
    hf.load(tmp_path / "a").resume(episodes=4, save_episodes=3)
    run = hf.load(tmp_path / "a").resume(episodes=3)
    assert_same(whole, run)
    assert_same(whole, hf.load(tmp_path / "a"))
    whole.save(tmp_path / "b")
    assert (tmp_path / "a" / "rows.jsonl").read_bytes() == (tmp_path / "b" / "rows.jsonl").read_bytes()
    assert (tmp_path / "a" / "run.json").read_bytes() == (tmp_path / "b" / "run.json").read_bytes()


def test_rows_are_json_lines_numbered_from_one(saved: Path) -> None:
    lines = [json.loads(line) for line in (saved / "rows.jsonl").read_text().splitlines()]
    run = hf.load(saved)
    assert [line["episode"] for line in lines] == list(range(1, 10))
    assert [line["information"] for line in lines] == run.rows["information"].tolist()


def test_numbers_that_are_not_finite_survive_the_rows(problem: hf.Mixture, tmp_path: Path) -> None:
    run = hf.explore(problem, "uniform", episodes=3)
    odd = {
        "x": np.array([np.inf, -np.inf, np.nan]),
        "k": np.array([1, 2, 3], np.int32),
        "b": np.array([1, 0, 1], bool),
    }
    dataclasses.replace(run, rows=odd).save(tmp_path / "a")
    back = hf.load(tmp_path / "a").rows
    for name, x in odd.items():
        np.testing.assert_array_equal(back[name], x)
        assert back[name].dtype == x.dtype


def test_two_checkpoints_are_kept_and_nothing_else_is_left(saved: Path) -> None:
    names = sorted(x.name for x in saved.iterdir())
    assert names == [
        "arrays.npz",
        "checkpoint-0000000006.npz",
        "checkpoint-0000000009.npz",
        "lock",
        "rows.jsonl",
        "run.json",
    ]
    assert list(saved.parent.iterdir()) == [saved]


def test_the_folder_says_what_was_explored_and_how(saved: Path) -> None:
    text = json.loads((saved / "run.json").read_text())
    assert text["problem"]["recipe"] == {
        "name": "zoned-grid",
        "parameters": {"size": 3, "zones": 1, "horizon": 4, "seed": 0},
    }
    assert text["explorer"] == {"name": "information", "options": {}}
    assert text["seed"] == 5
    assert {"python", "horizonfree", "jax", "numpy"} <= set(text["versions"])
    said = store.settings(hf.load(saved))
    assert said == {name: text[name] for name in said}


def test_resume_without_a_goal_finishes_what_was_asked_for(problem: hf.Mixture, tmp_path: Path) -> None:
    whole = hf.explore(problem, "uniform", episodes=20, seed=1)
    begun = hf.explore(problem, "uniform", episodes=8, seed=1)
    asked = dataclasses.replace(begun.goal, last=20)
    dataclasses.replace(begun, goal=asked).save(tmp_path / "a")
    run = hf.load(tmp_path / "a").resume()
    assert_same(whole, run)
    assert run.resume().episodes == 20


@pytest.mark.parametrize("is_for_some_rewards", [False, True])
def test_a_certified_goal_is_reached_after_the_same_episode_however_it_is_cut(
    is_for_some_rewards: bool, tmp_path: Path
) -> None:
    problem = hf.make("zoned-grid", size=3, zones=3, horizon=4)
    reward = np.random.default_rng(0).uniform(size=(3, 4, 9, 4)) / 4
    ask = {"until_eps": 0.1, "reward": list(reward)} if is_for_some_rewards else {"until_eps": 0.6}
    whole = hf.explore(problem, "information", seed=2, delta=0.1, **ask)
    assert 2 < whole.episodes < 2_000
    goal = whole.goal
    cut = hf.explore(problem, "information", episodes=whole.episodes * 2 // 3, seed=2)
    dataclasses.replace(cut, goal=goal).save(tmp_path / "a")
    run = hf.load(tmp_path / "a").resume()
    assert_same(whole, run)
    assert hf.load(tmp_path / "a").resume().episodes == whole.episodes


def test_a_run_that_lives_in_a_folder_goes_on_only_from_where_the_folder_stands(folder: Path) -> None:
    run = hf.load(folder)
    run.resume(episodes=1)
    with pytest.raises(RunError, match="stands at episode 10, this run at 9"):
        run.resume(episodes=1)
    assert hf.load(folder).episodes == 10


def test_a_folder_that_is_taken_is_left_alone(folder: Path, problem: hf.Mixture, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="already holds a run"):
        hf.explore(problem, "uniform", episodes=1, out=folder)
    assert hf.load(folder).episodes == 9
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep me")
    with pytest.raises(RunError, match="not an empty folder"):
        hf.explore(problem, "uniform", episodes=1, out=tmp_path / "mine")


def test_an_empty_folder_is_filled_where_it_is(
    problem: hf.Mixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One may stand in it, or come to it through a link."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    run = hf.explore(problem, "uniform", episodes=1, out=".")
    assert Path.cwd() == run.folder == tmp_path / "here"
    assert hf.load(".").resume(episodes=1).episodes == 2
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    run.save(tmp_path / "link")
    assert_same(run, hf.load(tmp_path / "there"))
    assert (tmp_path / "link").is_symlink()


def test_at_no_moment_does_an_empty_folder_hold_half_a_run(
    problem: hf.Mixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a process that is killed at any of its flushes would leave."""
    run, place, copies = hf.explore(problem, "uniform", episodes=3), tmp_path / "a", []
    place.mkdir()

    def flush(_: int) -> None:
        copies.append(shutil.copytree(place, tmp_path / f"copy-{len(copies)}"))

    monkeypatch.setattr(os, "fsync", flush)
    run.save(place)
    monkeypatch.undo()
    is_whole = [(copy / "run.json").exists() for copy in copies]
    assert is_whole == sorted(is_whole)
    assert is_whole.count(False) > 3
    for copy, whole in zip(copies, is_whole):
        if whole:
            assert_same(hf.load(copy), run)
        else:
            with pytest.raises(RunError, match="holds no run"):
                hf.load(copy)


def test_an_empty_folder_that_could_not_be_filled_can_be_used_again(
    problem: hf.Mixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, left = hf.explore(problem, "uniform", episodes=3), 0

    def flush(_: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "full")

    for flushes in range(7):
        left = flushes
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", flush)
            with pytest.raises(RunError, match="the disk is full"):
                run.save(tmp_path)
        assert [x.name for x in tmp_path.iterdir()] == ["lock"]
    run.save(tmp_path)
    assert_same(run, hf.load(tmp_path))


def test_an_empty_folder_is_filled_by_one_process_at_a_time(problem: hf.Mixture, tmp_path: Path) -> None:
    run = hf.explore(problem, "uniform", episodes=1)
    with sealed.locked(tmp_path), pytest.raises(RunError, match="in use by another exploration"):
        run.save(tmp_path)
    run.save(tmp_path)


def test_where_no_folder_can_be_made_the_refusal_says_why(problem: hf.Mixture, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "link").symlink_to("file")
    for name, words in {
        "dangling": "dangling is a link that leads nowhere; remove it, or choose another folder",
        "link": "link exists and is not an empty folder; choose another",
        "file": "file exists and is not an empty folder; choose another",
        "file/g": "file/g: a part of the path is a file, not a folder: choose another place",
        "file/g/h": "file/g/h: a part of the path is a file, not a folder: choose another place",
    }.items():
        with pytest.raises(RunError, match=f"{words}$"):
            hf.explore(problem, "uniform", episodes=1, out=tmp_path / name)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["dangling", "file", "link"]


def test_what_is_read_from_a_run_cannot_be_written_to(folder: Path, problem: hf.Mixture) -> None:
    """Else a later save would store what nobody observed."""
    run = hf.from_episodes(problem, hf.simulate(problem, np.zeros((4, 9), int), episodes=6))
    run.save(folder.parent / "logged")
    with pytest.raises(ValueError, match="read-only"):
        hf.load(folder.parent / "logged").theta_hat[:] = 0
    run = hf.load(folder)
    for x in jax.tree.leaves((run.progress, run.valid, dict(run.rows))):
        assert not x.flags.writeable


# Problems


def test_a_gymnasium_problem_comes_back_from_its_recipe(tmp_path: Path) -> None:
    problem = hf.from_gymnasium("FrozenLake-v1", horizon=5, map_name="4x4")
    hf.explore(problem, "uniform", episodes=2).save(tmp_path / "a")
    back = hf.load(tmp_path / "a").problem
    assert recipes.fingerprint(back) == recipes.fingerprint(problem)
    assert (
        json.loads((tmp_path / "a" / "run.json").read_text())["problem"]["recipe"]["name"]
        == "gymnasium:FrozenLake-v1"
    )


def test_a_problem_without_a_recipe_comes_back_from_its_arrays(problem: hf.Mixture, tmp_path: Path) -> None:
    own = dataclasses.replace(problem, recipe=None, name="mine")
    hf.explore(own, "uniform", episodes=2).save(tmp_path / "a")
    back = hf.load(tmp_path / "a").problem
    assert recipes.fingerprint(back) == recipes.fingerprint(own)
    assert back.name == "mine"
    np.testing.assert_array_equal(back.layout["cells"], own.layout["cells"])
    assert back.layout["actions"] == own.layout["actions"]


LAYOUT = {
    "title": "abc",
    "columns": 3,
    "names": [np.int64(1), "b", None, 0.5, True],
    "nested": {"a": [[1], [2, 3]]},
    "cells": np.arange(18).reshape(9, 2),
}


@pytest.mark.parametrize("has_recipe", [False, True])
def test_a_layout_comes_back_as_it_was(has_recipe: bool, problem: hf.Mixture, tmp_path: Path) -> None:
    own = dataclasses.replace(problem, layout=LAYOUT, recipe=problem.recipe if has_recipe else None)
    hf.explore(own, "uniform", episodes=1).save(tmp_path / "a")
    back = dict(hf.load(tmp_path / "a").problem.layout)
    cells = back.pop("cells")
    assert back == {key: x for key, x in LAYOUT.items() if key != "cells"}
    np.testing.assert_array_equal(cells, LAYOUT["cells"])


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (
            {"note": {1, 2}},
            r"layout\['note'\] of problem 'zoned-grid' holds \{1, 2\}, which cannot be stored; use",
        ),
        ({"note": [1.0, np.nan]}, r"layout\['note'\] .* holds nan"),
        ({"note": [np.zeros(2)]}, r"layout\['note'\] .* holds array"),
        ({"note": {1: 2}}, r"layout\['note'\] .* holds \{1: 2\}"),
        ({"note": np.array([{}])}, r"layout\['note'\] .* is an array of Python objects"),
        ({7: "x"}, r"layout\[7\] .* its key is not text; call it '7'"),
    ],
)
def test_a_layout_that_cannot_be_stored_is_named(
    layout: dict[str, object], words: str, problem: hf.Mixture, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match=words):
        hf.explore(dataclasses.replace(problem, layout=layout), "uniform", episodes=1, out=tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_recipe_that_no_longer_tells_the_truth_is_not_used(problem: hf.Mixture, tmp_path: Path) -> None:
    other = dataclasses.replace(
        problem, truth=hf.make("zoned-grid", size=3, zones=1, horizon=4, seed=9).truth
    )
    hf.explore(other, "uniform", episodes=2).save(tmp_path / "a")
    np.testing.assert_array_equal(hf.load(tmp_path / "a").problem.truth, other.truth)


def test_logged_episodes_can_be_saved(problem: hf.Mixture, tmp_path: Path) -> None:
    batch = hf.simulate(problem, np.zeros((4, 9), int), episodes=6)
    run = hf.from_episodes(problem, batch)
    run.save(tmp_path / "a")
    back = hf.load(tmp_path / "a")
    assert_same(run, back)
    assert back.certificate() == run.certificate()
    with pytest.raises(OptionError, match="logged, not explored"):
        back.resume(episodes=1)


def test_a_real_environment_is_asked_for_again(problem: hf.Mixture, tmp_path: Path) -> None:
    env = problem.to_gymnasium()
    whole = hf.explore(env, "uniform", known=problem, episodes=6, seed=4)
    hf.explore(env, "uniform", known=problem, episodes=3, seed=4, out=tmp_path / "a")
    with pytest.raises(OptionError, match="pass it again: env="):
        hf.load(tmp_path / "a").resume(episodes=3)
    assert_same(whole, hf.load(tmp_path / "a").resume(episodes=3, env=env))


def test_an_explorer_without_a_name_cannot_be_saved(problem: hf.Mixture, tmp_path: Path) -> None:
    class Nameless(Uniform):
        pass

    run = hf.explore(problem, Nameless(), episodes=1)
    with pytest.raises(RunError, match="Nameless has no name in EXPLORERS"):
        run.save(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


# Damage


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
    with pytest.warns(store.RunWarning, match=r"checkpoint-0000000009\.npz is damaged.*read up to episode 6"):
        run = hf.load(folder)
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


def test_every_flipped_byte_of_the_rows_is_noticed(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, seal = sealed.read_json(saved / "run.json")
    checkpoint, whole = saved / "checkpoint-0000000009.npz", sealed.read
    for data in flipped(saved / "rows.jsonl"):
        monkeypatch.setattr(
            sealed, "read", lambda path, data=data: whole(path) if path == checkpoint else data
        )
        with pytest.raises(RunError, match=r"rows\.jsonl is damaged"):
            store._read(seal, checkpoint)


def test_rows_damaged_late_cost_the_last_checkpoint_only(folder: Path) -> None:
    flip(folder / "rows.jsonl", 0.95)
    with pytest.warns(store.RunWarning, match="read up to episode 6"):
        assert hf.load(folder).episodes == 6
    flip(folder / "rows.jsonl", 0.05)
    with pytest.raises(RunError, match=r"rows\.jsonl is damaged"):
        hf.load(folder)


@pytest.mark.parametrize("name", ["run.json", "arrays.npz", "rows.jsonl"])
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
    sealed.write_json(folder / "run.json", header | {"format": 2, "versions": {"horizonfree": "9.9"}})
    with pytest.raises(
        RunError, match=r"format 2, this library reads 1; use the version that wrote it \(9\.9\)"
    ):
        hf.load(folder)


def test_a_problem_that_has_changed_since_is_refused(folder: Path) -> None:
    header, _ = sealed.read_json(folder / "run.json")
    header["problem"]["fingerprint"] = "0" * 64
    sealed.write_json(folder / "run.json", header)
    with pytest.raises(RunError, match="no longer the one that was explored"):
        hf.load(folder)


def test_files_of_two_runs_do_not_mix(folder: Path, problem: hf.Mixture, tmp_path: Path) -> None:
    hf.explore(problem, "information", episodes=9, seed=6, budget=50, out=tmp_path / "b")
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
    [{"goal": {"first": 0}}, {"rows": None}, {"rows": {"size": "x"}}, {"versions": 3}, {"goal": [1]}],
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


@pytest.mark.parametrize("name", ["run.json", "arrays.npz", "rows.jsonl", "checkpoint-0000000009.npz"])
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


@pytest.mark.parametrize("name", ["rows.jsonl", "lock", ".partial"])
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


def test_a_name_that_no_folder_can_have_is_refused(problem: hf.Mixture) -> None:
    for name in ("~nosuchuser/x", "x" * 300, "a\0b", 5):
        with pytest.raises(RunError, match=r"cannot be a folder: .*; choose another"):
            hf.load(name)
        with pytest.raises(RunError, match="cannot be a folder"):
            hf.explore(problem, "uniform", episodes=1, out=name)
        with pytest.raises(RunError, match="cannot be a folder"):
            hf.explore_many(problem, "uniform", episodes=1, seeds=1, out=name)


def test_the_longest_name_of_a_folder_is_allowed(problem: hf.Mixture, tmp_path: Path) -> None:
    hf.explore(problem, "uniform", episodes=1, out=tmp_path / ("x" * 255))
    assert hf.load(tmp_path / ("x" * 255)).episodes == 1


def test_nothing_is_ever_unpickled(folder: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return pytest.fail, ("unpickled",)

    path = folder / "arrays.npz"
    header, arrays, _ = sealed.read_npz(path)
    seal = sealed.write_npz(path, header, arrays | {"valid.rows": np.array([Bomb()], object)})
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
