"""The class of linear mixture MDPs.

    P_theta(s'|s,a) = <phi(s'|s,a), theta>,      phi_V(s,a) = sum_s' phi(s'|s,a) V(s')        (paper, section 3)

phi is kept on successor lists (mdp/space.py): `phi [S, A, n, d]` holds the features of the n possible next states of
(s, a), zero in slots of padding (features.py builds them).

Norms. The paper asks for ||phi_V(s,a)||_2 <= 1 for every V in [0,1]^S and ||theta_star||_2 <= B. `features.norm_bound`
gives an upper bound b on the left side; when b > 1, phi is divided by b and theta and B are multiplied by it; so it is
for small b, since ranks are computed on the scale of 1.
`unit` remembers b: features as given = unit * phi, parameters as given = theta / unit.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array, Leaf, node, static
from horizonfree._validation import require, require_shape
from horizonfree.errors import FeatureError
from horizonfree.guarantees.e_processes import EProcesses
from horizonfree.mdp.policies import action_aliases
from horizonfree.mdp.space import (
    Kernel,
    Space,
    Trajectory,
    check_kernel,
    check_values,
    make_space,
    own_slots,
    restricted_space,
)
from horizonfree.models.base import Description, Evidence, Model
from horizonfree.models.misspecification import Misspecification
from horizonfree.models.mixture import evidence as ev
from horizonfree.models.mixture import features
from horizonfree.models.mixture.confidence import MixtureConfidence, confidence
from horizonfree.models.mixture.evidence import MixtureEvidence
from horizonfree.models.mixture.robust.confidence import RobustConfidence, robust_confidence
from horizonfree.models.mixture.valid import EPS, NEGLIGIBLE_CHANGE, ValidSet, restricted_valid, valid_set

MIN_NORM = 0.01  # features whose norms stay below this are scaled up

MAX_FEATURE = 1e100  # features whose squares are finite
ABSORBING = 1 - 1e-9  # probability of staying from which on a state is absorbing, up to rounding


@node
class MixtureModel(Model):
    """Features, horizon, start and bound, and the parameters that they leave valid. Never the truth, never a reward."""

    space: Space
    phi: Float[Leaf, "S A n d"]
    valid: ValidSet
    bound: float = static()
    unit: float = static()
    is_hull: bool = static()  # theta are weights, none negative
    evidence_type: ClassVar[type[Evidence]] = MixtureEvidence
    methods: ClassVar[tuple[str, ...]] = ("uniform", "direct")
    derived: ClassVar[tuple[str, ...]] = ("valid",)
    explorer: ClassVar[str] = "optimal-design"

    @property
    def dim(self) -> int:
        """d."""
        return int(self.phi.shape[3])

    @property
    def num_unknown(self) -> int:
        """q, the directions in which the parameter is not known."""
        return self.valid.num_free

    @property
    def parameter_shape(self) -> tuple[int, ...]:
        """[d]."""
        return (self.dim,)

    def describe(self) -> Description:
        """Weights that all states share."""
        known = (
            f"a mixture of the {self.dim} given kernels" if self.is_hull else "linear in the given features"
        )
        return Description(
            f"the transition probabilities are {known}, the same in every episode and step",
            "States share parameters, so a state that was never visited can be known well.",
            f"unknown directions, {self.num_unknown}",
            "No weight can be told from what happens in an episode alone; only the transition probabilities matter, "
            "and their uncertainty is drawn above.",
        )

    def phi_V(self, V: Float[Leaf, "*batch S"]) -> Float[Array, "*batch S A d"]:
        """phi_V(s,a) = sum_s' phi(s'|s,a) V(s') for one value function or a batch; NumPy in, NumPy out, or traced."""
        S, A, _, d = self.phi.shape
        check_values(V, S)
        xp = V.__array_namespace__()
        if self.space.is_dense:
            table = xp.asarray(self.phi).transpose(2, 0, 1, 3).reshape(S, S * A * d)
            mixed: Array = (V @ table).reshape(*V.shape[:-1], S, A, d)
        else:
            mixed = xp.einsum("...san,sand->...sad", V[..., self.space.succ], self.phi)
        return mixed

    def kernel(self, parameter: Float[Leaf, " d"]) -> Kernel:
        """P_theta, mixed once; NumPy in, NumPy out, or traced."""
        require_shape(
            np.shape(parameter) == (self.dim,),
            "theta",
            np.shape(parameter),
            f"({self.dim},), one entry per feature",
        )
        return self.space.kernel(self.phi @ parameter)

    def parameter(self, argument: Any, name: str) -> Float[np.ndarray, " d"]:
        """The parameter of the normalised features; its rows sum to one."""
        truth = features.vector(argument, self.dim, name) * self.unit
        check_kernel(self.kernel(truth), f"P_theta of {name}")
        return features.nearest_kernel_parameter(np.asarray(self.phi), truth)

    def restricted_to(
        self, states: Int[np.ndarray, " m"], parameter: Float[np.ndarray, " d"] | None
    ) -> tuple["MixtureModel", Float[np.ndarray, " d"] | None]:
        """The features of these states, and the same parameters."""
        phi, valid = np.asarray(self.phi)[states], restricted_valid(self.valid, states)
        space = restricted_space(self.space, states)
        return MixtureModel(space, phi, valid, self.bound, self.unit, self.is_hull), parameter

    def init_evidence(self, bets: EProcesses, *, has_history: bool = False) -> MixtureEvidence:
        """No counts, and the first prediction: the centre of Theta; has_history: with counts block by block."""
        from horizonfree.models.mixture import learner

        return learner.init_evidence(self.valid, bets, has_history=has_history)

    def update(self, evidence: MixtureEvidence, trajectory: Trajectory) -> MixtureEvidence:
        """Evidence after one more episode; traced."""
        from horizonfree.models.mixture import learner

        return learner.update(self.valid, evidence, learner.allowed_actions(self.space, trajectory))

    def estimate(self, evidence: MixtureEvidence) -> Kernel:
        """The kernel of the predictor; traced."""
        return self.kernel(evidence.theta)

    def confidence(self, evidence: MixtureEvidence, delta: float) -> MixtureConfidence:
        """The confidence set of the e-process with the smallest uniform bound."""
        return confidence(self.space, self.valid, np.asarray(self.phi), evidence, delta)

    def robust_confidence(
        self, evidence: MixtureEvidence, delta: float
    ) -> Callable[[Misspecification], RobustConfidence]:
        """The confidence set for systems whose transition laws are within radii of one parameter."""

        def rebuilt(space: Space) -> ValidSet:
            return valid_set(space, np.asarray(self.phi), self.bound, self.is_hull)

        return robust_confidence(self.space, self.valid, np.asarray(self.phi), evidence, delta, rebuilt)

    def may_stay(self) -> Bool[np.ndarray, " S"]:
        """With weights of kernels: states that one of the kernels never leaves."""
        if not self.is_hull:
            return super().may_stay()
        phi = np.asarray(self.phi)
        total = phi[0, 0].sum(0)  # the same for every state-action pair
        stays = np.where(own_slots(self.space)[..., None], phi, 0.0).sum(2)
        return np.asarray((stays >= ABSORBING * total).all(1).any(-1))

    def rounding(self) -> float:
        """In H steps: by rows that do not quite sum to 1, by what counts as known of their n probabilities, and by n
        products."""
        n = self.space.succ.shape[2]
        return float(
            self.space.horizon * (features.ROW_SUM_TOLERANCE + n * NEGLIGIBLE_CHANGE + 4 * (n + 2) * EPS)
        )

    def violation(
        self, evidence: MixtureEvidence, parameter: Float[Leaf, " d"], delta: float | Float[Leaf, ""]
    ) -> Float[Leaf, ""]:
        """By how much the worst e-process excludes the parameter; NumPy or traced."""
        return ev.violation(self.valid, evidence, parameter, delta).max()


def mixture_model(
    packed: features.Packed, *, horizon: Any, start: Any, bound: Any, hull: bool = False, allowed: Any = None
) -> MixtureModel:
    """The class of these features, normalised, after the checks that need no truth; hull: see valid.valid_set."""
    succ, phi, is_dense = packed
    acts = action_aliases(allowed, *succ.shape[:2])
    space = make_space(succ, (phi != 0).any(axis=-1), is_dense, horizon, start, acts)
    bound = float(bound) if isinstance(bound, np.floating) else bound  # 1e300 is beyond those of 32 bits
    is_number = isinstance(bound, (int, float, np.integer, np.floating)) and not isinstance(bound, bool)
    meaning = "B, a positive number with ||theta_star||_2 <= B"
    require(is_number and 0 < bound < 1e300, "bound", bound, meaning, FeatureError)
    largest = max(float(phi.max()), -float(phi.min()))
    if not largest < MAX_FEATURE:
        raise FeatureError(
            f"a feature is {largest:.3g}; features stay below {MAX_FEATURE:g}: divide them, and multiply theta"
        )
    b = features.norm_bound(phi)
    unit = b if b > 1 + 1e-12 or b < MIN_NORM else 1.0
    features.check_columns(phi)
    features.check_row_sums(phi, float(bound))
    phi = phi / unit
    bound = float(bound * unit)
    return MixtureModel(space, phi, valid_set(space, phi, bound, hull), bound, unit, hull)
