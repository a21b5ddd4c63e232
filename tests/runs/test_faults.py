"""Runs that are killed, starved of disk, or locked out: nothing is lost, and the end is the same to the bit."""

import contextlib
import dataclasses
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import horizonfree as hf
from horizonfree.errors import RunError
from tests.runs.child import EPISODES, Child
from tests.runs.test_store import assert_same

KILLS = 50


def uninterrupted_run(seed: int) -> hf.Run:
    """The run without an interruption."""
    problem = hf.make("zoned-grid", size=3, zones=1, horizon=4)
    return hf.explore(problem, "optimal-design", episodes=EPISODES, seed=seed)


def test_killed_at_fifty_moments_and_resumed_a_run_ends_with_the_same_bits(
    child: Child, tmp_path: Path
) -> None:
    """A checkpoint after every episode, so that most moments fall into the writing of one."""
    moments = random.Random(0)
    kills = seed = 0
    stands: set[tuple[int, int]] = set()
    while kills < KILLS:
        folder = tmp_path / f"run-{seed}"
        pid = child.begin(folder, seed=seed)
        longest = 0.15
        if kills % 5:  # most kills while it explores, one in five while it starts
            child.line("began")
            longest = 0.08
        time.sleep(moments.uniform(0.0, longest))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        status = int(child.line("ended"))
        assert status in (0, -signal.SIGKILL)
        if status:
            kills += 1
            if folder.exists():
                stands.add((seed, hf.load(folder).episodes))
        else:
            assert_same(hf.load(folder), uninterrupted_run(seed))
            seed += 1
    if (tmp_path / f"run-{seed}").exists():
        assert_same(hf.load(tmp_path / f"run-{seed}").resume(), uninterrupted_run(seed))
    assert len(stands) > KILLS / 10  # it was not killed at the same place each time


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB in memory, which may be enlarged."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a small disk needs the right to mount: run the tests as root to have this one")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_loses_nothing(small_disk: Path) -> None:
    problem = hf.make("zoned-grid", size=3, zones=1, horizon=4)
    uninterrupted = hf.explore(problem, "optimal-design", episodes=4_000)
    with pytest.raises(RunError, match="the disk is full: free some space and resume"):
        hf.explore(problem, "optimal-design", episodes=4_000, out=small_disk / "a", save_episodes=100)
    run = hf.load(small_disk / "a")
    assert 0 < run.episodes < 4_000
    with pytest.raises(RunError, match="the disk is full"):
        run.resume(save_episodes=100)
    with pytest.raises(RunError, match="the disk is full"):
        run.save(small_disk / "b")
    assert [x.name for x in small_disk.iterdir()] == ["a"]
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    assert_same(hf.load(small_disk / "a").resume(), uninterrupted)


def test_a_limit_on_file_sizes_loses_nothing(child: Child, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    child.begin(folder, limit=32_768, episodes=1_000, save_episodes=20)
    assert "raise the limit on file sizes" in child.line("error RunError:")
    child.line("ended")
    run = hf.load(folder)
    assert 0 < run.episodes < 1_000
    assert not (folder / ".partial").exists()
    assert_same(run.resume(), hf.explore(run.problem, "optimal-design", episodes=1_000))


def test_a_folder_is_held_by_one_process_and_freed_by_its_death(tmp_path: Path) -> None:
    problem = hf.make("zoned-grid", size=3, zones=1, horizon=4)
    run = hf.explore(problem, "uniform", episodes=2, out=tmp_path / "a")
    hold = (
        "import fcntl, os, sys, time\n"
        "lock = os.open(sys.argv[1], os.O_RDWR)\n"
        "fcntl.flock(lock, fcntl.LOCK_EX)\n"
        "os.pwrite(lock, str(os.getpid()).encode().ljust(20), 0)\n"
        "print('held', flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", hold, str(tmp_path / "a" / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunError, match=rf"in use by another exploration \(process {holder.pid}"):
            run.resume(episodes=1)
        assert hf.load(tmp_path / "a").episodes == 2  # reading is always allowed
        holder.kill()
    assert run.resume(episodes=1).episodes == 3


def test_an_interrupted_run_saves_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle: the folder holds every episode that was finished, and its records."""
    problem = hf.make("zoned-grid", size=3, zones=1, horizon=4)
    uninterrupted = hf.explore(problem, "optimal-design", episodes=30)
    from horizonfree.runs import explore as exploration
    from horizonfree.runs import loop

    engine, blocks = exploration.simulation_engine, 0

    def interrupted(*args: Any) -> Any:
        block = engine(*args)

        def step_once(state: Any, count: int) -> Any:
            nonlocal blocks
            blocks += 1
            if blocks == 4:
                raise KeyboardInterrupt
            return block(state, count)

        return step_once

    monkeypatch.setattr(exploration, "simulation_engine", interrupted)
    monkeypatch.setattr(loop, "MAX_BLOCK", 3)
    with pytest.raises(KeyboardInterrupt):
        hf.explore(problem, "optimal-design", episodes=30, out=tmp_path / "a")
    monkeypatch.undo()
    run = hf.load(tmp_path / "a")
    assert 3 <= run.episodes == len(run.records["information"]) < 30
    assert run.until is not None
    assert dataclasses.asdict(run.until)["last"] == 30
    assert_same(run.resume(), uninterrupted)
