"""Sweeps on the local pool: rows, going on, failures, and the numbers of the runs they stand for."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError, RunError, UnknownNameError
from horizonfree.sweeps import executors, spec, worker
from horizonfree.sweeps.executors import LocalExecutor
from horizonfree.sweeps.spec import RunMeasures
from horizonfree.sweeps.tasks import build_tasks
from tests.sweeps.conftest import TINY, rows_for

ONE = TINY | {"seeds": 2}
MORE = TINY | {
    "seeds": 8,
    "explorers": {"random": {"name": "uniform"}, "told": {"name": "uniform", "declared": True}},
}


def test_rows_have_the_numbers_of_their_runs(tiny):
    sweep_rows = hf.load_sweep(tiny)
    assert (len(sweep_rows), sweep_rows.missing, dict(sweep_rows.failed)) == (8, 0, {})
    assert [sweep_rows[name].dtype.kind for name in ("seed", "episodes", "eps", "explorer")] == [
        "i",
        "i",
        "f",
        "O",
    ]
    problem = hf.make("river-swim", states=3, horizon=3)
    run = hf.explore(problem, "uniform", episodes=8, seed=3, progress=False)
    assert sweep_rows.where(seed=3, episodes=8)["eps"] == [run.certificate(method="uniform").eps]
    assert np.isnan(sweep_rows["claim"]).all()  # uniform claims nothing
    assert "jax" in json.loads(sweep_rows["versions"][0])
    measured = RunMeasures(problem, ["reward_max", "time"], "suite", 0.05, 2)(run)
    largest = max(run.certificate(rewards=x).eps for x in ("goals", "occupancies"))
    assert measured["reward_max"] == largest
    assert list(measured) == ["reward_max", "time"]


def test_a_table_is_also_a_data_frame(tiny):
    pandas = pytest.importorskip("pandas")
    sweep_rows = hf.load_sweep(tiny)
    frame = sweep_rows.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert (frame["eps"].to_numpy() == sweep_rows["eps"]).all()
    assert list(frame.groupby("explorer", observed=True).size()) == [8]
    with pytest.raises(UnknownNameError, match="did you mean 'eps'"):
        sweep_rows["epss"]


def test_a_finished_sweep_is_read_not_run(tiny, fake_executor):
    executor = fake_executor(lambda *_: pytest.fail("it was run again"))
    assert len(hf.sweep(TINY, tiny)) == 8
    assert not executor.told


def test_a_worker_that_is_killed_costs_its_task_only_and_the_task_is_tried_again(tmp_path):
    """Of two workers one is killed while both have a task; its task comes back with an error, the other's with rows.

    It is stopped until then, so that it cannot finish.
    """
    (task,) = build_tasks(spec.read(ONE)).values()
    pool = LocalExecutor(2, 1, tmp_path / "log")
    try:
        long = pool.submit(task)
        while not pool.processes:
            time.sleep(0.01)
        (victim,) = pool.processes
        os.kill(victim.pid, signal.SIGSTOP)
        short = pool.outcome(pool.submit(task))
        assert "rows" in short
        assert not long.done()
        os.kill(victim.pid, signal.SIGKILL)
        assert pool.outcome(long) == {"error": executors.WORKER_DIED}
        second_try = [pool.submit(task) for _ in range(2)]  # to the other worker, and to a new one
        assert [pool.outcome(x)["rows"] for x in second_try] == [short["rows"]] * 2
        assert victim not in pool.processes
    finally:
        pool.close()


def test_a_task_that_fails_is_tried_twice_recorded_and_tried_by_the_next_call(tmp_path, fake_executor):
    tasks = build_tasks(spec.read(MORE))
    first, second, *_ = tasks
    first_executor = fake_executor(
        lambda key, task, tries: {"error": "no"} if key == first and tries == 1 else rows_for(task)
    )
    assert not hf.sweep(MORE, tmp_path / "a").failed
    assert first_executor.told.count(first) == 2
    fake_executor(lambda key, task, tries: {"error": f"try {tries}"} if key == second else rows_for(task))
    second_sweep = hf.sweep(MORE, tmp_path / "b")
    assert list(second_sweep.failed.values()) == ["try 2"]
    second_executor = fake_executor(lambda key, task, tries: rows_for(task))
    assert not hf.sweep(MORE, tmp_path / "b").failed
    assert second_executor.told == [second]


def test_a_sweep_that_was_cut_short_goes_on_where_it_was(tmp_path, fake_executor):
    tasks = build_tasks(spec.read(MORE))

    def stop(key, task, tries):
        if key == list(tasks)[3]:
            raise KeyboardInterrupt
        return rows_for(task)

    fake_executor(stop)
    with pytest.raises(KeyboardInterrupt):
        hf.sweep(MORE, tmp_path / "a")
    loaded = hf.load_sweep(tmp_path / "a")
    assert 0 < loaded.missing < len(tasks)
    with (tmp_path / "a" / "rows.jsonl").open("a") as rows:
        rows.write('{"seal": "12')  # as a kill in the middle of a write leaves it
    executor = fake_executor(lambda key, task, tries: rows_for(task))
    assert len(hf.sweep(None, tmp_path / "a")) == 32
    assert len(executor.told) == loaded.missing
    for line in (tmp_path / "a" / "rows.jsonl").read_text().splitlines():
        json.loads(line)


def test_a_folder_may_grow_but_loses_nothing(tmp_path, fake_executor):
    fake_executor(lambda key, task, tries: rows_for(task))
    hf.sweep(MORE, tmp_path / "a")
    executor = fake_executor(lambda key, task, tries: rows_for(task))
    assert len(hf.sweep(MORE | {"seeds": 10}, tmp_path / "a")) == 40
    assert len(executor.told) == 3
    with pytest.raises(RunError, match=r"a sweep with other .*delta.* 15 of its 15 tasks would be lost"):
        hf.sweep(MORE | {"seeds": 10, "delta": 0.1}, tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine").write_text("x")
    with pytest.raises(RunError, match="not empty"):
        hf.sweep(MORE, tmp_path / "b")


@pytest.mark.parametrize("position", [0, 40, 100, -3])
def test_a_flipped_bit_is_told(tiny, tmp_path, position):
    folder = tmp_path / "a"
    folder.mkdir()
    for name in ("sweep.json", "rows.jsonl"):
        (folder / name).write_bytes((tiny / name).read_bytes())
    lines = (folder / "rows.jsonl").read_bytes().splitlines()
    damaged = bytearray(lines[1])
    damaged[position] ^= 1
    (folder / "rows.jsonl").write_bytes(b"\n".join([lines[0], bytes(damaged), *lines[2:], b""]))
    with pytest.raises(RunError, match="damaged in line 2"):
        hf.load_sweep(folder)


def test_numbers_are_read_back_to_the_last_bit(tmp_path, fake_executor):
    odd = [np.nextafter(0.1, 1), 5e-324, float("inf"), float("nan"), -0.0, 1 / 3]

    def answer(key, task, tries):
        values = rows_for(task)
        values["rows"]["eps"] = [odd[(i + len(key)) % 6] for i in range(len(values["rows"]["seed"]))]
        return values

    fake_executor(answer)
    values = hf.sweep(ONE | {"checkpoints": [1, 2, 3]}, tmp_path / "a")["eps"]
    expected = np.array([odd[(i + 16) % 6] for i in range(6)])
    assert values.tobytes() == expected.tobytes()


def test_a_number_that_only_others_report_is_nan():
    (task,) = build_tasks(spec.read(ONE)).values()
    assert np.isnan(worker.execute(task | {"records": ["V"]}, 1)["rows"]["V"]).all()


def test_an_error_inside_a_task_comes_back_in_words():
    (task,) = build_tasks(spec.read(ONE)).values()
    outcome = worker.execute(task | {"who": {"name": "uniform", "bogus": 1}}, 1)
    assert "no option 'bogus'" in outcome["error"]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells what a process had of its own")
def test_the_memory_of_a_worker_is_not_that_of_the_process_that_started_it():
    large_array = np.ones(2**26)  # 512 MB, of which some may have been there
    script = "from horizonfree.sweeps.worker import peak_memory; print(peak_memory())"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert 2**22 < int(output) < 2**28 < large_array.nbytes < worker.peak_memory()


def test_executors_that_do_not_exist_are_refused(tmp_path):
    for engine in ("slurm", "local=3", "dask=", 7):
        with pytest.raises(OptionError, match="it must be local, dask, ray"):
            hf.sweep(ONE, tmp_path / "a", on=engine)
    with pytest.raises(OptionError, match="workers is 0"):
        hf.sweep(ONE, tmp_path / "b", workers=0)


def test_a_sweep_holds_its_folder_alone(tmp_path, fake_executor):
    waiting, go_on = threading.Event(), threading.Event()

    def answer(key, task, tries):
        waiting.set()
        go_on.wait(60)
        return rows_for(task)

    fake_executor(answer)
    first = threading.Thread(target=hf.sweep, args=(ONE, tmp_path / "a"))
    first.start()
    try:
        assert waiting.wait(60)
        with pytest.raises(RunError, match="in use"):
            hf.sweep(ONE, tmp_path / "a")
    finally:
        go_on.set()
        first.join(60)
