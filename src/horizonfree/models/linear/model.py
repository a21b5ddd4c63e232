"""The class of linear MDPs: P(s'|s,a) = <phi(s,a), mu(s')>, phi known, mu [d, S] unknown and the same in every step.

phi is kept divided by its largest norm, `unit`: features as given = unit * phi, measures as given = mu / unit. Every
state may follow every pair: mu is unknown, so the features call nothing impossible, and the lists of successors are
dense. `white` gives phi orthonormal columns (features.whitening).

Rewards may be `declared` before the first episode. Of those the bounds are sharper: their best values are fixed
functions, where a reward that is chosen after the data may have any (confidence.py).

Features phi [S, A, d] and measures mu [d, S] are checked:

    <phi(s,a), mu(s')> = P(s'|s,a)      needs      <phi(s,a), sum_s' mu(s')> = 1 for every pair

so 1 must be a combination of the features. mu is unique, and nothing of it is unbounded, only if they are
independent. In coordinates in which phi [SA, d] has orthonormal columns (`whitening`), ||mu V|| = ||P V|| <=
sqrt(SA) for V in [0,1]^S: there tolerances mean the same for all features.
"""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from horizonfree._arrays import Array, Leaf, node, static
from horizonfree._validation import (
    check_floats,
    check_real,
    check_shape,
    check_table_size,
    require_entries,
    require_shape,
)
from horizonfree.errors import FeatureError, KernelError
from horizonfree.guarantees.e_processes import EProcesses
from horizonfree.mdp.policies import action_aliases, redirect_forbidden
from horizonfree.mdp.space import Kernel, Space, Trajectory, make_space, occupied_states
from horizonfree.models.base import Description, Evidence, Model
from horizonfree.models.linear.bounds import LinearEvidence
from horizonfree.models.linear.confidence import LinearConfidence, confidence

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
        return int(self.phi.shape[2])

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
        masked = np.where(occupied_states(self.space)[..., None], rewards, 0.0)
        return replace(self, declared=masked)

    def kernel(self, parameter: Float[Leaf, "d S"]) -> Kernel:
        """<phi, mu>; NumPy in, NumPy out, or traced."""
        require_shape(
            np.shape(parameter) == self.parameter_shape,
            "mu",
            np.shape(parameter),
            f"[d, S] = {self.parameter_shape}",
        )
        return self.space.kernel(self.phi @ parameter)

    def parameter(self, argument: Any, name: str) -> Float[np.ndarray, "d S"]:
        """mu of the features as given; its rows must be probabilities."""
        return measures(argument, np.asarray(self.phi), self.unit, name)

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
        return self.space.horizon * (NEGATIVE_TOLERANCE + 16 * (self.space.num_states + 4) * EPS)

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
    scaled, unit = normalize_features(given if acts is None else redirect_forbidden(acts, given))
    S, A, _ = scaled.shape
    succ = np.broadcast_to(np.arange(S, dtype=np.int32), (S, A, S)).copy()
    space = make_space(succ, np.ones((S, A, S), bool), True, horizon, start, acts)
    none = np.zeros((0, *space.sizes))
    return LinearModel(space, scaled, none, whitening(scaled), unit)


SUM_TOLERANCE = 1e-9  # to which features must be able to sum to one
MIN_DISTANCE_FROM_SPAN = 1e-6  # smallest relative distance of a feature from the span of the others
NEGATIVE_TOLERANCE = 1e-12  # of a probability, by rounding
MAX_FEATURE = 1e100  # features whose squares are finite


def normalize_features(given: Any) -> tuple[Float[np.ndarray, "S A d"], float]:
    """Features divided by their largest norm, and that norm; refuses those of no linear MDP."""
    phi = check_floats(given, "phi")
    is_features = phi.ndim == 3 and 0 not in phi.shape
    require_shape(is_features, "phi", phi.shape, "[S, A, d], d features of every pair (s,a)")
    S, A = phi.shape[:2]
    check_table_size(S, A)
    meaning = f"features are finite numbers below {MAX_FEATURE:g}"
    require_entries(np.abs(phi) < MAX_FEATURE, "phi", phi, meaning, FeatureError, "(s={}, a={})[{}]")
    unit = float(np.linalg.norm(phi, axis=-1).max())
    if unit == 0:
        raise FeatureError("phi(s=0, a=0) and all other features are 0; give features that tell pairs apart")
    check_sums(phi / unit)
    check_apart(phi / unit)
    return phi / unit, unit


