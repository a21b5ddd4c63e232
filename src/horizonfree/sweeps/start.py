"""The engine of a name, started. Dask and Ray are loaded only where they are asked for."""

import os
from pathlib import Path
from typing import Any

from horizonfree._validation import check_count, short_repr
from horizonfree.errors import OptionError
from horizonfree.sweeps.engines import Engine
from horizonfree.sweeps.local import Pool
from horizonfree.sweeps.on_dask import OnDask
from horizonfree.sweeps.on_ray import OnRay

ENGINES = ("local", "dask", "ray")


def start(on: Any, workers: Any, log: Path) -> Engine:
    """The engine of a name, "dask=ADDRESS" or "ray=ADDRESS" for a cluster that is there already.

    workers: how many; by default one for each core, or whatever a cluster has. log: for what workers print.
    """
    name, _, address = on.partition("=") if isinstance(on, str) else ("", "", "")
    if name not in ENGINES or (name == "local" and address) or (isinstance(on, str) and on.endswith("=")):
        raise OptionError(f"on is {short_repr(on)}; it must be local, dask, ray, dask=ADDRESS or ray=ADDRESS")
    wanted = None if workers is None else check_count(workers, "workers")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not address:
        wanted = wanted or cores
    threads = max(1, cores // wanted) if wanted else 1
    if name == "local":
        return Pool(wanted or cores, threads, log)
    if name == "dask":
        return OnDask(address, wanted, threads)
    return OnRay(address, wanted, threads)
