"""Certificates after earlier numbers of episodes, from the evidence alone.

Tabular evidence has no history: there the present is the only moment, and a forecast is computed instead.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree.mdp.rewards import goal
from horizonfree.mdp.space import occupied_states
from horizonfree.models import certify
from horizonfree.models.base import Confidence, Evidence, Model
from horizonfree.models.registry import diagnostics_of
from horizonfree.planning import evaluate, optimal
from horizonfree.runs.run import Run

MAX_SCORED_GOALS = 64  # for the true suboptimality
MAX_GOAL_BYTES = 2**27  # of their tables
FORECAST_FACTORS = np.geomspace(1, 100, 21)  # of the amount of data


class Moment(NamedTuple):
    """After some episodes: certified bound, mean uncertainty, inefficiency, true suboptimality (nan if unknown)."""

    episodes: int
    eps: float
    uncertainty: float
    inefficiency: float
    true_gap: float


class GoalStates(NamedTuple):
    """The states that can be a goal, and those for which the true suboptimality is computed."""

    every: Int[np.ndarray, " G"]
    scored: Int[np.ndarray, " R"]


def history_of(run: Run, delta: float) -> list[Moment]:
    """The earlier moments in the evidence, and the present.

    Only the present for kernels estimated from samples, whose certificates need counts by blocks.
    """
    model, result = run.problem.model, []
    past = [] if run.problem.sampling is not None else diagnostics_of(model).evidence_history(run.evidence)
    rewards = None if run.problem.truth is None else goals(run)
    for evidence in [*past, run.evidence]:
        is_now = evidence is run.evidence
        confidence = run.confidence(delta) if is_now else certify.confidence(model, evidence, delta=delta)
        moment = Moment(
            int(evidence.episodes),
            certify.smallest(model, evidence, confidence).eps,
            diagnostics_of(model).mean_uncertainty(confidence),
            inefficiency(model, evidence),
            float("nan") if rewards is None else _true_gap(run, confidence, rewards),
        )
        result.append(moment)
    return result


def forecast_curve(run: Run, delta: float) -> list[tuple[float, float]]:
    """(episodes, certified bound) for an unchanged estimate and more data; empty if nothing is certified yet."""
    confidence = run.confidence(delta)
    if confidence.is_refuted or run.problem.model.num_unknown == 0 or not confidence.eps < 1:
        return []
    later = [confidence.after(float(times)) for times in FORECAST_FACTORS]
    return [(run.episodes + more, float(forecast.eps)) for forecast, more in later]


def _true_gap(run: Run, confidence: Confidence, rewards: Float[np.ndarray, "R H S A"]) -> float:
    """The true suboptimality of the plans of that moment, the largest over the rewards."""
    kernel, at_start = run.problem.kernel(), run.problem.space.at_start
    policy = optimal(confidence.kernel, rewards).policy
    gaps = at_start(optimal(kernel, rewards).V[:, 0] - evaluate(kernel, rewards, policy)[:, 0])
    return max(float(gaps.max()), 0.0)


def goals(run: Run) -> Float[np.ndarray, "R H S A"]:
    """The goal rewards for the true suboptimality."""
    return np.stack([goal(run.problem, int(s)) for s in goal_states(run).scored])


def goal_states(run: Run) -> GoalStates:
    """States that can be occupied at the last step; of many, evenly spaced ones are scored."""
    space = run.problem.space
    states = np.flatnonzero(occupied_states(space)[-1])
    size = 8 * int(np.prod(space.sizes))
    count = max(1, min(MAX_SCORED_GOALS, MAX_GOAL_BYTES // size, len(states)))
    return GoalStates(states, states[np.linspace(0, len(states) - 1, count).round().astype(int)])


def inefficiency(model: Model, evidence: Evidence) -> float:
    """1 / G-efficiency: 1 for the G-optimal design, 2 if twice the episodes are needed; nan if nothing is unknown."""
    return float("nan") if model.num_unknown == 0 else _compiled_inefficiency()(model, evidence)


@cache
def _compiled_inefficiency() -> Callable[[Model, Evidence], float]:
    """Imports JAX, which nothing else in a report needs."""
    import equinox as eqx

    from horizonfree._x64 import to_device, x64

    traced = eqx.filter_jit(lambda model, evidence: diagnostics_of(model).inefficiency(evidence))
    return x64(lambda model, evidence: float(traced(*to_device((model, evidence)))))
