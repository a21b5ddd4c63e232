"""What a run knew at earlier moments, from its evidence alone: nothing is simulated again.

Counts and losses of the bets only grow. Bet j counts from its start m_j on, so what bet i had gathered at episode m_j
is the difference of the two:

    N_i(m_j) = N_i - N_j,      Lq_i(m_j) = Lq_i - Lq_j          for m_i < m_j

and the certificate of episode m_j is the one that would have been given then, for every start m_j in the past.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from horizonfree import certificates, planning
from horizonfree._x64 import to_device, x64
from horizonfree.certificates import Confidence
from horizonfree.evidence import Evidence
from horizonfree.explorers.information import design
from horizonfree.likelihood import predict
from horizonfree.rewards import goal, occupied_states
from horizonfree.run import Run

GOALS = 64  # the most goal rewards that the true gap is measured on
MEMORY = 2**27  # bytes that their tables may take

_design = eqx.filter_jit(design)
_predict = eqx.filter_jit(predict)


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
    """The starts of the run's bets that lie in the past, and the present."""
    starts = np.asarray(run.evidence.starts)
    past = [_at(run.evidence, int(j)) for j in np.flatnonzero((starts > 0) & (starts < run.episodes))]
    kernel = None if run.problem.truth is None else run.problem.kernel()
    rewards = None if kernel is None else goals(run)
    found = []
    for evidence in [*past, run.evidence]:
        is_now = evidence is run.evidence
        confidence = (
            run.confidence(delta)
            if is_now
            else certificates.confidence(run.problem.known, run.valid, evidence, delta=delta)
        )
        gap = np.nan
        if kernel is not None and rewards is not None:
            policy = planning.optimal(run.problem.known.kernel(confidence.theta), rewards).policy
            best = planning.optimal(kernel, rewards).V[:, 0, run.problem.start]
            gap = float((best - planning.evaluate(kernel, rewards, policy)[:, 0, run.problem.start]).max())
        found.append(
            Moment(
                int(evidence.episodes),
                certificates.uniform(confidence).eps,
                doubt(run, confidence),
                inefficiency(run, evidence),
                max(gap, 0.0),
            )
        )
    return found


def goals(run: Run) -> Float[np.ndarray, "R H S A"]:
    """The goal rewards that the true gap is measured on."""
    return np.stack([goal(run.problem.known, int(s)) for s in goal_states(run).scored])


def goal_states(run: Run) -> GoalStates:
    """States that can be occupied at the last step; evenly spread ones are scored when there are many."""
    known = run.problem.known
    states = np.flatnonzero(occupied_states(known)[-1])
    size = 8 * known.horizon * known.num_states * known.num_actions
    most = max(1, min(GOALS, MEMORY // size, len(states)))
    return GoalStates(states, states[np.linspace(0, len(states) - 1, most).round().astype(int)])


def doubt(run: Run, confidence: Confidence) -> float:
    """How far an unknown transition probability may be from its estimate, on average over the distinct ones."""
    free = np.asarray(run.valid.free)
    return float(np.asarray(confidence.ball.width)[free].mean()) if free.any() else 0.0


@x64
def inefficiency(run: Run, evidence: Evidence) -> float:
    """K T / q: 1 for the best design in hindsight, 2 for one that needs twice the episodes; nan where q = 0.

    T is the most information that one more episode could bring, in units of what is known; no design of K episodes
    has T < q / K (Kiefer and Wolfowitz 1960). The half pseudo-count of explorers/information.py is part of what is
    known, so that values slightly below 1 occur early.
    """
    if run.valid.num_free == 0:
        return float("nan")
    known, valid = to_device((run.problem.known, run.valid))
    counts = jnp.asarray(evidence.rows)
    _, T = _design(known, valid, counts, _predict(valid, counts, jnp.asarray(evidence.theta)))
    return int(evidence.episodes) * float(T) / run.valid.num_free


def _at(evidence: Evidence, j: int) -> Evidence:
    """The evidence at the start of bet j. Counts per (s, a) of that moment are not kept: they are left at zero."""
    start = evidence.starts[j]
    is_on = np.asarray(evidence.starts) < start
    since, loss = np.asarray(evidence.since), np.asarray(evidence.loss)
    return Evidence(
        counts=np.zeros_like(evidence.counts),
        rows=np.asarray(evidence.rows) - since[j],
        since=np.where(is_on[:, None], since - since[j], 0),
        loss=np.where(is_on, loss - loss[j], 0.0),
        starts=evidence.starts,
        weights=evidence.weights,
        theta=evidence.theta,
        episodes=np.asarray(start),
        impossible=evidence.impossible,
    )
