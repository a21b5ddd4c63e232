"""The class of linear MDPs: P(s'|s,a) = <phi(s,a), mu(s')>, phi known, mu [d, S] unknown and the same in every step.

phi is kept divided by its largest norm, `unit`: features as given = unit * phi, measures as given = mu / unit. Every
state may follow every pair: mu is unknown, so the features call nothing impossible, and the lists of successors are
dense. `white` gives phi orthonormal columns (features.whitening).

Rewards may be `declared` before the first episode. Of those the bounds are sharper: their best values are fixed
functions, where a reward that is chosen after the data may have any (confidence.py).
"""

from itertools import product
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Float

from horizonfree._arrays import Array
from horizonfree._inputs import real
from horizonfree._x64 import Leaf, leaf
from horizonfree.errors import FeatureError, OptionError, RewardError, ShapeError
from horizonfree.guarantees.bets import Bets
from horizonfree.mdp.allowed import acts_of, taken
from horizonfree.mdp.rollout import Trajectory, as_taken
from horizonfree.mdp.space import Kernel, Space, check_space, make_space, occupied_states
from horizonfree.models.compiled import compiled_confidence
from horizonfree.models.interface import Confidence, Model, Told
from horizonfree.models.linear import evidence as ev
from horizonfree.models.linear import features
from horizonfree.models.linear.confidence import LinearConfidence, confidence
from horizonfree.models.linear.evidence import Evidence
from horizonfree.models.linear.widths import fit, level_of_all, prior
from horizonfree.models.linear.world import World
from horizonfree.planning.backward import stationary_jax

RIDGE = 0.1  # of the cheap estimate, and of what a direction without data counts for in `inefficiency`
ALMOST = 1e-6  # to which stored coordinates must be orthonormal, and the largest feature has length 1
VERTICES = 12  # states up to which all 2^(S-1) functions of them are gone through
EPS = float(np.finfo(np.float64).eps)


