"""Tasks on Dask: a cluster of this machine that listens on 127.0.0.1 only, or a scheduler that is there already."""

import logging
import queue
from typing import Any

from horizonfree.errors import OptionError, ProcessError
from horizonfree.sweeps.engines import DIED, Engine, Outcome
from horizonfree.sweeps.worker import environment, perform

PATIENCE = 10  # seconds to find a scheduler, and for it to have a worker


class OnDask(Engine):
    """A client of Dask. A task that a worker died of is not tried again by Dask itself: the sweep does that."""

    def __init__(self, address: str, workers: int | None, threads: int) -> None:
        try:
            import dask
            from distributed import Client, LocalCluster
        except ImportError:
            raise OptionError("Dask is not installed: pip install 'horizonfree[dask]'") from None
        self.cluster: Any = None
        if address:
            self.client = _joined(address)
        else:
            with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
                self.cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    env=environment(threads),
                    silence_logs=logging.ERROR,
                )
            self.client = Client(self.cluster)
        self.threads = threads
        self.slots = workers or max(1, sum(self.client.nthreads().values()))
        self.running: dict[str, Any] = {}
        self.ended: queue.SimpleQueue[str] = queue.SimpleQueue()

    def submit(self, key: str, task: dict[str, Any]) -> None:
        """Begin a task; the same one may come again, so Dask's own key is a new one."""
        future = self.client.submit(perform, task, self.threads, pure=False)
        self.running[key] = future
        future.add_done_callback(lambda _: self.ended.put(key))

    def finished(self, seconds: float) -> list[tuple[str, Outcome]]:
        """What has ended; of a worker's death Dask tells by an exception."""
        found: list[tuple[str, Outcome]] = []
        try:
            while True:
                key = self.ended.get(timeout=0 if found else seconds)
                future = self.running.pop(key)
                if future.cancelled():  # not by us: we cancel only what is in `running`
                    raise ProcessError(
                        "Dask's scheduler is gone; finished tasks are kept: the same call goes on"
                    )
                error = future.exception()
                is_dead = type(error).__name__ == "KilledWorker"
                words = DIED if is_dead else f"{type(error).__name__}: {error}"
                found.append((key, future.result() if error is None else {"error": words}))
        except queue.Empty:
            return found

    def close(self) -> None:
        """Drop what is running, and end the cluster if it is ours."""
        self.client.cancel(list(self.running.values()))
        self.running = {}
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()


def _joined(address: str) -> Any:
    """A client of a scheduler that is there already, and has a worker."""
    from distributed import Client

    try:
        client = Client(address, timeout=PATIENCE)
    except Exception as error:  # whatever it is that answers there
        raise OptionError(f"no Dask scheduler answers at {address}: {error}") from None
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        client.close()
        raise OptionError(
            f"the Dask scheduler at {address} has no workers; start one: dask worker {address}"
        ) from None
    return client
