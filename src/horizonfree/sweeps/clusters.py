"""Executors on Dask and Ray: started on this machine, listening on 127.0.0.1 only, or a running cluster.

A task whose worker died is not tried again by Dask or Ray: the sweep does that.
"""

import logging
import os
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from typing import Any

from horizonfree._extras import needs_extra
from horizonfree.errors import OptionError, ProcessError
from horizonfree.sweeps.executors import Executor, Outcome
from horizonfree.sweeps.worker import environment, execute, import_path

CONNECT_SECONDS = 10  # to reach a scheduler or cluster, and for it to have a worker
LOOPBACK = "127.0.0.1"
OBJECT_STORE_BYTES = 100 * 2**20  # shared memory of Ray; rows are small
TOKEN_ADVICE = "A cluster with tokens, other than auto, needs RAY_AUTH_MODE=token in the environment"
# With this variable at 0 Ray uses 127.0.0.1 only; by default it listens on all addresses of the machine. Ray reads it
# when it is imported, so a process uses Ray in one of the two ways only.
CLUSTER_VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
PROBE_ADDRESS = "192.0.2.1", 9  # an address for documentation (RFC 5737); nothing is sent there


class DaskExecutor(Executor):
    """A client of a local Dask cluster, or of the scheduler at an address."""

    def __init__(self, address: str, workers: int | None, threads: int) -> None:
        with needs_extra("dask", "sweeps on Dask"):
            import dask
            from distributed import Client, KilledWorker, LocalCluster
        self.worker_errors = (KilledWorker,)
        self.cluster: Any = None
        if address:
            self.client = _connect(address)
        else:
            with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
                self.cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    host=LOOPBACK,
                    dashboard_address=f"{LOOPBACK}:0",
                    env=environment(threads) | import_path(),
                    silence_logs=logging.ERROR,
                )
            self.client = Client(self.cluster)
        self.threads = threads
        self.slots = workers or max(1, sum(self.client.nthreads().values()))
        self.pool = self.client.get_executor(pure=False)  # a task may be submitted again

    def submit(self, task: dict[str, Any]) -> "Future[Outcome]":
        """Start a task."""
        future: Future[Outcome] = self.pool.submit(execute, task, self.threads)
        return future

    def close(self) -> None:
        """Cancel the running tasks, and end the cluster if this executor started it."""
        self.pool.shutdown(wait=False)
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()


def _connect(address: str) -> Any:
    """A client of a running scheduler with at least one worker."""
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except Exception as error:  # of any type, whatever answers at the address
        raise OptionError(f"no Dask scheduler answers at {address}: {error}") from None
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        client.close()
        raise OptionError(
            f"the Dask scheduler at {address} has no workers; start one: dask worker {address}"
        ) from None
    return client


def _unreachable(address: str, error: Exception) -> OptionError:
    return OptionError(f"no Ray cluster answers at {address}: {error}. {TOKEN_ADVICE}")


class RayExecutor(Executor):
    """A driver of a local Ray cluster, or of the one at an address."""

    def __init__(self, address: str, workers: int | None, threads: int) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            is_local = not address or _is_local(address)
        except (OSError, ValueError) as error:
            raise _unreachable(address, error) from None
        with _loopback_only() if is_local else nullcontext():
            with needs_extra("ray", "sweeps on Ray"):
                import ray
            self.ray = ray
            errors = ray.exceptions
            self.worker_errors = (errors.WorkerCrashedError, errors.OutOfMemoryError)
            self.cluster_errors = (errors.LocalRayletDiedError,)
            self.is_owner = not ray.is_initialized()
            if address and not self.is_owner:
                raise OptionError(
                    "this process is connected to a Ray cluster already; say on='ray' to use that one"
                )
            if self.is_owner:
                self._start(address, workers, threads)
        resources = ray.cluster_resources()
        self.slots = workers or max(1, int(resources.get("CPU", 1)))
        gpu_share = min(1.0, resources.get("GPU", 0) / self.slots)
        self.execute = ray.remote(num_cpus=1, num_gpus=gpu_share, max_retries=0)(execute)
        self.threads = threads
        self.running: set[Any] = set()  # references to tasks

    def _start(self, address: str, workers: int | None, threads: int) -> None:
        """Join the cluster at an address, or start one that cannot be reached from other machines."""
        common: dict[str, Any] = {
            "log_to_driver": False,
            "runtime_env": {"env_vars": environment(threads)},
        }
        if address:
            try:
                self.ray.init(address=address, **common)
            except (OSError, ValueError, RuntimeError, self.ray.exceptions.RayError) as error:
                raise _unreachable(address, error) from None
            return
        own_address = self.ray.util.get_node_ip_address()
        if own_address != LOOPBACK:
            raise ProcessError(
                f"Ray would listen on {own_address}, not on {LOOPBACK}, because it was imported before the sweep; set "
                f"{CLUSTER_VARIABLE}=0 before you import it, or give the address of a cluster"
            )
        self.ray.init(
            address="local",  # a new cluster, even if another one runs on this machine
            num_cpus=workers,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            **common,
        )

    def submit(self, task: dict[str, Any]) -> "Future[Outcome]":
        """Start a task."""
        reference = self.execute.remote(task, self.threads)
        self.running.add(reference)
        future: Future[Outcome] = reference.future()
        future.add_done_callback(lambda _: self.running.discard(reference))
        return future

    def close(self) -> None:
        """Cancel the running tasks, and end the cluster if this executor started it."""
        for reference in list(self.running):
            self.ray.cancel(reference, force=True)
        if self.is_owner:
            self.ray.shutdown()


def _is_local(address: str) -> bool:
    """Whether the cluster at an address listens on loopback only. Raises an error if nothing listens there."""
    if address == "auto":
        return False
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError("give auto for one that runs on this machine, or HOST:PORT")
    host = host.rpartition("/")[2]
    socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    if host not in (LOOPBACK, "localhost"):
        return False
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(PROBE_ADDRESS)
            own_address = probe.getsockname()[0]
        socket.create_connection((own_address, int(port)), CONNECT_SECONDS).close()
    except OSError:
        return True
    return False


@contextmanager
def _loopback_only() -> Iterator[None]:
    """A context in which Ray, if it is imported and started there, uses 127.0.0.1 only."""
    old_value = os.environ.get(CLUSTER_VARIABLE)
    os.environ[CLUSTER_VARIABLE] = "0"
    try:
        yield
    finally:
        os.environ.pop(CLUSTER_VARIABLE)
        if old_value is not None:
            os.environ[CLUSTER_VARIABLE] = old_value
