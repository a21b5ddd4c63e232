"""What the evidence of a mixture says at confidence 1 - delta: the best of its bets, ready for certificates and plans.

For each bet the maximum likelihood, its slack and ellipsoid, and the largest divergence of trajectories; the bet with
the smallest uniform gap is kept. Its theta_hat is the one to plan with, and its eps bounds the gap of such a plan for
every reward at once. docs/certificates.md has the proofs.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from horizonfree._x64 import Leaf
from horizonfree.guarantees.trajectories import Divergence, Steps, divergence
from horizonfree.mdp.space import Kernel, Space
from horizonfree.models.interface import Confidence
from horizonfree.models.mixture.ellipsoid import Ellipsoid, ellipsoid
from horizonfree.models.mixture.evidence import Evidence
from horizonfree.models.mixture.likelihood import Fit, maximum_likelihood
from horizonfree.models.mixture.steps import steps
from horizonfree.models.mixture.valid import ValidSet


class MixtureConfidence(Confidence):
    """Everything that certificates and planning take from the evidence; one per state of the evidence."""

    kernel: Kernel
    eps: Float[Leaf, ""]
    delta: Float[Leaf, ""]
    is_refuted: Bool[Leaf, ""]
    theta: Float[Leaf, " d"]
    ball: Ellipsoid
    step: Steps
    divergence: Divergence
    bet: Int[Leaf, ""]
    slacks: Float[Leaf, " J1"]  # of each bet; last, of the table against the class
    starts: Int[Leaf, " J"]
    num_seen: Int[Leaf, ""]
    episodes: Int[Leaf, ""]
    impossible: Int[Leaf, ""]
    num_free: int = eqx.field(static=True)

    def parts(self) -> dict[str, float]:
        """Of the bet that was chosen."""
        return {
            "slack": float(self.slacks[self.bet]),
            "start": float(self.starts[self.bet]),
            "episodes": float(self.episodes),
            "free": float(self.num_free),
            "seen": float(self.num_seen),
            "kappa": float(self.divergence.kappa),
            "hit": float(self.divergence.hit),
        }

    def refutation(self) -> str:
        """Transitions that cannot be, or bets that no parameter survives."""
        if self.impossible > 0:
            return f"{int(self.impossible)} transitions are impossible for every parameter"
        return f"no parameter explains the data (wrong with probability {float(self.delta):g} at most)"

    def missing(self) -> str:
        """Directions that the bet has not seen, pairs of which too little is known, or just more episodes."""
        missing = self.num_free - int(self.num_seen)
        if missing:
            return f"{missing} of {self.num_free} unknown directions have not been seen by the bet"
        pairs = self.unsure_pairs()
        if len(pairs):
            s, a = pairs[0]
            return f"too little is known of {len(pairs)} pairs (s,a), the first is ({s}, {a})"
        return f"a gap of 0.5 needs about {self.more_episodes(0.5):.0f} more episodes like these"

    def unsure_pairs(self) -> Int[np.ndarray, "m 2"]:
        """Pairs (s, a) of which too little is known: where the comparison with theta_hat has to stop."""
        return np.argwhere(np.asarray(self.divergence.stop))

    def more_episodes(self, target: float) -> float:
        """kappa falls like 1/episodes; infinite while some direction has not been seen at all."""
        found = self.divergence
        if self.num_seen < self.num_free or found.hit > target / 4:
            return math.inf
        wanted = -math.log1p(-(target**2)) / 2
        used = int(self.episodes) - int(self.starts[self.bet])
        return max(0.0, math.ceil(used * (float(found.kappa) / wanted - 1)))


def confidence(
    space: Space,
    valid: ValidSet,
    phi: Float[Array, "S A n d"],
    evidence: Evidence,
    delta: Float[Array, ""],
) -> MixtureConfidence:
    """The confidence of the evidence, with the bet that gives the smallest uniform gap; traceable."""

    def fit(counts: Array) -> Fit:
        return maximum_likelihood(valid, counts, evidence.theta)

    def one(bet: tuple[Array, Fit, Array]) -> tuple[Array, Ellipsoid, Divergence]:
        ball = ellipsoid(valid, *bet)
        found = divergence(space, steps(space, valid, ball))
        # gaps above 1 say nothing: then the bet that knows the rows best
        score = jnp.where(found.eps < 1, found.eps, 1 + (ball.width * valid.free).mean())
        return score, ball, found

    J = evidence.starts.shape[0]
    counts = jnp.concatenate([evidence.since, evidence.row_counts[None]])
    losses, weights = jnp.append(evidence.loss, evidence.table_loss), jnp.append(evidence.weights, 1.0)
    fits = jax.lax.map(fit, counts)
    # theta_hat may be gap above the minimum of L
    slacks = losses - jnp.log(delta * weights) - fits.loss + fits.gap
    score, balls, found = jax.lax.map(one, (counts[:J], jax.tree.map(lambda x: x[:J], fits), slacks[:J]))
    best = jnp.argmin(score)
    ball: Ellipsoid = jax.tree.map(lambda x: x[best], balls)
    chosen: Divergence = jax.tree.map(lambda x: x[best], found)
    return MixtureConfidence(
        kernel=space.kernel(phi @ ball.theta),
        eps=chosen.eps,
        delta=delta,
        is_refuted=(evidence.impossible > 0) | (slacks < 0).any(),
        theta=ball.theta,
        ball=ball,
        step=steps(space, valid, ball),
        divergence=chosen,
        bet=best,
        slacks=slacks,
        starts=evidence.starts,
        num_seen=_num_seen(ball.z, evidence.since[best]),
        episodes=evidence.episodes,
        impossible=evidence.impossible,
        num_free=valid.num_free,
    )


def _num_seen(z: Float[Array, "R q"], counts: Int[Array, " R"]) -> Int[Array, ""]:
    """In how many directions the data say something: the rank of the rows that were observed."""
    if z.shape[1] == 0:
        return jnp.zeros((), jnp.int32)
    unit = z / jnp.maximum(jnp.linalg.norm(z, axis=1, keepdims=True), 1e-300)
    seen = jnp.where(counts[:, None] > 0, unit, 0.0)
    rank: Array = (jnp.linalg.eigvalsh(seen.T @ seen) > 1e-9).sum(dtype=jnp.int32)
    return rank
