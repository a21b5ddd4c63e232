"""Systems that are outside their class by zeta, and choose the laws of each block of episodes from all that was seen.

The laws of a block are [S, A, n], over the slots of the space. And whether theta_star was ever outside one of the three
sets of docs/robust.md, from their definitions, at the end of any block.
"""

from itertools import pairwise
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from horizonfree._x64 import scope, to_device, to_numpy
from horizonfree.guarantees.e_processes import ladder
from horizonfree.models.mixture import likelihood
from horizonfree.models.mixture.evidence import BLOCKS, STARTS
from horizonfree.models.mixture.robust import frequencies, half_spaces
from horizonfree.planning.traced import Sampler
from tests.reference import small

BETS, ROWS, SPACES = 0.8, 0.1, 0.1  # of delta


class Truth(NamedTuple):
    """What an adversary knows: the problem, its rows in coordinates, and slots of true probability p."""

    valid: object
    p: np.ndarray  # R
    z: np.ndarray  # R q
    is_slot: np.ndarray  # S A n
    prob: np.ndarray  # S A n

    def at(self, x):
        """Slots' entries of an array [..., R] over rows; 0 at the slots of no row."""
        return np.concatenate([x, np.zeros_like(x[..., :1])], axis=-1)[..., self.valid.row_of]


class Seen(NamedTuple):
    """What has been seen before a block of one run: predictors of all blocks so far and of this one, and evidence."""

    share: float  # of all episodes
    predicted: np.ndarray  # T + 1, R
    evidence: object


def truth(problem):
    valid = problem.model.valid
    p = valid.rows @ problem.truth
    z = valid.rows @ valid.basis * valid.free[:, None]
    is_slot = np.append(valid.positive, False)[valid.row_of]
    return Truth(valid, p, z, is_slot, np.where(is_slot, np.append(p, 0.0)[valid.row_of], 0.0))


def best_laws(prob, f, is_slot, zeta):
    """The laws within zeta of prob [S, A, n] with the largest mean of f: mass goes from where f is smallest."""
    best = np.where(is_slot, f, -np.inf).argmax(-1)[..., None]
    order = np.argsort(np.where(is_slot, f, np.inf), axis=-1)
    mass = np.take_along_axis(prob, order, -1)
    taken = np.clip(zeta - (np.cumsum(mass, -1) - mass), 0.0, mass)
    Q = np.zeros_like(prob)
    np.put_along_axis(Q, order, mass - taken, -1)
    np.put_along_axis(Q, best, np.take_along_axis(Q, best, -1) + taken.sum(-1, keepdims=True), -1)
    return Q


def _from_likely(known, zeta, sign=1):
    return best_laws(known.prob, -sign * np.where(known.prob > 0, known.prob, sign), known.is_slot, zeta)


