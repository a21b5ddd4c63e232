"""Plans and estimates of an explorer's own model, instead of the maximum-likelihood estimate; compiled."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float

from horizonfree._jit import jit
from horizonfree._x64 import to_device, x64
from horizonfree.explorers.base import Explorer, ExplorerPlan, PlugIn
from horizonfree.explorers.loop import Progress
from horizonfree.explorers.python import PythonExplorer, own_state, read_only
from horizonfree.models.base import Model
from horizonfree.planning.induction import Solution
from horizonfree.planning.traced import optimal_jax


@x64
def explorer_plan(run: Any, table: Float[np.ndarray, "H S A"]) -> Solution:
    """The plan of a run's explorer; for logged episodes, in the estimate of the evidence."""
    if isinstance(run.explorer, PythonExplorer):
        model, progress = read_only((run.problem.model, run.progress))
        own = run.explorer.plan(model, own_state(progress.state), progress.evidence, np.asarray(table))
        return Solution(*(np.asarray(x) for x in own))
    arguments = to_device((run.problem.model, run.progress, np.asarray(table)))
    return Solution(*(np.asarray(x) for x in _plan(run.explorer, *arguments)))


@jit
def _plan(
    explorer: Explorer | None, model: Model, progress: Progress, reward: Float[Array, "H S A"]
) -> ExplorerPlan:
    if explorer is None:
        return ExplorerPlan(*optimal_jax(model.estimate(progress.evidence), reward))
    return explorer.plan(model, progress.state, progress.evidence, reward)


@x64
def explorer_estimate(run: Any) -> Float[np.ndarray, " d"]:
    """theta_hat of a run's explorer, or that of the evidence."""
    if not isinstance(run.explorer, PlugIn):
        return np.asarray(run.evidence.theta)
    return np.asarray(_estimate(run.explorer, *to_device((run.problem.model, run.progress))))


@jit
def _estimate(explorer: Any, model: Any, progress: Progress) -> Float[Array, " d"]:
    return explorer.theta_hat(model, progress.state, progress.evidence)