class LinearModel(Model):
    """Features on a space. Never the truth, and of rewards only those that were declared beforehand."""

    space: Space
    phi: Float[Leaf, "S A d"]
    declared: Float[Leaf, "F H S A"]
    white: Float[Leaf, "d d"]
    unit: float = eqx.field(static=True)
    methods: ClassVar[tuple[str, ...]] = ("uniform",)
    derived: ClassVar[tuple[str, ...]] = ("white",)
    explorer: ClassVar[str] = "linear-design"
    burn_in: ClassVar[int] = 10

    @property
    def dim(self) -> int:
        """d."""
        return self.phi.shape[2]

    def check(self) -> None:
        """Shapes, finite numbers, features of a linear MDP, and coordinates that belong to them."""
        check_space(self.space)
        _, S, A = self.space.sizes
        if not (self.space.is_dense and np.asarray(self.space.support).all()):
            raise ShapeError("the space of a linear MDP must list every state after every pair, all possible")
        phi, declared, white = (np.asarray(x) for x in (self.phi, self.declared, self.white))
        d = phi.shape[-1]
        for name, x, wanted in (
            ("phi", phi, (S, A, d)),
            ("declared", declared, (len(declared), *declared.shape[1:2], S, A)),  # H may be another's: moved
            ("white", white, (d, d)),
        ):
            if x.shape != wanted or x.dtype != np.float64 or not np.isfinite(x).all():
                raise ShapeError(
                    f"{name} has shape {x.shape} and type {x.dtype}; it must be finite float64 {list(wanted)}"
                )
        if not (isinstance(self.unit, float) and 0 < self.unit < features.LARGE):
            raise FeatureError(f"unit is {self.unit!r}; it must be a positive number")
        features.check_sums(phi)
        features.check_apart(phi)
        x = phi.reshape(-1, d) @ white
        longest = np.linalg.norm(phi, axis=-1).max()
        if np.abs(x.T @ x - np.eye(d)).max() > ALMOST or abs(longest - 1) > ALMOST:
            raise FeatureError("the stored features are not of length 1, or their coordinates are others'")
        if ((declared < 0) | (declared > 1 + ALMOST)).any():
            raise RewardError("a declared reward is outside of [0, 1]")

    @property
    def num_unknown(self) -> int:
        """d (S-1): the sum over s' of mu is known."""
        return self.dim * (self.space.num_states - 1)

    @property
    def assumption(self) -> str:
        """That the truth is in the class."""
        return "a linear MDP with the given features, the same in every episode and step"

    @property
    def told(self) -> Told:
        """Measures that all pairs share."""
        return Told(
            "Pairs of a state and an action share what they teach by their features, so one that was never tried can "
            "still be known well.",
            f"features, {self.dim}",
            f"Where each of {self.dim} features leads, a measure on {self.space.num_states} states; the doubt of the "
            "transition probabilities that follow from it is drawn above.",
        )

    def declaring(self, rewards: Float[np.ndarray, "F H S A"]) -> "LinearModel":
        """The same class, with these rewards declared; what no episode comes to is left out of them."""
        kept = np.where(occupied_states(self.space)[..., None], rewards, 0.0)
        declared: LinearModel = eqx.tree_at(lambda x: x.declared, self, leaf(kept))
        return declared

    def kernel(self, parameter: Float[Leaf, "d S"]) -> Kernel:
        """<phi, mu>; NumPy in, NumPy out, or traced."""
        wanted = self.dim, self.space.num_states
        if np.shape(parameter) != wanted:
            raise ShapeError(f"mu has shape {np.shape(parameter)}; it must be [d, S] = {wanted}")
        return self.space.kernel(self.phi @ parameter)

    def parameter(self, given: Any, name: str) -> Float[np.ndarray, "d S"]:
        """mu of the features as given; its rows must be probabilities."""
        return features.measures(given, np.asarray(self.phi), self.unit, name)

    def in_units(self, parameter: Float[np.ndarray, "d S"]) -> Float[np.ndarray, " n"]:
        """mu of the features as given, one feature after the other."""
        flat: np.ndarray = (np.asarray(parameter) / self.unit).ravel()
        return flat

    def nothing(self, bets: Bets) -> Evidence:
        """No sums."""
        return ev.nothing(self.phi, bets)

    def learn(self, evidence: Evidence, trajectory: Trajectory) -> Evidence:
        """Sums and counts; traced."""
        return ev.learn(self.phi, evidence, as_taken(self.space, trajectory))

    def estimate(self, evidence: Evidence) -> Kernel:
        """The ridge estimate without what is negative, made to sum to one; traced."""
        raw = self.phi @ jsl.cho_solve(self._ridge(evidence), evidence.cross)
        prob = jnp.maximum(raw, 0.0)
        total = prob.sum(-1, keepdims=True)
        is_seen = total > 0
        return self.space.kernel(
            jnp.where(is_seen, prob / jnp.where(is_seen, total, 1.0), 1 / self.space.num_states)
        )

    def confidence(self, evidence: Evidence, delta: float) -> Confidence:
        """The bet that gives the smallest uniform gap."""
        return compiled_confidence(self, evidence, delta)

    def traced_confidence(self, evidence: Evidence, delta: Float[Array, ""]) -> LinearConfidence:
        """The same, traced."""
        return confidence(self.space, self.phi, self.white, len(self.declared), evidence, delta)

    def world(self, confidence: LinearConfidence) -> World:
        """By tangents and bands, by intervals, and by the gap for every reward."""
        c = confidence
        radii = c.logdet, c.beta_all, c.beta_declared, c.eps
        return World(self.space, c.kernel.prob, c.X, c.e, c.is_bad, *radii, self.declared)

    def sharper(
        self, evidence: Evidence, confidence: LinearConfidence, method: str
    ) -> tuple[float, dict[str, float]]:
        """There is no other method."""
        raise OptionError(f"method is {method!r}; linear MDPs have 'uniform' alone")

    @property
    def sharpest(self) -> str:
        """The only one."""
        return "uniform"

    def rounding(self) -> float:
        """In H steps sums of S products, a few of them, and rows that do not quite sum to one."""
        return self.space.horizon * (features.NEGATIVE + 16 * (self.space.num_states + 4) * EPS)

    def excess(
        self, evidence: Evidence, parameter: Float[Array, "d S"], delta: Float[Array, ""]
    ) -> Float[Array, ""]:
        """The largest ||(C1 - V1 mu) V|| in the inverse of R + V1, less beta, over functions V and e-processes; traced.

        Over the vertices V of the cube for few states. For more the rows are compared with their widths in total
        variation instead: a parameter outside of them is outside the set, but not every one inside is in it.
        """
        S, true = self.space.num_states, self.phi @ parameter
        part = delta / 2 if len(self.declared) else delta
        L = level_of_all(S, part * evidence.weights)
        vertices = None
        if S <= VERTICES:  # V and V + c are the same here, so the first entry is 0
            vertices = jnp.asarray(list(product((0.0, 1.0), repeat=S - 1))).reshape(2 ** (S - 1), S - 1)

        def of(j: int) -> Array:
            V0, C0 = evidence.gram_at[j], evidence.cross_at[j]
            V1, C1 = evidence.gram - V0, evidence.cross - C0
            found = fit(self.phi, self.white, V0, V1, C1, evidence.episodes + self.space.horizon)
            if vertices is not None:
                _, root = prior(self.phi, self.white, V0, V1)
                sums = (self.white.T @ (C1 - V1 @ parameter))[:, 1:] @ vertices.T
                norms = jnp.linalg.norm(jsl.solve_triangular(root, sums, lower=True), axis=0)
                return norms.max() - found.beta(L[j])
            beyond = jnp.abs(found.raw - true).sum(-1) / 2 - found.beta(L[j]) * found.n - found.e
            return jnp.where(found.is_bad, -1.0, beyond).max()

        return jnp.stack([of(j) for j in range(len(evidence.starts))]).max()

    def inefficiency(self, evidence: Evidence) -> Float[Array, ""]:
        """K T / d, T the largest expected sum of ||x||^2 in the inverse Gram matrix: optimal design; traced."""
        x = jsl.solve_triangular(self._ridge(evidence)[0], self.phi.reshape(-1, self.dim).T, lower=True)
        promise = (x**2).sum(0).reshape(self.phi.shape[:2])
        _, V = stationary_jax(self.estimate(evidence), promise, self.space.horizon)
        return evidence.episodes * self.space.at_start(V) / self.dim

    def earlier(self, evidence: Evidence) -> list[Evidence]:
        """At the starts of the bets."""
        return ev.earlier(evidence)

    def doubts(self, confidence: LinearConfidence) -> Float[np.ndarray, " S"]:
        """The width of the least known action."""
        return np.where(self.space.reachable, confidence.width.max(axis=1), np.nan)

    def mean_doubt(self, confidence: LinearConfidence) -> float:
        """Over all pairs."""
        return float(confidence.width.mean())

    def intervals(self, confidence: LinearConfidence) -> None:
        """Too many to show."""
        return None

    def _ridge(self, evidence: Evidence) -> tuple[Float[Array, "d d"], bool]:
        """The Cholesky factor of gram + ridge."""
        return jnp.linalg.cholesky(evidence.gram + RIDGE * jnp.eye(self.dim)), True


def linear_model(phi: Any, *, horizon: Any, start: Any, allowed: Any = None) -> LinearModel:
    """The class of these features, after the checks that need no truth."""
    given = real(phi, "phi")
    acts = acts_of(allowed, *given.shape[:2]) if given.ndim == 3 else None
    scaled, unit = features.checked(given if acts is None else taken(acts, given))
    S, A, _ = scaled.shape
    succ = np.broadcast_to(np.arange(S, dtype=np.int32), (S, A, S)).copy()
    space = make_space(succ, np.ones((S, A, S), bool), True, horizon, start, acts)
    none = np.zeros((0, *space.sizes))
    return LinearModel(space, leaf(scaled), leaf(none), leaf(features.whitening(scaled)), unit)