def check_sums(phi: Float[np.ndarray, "S A d"]) -> None:
    """Refuse features of which no combination is 1 in every pair, naming the first pair that spoils it."""
    flat = phi.reshape(-1, phi.shape[-1])
    scale = np.linalg.norm(flat, axis=0)
    w = np.linalg.lstsq(flat / np.where(scale > 0, scale, 1.0), np.ones(len(flat)), rcond=None)[0]
    total = (flat / np.where(scale > 0, scale, 1.0)) @ w
    bad = np.flatnonzero(~(np.abs(total - 1) <= SUM_TOLERANCE))
    if bad.size:
        s, a = divmod(int(bad[0]), phi.shape[1])
        raise FeatureError(
            f"phi(s={s}, a={a}) = {np.array2string(phi[s, a], precision=4, threshold=8)}: no mu makes the "
            f"probabilities of every pair sum to 1 (the nearest gives this pair {total[bad[0]]:.6g}); add a feature "
            "that is 1 everywhere, or divide the features of each pair by their sum"
        )


def check_apart(phi: Float[np.ndarray, "S A d"]) -> None:
    """Refuse features of which one is (nearly) a combination of others: mu could not be told from the data."""
    flat = phi.reshape(-1, phi.shape[-1])
    scale = np.linalg.norm(flat, axis=0)
    unit = flat / np.where(scale > 0, scale, 1.0)
    values = np.linalg.svd(unit, compute_uv=False)
    if len(flat) >= len(scale) and values[-1] > MIN_DISTANCE_FROM_SPAN * values[0]:
        return
    d = len(scale)
    left = np.array([np.linalg.norm(_rest(unit[:, :i], unit[:, i])) for i in range(d)])
    i = int(np.flatnonzero(left <= max(MIN_DISTANCE_FROM_SPAN * values[0], left.min()))[0])
    raise FeatureError(
        f"feature {i}, {phi[0, 0, i]:.6g} at (s=0, a=0), is a combination of those before it, up to {left[i]:.2g} of "
        f"its size, so mu cannot be told from data; leave it out: {d - 1} features allow the same kernels"
    )


def _rest(before: Float[np.ndarray, "n i"], column: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """What is left of a column beside those before it."""
    if not before.shape[1]:
        return column
    left: np.ndarray = column - before @ np.linalg.lstsq(before, column, rcond=None)[0]
    return left


def whitening(phi: Float[np.ndarray, "S A d"]) -> Float[np.ndarray, "d d"]:
    """W such that phi W [SA, d] has orthonormal columns."""
    triangle = np.linalg.qr(phi.reshape(-1, phi.shape[-1]), mode="r")
    return np.asarray(np.linalg.inv(triangle))


def measures(given: Any, phi: Float[np.ndarray, "S A d"], unit: float, name: str) -> Float[np.ndarray, "d S"]:
    """mu of the features as given, brought to those divided by `unit`; refuses what is no kernel."""
    S, _, d = phi.shape
    mu = check_floats(given, name)
    check_shape(mu, name, (d, S), "[d, S]")
    require_entries(np.isfinite(mu), name, mu, "it must be finite", FeatureError)
    mu = mu * unit
    P = phi @ mu
    at = ": the probability <phi, mu> of (s={}, a={}) -> {}"
    require_entries(P >= -NEGATIVE_TOLERANCE, name, P, "every one must be >= 0", KernelError, at)
    total = P.sum(-1)
    is_one = np.abs(total - 1) <= SUM_TOLERANCE
    meaning = f"every row must sum to 1 (tolerance {SUM_TOLERANCE:g})"
    require_entries(
        is_one, name, total, meaning, KernelError, ": the sum of the probabilities of (s={}, a={})"
    )
    return np.asarray(mu)


def measures_of(phi: Float[np.ndarray, "S A d"], P: Float[np.ndarray, "S A S"]) -> Float[np.ndarray, "d S"]:
    """The mu with <phi, mu> = P; refuses a table that these features do not express."""
    S, _, d = phi.shape
    mu = np.linalg.lstsq(phi.reshape(-1, d), P.reshape(-1, S), rcond=None)[0]
    error = np.abs(phi @ mu - P)
    if error.max() > SUM_TOLERANCE:
        s, a, s_next = np.unravel_index(error.argmax(), error.shape)
        raise FeatureError(
            f"no mu gives the true probability {P[s, a, s_next]:.6g} of (s={s}, a={a}) -> {s_next}: the nearest gives "
            f"{(phi @ mu)[s, a, s_next]:.6g}; give features that express the transition probabilities, or leave out "
            "phi for one feature per state-action pair"
        )
    return measures(mu, phi, 1.0, "mu")