def tilt(known, zeta, seen):
    """The laws with the largest mean of the factor of the bets, P_t/P: with its divisor this mean is exactly 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = np.where(known.p > 0, seen.predicted[-1] / known.p, 1e300)
    return best_laws(known.prob, known.at(rho), known.is_slot, zeta)


def push(known, zeta, seen):
    """The laws with the largest mean of the factor of the half-space that theta_star is nearest to leaving."""
    b, T = first_blocks(seen.evidence)[-1], len(seen.predicted) - 1
    if b >= T:
        return known.prob
    v, score = scores(known, seen.evidence.record, seen.predicted[:T], zeta, b, SPACES)
    k = int(score[-1].argmax())
    g = np.clip(v[k] @ known.z.T / seen.predicted[T], -1, 1)
    return best_laws(known.prob, known.at(g), known.is_slot, zeta)


ADVERSARIES = {
    "none": lambda known, zeta, seen: known.prob,
    "bias": lambda known, zeta, seen: _from_likely(known, zeta),
    "flip": lambda known, zeta, seen: _from_likely(known, zeta, 1 if seen.share < 0.5 else -1),
    "drift": lambda known, zeta, seen: _from_likely(known, zeta * seen.share),
    "random": lambda known, zeta, seen: best_laws(
        known.prob, np.random.default_rng(1).normal(size=known.prob.shape), known.is_slot, zeta
    ),
    "tilt": tilt,
    "push": push,
}


@eqx.filter_jit
def _advanced(model, keys, evidence, prob, begin, end):
    S, A, _ = model.space.succ.shape
    policy = jnp.full((model.space.horizon, S, A), 1.0 / A)

    def one(key, evidence, prob):
        sampler = Sampler.of(model.space.kernel(prob))

        def step(k, evidence):
            return model.update(evidence, sampler.episode(jax.random.fold_in(key, k), policy, model.space))

        return jax.lax.fori_loop(begin, end, step, evidence)

    return jax.vmap(one)(keys, evidence, prob)


def predictions(valid, thetas):
    """The probabilities of rows with which parameters [..., d] predict them, [..., R]; 1 where it would be 0."""
    p = thetas @ valid.rows.T
    return np.where(p > 0, p, 1.0)


def learned(model, keys, evidence, prob, begin, end):
    """Evidence after a block: all of it, compiled at once, as there are many blocks."""
    return to_numpy(_advanced(model, keys, evidence, prob, np.int32(begin), np.int32(end)))


def counted(model, keys, evidence, prob, begin, end):
    """What sets of frequencies read of it, and predictors of blocks: counts. To learn bets takes far longer."""
    rng, space, row_of = np.random.default_rng(begin), to_numpy(model.space), np.asarray(model.valid.row_of)
    counts, kept = evidence.counts.copy(), jax.tree.map(np.copy, evidence.record)
    block, run = np.searchsorted(STARTS, begin), np.arange(len(prob))[:, None]
    s, cumulative = np.full((len(prob), end - begin), space.start), prob.cumsum(-1)
    for _ in range(space.horizon):
        a = rng.integers(space.num_actions, size=s.shape)
        up_to = cumulative[run, s, a]
        j = (rng.random(s.shape)[..., None] * up_to[..., -1:] >= up_to).sum(-1)
        np.add.at(counts, (run, s, a, j), 1)
        np.add.at(kept.rows, (run, block, row_of[s, a, j]), 1)
        np.add.at(kept.visits, (run, block, s, a), 1)
        s = space.succ[s, a, j]
    return eqx.tree_at(lambda x: (x.counts, x.record), evidence, (counts, kept))


def explored(problem, adversary, zeta, episodes, seeds, after=learned):
    """Evidence after each block [T] of runs against an adversary, one per seed; and predictors [seeds, T, R]."""
    known, valid, history, predicted = truth(problem), problem.model.valid, [], []
    bounds = np.append(STARTS[STARTS < episodes], episodes)
    with scope():
        model = to_device(problem.model)
        first = to_numpy(model.init_evidence(ladder(episodes), has_history=True))
        now = jax.tree.map(lambda x: np.broadcast_to(x, (len(seeds), *np.shape(x))), first)
        keys = jax.vmap(jax.random.key)(jnp.asarray(seeds))
        thetas = [np.tile(valid.center, (2, 1))] * len(seeds)
        for b, (begin, end) in enumerate(pairwise(bounds)):
            # as evidence.predictors, which would begin with the first block each time
            before = np.asarray(now.record.rows)[:, :b].sum(1)
            thetas = [likelihood.predict(valid, *x) for x in zip(before, thetas, strict=True)]
            predicted.append(predictions(valid, np.stack([x[1] for x in thetas])))
            so_far = np.stack(predicted, axis=1)
            laws = [
                adversary(known, zeta, Seen(begin / episodes, so_far[i], small.pick(now, i)))
                for i in range(len(seeds))
            ]
            now = after(model, keys, now, np.stack(laws), begin, end)
            history.append(now)
        return history, so_far


def first_blocks(evidence):
    """The block with which each bet begins."""
    return np.minimum(np.searchsorted(STARTS, evidence.starts), BLOCKS - 1)


def scores(known, kept, predicted, zeta, b, delta):
    """Directions [K, q] of a bet from block b on, and sums of g - log u(y_star) [T - b, K] at the end of each block."""
    z, is_slot = known.z, known.is_slot
    alike = frequencies.kinds_of(known.valid, np.full(is_slot.shape[:2], zeta))
    v = half_spaces.directions(z, predicted[b], kept.rows[:b].sum(0), alike.rows.size, delta)
    g = np.clip(v @ z.T / predicted[b:, None], -1, 1)  # T K R
    e = np.exp(known.at(g))  # T K S A n
    most = np.where(is_slot, e, -np.inf).max(-1)
    least = np.where(is_slot, e, np.inf).min(-1)
    log_u = np.log((e * known.prob).sum(-1) + zeta * (most - least))
    T = len(predicted)
    gain = np.einsum("tkr,tr->tk", g, kept.rows[b:T]) - np.einsum("tksa,tsa->tk", log_u, kept.visits[b:T])
    return v, np.cumsum(gain, axis=0)


def leaves_bets(known, last, predicted, zeta, delta):
    """Whether theta_star was ever outside the set of Theorem R1; without a price where zeta = 0."""
    T = len(predicted)
    rows, visits = last.record.rows[:T], last.record.visits[:T]
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = predicted / known.p
        at = known.at(rho)
        span = np.where(known.is_slot, at, -np.inf).max(-1) - np.where(known.is_slot, at, np.inf).min(-1)
        paid = np.where((visits > 0) & (zeta > 0), visits * np.log1p(zeta * span), 0.0).sum((1, 2))
        won = np.where(rows > 0, rows * np.log(rho), 0.0).sum(1)
    gain = np.where(np.isinf(paid), -np.inf, won - np.where(np.isinf(paid), 0.0, paid))
    return any(
        np.cumsum(gain[b:]).max() > -np.log(BETS * delta * w)
        for b, w in zip(first_blocks(last), last.weights)
        if b < T
    )


def intervals_of_rows(known, history, zeta, delta):
    """What Theorem R2 says of the frequencies of rows, from a run's evidence after each block."""
    alike = frequencies.kinds_of(known.valid, np.full(known.is_slot.shape[:2], zeta))
    return [
        frequencies.frequencies(alike, known.valid.row_of, x.counts, x.visits, ROWS * delta) for x in history
    ]


def leaves_rows(known, intervals, zeta):
    """Whether theta_star was ever outside the set of Theorem R2."""
    for found in intervals:
        pi = found.times * known.p[found.row]
        if ((pi < found.low - zeta) | (pi > found.high + zeta)).any():
            return True
    return False


def leaves_spaces(known, last, predicted, zeta, delta):
    """Whether theta_star was ever outside a half-space of Theorem R3."""
    for b, w in zip(first_blocks(last), last.weights):
        share = SPACES * delta * w
        if b < len(predicted) and last.record.rows[:b].any():
            v, score = scores(known, last.record, predicted, zeta, b, share)
            if score.max() > np.log(len(v) / share):
                return True
    return False
