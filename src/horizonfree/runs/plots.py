"""Plots of a run and of a plan."""

from typing import Any

import numpy as np

from horizonfree._plots import draw_occupancy, new_axes, set_scales
from horizonfree.models import certify
from horizonfree.models.registry import diagnostics_of


def plot_run(run: Any, ax: Any = None, *, delta: float = 0.05) -> Any:
    """The certified suboptimality for every reward against episodes, on Matplotlib axes.

    Only as far as the evidence has earlier moments; some classes have the present alone.
    """
    ax = new_axes() if ax is None else ax
    model = run.problem.model
    past = [] if run.problem.sampling is not None else diagnostics_of(model).evidence_history(run.evidence)
    points = {}
    for x in past:
        confidence = certify.confidence(model, x, delta=delta)
        points[int(x.episodes)] = certify.smallest(model, x, confidence).eps
    points[run.episodes] = float(run.certificate(delta).eps)
    k = sorted(points)
    ax.plot(k, [min(points[x], 1.0) for x in k], marker="o", markersize=3.5, linewidth=1.6)
    ax.set(title="certified suboptimality, every reward", xlabel="episodes", ylabel=f"eps, delta = {delta:g}")
    ax.grid(alpha=0.25, linewidth=0.5)
    ax.spines[["top", "right"]].set_visible(False)
    set_scales(ax)
    return ax


def plot_plan(plan: Any, ax: Any = None) -> Any:
    """Where the plan is, in the estimate: on a grid the share of time in each cell, else states by step."""
    ax = new_axes() if ax is None else ax
    draw_occupancy(ax, np.asarray(plan.occupancy), plan.layout)
    ax.set_title("where the plan is", fontsize=10)
    return ax
