"""What the evidence of a run says at every confidence that it is asked for, computed once each."""

import dataclasses
from functools import partial
from typing import Any

import equinox as eqx
import numpy as np

from horizonfree._arrays import leaf
from horizonfree._inputs import share
from horizonfree.models import certify
from horizonfree.models.interface import Confidence, Evidence
from horizonfree.models.misspecification import declared
from horizonfree.problems.problem import Problem
from horizonfree.problems.sampling import SHARE


class Confidences:
    """Those of one state of the evidence."""

    def __init__(self) -> None:
        self._found: dict[Any, Confidence] = {}

    def of(self, problem: Problem, evidence: Evidence, delta: Any, misspecification: Any) -> Confidence:
        """At confidence 1 - delta, within what is declared and, where kernels were estimated, what that may be off."""
        delta, about, model = share(delta, "delta"), declared(misspecification), problem.model
        sampling, left = problem.sampling, delta
        if sampling is not None:  # a part of delta for the samples of the kernels, the rest for the episodes
            about, left = sampling.misspecification(SHARE * delta, about), (1 - SHARE) * delta
        key: Any = delta
        if about is not None:
            radii = about.radii(*model.space.sizes[1:])
            key = delta, radii.tobytes(), about.kl is None, about.sampled is None, about.support
        if key not in self._found:
            ask = certify.confidence if about is None else partial(certify.within, declared=about)
            found = ask(model, evidence, delta=left)
            if sampling is not None:
                found = eqx.tree_at(lambda x: x.delta, found, leaf(np.asarray(delta)))
            if sampling is not None and declared(misspecification) is None:
                found = dataclasses.replace(found, known=sampling.clause(delta))  # type: ignore[call-arg]  # of mixtures
            self._found[key] = found
        return self._found[key]
