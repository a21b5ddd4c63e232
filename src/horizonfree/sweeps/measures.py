"""The measures of a sweep at every checkpoint; each is a column of its rows."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from horizonfree.batch.evaluate import CURVES
from horizonfree.mdp.rewards import family
from horizonfree.problems.problem import Problem
from horizonfree.runs.certificates import explorer_claim
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
REWARDS = ("suite", "goals", "occupancies")  # suite: the other two together
RUN_MEASURES = ("reward_max", "reward_median", "claim", "time")  # of one run at a time; the others are curves


def curve_names(measures: Sequence[str]) -> list[str]:
    """The measures that are curves of `explore_many`."""
    return [name for name in measures if name in CURVES]


def measure_rewards(problem: Problem, rewards: str) -> list[Any] | None:
    """The rewards over which true gaps are maximised; None stands for the suite of every state."""
    return None if rewards == "suite" else [x.table for x in family(problem, rewards)[1]]


class RunMeasures:
    """The measures of one run, a function for `explore_many(measure=...)`. `seeds`: how many share the time of a
    task."""

    def __init__(
        self, problem: Problem, measures: Sequence[str], rewards: str, delta: float, seeds: int
    ) -> None:
        self.names = [name for name in measures if name in RUN_MEASURES]
        self.delta, self.seeds, self.began = delta, seeds, time.perf_counter()
        kinds = ("goals", "occupancies") if rewards == "suite" else (rewards,)
        needs_rewards = {"reward_max", "reward_median"} & set(self.names)
        self.rewards = [x for kind in kinds for x in family(problem, kind)[1]] if needs_rewards else []

    def __call__(self, run: Run) -> Mapping[str, float]:
        """The measures of a run; nan if there is none."""
        result: dict[str, float] = {}
        if self.rewards:
            certificate = run.certificate(self.delta, rewards=self.rewards)
            result["reward_max"] = certificate.eps
            result["reward_median"] = certificate.parts.get("median", certificate.eps)
        if "claim" in self.names:
            result["claim"] = _claim(run, self.delta)
        result["time"] = (time.perf_counter() - self.began) / self.seeds
        return {name: result[name] for name in self.names}


def _claim(run: Run, delta: float) -> float:
    """The bound that the explorer itself claims; nan if it claims none, or at lower confidence."""
    claim = explorer_claim(run, delta)
    return np.nan if claim is None or claim.delta > delta else claim.eps
