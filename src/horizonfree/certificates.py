"""Gap bounds that hold with probability 1 - delta, at every number of episodes, for data gathered by any explorer.

`confidence` turns evidence into a `Confidence`: for each bet the maximum likelihood, its slack and ellipsoid, and the
largest divergence of trajectories; the bet with the smallest uniform gap is kept. Its theta_hat is the one to plan
with, and its eps bounds the gap of such a plan for every reward at once (`uniform`). `for_reward` bounds one policy for
one reward; for a plan made with theta_hat it is never worse. Rewards are [H, S, A] with a total in [0,1] on every
trajectory. docs/certificates.md has the proofs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from horizonfree import row_sums
from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.checks import share
from horizonfree.direct import MOST, direct
from horizonfree.divergence import Divergence, Steps, divergence, steps
from horizonfree.ellipsoid import Ellipsoid, ellipsoid
from horizonfree.errors import OptionError
from horizonfree.evidence import Evidence
from horizonfree.likelihood import Fit, maximum_likelihood
from horizonfree.mixture import AnyArray, Known
from horizonfree.tangent import RewardBounds, reward_bounds
from horizonfree.valid import DROWNED, EPS, ValidSet


@dataclass(frozen=True)
class Certificate:
    """With probability 1 - delta the plan loses at most eps; `words` says what that means and what would help.

    `parts` are the numbers that eps is made of. `is_rejected`: no parameter of the class explains the data; then eps is
    1 and certifies nothing.
    """

    eps: float
    delta: float
    method: str
    words: str
    parts: Mapping[str, float]
    is_rejected: bool = False

    @property
    def is_vacuous(self) -> bool:
        """Whether nothing is certified, to three digits: no gap exceeds 1."""
        return round_up(self.eps) >= 1.0


class Confidence(eqx.Module):
    """Everything that certificates and planning take from the evidence; one per state of the evidence."""

    theta: Float[AnyArray, " d"]
    ball: Ellipsoid
    step: Steps
    divergence: Divergence
    bet: Int[AnyArray, ""]
    slacks: Float[AnyArray, " J+1"]  # of each bet; last, of the table against the class
    starts: Int[AnyArray, " J"]
    num_seen: Int[AnyArray, ""]
    num_free: int = eqx.field(static=True)
    episodes: Int[AnyArray, ""]
    impossible: Int[AnyArray, ""]
    delta: Float[AnyArray, ""]

    @property
    def is_rejected(self) -> bool:
        """Whether the data are impossible under the class, some U_j is empty, or the table beats every parameter."""
        return bool(self.impossible > 0) or bool((np.asarray(self.slacks) < 0).any())


def confidence_jax(known: Known, valid: ValidSet, evidence: Evidence, delta: Float[Array, ""]) -> Confidence:
    """The confidence of the evidence, with the bet that gives the smallest uniform gap; traceable."""

    def fit(counts: Array) -> Fit:
        return maximum_likelihood(valid, counts, jnp.asarray(evidence.theta))

    def one(bet: tuple[Array, Fit, Array]) -> tuple[Array, Ellipsoid, Divergence]:
        ball = ellipsoid(valid, *bet)
        found = divergence(known, steps(known, valid, ball))
        # gaps above 1 say nothing: then the bet that knows the rows best
        score = jnp.where(found.eps < 1, found.eps, 1 + (ball.width * valid.free).mean())
        return score, ball, found

    J = evidence.num_bets
    counts = jnp.concatenate([jnp.asarray(evidence.since), jnp.asarray(evidence.rows)[None]])
    losses, weights = jnp.append(evidence.loss, evidence.table_loss), jnp.append(evidence.weights, 1.0)
    fits = jax.lax.map(fit, counts)
    slacks = (
        losses - jnp.log(delta * weights) - fits.loss + fits.gap
    )  # theta_hat may be gap above the minimum of L
    score, balls, found = jax.lax.map(one, (counts[:J], jax.tree.map(lambda x: x[:J], fits), slacks[:J]))
    best = jnp.argmin(score)
    ball: Ellipsoid = jax.tree.map(lambda x: x[best], balls)
    return Confidence(
        theta=ball.theta,
        ball=ball,
        step=steps(known, valid, ball),
        divergence=jax.tree.map(lambda x: x[best], found),
        bet=best,
        slacks=slacks,
        starts=evidence.starts,
        num_seen=_num_seen(ball.z, evidence.since[best]),
        num_free=valid.num_free,
        episodes=evidence.episodes,
        impossible=evidence.impossible,
        delta=delta,
    )


def _num_seen(z: Float[Array, "R q"], counts: Int[Array, " R"]) -> Int[Array, ""]:
    """In how many directions the data say something: the rank of the rows that were observed."""
    if z.shape[1] == 0:
        return jnp.zeros((), jnp.int32)
    seen = jnp.where(
        counts[:, None] > 0, z / jnp.maximum(jnp.linalg.norm(z, axis=1, keepdims=True), 1e-300), 0.0
    )
    rank: Array = (jnp.linalg.eigvalsh(seen.T @ seen) > 1e-9).sum(dtype=jnp.int32)
    return rank


_confidence = eqx.filter_jit(confidence_jax)
_reward_bounds = eqx.filter_jit(reward_bounds)


@x64
def confidence(known: Known, valid: ValidSet, evidence: Evidence, *, delta: float = 0.05) -> Confidence:
    """What the evidence says, at confidence 1 - delta."""
    share(delta, "delta")
    known, valid, evidence = to_device((known, valid, evidence))
    return to_numpy(_confidence(known, valid, evidence, jnp.asarray(float(delta))))


def uniform(confidence: Confidence) -> Certificate:
    """One gap for every reward, for plans that are optimal under `confidence.theta`."""
    if confidence.is_rejected:
        return _rejected(confidence)
    found = confidence.divergence
    eps = min(1.0, float(found.eps))
    parts = _parts(confidence) | {"kappa": float(found.kappa), "hit": float(found.hit)}
    return Certificate(eps, float(confidence.delta), "uniform", _words(confidence, eps), parts)


def directly(known: Known, valid: ValidSet, evidence: Evidence, confidence: Confidence) -> Certificate:
    """As `uniform`, sharper and slower (thousands of dynamic programmes), for up to direct.MOST unknown directions.

    The smaller of the two; `confidence` must be that of the evidence.
    """
    first, q = uniform(confidence), valid.num_free
    if q > MOST:
        raise OptionError(
            f"method 'direct' is for at most {MOST} unknown directions, here are {q}; use 'uniform'"
        )
    if first.is_rejected or q == 0:
        return first
    found = direct(known, valid, evidence.since[confidence.bet], confidence.ball, confidence.step)
    if found.eps >= first.eps:
        return first
    parts = _parts(confidence) | {"kappa": found.kappa, "hit": found.hit, "attained": found.attained}
    return Certificate(found.eps, float(confidence.delta), "direct", _words(confidence, found.eps), parts)


@x64
def for_reward(
    known: Known,
    valid: ValidSet,
    confidence: Confidence,
    reward: Float[AnyArray, "H S A"],
    policy: Int[AnyArray, "H S"] | None = None,
) -> tuple[RewardBounds, Certificate]:
    """The gap of one policy for one reward; without a policy, of the best policy under `confidence.theta`.

    The smallest of: tangent, optimistic minus pessimistic value, uniform bound with the policy's own divergence; and
    what rounding may hide, since a reward in large units multiplies that, too.
    """
    bounds: RewardBounds = to_numpy(
        _reward_bounds(
            known,
            valid,
            confidence.ball,
            confidence.step,
            confidence.divergence,
            np.asarray(reward, np.float64),
            None if policy is None else np.asarray(policy, np.int32),
        )
    )
    if confidence.is_rejected:
        return bounds, _rejected(confidence)
    found = {name: float(getattr(bounds, name)) for name in ("uniform", "interval", "tangent")}
    # What cannot be computed is no bound.
    gaps = {name: 1.0 if math.isnan(gap) else gap for name, gap in found.items()}
    method = min(gaps, key=lambda name: (gaps[name], name))
    eps = min(1.0, max(0.0, gaps[method]) + rounding(known))
    words = _words(confidence, eps)
    return bounds, Certificate(eps, float(confidence.delta), method, words, _parts(confidence) | gaps)


def rounding(known: Known) -> float:
    """By how much a difference of values in [0, 1] may be off, in H steps: by rows that do not quite sum to 1, by what
    counts as known of their n probabilities, and by n products."""
    n = known.succ.shape[2]
    return known.horizon * (row_sums.ROUNDING + n * DROWNED + 4 * (n + 2) * EPS)


def more_episodes(confidence: Confidence, target: float) -> float:
    """About how many more episodes like those seen bring the uniform gap to `target`: kappa falls like 1/episodes.

    Infinite while some direction has not been seen at all.
    """
    found = confidence.divergence
    if confidence.num_seen < confidence.num_free or found.hit > target / 4:
        return math.inf
    wanted = -math.log1p(-(target**2)) / 2
    used = int(confidence.episodes) - int(confidence.starts[confidence.bet])
    return max(0.0, math.ceil(used * (float(found.kappa) / wanted - 1)))


def unseen(confidence: Confidence) -> Int[np.ndarray, "m 2"]:
    """Pairs (s, a) of which too little is known: where the comparison with theta_hat has to stop."""
    return np.argwhere(np.asarray(confidence.divergence.stop))


def _parts(confidence: Confidence) -> dict[str, float]:
    return {
        "slack": float(confidence.slacks[confidence.bet]),
        "start": float(confidence.starts[confidence.bet]),
        "episodes": float(confidence.episodes),
        "free": float(confidence.num_free),
        "seen": float(confidence.num_seen),
    }


def _rejected(confidence: Confidence) -> Certificate:
    delta = float(confidence.delta)
    if confidence.impossible > 0:
        words = f"model rejected: {int(confidence.impossible)} transitions are impossible for every parameter"
    else:
        words = f"model rejected: no parameter explains the data (wrong with probability {delta:g} at most)"
    return Certificate(1.0, delta, "rejected", words, _parts(confidence), is_rejected=True)


def round_up(eps: float, finest: float = 0.0) -> float:
    """A bound to three digits, or to multiples of `finest`: upwards, so that what is said stays true."""
    if eps <= 0 or not math.isfinite(eps):
        return max(0.0, eps)
    unit = max(finest, 10.0 ** (math.floor(math.log10(eps)) - 2))
    return math.ceil(eps / unit - 1e-9) * unit


def rounded_up(eps: float) -> str:
    """A bound for people."""
    return f"{round_up(eps):.3g}"


def _surely(delta: float) -> str:
    """1 - delta, which is not 1 however small delta is."""
    return f"{1 - delta:g}" if delta > 1e-6 else f"1 - {delta:g}"


def proved(eps: float, delta: float) -> str:
    """What a bound says."""
    return f"at most {rounded_up(eps)} is lost, with probability {_surely(delta)}"


def claimed(eps: float, delta: float, constants: str) -> str:
    """What the bound of a paper says: something with the paper's constants only."""
    if constants == "scaled":
        return f"no guarantee: {rounded_up(eps)} with scaled constants, which no theorem backs"
    if round_up(eps) >= 1:
        return "vacuous: the paper's constants need far more episodes"
    return f"{proved(eps, delta)}, by plans in the explorer's own model"


def in_units(certificate: Certificate, factor: float) -> Certificate:
    """The same certificate, with words for a reward whose totals reach `factor`; eps stays on the scale of 1."""
    if factor == 1 or certificate.is_vacuous or certificate.is_rejected:
        return certificate
    return replace(certificate, words=proved(factor * certificate.eps, certificate.delta))


def _words(confidence: Confidence, eps: float) -> str:
    if round_up(eps) < 1:
        return proved(eps, float(confidence.delta))
    missing = confidence.num_free - int(confidence.num_seen)
    if missing:
        return f"vacuous: {missing} of {confidence.num_free} unknown directions have not been seen by the bet"
    pairs = unseen(confidence)
    if len(pairs):
        s, a = pairs[0]
        return f"vacuous: too little is known of {len(pairs)} pairs (s,a), the first is ({s}, {a})"
    return f"vacuous: a gap of 0.5 needs about {more_episodes(confidence, 0.5):.0f} more episodes like these"
