"""The model, its confidence set of one kernel, and what reports show."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from horizonfree._arrays import Leaf, node
from horizonfree.mdp.space import Kernel, Space
from horizonfree.models.base import Bounds, Confidence, Description, Diagnostics, Evidence, Model
from horizonfree.planning.induction import best_plan, policy_values


@node
class KnownModel(Model):
    """One kernel. A parameter is a number without axes, 1 for this kernel."""

    space: Space
    prob: Float[Leaf, "S A n"]
    evidence_type: ClassVar[type[Evidence]] = Evidence
    explorer: ClassVar[str] = "uniform"
    num_unknown = 0
    parameter_shape = ()

    def describe(self):
        return Description(
            "the transition probabilities are known", "Nothing is learnt.", "nothing", "No parameter."
        )

    def kernel(self, parameter):
        return self.space.kernel(self.prob * parameter)

    def parameter(self, argument, name):
        return np.asarray(float(argument))

    def init_evidence(self, bets, *, has_history=False):
        from tests.reference.known_kernel import learner

        return learner.init_evidence(self.space, bets)

    def update(self, evidence, trajectory):
        from tests.reference.known_kernel import learner

        return learner.update(evidence, trajectory)

    def estimate(self, evidence):
        return self.space.kernel(self.prob)

    def confidence(self, evidence, delta):
        return KnownConfidence(
            self.space, self.space.kernel(self.prob), 0.0, delta, bool(evidence.impossible > 0)
        )

    def violation(self, evidence, parameter, delta):
        return abs(parameter - 1.0)

    def rounding(self):
        return 1e-12


@dataclass(frozen=True, eq=False)
class KnownConfidence(Confidence):
    """The set of one kernel: every value is exact."""

    space: Space
    kernel: Kernel
    eps: float
    delta: float
    is_refuted: bool

    def bounds(self, reward, policy):
        value = float(self.space.at_start(policy_values(self.kernel, reward, policy)[0]))
        best = float(self.space.at_start(best_plan(self.kernel, reward).V[0]))
        return Bounds(value, value, value, {"uniform": max(best - value, 0.0)})

    def lifted(self, lift):
        return replace(self, space=lift.space, kernel=lift.kernel(self.kernel))

    def parts(self):
        return {}

    def refutation(self):
        return "a transition of probability zero was seen"

    def missing(self):
        return "nothing is unknown"

    def more_episodes(self, target):
        return 0.0

    def after(self, times):
        return self, 0.0


class KnownDiagnostics(Diagnostics):
    """Nothing is uncertain."""

    def in_units(self, parameter):
        return np.zeros(0)

    def row_uncertainty(self, confidence):
        return np.where(self.model.space.reachable, 0.0, np.nan)

    def mean_uncertainty(self, confidence):
        return 0.0

    def inefficiency(self, evidence):
        return evidence.episodes * 0.0
