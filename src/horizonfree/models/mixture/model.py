"""The class of linear mixture MDPs.

    P_theta(s'|s,a) = <phi(s'|s,a), theta>,      phi_V(s,a) = sum_s' phi(s'|s,a) V(s')        (paper, section 3)

phi is kept on successor lists (mdp/space.py): `phi [S, A, n, d]` holds the features of the n possible next states of
(s, a), zero in slots of padding (features.py builds them).

Norms. The paper asks for ||phi_V(s,a)||_2 <= 1 for every V in [0,1]^S and ||theta_star||_2 <= B. `features.norm_bound`
gives an upper bound b on the left side; when b > 1, phi is divided by b and theta and B are multiplied by it; so it is
for small b, since judgements of rank are made on the scale of 1.
`unit` remembers b: features as given = unit * phi, parameters as given = theta / unit.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from horizonfree._arrays import Array, Leaf, leaf, library, node, static
from horizonfree._validation import short_repr
from horizonfree.errors import FeatureError, OptionError, ShapeError
from horizonfree.guarantees.bets import Bets
from horizonfree.mdp.allowed import acts_of
from horizonfree.mdp.part import restricted_space
from horizonfree.mdp.space import Kernel, Space, check_kernel, make_space, values
from horizonfree.mdp.trajectory import Trajectory
from horizonfree.models.interface import Description, Intervals, Model
from horizonfree.models.misspecification import Misspecification
from horizonfree.models.mixture import alternatives, diagnostics, features, row_sums
from horizonfree.models.mixture import evidence as ev
from horizonfree.models.mixture.confidence import MixtureConfidence, confidence
from horizonfree.models.mixture.direct import MOST_UNKNOWNS, direct
from horizonfree.models.mixture.evidence import Evidence
from horizonfree.models.mixture.programmes import DROWNED, EPS
from horizonfree.models.mixture.robust.common import zeta_low
from horizonfree.models.mixture.robust.confidence import (
    RobustConfidence,
    asymptotic_gap,
    by_pinsker,
    check_support,
    confidence_within,
    shown_low,
)
from horizonfree.models.mixture.valid import ValidSet, restricted_valid, valid_set

FAINT = 0.01  # features whose norms stay below this are scaled up

MOST = 1e100  # features whose squares are finite


@node
class MixtureModel(Model):
    """Features, horizon, start and bound, and the parameters that they leave valid. Never the truth, never a reward."""

    space: Space
    phi: Float[Leaf, "S A n d"]
    valid: ValidSet
    bound: float = static()
    unit: float = static()
    is_hull: bool = static()  # theta are weights, none negative
    evidence_type: ClassVar[type] = Evidence
    methods: ClassVar[tuple[str, ...]] = ("uniform", "direct")
    derived: ClassVar[tuple[str, ...]] = ("valid",)
    explorer: ClassVar[str] = "optimal-design"
    burn_in: ClassVar[int] = 5
    alternatives: ClassVar[tuple[str, ...]] = ("noise", "table", "change", "memory", "age")

    @property
    def dim(self) -> int:
        """d."""
        return self.phi.shape[3]

    @property
    def num_unknown(self) -> int:
        """q, the directions in which the parameter is not known."""
        return self.valid.num_free

    @property
    def assumption(self) -> str:
        """That the truth is in the class."""
        given = (
            f"a mixture of the {self.dim} given kernels" if self.is_hull else "linear in the given features"
        )
        return f"the transition probabilities are {given}, the same in every episode and step"

    def describe(self) -> Description:
        """Weights that all states share; what can be told of them is drawn."""
        return Description(
            "States share what they teach, so a state that was never visited can still be known well.",
            f"unknown directions, {self.num_unknown}",
            "No weight can be told from what happens in an episode alone; only the transition probabilities matter, "
            "and their doubt is drawn above.",
        )

    def phi_V(self, V: Float[Leaf, "*batch S"]) -> Float[Array, "*batch S A d"]:
        """phi_V(s,a) = sum_s' phi(s'|s,a) V(s') for one value function or a batch; NumPy in, NumPy out, or traced."""
        S, A, _, d = self.phi.shape
        xp = library(self.phi, V)
        V = values(V, S, xp)
        if self.space.is_dense:
            table = xp.asarray(self.phi).transpose(2, 0, 1, 3).reshape(S, S * A * d)
            mixed: Array = (V @ table).reshape(*V.shape[:-1], S, A, d)
        else:
            mixed = xp.einsum("...san,sand->...sad", V[..., self.space.succ], self.phi)
        return mixed

    def kernel(self, parameter: Float[Leaf, " d"]) -> Kernel:
        """P_theta, mixed once; NumPy in, NumPy out, or traced."""
        if np.shape(parameter) != (self.dim,):
            raise ShapeError(
                f"theta has shape {np.shape(parameter)}; it must be ({self.dim},), one entry per feature"
            )
        return self.space.kernel(self.phi @ parameter)

    def parameter(self, given: Any, name: str) -> Float[np.ndarray, " d"]:
        """Of the normalised features, and its rows sum to one."""
        truth = features.vector(given, self.dim, name) * self.unit
        check_kernel(self.kernel(leaf(truth)), f"P_theta of {name}")
        return row_sums.mended(np.asarray(self.phi), truth)

    def in_units(self, parameter: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """Of the features as given."""
        return np.asarray(parameter) / self.unit

    def restricted_to(
        self, states: Int[np.ndarray, " m"], parameter: Float[np.ndarray, " d"] | None
    ) -> tuple["MixtureModel", Float[np.ndarray, " d"] | None]:
        """The features of these states, and the same parameters."""
        phi, valid = leaf(np.asarray(self.phi)[states]), restricted_valid(self.valid, states)
        space = restricted_space(self.space, states)
        return MixtureModel(space, phi, valid, self.bound, self.unit, self.is_hull), parameter

    def init_evidence(self, bets: Bets) -> Evidence:
        """No counts, and the first prediction: the centre of Theta."""
        from horizonfree.models.mixture import learner

        return learner.init_evidence(self.valid, bets)

    def with_history(self, evidence: Evidence) -> Evidence:
        """With counts block by block."""
        from horizonfree.models.mixture import learner

        return replace(evidence, record=learner.init_record(self.valid))

    def update(self, evidence: Evidence, trajectory: Trajectory) -> Evidence:
        """Counts, bets and the next prediction; traced."""
        from horizonfree.models.mixture import learner

        return learner.update(self.valid, evidence, learner.allowed_actions(self.space, trajectory))

    def estimate(self, evidence: Evidence) -> Kernel:
        """The kernel of the predictor; traced."""
        return self.kernel(evidence.theta)

    def confidence(self, evidence: Evidence, delta: float) -> MixtureConfidence:
        """The bet that gives the smallest uniform gap."""
        return confidence(self.space, self.valid, np.asarray(self.phi), evidence, delta)

    def robust_confidence(
        self, evidence: Evidence, delta: float
    ) -> Callable[[Misspecification], RobustConfidence]:
        """The same for every system whose laws are within the radii of one parameter; on the host."""

        def rebuilt(space: Space) -> ValidSet:
            return valid_set(space, np.asarray(self.phi), self.bound, self.is_hull)

        return confidence_within(self.space, self.valid, np.asarray(self.phi), evidence, delta, rebuilt)

    def remedy(self, evidence: Evidence, delta: float) -> str:
        """From which misspecification on the data allow the class, where they tell."""
        if evidence.record is None or evidence.impossible > 0:
            return ""
        low = shown_low(zeta_low(self.valid, evidence, delta))
        return (
            f"; no single parameter is within {low} of all laws, and certificate(misspecification=zeta) says what "
            "holds if one is within zeta"
        )

    def asymptotic_gap(self, misspecification: Misspecification) -> float:
        """For the parameter in the middle of the class."""
        check_support(self.space, misspecification)
        zeta, center = misspecification.radii(*self.space.sizes[1:]), np.asarray(self.valid.center)
        anywhere = misspecification.support == "anywhere"
        known = asymptotic_gap(self.space, self.valid, zeta, center, anywhere=anywhere)
        return min(known, by_pinsker(self.space, misspecification))

    def sharper(
        self, evidence: Evidence, confidence: MixtureConfidence, method: str
    ) -> tuple[float, dict[str, float]]:
        """method "direct": the divergence over the likelihood set itself, for few unknowns."""
        q = self.valid.num_free
        if q > MOST_UNKNOWNS:
            raise OptionError(
                f"method 'direct' is for at most {MOST_UNKNOWNS} unknown directions, here are {q}; use 'uniform'"
            )
        if q == 0:
            return float(confidence.eps), {}
        counts = np.asarray(evidence.since)[int(confidence.bet)]
        given = confidence.ball, confidence.step, confidence.compared.is_out
        found = direct(self.space, self.valid, counts, *given)
        parts = {"kappa": found.kappa, "hit": found.hit, "attained": found.attained, "hinge": found.hinge}
        return found.eps, parts

    @property
    def sharpest(self) -> str:
        """Over the likelihood set itself where there are few unknowns."""
        return "direct" if 0 < self.valid.num_free <= MOST_UNKNOWNS else "uniform"

    def rounding(self) -> float:
        """In H steps: by rows that do not quite sum to 1, by what counts as known of their n probabilities, and by n
        products."""
        n = self.space.succ.shape[2]
        return self.space.horizon * (row_sums.EXACT + n * DROWNED + 4 * (n + 2) * EPS)

    def max_log_likelihood(self, evidence: Evidence, confidence: MixtureConfidence) -> float:
        """By the maximum of the likelihood and its gap, of which the slack of the table is made."""
        slack, delta = float(confidence.slacks[-1]), float(confidence.delta)
        return slack + math.log(delta) - float(evidence.table_loss)

    def marginal_log_likelihood(self, counts: Int[np.ndarray, "C S A n"]) -> float:
        """Over weights; of other features, over laws on the rows of each kind of pair."""
        if not alternatives.has_weights(self.valid, self.is_hull):
            return alternatives.over_kinds(self.valid, counts)
        return alternatives.over_weights(self.valid, alternatives.on_rows(self.valid, counts))

    def changepoint_evidence(self, evidence: Evidence) -> tuple[list[float], Float[np.ndarray, " J"]]:
        """From the rows seen since each bet began; for weights, which rows alone tell of."""
        if not alternatives.has_weights(self.valid, self.is_hull):
            return [], np.zeros(0)
        rows, since = np.asarray(evidence.row_counts), np.asarray(evidence.since)
        parts = [alternatives.over_weights(self.valid, np.stack([rows - x, x])) for x in since]
        return parts, np.asarray(evidence.weights)

    def memory_labels(self) -> Int[np.ndarray, "S A n"]:
        """The kernel that favours a transition most."""
        return alternatives.labels(self.valid, self.is_hull)

    def violation(
        self, evidence: Evidence, parameter: Float[Leaf, " d"], delta: float | Float[Leaf, ""]
    ) -> Float[Leaf, ""]:
        """Of the bet that leaves the parameter out by most; NumPy in and out, or traced."""
        return ev.violation(self.valid, evidence, parameter, delta).max()

    def inefficiency(self, evidence: Evidence) -> Float[Array, ""]:
        """K T / q of optimal design; traced."""
        from horizonfree.models.mixture import learner

        return learner.inefficiency(self.space, self.valid, evidence)

    def evidence_history(self, evidence: Evidence) -> list[Evidence]:
        """At the starts of the bets."""
        return diagnostics.evidence_history(self.valid, evidence)

    def row_uncertainty(self, confidence: MixtureConfidence | RobustConfidence) -> Float[np.ndarray, " S"]:
        """The largest half width of a row."""
        return diagnostics.row_uncertainty(self.space, confidence.valid, confidence)

    def mean_uncertainty(self, confidence: MixtureConfidence | RobustConfidence) -> float:
        """Over the distinct free rows."""
        return diagnostics.mean_uncertainty(confidence.valid, confidence)

    def intervals(self, confidence: MixtureConfidence | RobustConfidence) -> Intervals:
        """Theta in the units of the features as given."""
        limits = np.array([0.0, self.unit] if self.is_hull else [-np.inf, np.inf])
        found = diagnostics.intervals(confidence.valid, confidence, self.bound, limits)
        theta, low, high = (x / self.unit for x in found[:3])
        return Intervals(theta, low, high, found.is_learnable)


def mixture_model(
    packed: features.Packed, *, horizon: Any, start: Any, bound: Any, hull: bool = False, allowed: Any = None
) -> MixtureModel:
    """The class of these features, normalised, after the checks that need no truth; hull: see valid.valid_set."""
    succ, phi, is_dense = packed
    acts = acts_of(allowed, *succ.shape[:2])
    space = make_space(succ, (phi != 0).any(axis=-1), is_dense, horizon, start, acts)
    bound = float(bound) if isinstance(bound, np.floating) else bound  # 1e300 is beyond those of 32 bits
    is_number = isinstance(bound, (int, float, np.integer, np.floating)) and not isinstance(bound, bool)
    if not (is_number and 0 < bound < 1e300):
        raise FeatureError(
            f"bound is {short_repr(bound)}; B must be a positive number with ||theta_star||_2 <= B"
        )
    largest = max(float(phi.max()), -float(phi.min()))
    if not largest < MOST:
        raise FeatureError(
            f"a feature is {largest:.3g}; features stay below {MOST:g}: divide them, and multiply theta"
        )
    b = features.norm_bound(phi)
    unit = b if b > 1 + 1e-12 or b < FAINT else 1.0
    features.check_columns(phi)
    row_sums.check(phi, float(bound))
    phi = phi / unit
    bound = float(bound * unit)
    return MixtureModel(space, leaf(phi), valid_set(space, phi, bound, hull), bound, unit, hull)
