"""Dask and Ray, real ones on this machine: the same rows to the last bit, nothing beyond loopback, deaths survived."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import horizonfree as hf
from horizonfree.errors import OptionError
from horizonfree.sweeps import clusters, executors, spec
from horizonfree.sweeps.clusters import RayExecutor
from horizonfree.sweeps.executors import Executor
from horizonfree.sweeps.sweep import start_executor
from horizonfree.sweeps.tasks import build_tasks
from tests.sweeps.conftest import TINY

LISTENS = "0A"  # in /proc/net/tcp
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")
LASTING = 60_000  # episodes: a task of a second or two
LONG = 3_000_000  # episodes: a task that does not end by itself while a test runs


def skip_without(executor: str) -> None:
    """Without importing Ray, which reads when it is imported what it may listen on."""
    if find_spec({"dask": "distributed", "ray": "ray"}[executor]) is None:
        pytest.skip(f"{executor} is not installed")


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("dask=127.0.0.1:1", "no Dask scheduler answers at 127.0.0.1:1"),
        ("dask=nowhere", "missing port"),
        ("ray=127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1: .*refused"),
        ("ray=nowhere", "HOST:PORT"),
    ],
)
def test_an_address_where_nobody_answers_is_refused_with_words(
    engine: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without(engine.partition("=")[0])
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 0.5)
    with pytest.raises(OptionError, match=message):
        start_executor(engine, None, tmp_path / "log")


def test_a_scheduler_without_workers_is_refused_with_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 0.5)
    cluster = distributed.LocalCluster(
        n_workers=0, host="127.0.0.1", dashboard_address=None, silence_logs=logging.ERROR
    )
    with cluster, pytest.raises(OptionError, match="has no workers; start one"):
        start_executor(f"dask={cluster.scheduler_address}", None, tmp_path / "log")


@pytest.fixture(scope="module", params=["dask", "ray"])
def executor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    skip_without(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # without an address a cluster is started, not joined
        started = start_executor(request.param, 2, tmp_path_factory.mktemp("log") / "log")
    yield started
    started.close()


def family(pid: int) -> set[int]:
    """A process and all below it."""
    parents: dict[int, set[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        parents.setdefault(int(fields[1]), set()).add(int(path.parent.name))
    pids, new = {pid}, {pid}
    while new:
        new = set().union(*(parents.get(x, set()) for x in new)) - pids
        pids |= new
    return pids


def listening(pids: set[int]) -> list[str]:
    """The addresses that processes listen on."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                inodes.add(os.readlink(link))
            except OSError:
                continue
    lines = [
        x.split() for name in ("tcp", "tcp6") for x in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return [x[1].partition(":")[0] for x in lines if x[3] == LISTENS and f"socket:[{x[9]}]" in inodes]


def test_a_task_gives_the_same_rows_and_nothing_listens_beyond_loopback(
    executor: Executor, tiny: Path
) -> None:
    key, task = next(iter(build_tasks(spec.read(TINY)).items()))
    outcome = executor.outcome(executor.submit(task))
    local_rows = hf.load_sweep(tiny).where(task=key)
    assert outcome["rows"]["seed"] == local_rows["seed"].tolist()
    assert outcome["rows"]["eps"] == local_rows["eps"].tolist()
    if Path("/proc/net/tcp").exists():
        addresses = listening(family(os.getpid()))
        assert addresses
        assert set(addresses) <= set(LOOPBACK)


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_its_task_only(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (task,) = build_tasks(spec.read(TINY | {"seeds": 2})).values()
    announcing(executor, tmp_path, monkeypatch)
    long = executor.submit(task | {"episodes": LONG, "checkpoints": [LONG]})
    victim = int(announced(tmp_path / str(LONG)))
    assert "rows" in executor.outcome(executor.submit(task))
    os.kill(victim, signal.SIGKILL)
    assert executor.outcome(long) == {"error": executors.WORKER_DIED}
    assert "rows" in executor.outcome(executor.submit(task))


def announcing(executor: Executor, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a worker first writes its process id into a file that is named by the episodes of its task."""

    def execute(
        task: dict[str, Any], threads: int
    ) -> executors.Outcome:  # sent by value: workers have no tests
        from horizonfree.sweeps import worker

        (folder / "new").write_text(str(os.getpid()))
        (folder / "new").rename(folder / str(task["episodes"]))
        return worker.execute(task, threads)

    if isinstance(executor, RayExecutor):
        remote = executor.ray.remote(num_cpus=1, max_retries=0)(execute)
        monkeypatch.setattr(executor, "execute", remote)
    else:
        monkeypatch.setattr(clusters, "execute", execute)


def announced(path: Path) -> str:
    wait_until(path.exists)
    return path.read_text()


@pytest.mark.slow
def test_a_cluster_that_runs_already_is_joined_by_its_address(
    executor: Executor, tiny: Path, tmp_path: Path
) -> None:
    """The executor of the other tests is that cluster; the sweep is another process."""
    if isinstance(executor, RayExecutor):
        engine = f"ray={executor.ray.get_runtime_context().gcs_address}"
    else:
        engine = f"dask={executor.cluster.scheduler_address}"
    (tmp_path / "tiny.json").write_text(json.dumps(TINY))
    script = "import json, sys, horizonfree as hf; hf.sweep(json.load(open(sys.argv[1])), sys.argv[2], on=sys.argv[3])"
    args = [tmp_path / "tiny.json", tmp_path / "out", engine]
    subprocess.run([sys.executable, "-c", script, *args], check=True, timeout=300)
    cluster_rows, local_rows = hf.load_sweep(tmp_path / "out"), hf.load_sweep(tiny)
    assert not cluster_rows.missing
    assert cluster_rows["eps"].tobytes() == local_rows["eps"].tobytes()


@pytest.mark.parametrize(
    "engine",
    ["local", pytest.param("dask", marks=pytest.mark.slow), pytest.param("ray", marks=pytest.mark.slow)],
)
def test_a_driver_that_is_killed_loses_no_finished_task_and_leaves_no_process(
    engine: str, tmp_path: Path
) -> None:
    """Killed after its first row; the same call computes the others, and all rows are those of one call."""
    if engine != "local":
        skip_without(engine)
    sweep_spec = TINY | {"seeds": 3, "seeds_per_task": 1, "checkpoints": [2, LASTING], "measure": ["eps"]}
    (tmp_path / "given.json").write_text(json.dumps(sweep_spec))
    script = (
        "import json, sys, horizonfree as hf\n"
        "hf.sweep(json.load(open(sys.argv[1])), sys.argv[2], on=sys.argv[3], workers=1, progress=False)"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path / "given.json", tmp_path / "out", engine]
    )
    rows = tmp_path / "out" / "rows.jsonl"
    wait_until(lambda: rows.exists() and rows.read_text().count("\n") > 0)
    processes = family(driver.pid)
    driver.kill()
    driver.wait()
    assert len(processes) > 1
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes))
    loaded = hf.load_sweep(tmp_path / "out")
    assert 0 < loaded.missing < 3
    finished = hf.sweep(sweep_spec, tmp_path / "out", workers=1, progress=False)
    assert not finished.missing
    uninterrupted = hf.sweep(sweep_spec, tmp_path / "whole", workers=1, progress=False)
    for name in ("seed", "episodes", "eps"):
        assert finished[name].tobytes() == uninterrupted[name].tobytes()
    first = [(seed, eps) for seed, eps in zip(loaded["seed"], loaded["eps"])]
    assert first == [
        (s, x) for s, x in zip(uninterrupted["seed"], uninterrupted["eps"]) if s in loaded["seed"]
    ]


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(2400):
        if condition():
            return
        time.sleep(0.05)
    raise TimeoutError(condition)


def test_ray_that_was_imported_before_and_would_listen_elsewhere_is_not_started() -> None:
    skip_without("ray")
    script = (
        "import ray, pathlib\n"
        "if ray.util.get_node_ip_address() == '127.0.0.1': raise SystemExit('no network')\n"
        "from horizonfree.sweeps.sweep import start_executor\n"
        "try: start_executor('ray', 1, pathlib.Path('log'))\n"
        "except Exception as error: print(error, ray.is_initialized())\n"
    )
    env = {name: x for name, x in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False, timeout=300
    )
    if "no network" in done.stderr:
        pytest.skip("this machine has no other address than 127.0.0.1")
    assert "imported before the sweep" in done.stdout, done.stderr
    assert done.stdout.split()[-1] == "False"
