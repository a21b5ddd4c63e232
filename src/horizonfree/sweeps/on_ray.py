"""Tasks on Ray: started on this machine, listening on 127.0.0.1 only, or a cluster that is there already."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from horizonfree.errors import OptionError, ProcessError
from horizonfree.sweeps.engines import DIED, Engine, Outcome
from horizonfree.sweeps.worker import environment, perform

LOOPBACK = "127.0.0.1"
PATIENCE = 10  # seconds for a cluster to answer; Ray itself waits for minutes
TOKEN = "A cluster with tokens, other than auto, needs RAY_AUTH_MODE=token in the environment"
STORE = 100 * 2**20  # bytes of shared memory; rows are small
# With this variable at 0 Ray uses 127.0.0.1 only; by default it listens on all addresses of the machine. Ray reads it
# when it is imported, so a process uses Ray in one of the two ways only.
CLUSTER = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
OUTSIDE = "192.0.2.1", 9  # an address for documentation (RFC 5737); nothing is sent there


class OnRay(Engine):
    """A driver of Ray. A task that a worker died of is not tried again by Ray itself: the sweep does that."""

    def __init__(self, address: str, workers: int | None, threads: int) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            is_local = not address or _is_local(address)
        except (OSError, ValueError) as error:
            raise OptionError(f"no Ray cluster answers at {address}: {error}. {TOKEN}") from None
        with _loopback_only() if is_local else nullcontext():
            try:
                import ray
            except ImportError:
                raise OptionError("Ray is not installed: pip install 'horizonfree[ray]'") from None
            self.ray = ray
            self.is_ours = not ray.is_initialized()
            if address and not self.is_ours:
                raise OptionError(
                    "this process is connected to a Ray cluster already; say on='ray' to use that one"
                )
            if self.is_ours:
                self._start(address, workers, threads)
        has = ray.cluster_resources()
        self.slots = workers or max(1, int(has.get("CPU", 1)))
        share = min(1.0, has.get("GPU", 0) / self.slots)
        self.perform = ray.remote(num_cpus=1, num_gpus=share, max_retries=0)(perform)
        self.threads = threads
        self.running: dict[Any, str] = {}

    def _start(self, address: str, workers: int | None, threads: int) -> None:
        """Join a cluster, or begin one; refuse one of ours that others could reach."""
        common: dict[str, Any] = {
            "log_to_driver": False,
            "runtime_env": {"env_vars": environment(threads)},
        }
        if address:
            try:
                self.ray.init(address=address, **common)
            except (OSError, ValueError, RuntimeError, self.ray.exceptions.RayError) as error:
                raise OptionError(f"no Ray cluster answers at {address}: {error}. {TOKEN}") from None
            return
        found = self.ray.util.get_node_ip_address()
        if found != LOOPBACK:
            raise ProcessError(
                f"Ray would listen on {found}, not on {LOOPBACK}, because it was imported before the sweep; set "
                f"{CLUSTER}=0 before you import it, or give the address of a cluster"
            )
        self.ray.init(
            address="local",  # a new one, whatever else runs here
            num_cpus=workers,
            include_dashboard=False,
            object_store_memory=STORE,
            **common,
        )

    def submit(self, key: str, task: dict[str, Any]) -> None:
        """Begin a task."""
        self.running[self.perform.remote(task, self.threads)] = key

    def finished(self, seconds: float) -> list[tuple[str, Outcome]]:
        """What has ended; of a worker's death Ray tells by an exception."""
        if not self.running:
            return []
        ended, _ = self.ray.wait(list(self.running), num_returns=1, timeout=seconds)
        return [(self.running.pop(x), self._outcome(x)) for x in ended]

    def _outcome(self, reference: Any) -> Outcome:
        try:
            found: Outcome = self.ray.get(reference)
        except (self.ray.exceptions.WorkerCrashedError, self.ray.exceptions.OutOfMemoryError):
            return {"error": DIED}
        except self.ray.exceptions.LocalRayletDiedError:
            raise ProcessError("Ray is gone; finished tasks are kept: the same call goes on") from None
        except self.ray.exceptions.RayError as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return found

    def close(self) -> None:
        """Drop what is running, and end what we began."""
        for reference in self.running:
            self.ray.cancel(reference, force=True)
        self.running = {}
        if self.is_ours:
            self.ray.shutdown()


def _is_local(address: str) -> bool:
    """Whether the cluster at an address listens on loopback only. Raises an error if nothing listens there."""
    if address == "auto":
        return False
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError("give auto for one that runs on this machine, or HOST:PORT")
    host = host.rpartition("/")[2]
    socket.create_connection((host, int(port)), PATIENCE).close()
    if host not in (LOOPBACK, "localhost"):
        return False
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(OUTSIDE)
            own_address = probe.getsockname()[0]
        socket.create_connection((own_address, int(port)), PATIENCE).close()
    except OSError:
        return True
    return False


@contextmanager
def _loopback_only() -> Iterator[None]:
    """Ray, imported and started within, uses 127.0.0.1 only."""
    before = os.environ.get(CLUSTER)
    os.environ[CLUSTER] = "0"
    try:
        yield
    finally:
        os.environ.pop(CLUSTER)
        if before is not None:
            os.environ[CLUSTER] = before
