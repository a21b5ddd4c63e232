"""What a sweep can measure at every checkpoint, by name; each is a column of its rows."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from horizonfree.batch.many import CURVES
from horizonfree.mdp.families import family
from horizonfree.problems.problem import Problem
from horizonfree.runs.certificates import claim_of
from horizonfree.runs.run import Run

MEASURES = {
    "eps": "certified for every reward at once",
    "gap": "worst true gap of plans in the maximum-likelihood model",
    "own_gap": "worst true gap of the explorer's own plans",
    "reward_max": "largest certified gap of the rewards",
    "reward_median": "median certified gap of the rewards",
    "claim": "the explorer's own guarantee",
    "efficiency": "K T / q, 1 for the best design in hindsight",
    "excess": "above 0 where the truth is outside the confidence set",
    "time": "seconds for one seed up to here",
}
REWARDS = ("suite", "goals", "occupancies")  # the last two by themselves, the first: both
ON_RUNS = ("reward_max", "reward_median", "claim", "time")  # not computed on the device


def curves_of(measures: Sequence[str]) -> list[str]:
    """Those that are computed on the device, of all members in one compiled call."""
    return [name for name in measures if name in CURVES]


def rewards_of(problem: Problem, rewards: str) -> list[Any] | None:
    """The rewards that true gaps are the worst of; None stands for the suite of every state."""
    return None if rewards == "suite" else [x.table for x in family(problem, rewards)[1]]


class OnRuns:
    """The measures that are asked of one run after the other. `seeds`: how many share the time of a task."""

    def __init__(
        self, problem: Problem, measures: Sequence[str], rewards: str, delta: float, seeds: int
    ) -> None:
        self.wanted = [name for name in measures if name in ON_RUNS]
        self.delta, self.seeds, self.began = delta, seeds, time.perf_counter()
        kinds = ("goals", "occupancies") if rewards == "suite" else (rewards,)
        has_rewards = {"reward_max", "reward_median"} & set(self.wanted)
        self.rewards = [x for kind in kinds for x in family(problem, kind)[1]] if has_rewards else []

    def __call__(self, run: Run) -> Mapping[str, float]:
        """The numbers of a run; nan where there is none."""
        found: dict[str, float] = {}
        if self.rewards:
            certificate = run.certificate(self.delta, rewards=self.rewards)
            found["reward_max"] = certificate.eps
            found["reward_median"] = certificate.parts.get("median", certificate.eps)
        if "claim" in self.wanted:
            found["claim"] = _claim(run, self.delta)
        found["time"] = (time.perf_counter() - self.began) / self.seeds
        return {name: found[name] for name in self.wanted}


def _claim(run: Run, delta: float) -> float:
    """The gap that the explorer itself claims; nan where it claims none, or at another confidence."""
    claim = claim_of(run, delta)
    return np.nan if claim is None or claim.delta > delta else claim.eps
