"""Killed at any moment, a run, a batch and a comparison give the numbers of undisturbed ones when they are repeated."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.runs import files
from tests.runs.child import Child
from tests.runs.test_store import assert_same

BATCH = {"episodes": 20, "seeds": 60, "checkpoints": [10, 20], "curves": ["excess"]}
RUN = {"explorer": "uniform", "episodes": 150}


def run_with_kills(
    child: Child,
    tmp_path: Path,
    kills: int,
    longest: float,
    check_folder: Callable[[Path], None],
    **task: Any,
) -> list[Path]:
    """Kill the child so often, at random moments, each time in the folder where it was killed; then let it finish.

    Where it was faster, a new folder is begun. `look` is called after each kill. Returns the folders, all finished.
    """
    moments, folders = random.Random(0), [tmp_path / "0"]
    while True:
        arrays_before = arrays(folders[-1])
        pid = child.begin(folders[-1], **task)
        if kills > 0:
            if kills % 4:  # most kills once it has written something, one in four while it starts
                child.line("began")
                end = time.monotonic() + 30
                while arrays(folders[-1]) == arrays_before and time.monotonic() < end:
                    time.sleep(0.001)
            time.sleep(moments.uniform(0.0, longest))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        status = int(child.line("ended"))
        assert status in (0, -signal.SIGKILL)
        if status:
            kills -= 1
            check_folder(folders[-1])
        elif kills > 0:
            folders.append(tmp_path / str(len(folders)))
        else:
            return folders


def arrays(folder: Path) -> set[tuple[str, int]]:
    """The files of arrays in a folder, and when they were written."""
    names = set()
    for path in folder.glob("*.npz"):
        with contextlib.suppress(FileNotFoundError):
            names.add((path.name, path.stat().st_mtime_ns))
    return names


@pytest.mark.parametrize("kills", [5, pytest.param(40, marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_from_whole_files(
    kills: int, child: Child, problem: hf.Problem, tmp_path: Path
) -> None:
    """A checkpoint after every episode; at no moment does a load have to pass one over."""
    stands: list[int] = []

    def check_folder(folder: Path) -> None:
        if folder.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                stands.append(hf.load(folder).episodes)

    uninterrupted = hf.explore(problem, **RUN)
    for folder in run_with_kills(child, tmp_path, kills, 0.15, check_folder, **RUN):
        assert_same(hf.load(folder), uninterrupted)
    assert len(set(stands)) > 1  # it was not killed at the same place each time


@pytest.mark.parametrize("kills", [5, pytest.param(40, marks=pytest.mark.slow)])
def test_a_killed_batch_goes_on_from_whole_files(
    kills: int, child: Child, problem: hf.Problem, tmp_path: Path
) -> None:
    """A file for each member; whatever file is there is whole."""
    stands: list[int] = []

    def check_folder(folder: Path) -> None:
        chunks = list(folder.glob("chunk-*.npz"))
        for path in chunks:
            files.read_npz(path)
        if (folder / "batch.json").exists():
            files.read_json(folder / "batch.json")
        stands.append(len(chunks))

    uninterrupted = hf.explore_many(problem, "uniform", **BATCH)
    for folder in run_with_kills(child, tmp_path, kills, 0.2, check_folder, explorer="uniform", **BATCH):
        assert len(list(folder.glob("chunk-*.npz"))) == BATCH["seeds"]
        loaded = hf.explore_many(problem, "uniform", out=folder, **BATCH)  # reads what is there
        assert same_arrays(loaded.progress, uninterrupted.progress)
        assert same_arrays(loaded.curves, uninterrupted.curves)
        assert same_arrays(loaded.records, uninterrupted.records)
    assert len(set(stands)) > 1


def same_arrays(a: Any, b: Any) -> bool:
    x, y = jax.tree.leaves(a), jax.tree.leaves(b)
    return len(x) == len(y) and all(np.asarray(p).tobytes() == np.asarray(q).tobytes() for p, q in zip(x, y))


COMPARE = (
    "compare --problem river-swim --param states=3 --param horizon=3 --explorer uniform --episodes 16 --seeds 2 "
    "--workers 1 --out"
)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [8])
def test_a_killed_comparison_is_repeated_with_the_same_numbers(kills: int, tmp_path: Path) -> None:
    """It writes nothing until it ends; files left by a killed process do not matter."""
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")}
    cache_always = {f"JAX_PERSISTENT_CACHE_MIN_{x}": "0" for x in ("COMPILE_TIME_SECS", "ENTRY_SIZE_BYTES")}
    env = os.environ | cache | cache_always | {"JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", "from horizonfree.cli import main; main()", *COMPARE.split()]
    start_time = time.perf_counter()
    subprocess.run([*command, str(tmp_path / "whole")], env=env, check=True, capture_output=True)
    lasts, moments = time.perf_counter() - start_time, random.Random(1)
    out = tmp_path / "killed"
    for _ in range(kills):
        no_output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen([*command, str(out)], env=env, start_new_session=True, **no_output)  # type: ignore[call-overload]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moments.uniform(0.1, 0.6) * lasts)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with its workers
        process.wait()
    subprocess.run([*command, str(out)], env=env, check=True, capture_output=True)
    assert rows(out) == rows(tmp_path / "whole")
    assert sorted(x.name for x in out.iterdir()) == ["figure.svg", "rows.jsonl"]


def rows(folder: Path) -> list[dict[str, Any]]:
    """But for the time that they took."""
    stored_rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    return [{name: x for name, x in row.items() if name != "seconds"} for row in stored_rows]
