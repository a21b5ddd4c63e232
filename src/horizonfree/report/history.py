"""What a run knew at earlier moments, from its evidence alone: nothing is simulated again.

Evidence of tables is counts, which do not tell when: there the present is the only moment, and a forecast looks ahead.
"""

from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from horizonfree._x64 import to_device, x64
from horizonfree.mdp.rewards import goal
from horizonfree.mdp.space import occupied_states
from horizonfree.models import certify
from horizonfree.models.interface import Confidence, Evidence, Model
from horizonfree.planning import evaluate, optimal
from horizonfree.runs.run import Run

GOALS = 64  # the most goal rewards that the true gap is measured on
GOAL_BYTES = 2**27  # bytes that their tables may take
TIMES = np.geomspace(1, 100, 21)  # as much data that a forecast looks at


class Moment(NamedTuple):
    """One number of episodes: the certified gap, the doubt, the inefficiency, the true gap (nan without the truth)."""

    episodes: int
    eps: float
    doubt: float
    inefficiency: float
    true_gap: float


class GoalStates(NamedTuple):
    """The states that can be a goal, and those of them whose goals are scored."""

    every: Int[np.ndarray, " G"]
    scored: Int[np.ndarray, " R"]


def moments(run: Run, delta: float) -> list[Moment]:
    """The moments in the past that the evidence tells of, and the present.

    The present alone where kernels were estimated from samples: what these leave open is certified from counts by
    blocks, which the past has not.
    """
    model, found = run.problem.model, []
    past = [] if run.problem.sampling is not None else model.evidence_history(run.evidence)
    rewards = None if run.problem.truth is None else goals(run)
    for evidence in [*past, run.evidence]:
        is_now = evidence is run.evidence
        confidence = run.confidence(delta) if is_now else certify.confidence(model, evidence, delta=delta)
        moment = Moment(
            int(evidence.episodes),
            certify.smallest(model, evidence, confidence).eps,
            model.mean_uncertainty(confidence),
            inefficiency(model, evidence),
            float("nan") if rewards is None else _true_gap(run, confidence, rewards),
        )
        found.append(moment)
    return found


def ahead(run: Run, delta: float) -> list[tuple[float, float]]:
    """(episodes, certified gap) to be expected if the estimate stays; nothing where nothing is proved yet."""
    confidence = run.confidence(delta)
    if confidence.is_refuted or run.problem.model.num_unknown == 0 or not confidence.eps < 1:
        return []
    later = [confidence.after(float(times)) for times in TIMES]
    return [(run.episodes + more, float(found.eps)) for found, more in later]


def _true_gap(run: Run, confidence: Confidence, rewards: Float[np.ndarray, "R H S A"]) -> float:
    """What the plans of that moment really lose, at the worst of the rewards."""
    kernel, at_start = run.problem.kernel(), run.problem.space.at_start
    policy = optimal(confidence.kernel, rewards).policy
    lost = at_start(optimal(kernel, rewards).V[:, 0] - evaluate(kernel, rewards, policy)[:, 0])
    return max(float(lost.max()), 0.0)


def goals(run: Run) -> Float[np.ndarray, "R H S A"]:
    """The goal rewards that the true gap is measured on."""
    return np.stack([goal(run.problem, int(s)) for s in goal_states(run).scored])


def goal_states(run: Run) -> GoalStates:
    """States that can be occupied at the last step; evenly spread ones are scored when there are many."""
    space = run.problem.space
    states = np.flatnonzero(occupied_states(space)[-1])
    size = 8 * int(np.prod(space.sizes))
    most = max(1, min(GOALS, GOAL_BYTES // size, len(states)))
    return GoalStates(states, states[np.linspace(0, len(states) - 1, most).round().astype(int)])


@eqx.filter_jit
def _inefficiency(model: Model, evidence: Evidence) -> Float[Array, ""]:
    return model.inefficiency(evidence)


@x64
def inefficiency(model: Model, evidence: Evidence) -> float:
    """1 for the best design in hindsight, 2 for one that needs twice the episodes; nan where nothing is unknown."""
    if model.num_unknown == 0:
        return float("nan")
    return float(_inefficiency(*to_device((model, evidence))))
