"""The plan and the estimate of an explorer itself, instead of those of the maximum-likelihood model; compiled."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float

from horizonfree._jit import jit
from horizonfree._x64 import to_device, x64
from horizonfree.explorers.interface import Explorer, Planned
from horizonfree.explorers.loop import Progress
from horizonfree.explorers.plug_in import PlugIn
from horizonfree.models.interface import Model
from horizonfree.planning.induction import Solution
from horizonfree.planning.traced import optimal_jax


@x64
def own_plan(run: Any, table: Float[np.ndarray, "H S A"]) -> Solution:
    """As the explorer of a run would plan; logged episodes have the estimate of the evidence."""
    arguments = to_device((run.problem.model, run.progress, np.asarray(table)))
    return Solution(*(np.asarray(x) for x in _plan(run.explorer, *arguments)))


@jit
def _plan(
    explorer: Explorer | None, model: Model, progress: Progress, reward: Float[Array, "H S A"]
) -> Planned:
    if explorer is None:
        return Planned(*optimal_jax(model.estimate(progress.evidence), reward))
    return explorer.plan(model, progress.state, progress.evidence, reward)


@x64
def own_estimate(run: Any) -> Float[np.ndarray, " d"]:
    """theta_hat of the explorer of a run; the predictor of the evidence where the explorer has none of its own."""
    if not isinstance(run.explorer, PlugIn):
        return np.asarray(run.evidence.theta)
    return np.asarray(_estimate(run.explorer, *to_device((run.problem.model, run.progress))))


@jit
def _estimate(explorer: PlugIn, model: Any, progress: Progress) -> Float[Array, " d"]:
    return explorer.theta_hat(model, progress.state, progress.evidence)
