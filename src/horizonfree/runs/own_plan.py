"""The plan and the estimate of an explorer itself, instead of those of the maximum-likelihood model."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float

from horizonfree._jit import jit
from horizonfree._x64 import to_device, x64
from horizonfree.explorers.interface import Explorer, Planned
from horizonfree.explorers.loop import Progress
from horizonfree.explorers.plug_in import PlugIn
from horizonfree.models.interface import Model
from horizonfree.planning.backward import Solution, optimal_jax


@x64
def own_plan(
    explorer: Explorer | None, model: Model, progress: Progress, table: Float[np.ndarray, "H S A"]
) -> Solution:
    """As the explorer would plan; logged episodes have the estimate of the evidence."""
    world = to_device((model, progress, np.asarray(table)))
    return Solution(*(np.asarray(x) for x in _plan(explorer, *world)))


@jit
def _plan(
    explorer: Explorer | None, model: Model, progress: Progress, reward: Float[Array, "H S A"]
) -> Planned:
    if explorer is None:
        return Planned(*optimal_jax(model.estimate(progress.evidence), reward))
    return explorer.plan(model, progress.state, progress.evidence, reward)


@x64
def own_estimate(explorer: PlugIn, model: Model, progress: Progress) -> Float[np.ndarray, " d"]:
    """theta_hat of the explorer."""
    return np.asarray(_estimate(explorer, *to_device((model, progress))))


@jit
def _estimate(explorer: PlugIn, model: Any, progress: Progress) -> Float[Array, " d"]:
    return explorer.theta_hat(model, progress.state, progress.evidence)
