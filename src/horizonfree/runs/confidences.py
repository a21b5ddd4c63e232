"""What the evidence of a run says at every confidence that it is asked for, computed once each."""

import dataclasses
from collections.abc import Callable
from typing import Any

from horizonfree._validation import check_probability
from horizonfree.errors import OptionError
from horizonfree.models import certify
from horizonfree.models.interface import Confidence, Evidence, Model
from horizonfree.models.misspecification import Misspecification, declared
from horizonfree.problems.problem import Problem
from horizonfree.problems.sampling import SHARE

LEAST = 1e-300  # of a delta, whose parts are numbers still


class Confidences:
    """Those of one state of the evidence."""

    def __init__(self) -> None:
        self._found: dict[Any, Confidence] = {}
        self._around: dict[float, Callable[[Misspecification], Confidence]] = {}
        self._within: dict[Any, Confidence] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Functions stay here: where a run goes they are made again."""
        return self.__dict__ | {"_around": {}}

    def of(self, problem: Problem, evidence: Evidence, delta: Any, misspecification: Any) -> Confidence:
        """At confidence 1 - delta, within what is declared and, where kernels were estimated, what that may be off."""
        delta, about, model = check_probability(delta, "delta"), declared(misspecification), problem.model
        sampling, left = problem.sampling, delta
        if sampling is not None:  # a part of delta for the samples of the kernels, the rest for the episodes
            about, left = sampling.misspecification(SHARE * delta, about), (1 - SHARE) * delta
        key = (delta, *_key(model, about)) if about is not None else delta
        if key not in self._found:
            if about is None:
                found = certify.confidence(model, evidence, delta=delta)
            else:
                found = self.within(model, evidence, left, about)
            if sampling is not None:
                why = {} if declared(misspecification) is not None else {"known": sampling.clause(delta)}
                mixture: Any = found  # kernels from samples are mixtures
                found = dataclasses.replace(mixture, delta=delta, **why)
            self._found[key] = found
        return self._found[key]

    def within(self, model: Model, evidence: Evidence, delta: float, about: Misspecification) -> Confidence:
        """At confidence 1 - delta for these radii, which may all be 0: then delta is shared out as for others."""
        if delta < LEAST:
            raise OptionError(
                f"delta is {delta}; within a misspecification it is shared out, from {LEAST:g} on"
            )
        key = delta, *_key(model, about)
        if key not in self._within:
            if delta not in self._around:  # of the last delta alone: it holds much
                self._around = {delta: model.robust_confidence(evidence, delta)}
            self._within[key] = self._around[delta](about)
        return self._within[key]


def _key(model: Model, about: Misspecification) -> tuple[Any, ...]:
    radii = about.radii(*model.space.sizes[1:])
    return radii.tobytes(), about.kl is None, about.sampled is None, about.support
