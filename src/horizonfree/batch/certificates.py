"""Curves of a batch that certificates give: computed on the host, one member after the other."""

from collections.abc import Collection

import numpy as np
from jaxtyping import Float

from horizonfree.models import certify
from horizonfree.models.base import Confidence, Evidence
from horizonfree.planning import evaluate, optimal
from horizonfree.problems.problem import Problem


def certified_curves(
    problem: Problem,
    evidence: Evidence,
    curves: Collection[str],
    delta: float,
    rewards: Float[np.ndarray, "T H S A"],
    best: Float[np.ndarray, " T"],
) -> dict[str, float]:
    """Those of `curves` that need a confidence set, for one member; `best` are the optimal values of the rewards.

    gap: the largest true suboptimality, over the rewards, of plans that are optimal in the estimate. `Run.plan` returns
    such a plan, or for tables the plan of the confidence set's centre where its certified gap is smaller;
    eps: the uniform certificate; excess: above 0, the truth is outside the confidence set.
    """
    found: dict[str, float] = {}
    if "excess" in curves:
        found["excess"] = float(problem.model.violation(evidence, problem.truth, np.asarray(delta)))
    if "gap" in curves or "eps" in curves:
        confidence = certify.confidence(problem.model, evidence, delta=delta)
        found["eps"] = certify.uniform_eps(confidence)
    if "gap" in curves:
        found["gap"] = _worst_gap(problem, confidence, rewards, best)
    return {name: x for name, x in found.items() if name in curves}


def _worst_gap(
    problem: Problem,
    confidence: Confidence,
    rewards: Float[np.ndarray, "T H S A"],
    best: Float[np.ndarray, " T"],
) -> float:
    """The most that plans in the estimate lose over the rewards."""
    plans = optimal(confidence.kernel, rewards).policy
    values = problem.space.at_start(evaluate(problem.kernel(), rewards, plans)[:, 0])
    return float((best - values).max())
