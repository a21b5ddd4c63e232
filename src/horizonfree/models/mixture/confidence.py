"""What the evidence of a mixture says at confidence 1 - delta: the best of its bets, ready for certificates and plans.

For each bet the maximum likelihood, its slack and ellipsoid, the largest divergence of trajectories, and what a plan
can lose by that; the bet with the smallest uniform gap is kept. Its theta_hat is the one to plan with, and its eps
bounds the gap of such a plan for every reward at once. docs/certificates.md has the proofs.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array, taken
from horizonfree._x64 import Leaf, leaf
from horizonfree.guarantees.certificate import at_most_of
from horizonfree.guarantees.choice import largest_loss, least_loss
from horizonfree.guarantees.trajectories import LARGE, Divergence, Steps, smallest
from horizonfree.mdp.space import Kernel, Space
from horizonfree.models.interface import Confidence
from horizonfree.models.mixture.ellipsoid import Ellipsoid, ellipsoid
from horizonfree.models.mixture.evidence import Evidence
from horizonfree.models.mixture.likelihood import Fit, maximum_likelihood
from horizonfree.models.mixture.steps import Compared, compare, hellinger, tilts
from horizonfree.models.mixture.valid import ValidSet
from horizonfree.models.norms import length
from horizonfree.planning.backward import MUCH

WRITTEN_OUT = 64  # products up to which sums over successors and directions are written out for XLA
EPS = 1e-12  # a gap of 1 has an infinite divergence behind it


class MixtureConfidence(Confidence):
    """Everything that certificates and planning take from the evidence; one per state of the evidence."""

    kernel: Kernel
    eps: Float[Leaf, ""]
    delta: Float[Leaf, ""]
    is_refuted: Bool[Leaf, ""]
    theta: Float[Leaf, " d"]
    ball: Ellipsoid
    compared: Compared
    bet: Int[Leaf, ""]
    slacks: Float[Leaf, " J1"]  # of each bet; last, of the table against the class
    starts: Int[Leaf, " J"]
    num_seen: Int[Leaf, ""]
    episodes: Int[Leaf, ""]
    impossible: Int[Leaf, ""]
    num_free: int = eqx.field(static=True)
    numbers: Int[Leaf, " S"] | None = None  # what the caller calls the states, where they are part of his

    @property
    def step(self) -> Steps:
        """One transition of the estimate, and how far those that the data allow can be from it."""
        return self.compared.step

    @property
    def divergence(self) -> Divergence:
        """How far trajectories can be from those of the estimate, under any policy."""
        return self.compared.divergence

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
        """Transitions that cannot be, or data that no parameter explains.

        Two tests, each wrong with probability delta at most: the e-processes of the confidence set, and the table.
        """
        if self.impossible > 0:
            return f"{int(self.impossible)} transitions are impossible for every parameter"
        wrong = at_most_of(min(1.0, 2 * float(self.delta)))
        return f"no parameter explains the data (wrong with probability {wrong} at most)"

    def missing(self) -> str:
        """Directions that the bet has not seen, pairs of which too little is known, or just more episodes."""
        if not self.num_free:
            return "nothing is unknown, and more episodes do not help"
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
        pairs = np.argwhere(np.asarray(self.divergence.stop))
        if self.numbers is not None:
            pairs[:, 0] = np.asarray(self.numbers)[pairs[:, 0]]
        return pairs

    def more_episodes(self, target: float) -> float:
        """The divergence behind eps falls like 1/episodes; infinite while some direction has not been seen at all."""
        found = self.divergence
        eps = float(self.eps)
        if self.num_seen < self.num_free or (eps >= 1 and found.hit > target / 4):
            return math.inf
        behind = float(found.kappa) if eps >= 1 else -math.log1p(-(eps**2)) / 2
        used = int(self.episodes) - int(self.starts[self.bet])
        return max(0.0, math.ceil(used * (behind / (-math.log1p(-(target**2)) / 2) - 1)))

    def after(self, times: float) -> tuple["MixtureConfidence", float]:
        """The ellipsoid shrinks like 1/sqrt(times), divergences like 1/times; the bet counts from its own start."""
        used = int(self.episodes) - int(self.starts[self.bet])
        root = math.sqrt(times)
        ball, found, step = self.ball, self.divergence, self.step
        behind = -math.log1p(-(min(float(self.eps), 1 - EPS) ** 2)) / times
        shrunk = eqx.tree_at(
            lambda x: (x.ball.z, x.compared.step.cost, x.compared.divergence.kappa, x.eps),
            self,
            (
                leaf(np.asarray(ball.z) / root),
                leaf(np.asarray(step.cost) / times),
                leaf(np.asarray(found.kappa / times)),
                leaf(np.asarray(math.sqrt(-math.expm1(-behind)))),
            ),
        )
        return shrunk, used * (times - 1)


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

    def one(bet: tuple[Array, Fit, Array]) -> tuple[Ellipsoid, Compared]:
        ball = ellipsoid(valid, *bet)
        return ball, compare(space, valid, ball)

    J = evidence.starts.shape[0]
    # bets that have not begun know nothing: one of them speaks for all, where none has
    is_begun = (evidence.starts < evidence.episodes) | (jnp.arange(J) == jnp.argmin(evidence.starts))
    counts = jnp.concatenate([evidence.since, evidence.row_counts[None]])
    losses, weights = jnp.append(evidence.loss, evidence.table_loss), jnp.append(evidence.weights, 1.0)
    fits = jax.lax.map(lambda x: where_begun(fit, *x), (jnp.append(is_begun, True), counts))
    # theta_hat may be gap above the minimum of L
    slacks = losses - jnp.log(delta * weights) - fits.loss + fits.gap
    bets = counts[:J], jax.tree.map(lambda x: x[:J], fits), slacks[:J]
    balls, comparisons = jax.lax.map(lambda x: where_begun(one, *x), (is_begun, bets))
    losses = losses_in(space, valid, is_begun, balls, comparisons)
    # gaps above 1 say nothing: then the bet that knows the rows best
    widths = jax.lax.map(lambda ball: (ball.width * valid.free).mean(), balls)
    best = smallest(jnp.where(is_begun, jnp.where(losses < 1, losses, 1 + widths), jnp.inf))
    eps, ball, compared = jax.tree.map(lambda x: taken(x, best), (losses, balls, comparisons))
    return MixtureConfidence(
        kernel=space.kernel(phi @ ball.theta),
        eps=eps,
        delta=delta,
        is_refuted=(evidence.impossible > 0) | (slacks < 0).any(),
        theta=ball.theta,
        ball=ball,
        compared=compared,
        bet=best,
        slacks=slacks,
        starts=evidence.starts,
        num_seen=_num_seen(ball.z, taken(evidence.since, best)),
        episodes=evidence.episodes,
        impossible=evidence.impossible,
        num_free=valid.num_free,
        numbers=space.numbers,
    )


def where_begun(one: Callable[[Any], Any], is_begun: Bool[Array, ""], bet: Any) -> Any:
    """What is said of a bet; zeros, at no cost, where it has not begun."""
    once = jax.jit(one)  # traced for its shapes, and no second time
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(once, bet))
    return jax.lax.cond(is_begun, once, lambda _: nothing, bet)


def losses_in(
    space: Space, valid: ValidSet, is_begun: Bool[Array, " J"], balls: Ellipsoid, comparisons: Compared
) -> Float[Array, " J"]:
    """`largest_loss_in` of each bet that has begun; infinite where another is surely smaller, of many successors."""

    def is_hopeless(least: Array, ball: Ellipsoid, compared: Compared) -> Bool[Array, ""]:
        h2 = hellinger(space, valid, ball)
        return least_loss(space, compared.step, compared.divergence, h2, valid.choices) > least

    def one(least: Array, j: Array) -> tuple[Array, Array]:
        ball, compared = jax.tree.map(lambda x: taken(x, j), (balls, comparisons))
        is_asked = is_begun[j]
        if space.succ.size > LARGE:
            is_second = is_asked & (least < jnp.inf)
            is_asked &= ~jax.lax.cond(
                is_second, lambda: is_hopeless(least, ball, compared), lambda: jnp.asarray(False)
            )
        loss = jax.lax.cond(
            is_asked, lambda: largest_loss_in(space, valid, ball, compared), lambda: jnp.asarray(jnp.inf)
        )
        return jnp.fmin(least, loss), loss

    # the most promising first
    order = jnp.argsort(jnp.where(is_begun, comparisons.divergence.eps, jnp.inf))
    _, losses = jax.lax.scan(one, jnp.asarray(jnp.inf), order)
    return jnp.zeros_like(losses).at[order].set(losses)


def largest_loss_in(space: Space, valid: ValidSet, ball: Ellipsoid, compared: Compared) -> Float[Array, ""]:
    """What a plan in the estimate can lose for every theta of the ellipsoid; traceable."""
    z = tilts(space, valid, ball)
    n, q = z.shape[2:]

    def spread(V: Float[Array, " S"]) -> Float[Array, "S A"]:
        if space.is_dense:
            return length(jnp.einsum("sanq,n->saq", z, V))
        if not 0 < n * q <= WRITTEN_OUT or space.succ.size <= MUCH:
            return length((z * taken(V, space.succ)[..., None]).sum(2))
        at_slot = [taken(V, space.succ[..., j]) for j in range(n)]
        return jnp.sqrt(sum(sum(z[:, :, j, i] * at_slot[j] for j in range(n)) ** 2 for i in range(q)))

    h2 = hellinger(space, valid, ball)
    return largest_loss(space, compared.step, compared.divergence, h2, spread, valid.choices)


def _num_seen(z: Float[Array, "R q"], counts: Int[Array, " R"]) -> Int[Array, ""]:
    """In how many directions the data say something: the rank of the rows that were observed."""
    if z.shape[1] == 0:
        return jnp.zeros((), jnp.int32)
    unit = z / jnp.maximum(jnp.linalg.norm(z, axis=1, keepdims=True), 1e-300)
    seen = jnp.where(counts[:, None] > 0, unit, 0.0)
    rank: Array = (jnp.linalg.eigvalsh(seen.T @ seen) > 1e-9).sum(dtype=jnp.int32)
    return rank
