"""The class of linear MDPs: P(s'|s,a) = <phi(s,a), mu(s')>, phi known, mu [d, S] unknown and the same in every step.

phi is kept divided by its largest norm, `unit`: features as given = unit * phi, measures as given = mu / unit. Every
state may follow every pair: mu is unknown, so the features call nothing impossible, and the lists of successors are
dense. `white` gives phi orthonormal columns (features.whitening).

Rewards may be `declared` before the first episode. Of those the bounds are sharper: their best values are fixed
functions, where a reward that is chosen after the data may have any (confidence.py).
"""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from horizonfree._arrays import Array, Leaf, node, static
from horizonfree._validation import check_real
from horizonfree.errors import ShapeError
from horizonfree.guarantees.e_processes import EProcesses
from horizonfree.mdp.policies import action_aliases, redirect_forbidden
from horizonfree.mdp.space import Kernel, Space, Trajectory, make_space, occupied_states
from horizonfree.models.base import Description, Evidence, Model
from horizonfree.models.linear import features
from horizonfree.models.linear.confidence import LinearConfidence, confidence
from horizonfree.models.linear.regression import LinearEvidence

DERIVED_TOLERANCE = (
    1e-6  # to which stored coordinates must be orthonormal, and the largest feature has length 1
)
EPS = float(np.finfo(np.float64).eps)


@node
class LinearModel(Model):
    """Features on a space. Never the truth, and of rewards only those that were declared beforehand."""

    space: Space
    phi: Float[Leaf, "S A d"]
    declared: Float[Leaf, "F H S A"]
    white: Float[Leaf, "d d"]
    unit: float = static()
    evidence_type: ClassVar[type[Evidence]] = LinearEvidence
    derived: ClassVar[tuple[str, ...]] = ("white",)
    explorer: ClassVar[str] = "linear-design"
    burn_in: ClassVar[int] = 10

    @property
    def dim(self) -> int:
        """d."""
        return self.phi.shape[2]

    @property
    def num_unknown(self) -> int:
        """d (S-1): the sum over s' of mu is known."""
        return self.dim * (self.space.num_states - 1)

    @property
    def parameter_shape(self) -> tuple[int, ...]:
        """[d, S]."""
        return self.dim, self.space.num_states

    def describe(self) -> Description:
        """Measures that all pairs share."""
        return Description(
            "a linear MDP with the given features, the same in every episode and step",
            "State-action pairs share features, so a pair that was never tried can be known well.",
            f"features, {self.dim}",
            f"The measures of {self.dim} features on {self.space.num_states} states; the uncertainty of the transition "
            "probabilities is drawn above.",
        )

    def with_rewards(self, rewards: Float[np.ndarray, "F H S A"]) -> "LinearModel":
        """The class with these rewards declared, which are set to 0 where no episode can be."""
        kept = np.where(occupied_states(self.space)[..., None], rewards, 0.0)
        return replace(self, declared=kept)

    def kernel(self, parameter: Float[Leaf, "d S"]) -> Kernel:
        """<phi, mu>; NumPy in, NumPy out, or traced."""
        if np.shape(parameter) != self.parameter_shape:
            raise ShapeError(
                f"mu has shape {np.shape(parameter)}; it must be [d, S] = {self.parameter_shape}"
            )
        return self.space.kernel(self.phi @ parameter)

    def parameter(self, argument: Any, name: str) -> Float[np.ndarray, "d S"]:
        """mu of the features as given; its rows must be probabilities."""
        return features.measures(argument, np.asarray(self.phi), self.unit, name)

    def init_evidence(self, bets: EProcesses, *, has_history: bool = False) -> LinearEvidence:
        """No sums."""
        from horizonfree.models.linear import learner

        return learner.init_evidence(self.phi, bets)

    def update(self, evidence: LinearEvidence, trajectory: Trajectory) -> LinearEvidence:
        """Sums and counts; traced."""
        from horizonfree.models.linear import learner

        return learner.update(self.space, self.phi, evidence, trajectory)

    def estimate(self, evidence: LinearEvidence) -> Kernel:
        """The ridge estimate without what is negative, made to sum to one; traced."""
        from horizonfree.models.linear import learner

        return learner.estimate(self.space, self.phi, evidence)

    def confidence(self, evidence: LinearEvidence, delta: float) -> LinearConfidence:
        """The e-process that gives the smallest uniform gap."""
        return confidence(self.space, self.phi, self.white, self.declared, evidence, delta)

    def rounding(self) -> float:
        """In H steps sums of S products, a few of them, and rows that do not quite sum to one."""
        return self.space.horizon * (features.NEGATIVE_TOLERANCE + 16 * (self.space.num_states + 4) * EPS)

    def violation(
        self, evidence: LinearEvidence, parameter: Float[Array, "d S"], delta: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Over functions of the states and e-processes; traced. For many states a condition that members must meet."""
        from horizonfree.models.linear import learner

        delta_all = delta / 2 if len(self.declared) else delta
        return learner.violation(self.space, self.phi, self.white, evidence, parameter, delta_all)


def linear_model(phi: Any, *, horizon: Any, start: Any, allowed: Any = None) -> LinearModel:
    """The class of these features, after the checks that need no truth."""
    given = check_real(phi, "phi")
    acts = action_aliases(allowed, *given.shape[:2]) if given.ndim == 3 else None
    scaled, unit = features.checked(given if acts is None else redirect_forbidden(acts, given))
    S, A, _ = scaled.shape
    succ = np.broadcast_to(np.arange(S, dtype=np.int32), (S, A, S)).copy()
    space = make_space(succ, np.ones((S, A, S), bool), True, horizon, start, acts)
    none = np.zeros((0, *space.sizes))
    return LinearModel(space, scaled, none, features.whitening(scaled), unit)
