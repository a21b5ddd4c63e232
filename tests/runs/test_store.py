"""Run folders: what is written comes back to the bit, and what is not what was written is refused."""

import dataclasses
import errno
import json
import os
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError, RunError
from horizonfree.explorers.uniform import Uniform
from horizonfree.runs import files


def assert_same(a: hf.Run, b: hf.Run) -> None:
    """Equal to the bit: state, evidence, records."""
    x, y = jax.tree.leaves(a.progress), jax.tree.leaves(b.progress)
    assert len(x) == len(y)
    for left, right in zip(x, y):
        assert np.asarray(left).dtype == np.asarray(right).dtype
        assert np.asarray(left).tobytes() == np.asarray(right).tobytes()
    assert a.records.keys() == b.records.keys()
    for name in a.records:
        assert a.records[name].dtype == b.records[name].dtype
        assert a.records[name].tobytes() == b.records[name].tobytes()


OPTIONS = {
    "uniform": {},
    "optimal-design": {},
    "hf-ucrl-rfe++": {"budget": 12, "scale": 0.5, "moment_orders": 2, "chains": 1, "sweeps": 2},
    "ucrl-vtr": {"budget": 12, "reward": np.full((4, 9, 4), 0.25)},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_run_in_three_pieces_through_a_folder_equals_a_run_in_one(
    name: str, problem: hf.Problem, tmp_path: Path
) -> None:
    options = OPTIONS[name]
    uninterrupted = hf.explore(problem, name, episodes=12, seed=3, **options)
    hf.explore(problem, name, episodes=5, seed=3, out=tmp_path / "a", save_episodes=2, **options)
    hf.load(tmp_path / "a").resume(episodes=4, save_episodes=3)
    run = hf.load(tmp_path / "a").resume(episodes=3)
    assert_same(uninterrupted, run)
    assert_same(uninterrupted, hf.load(tmp_path / "a"))
    uninterrupted.save(tmp_path / "b")
    assert (tmp_path / "a" / "records.jsonl").read_bytes() == (tmp_path / "b" / "records.jsonl").read_bytes()
    assert (tmp_path / "a" / "run.json").read_bytes() == (tmp_path / "b" / "run.json").read_bytes()


def test_records_are_json_lines_numbered_from_one(saved_folder: Path) -> None:
    lines = [json.loads(line) for line in (saved_folder / "records.jsonl").read_text().splitlines()]
    run = hf.load(saved_folder)
    assert [line["episode"] for line in lines] == list(range(1, 10))
    assert [line["information"] for line in lines] == run.records["information"].tolist()


def test_numbers_that_are_not_finite_survive_the_records(problem: hf.Problem, tmp_path: Path) -> None:
    run = hf.explore(problem, "uniform", episodes=3)
    odd = {
        "x": np.array([np.inf, -np.inf, np.nan]),
        "k": np.array([1, 2, 3], np.int32),
        "b": np.array([1, 0, 1], bool),
    }
    dataclasses.replace(run, records=odd).save(tmp_path / "a")
    records = hf.load(tmp_path / "a").records
    for name, x in odd.items():
        np.testing.assert_array_equal(records[name], x)
        assert records[name].dtype == x.dtype


def test_two_checkpoints_are_kept_and_nothing_else_is_left(saved_folder: Path) -> None:
    names = sorted(x.name for x in saved_folder.iterdir())
    assert names == [
        "arrays.npz",
        "checkpoint-0000000006.npz",
        "checkpoint-0000000009.npz",
        "lock",
        "records.jsonl",
        "run.json",
    ]
    assert list(saved_folder.parent.iterdir()) == [saved_folder]


def test_the_folder_says_what_was_explored_and_how(saved_folder: Path) -> None:
    text = json.loads((saved_folder / "run.json").read_text())
    assert text["problem"]["recipe"] == {
        "name": "zoned-grid",
        "parameters": {"size": 3, "zones": 1, "horizon": 4, "seed": 0},
    }
    assert text["explorer"] == {"name": "optimal-design", "options": {}}
    assert text["seed"] == 5
    assert {"python", "horizonfree", "jax", "numpy"} <= set(text["versions"])


def test_resume_without_a_goal_finishes_what_was_asked_for(problem: hf.Problem, tmp_path: Path) -> None:
    uninterrupted = hf.explore(problem, "uniform", episodes=20, seed=1)
    partial = hf.explore(problem, "uniform", episodes=8, seed=1)
    stop_rule = dataclasses.replace(partial.until, last=20)
    dataclasses.replace(partial, until=stop_rule).save(tmp_path / "a")
    run = hf.load(tmp_path / "a").resume()
    assert_same(uninterrupted, run)
    assert run.resume().episodes == 20


@pytest.mark.parametrize("is_for_some_rewards", [False, True])
def test_a_certified_goal_is_reached_after_the_same_episode_however_it_is_cut(
    is_for_some_rewards: bool, tmp_path: Path
) -> None:
    problem = hf.make("zoned-grid", size=3, zones=3, horizon=5)
    reward = np.random.default_rng(0).uniform(size=(3, 5, 9, 4)) / 5
    ask = {"until_eps": 0.1, "reward": list(reward)} if is_for_some_rewards else {"until_eps": 0.6}
    uninterrupted = hf.explore(problem, "optimal-design", seed=2, delta=0.1, **ask)
    assert 2 < uninterrupted.episodes < 2_000
    stop_rule = uninterrupted.until
    cut = hf.explore(problem, "optimal-design", episodes=uninterrupted.episodes * 2 // 3, seed=2)
    dataclasses.replace(cut, until=stop_rule).save(tmp_path / "a")
    run = hf.load(tmp_path / "a").resume()
    assert_same(uninterrupted, run)
    assert hf.load(tmp_path / "a").resume().episodes == uninterrupted.episodes


def test_a_run_that_lives_in_a_folder_goes_on_only_from_where_the_folder_stands(folder: Path) -> None:
    run = hf.load(folder)
    run.resume(episodes=1)
    with pytest.raises(RunError, match="is at episode 10, this run at 9"):
        run.resume(episodes=1)
    assert hf.load(folder).episodes == 10


def test_a_folder_that_is_taken_is_left_alone(folder: Path, problem: hf.Problem, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="already holds a run"):
        hf.explore(problem, "uniform", episodes=1, out=folder)
    assert hf.load(folder).episodes == 9
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep me")
    with pytest.raises(RunError, match="not an empty folder"):
        hf.explore(problem, "uniform", episodes=1, out=tmp_path / "mine")


def test_an_empty_folder_is_filled_where_it_is(
    problem: hf.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    problem: hf.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a process that is killed at any of its flushes would leave."""
    run, folder, copies = hf.explore(problem, "uniform", episodes=3), tmp_path / "a", []
    folder.mkdir()

    def flush(_: int) -> None:
        copies.append(shutil.copytree(folder, tmp_path / f"copy-{len(copies)}"))

    monkeypatch.setattr(os, "fsync", flush)
    run.save(folder)
    monkeypatch.undo()
    is_whole = [(copy / "run.json").exists() for copy in copies]
    assert is_whole == sorted(is_whole)
    assert is_whole.count(False) > 3
    for copy, is_complete in zip(copies, is_whole):
        if is_complete:
            assert_same(hf.load(copy), run)
        else:
            with pytest.raises(RunError, match="holds no run"):
                hf.load(copy)


def test_an_empty_folder_that_could_not_be_filled_can_be_used_again(
    problem: hf.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, num_left = hf.explore(problem, "uniform", episodes=3), 0

    def flush(_: int) -> None:
        nonlocal num_left
        num_left -= 1
        if num_left < 0:
            raise OSError(errno.ENOSPC, "full")

    for flushes in range(7):
        num_left = flushes
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", flush)
            with pytest.raises(RunError, match="the disk is full"):
                run.save(tmp_path)
        assert [x.name for x in tmp_path.iterdir()] == ["lock"]
    run.save(tmp_path)
    assert_same(run, hf.load(tmp_path))


def test_an_empty_folder_is_filled_by_one_process_at_a_time(problem: hf.Problem, tmp_path: Path) -> None:
    run = hf.explore(problem, "uniform", episodes=1)
    with files.lock(tmp_path), pytest.raises(RunError, match="in use by another exploration"):
        run.save(tmp_path)
    run.save(tmp_path)


def test_where_no_folder_can_be_made_the_refusal_says_why(problem: hf.Problem, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "link").symlink_to("file")
    for name, message in {
        "dangling": "dangling is a link that leads nowhere; remove it, or choose another folder",
        "link": "link exists and is not an empty folder; choose another",
        "file": "file exists and is not an empty folder; choose another",
        "file/g": "file/g: a part of the path is a file, not a folder: choose another place",
        "file/g/h": "file/g/h: a part of the path is a file, not a folder: choose another place",
    }.items():
        with pytest.raises(RunError, match=f"{message}$"):
            hf.explore(problem, "uniform", episodes=1, out=tmp_path / name)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["dangling", "file", "link"]


def test_what_is_read_from_a_run_cannot_be_written_to(folder: Path, problem: hf.Problem) -> None:
    """Otherwise a later save would store episodes that were not observed."""
    run = hf.from_episodes(problem, hf.simulate(problem, np.zeros((4, 9), int), episodes=6))
    run.save(folder.parent / "logged")
    with pytest.raises(ValueError, match="read-only"):
        hf.load(folder.parent / "logged").evidence.thetas[:] = 0
    run = hf.load(folder)
    for x in jax.tree.leaves((run.progress, run.problem.model.valid, dict(run.records))):
        assert not x.flags.writeable


# Problems


def test_logged_episodes_can_be_saved(problem: hf.Problem, tmp_path: Path) -> None:
    batch = hf.simulate(problem, np.zeros((4, 9), int), episodes=6)
    run = hf.from_episodes(problem, batch)
    run.save(tmp_path / "a")
    loaded = hf.load(tmp_path / "a")
    assert_same(run, loaded)
    assert loaded.certificate() == run.certificate()
    with pytest.raises(OptionError, match="logged, not explored"):
        loaded.resume(episodes=1)


def test_a_real_environment_is_asked_for_again(problem: hf.Problem, tmp_path: Path) -> None:
    env = problem.to_gymnasium()
    uninterrupted = hf.explore(env, "uniform", known=problem, episodes=6, seed=4)
    hf.explore(env, "uniform", known=problem, episodes=3, seed=4, out=tmp_path / "a")
    with pytest.raises(OptionError, match="pass it again: env="):
        hf.load(tmp_path / "a").resume(episodes=3)
    assert_same(uninterrupted, hf.load(tmp_path / "a").resume(episodes=3, env=env))


def test_an_explorer_without_a_name_cannot_be_saved(problem: hf.Problem, tmp_path: Path) -> None:
    class Nameless(Uniform):
        pass

    run = hf.explore(problem, Nameless(), episodes=1)
    with pytest.raises(RunError, match="Nameless is defined inside a function"):
        run.save(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
