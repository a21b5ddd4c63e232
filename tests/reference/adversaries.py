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

    def at_slots(self, x):
        """Slots' entries of an array [..., R] over rows; 0 at the slots of no row."""
        return np.concatenate([x, np.zeros_like(x[..., :1])], axis=-1)[..., self.valid.row_of]


class Past(NamedTuple):
    """The data of one run before a block: the predictors of the blocks so far and of this one, and the evidence."""

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
    shift = np.clip(zeta - (np.cumsum(mass, -1) - mass), 0.0, mass)
    Q = np.zeros_like(prob)
    np.put_along_axis(Q, order, mass - shift, -1)
    np.put_along_axis(Q, best, np.take_along_axis(Q, best, -1) + shift.sum(-1, keepdims=True), -1)
    return Q


def _from_likely(true, zeta, sign=1):
    return best_laws(
        true.prob,
        -sign * np.where(true.prob > 0, true.prob, sign),
        true.is_slot,
        zeta,
    )


def tilt(true, zeta, past):
    """The laws with the largest mean of the factor of the bets, P_t/P: with its divisor this mean is exactly 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = np.where(true.p > 0, past.predicted[-1] / true.p, 1e300)
    return best_laws(true.prob, true.at_slots(rho), true.is_slot, zeta)


def push(true, zeta, past):
    """The laws with the largest mean of the factor of the half-space that theta_star is nearest to leaving."""
    b, T = first_blocks(past.evidence)[-1], len(past.predicted) - 1
    if b >= T:
        return true.prob
    v, score = scores(true, past.evidence.record, past.predicted[:T], zeta, b, SPACES)
    k = int(score[-1].argmax())
    g = np.clip(v[k] @ true.z.T / past.predicted[T], -1, 1)
    return best_laws(true.prob, true.at_slots(g), true.is_slot, zeta)


ADVERSARIES = {
    "none": lambda true, zeta, past: true.prob,
    "bias": lambda true, zeta, past: _from_likely(true, zeta),
    "flip": lambda true, zeta, past: _from_likely(true, zeta, 1 if past.share < 0.5 else -1),
    "drift": lambda true, zeta, past: _from_likely(true, zeta * past.share),
    "random": lambda true, zeta, past: best_laws(
        true.prob, np.random.default_rng(1).normal(size=true.prob.shape), true.is_slot, zeta
    ),
    "tilt": tilt,
    "push": push,
}


@eqx.filter_jit
def _advanced(model, keys, evidence, prob, start, end):
    S, A, _ = model.space.succ.shape
    policy = jnp.full((model.space.horizon, S, A), 1.0 / A)

    def advance(key, evidence, prob):
        sampler = Sampler.of(model.space.kernel(prob))

        def step(k, evidence):
            return model.update(evidence, sampler.episode(jax.random.fold_in(key, k), policy, model.space))

        return jax.lax.fori_loop(start, end, step, evidence)

    return jax.vmap(advance)(keys, evidence, prob)


def predictions(valid, thetas):
    """The probabilities of rows with which parameters [..., d] predict them, [..., R]; 1 where it would be 0."""
    p = thetas @ valid.rows.T
    return np.where(p > 0, p, 1.0)


def learn_block(model, keys, evidence, prob, start, end):
    """Evidence after a block: all of it, compiled at once, as there are many blocks."""
    return to_numpy(_advanced(model, keys, evidence, prob, np.int32(start), np.int32(end)))


def count_block(model, keys, evidence, prob, start, end):
    """What sets of frequencies read of it, and predictors of blocks: counts. To learn bets takes far longer."""
    rng, space, row_index = (
        np.random.default_rng(start),
        to_numpy(model.space),
        np.asarray(model.valid.row_of),
    )
    counts, record = evidence.counts.copy(), jax.tree.map(np.copy, evidence.record)
    block, run = np.searchsorted(STARTS, start), np.arange(len(prob))[:, None]
    s, cumulative = np.full((len(prob), end - start), space.start), prob.cumsum(-1)
    for _ in range(space.horizon):
        a = rng.integers(space.num_actions, size=s.shape)
        up_to = cumulative[run, s, a]
        j = (rng.random(s.shape)[..., None] * up_to[..., -1:] >= up_to).sum(-1)
        np.add.at(counts, (run, s, a, j), 1)
        np.add.at(record.rows, (run, block, row_index[s, a, j]), 1)
        np.add.at(record.visits, (run, block, s, a), 1)
        s = space.succ[s, a, j]
    return eqx.tree_at(lambda x: (x.counts, x.record), evidence, (counts, record))


def explore(problem, adversary, zeta, episodes, seeds, update=learn_block):
    """Evidence after each block [T] of runs against an adversary, one per seed; and predictors [seeds, T, R]."""
    true, valid, history, predicted = truth(problem), problem.model.valid, [], []
    bounds = np.append(STARTS[STARTS < episodes], episodes)
    with scope():
        model = to_device(problem.model)
        first = to_numpy(model.init_evidence(ladder(episodes), has_history=True))
        current = jax.tree.map(lambda x: np.broadcast_to(x, (len(seeds), *np.shape(x))), first)
        keys = jax.vmap(jax.random.key)(jnp.asarray(seeds))
        thetas = [np.tile(valid.center, (2, 1))] * len(seeds)
        for b, (start, end) in enumerate(pairwise(bounds)):
            # as evidence.predictors, which would begin with the first block each time
            rows_before = np.asarray(current.record.rows)[:, :b].sum(1)
            thetas = [likelihood.predict(valid, *x) for x in zip(rows_before, thetas, strict=True)]
            predicted.append(predictions(valid, np.stack([x[1] for x in thetas])))
            so_far = np.stack(predicted, axis=1)
            laws = [
                adversary(true, zeta, Past(start / episodes, so_far[i], small.pick(current, i)))
                for i in range(len(seeds))
            ]
            current = update(model, keys, current, np.stack(laws), start, end)
            history.append(current)
        return history, so_far


def first_blocks(evidence):
    """The block with which each bet begins."""
    return np.minimum(np.searchsorted(STARTS, evidence.starts), BLOCKS - 1)


def scores(true, record, predicted, zeta, b, delta):
    """Directions [K, q] of a bet from block b on, and sums of g - log u(y_star) [T - b, K] at the end of each block."""
    z, is_slot = true.z, true.is_slot
    kinds = frequencies.kinds_of(true.valid, np.full(is_slot.shape[:2], zeta))
    v = half_spaces.directions(z, predicted[b], record.rows[:b].sum(0), kinds.rows.size, delta)
    g = np.clip(v @ z.T / predicted[b:, None], -1, 1)  # T K R
    e = np.exp(true.at_slots(g))  # T K S A n
    largest = np.where(is_slot, e, -np.inf).max(-1)
    least = np.where(is_slot, e, np.inf).min(-1)
    log_u = np.log((e * true.prob).sum(-1) + zeta * (largest - least))
    T = len(predicted)
    gain = np.einsum("tkr,tr->tk", g, record.rows[b:T]) - np.einsum("tksa,tsa->tk", log_u, record.visits[b:T])
    return v, np.cumsum(gain, axis=0)


def leaves_bets(true, last, predicted, zeta, delta):
    """Whether theta_star was ever outside the set of Theorem R1; without a price where zeta = 0."""
    T = len(predicted)
    rows, visits = last.record.rows[:T], last.record.visits[:T]
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = predicted / true.p
        tilted_rows = true.at_slots(rho)
        span = np.where(true.is_slot, tilted_rows, -np.inf).max(-1) - np.where(
            true.is_slot, tilted_rows, np.inf
        ).min(-1)
        cost = np.where((visits > 0) & (zeta > 0), visits * np.log1p(zeta * span), 0.0).sum((1, 2))
        log_gain = np.where(rows > 0, rows * np.log(rho), 0.0).sum(1)
    gain = np.where(np.isinf(cost), -np.inf, log_gain - np.where(np.isinf(cost), 0.0, cost))
    return any(
        np.cumsum(gain[b:]).max() > -np.log(BETS * delta * w)
        for b, w in zip(first_blocks(last), last.weights)
        if b < T
    )


def intervals_of_rows(true, history, zeta, delta):
    """What Theorem R2 says of the frequencies of rows, from a run's evidence after each block."""
    kinds = frequencies.kinds_of(true.valid, np.full(true.is_slot.shape[:2], zeta))
    return [
        frequencies.frequencies(kinds, true.valid.row_of, x.counts, x.visits, ROWS * delta) for x in history
    ]


def leaves_rows(true, intervals, zeta):
    """Whether theta_star was ever outside the set of Theorem R2."""
    for interval in intervals:
        pi = interval.times * true.p[interval.row]
        if ((pi < interval.low - zeta) | (pi > interval.high + zeta)).any():
            return True
    return False


def leaves_spaces(true, last, predicted, zeta, delta):
    """Whether theta_star was ever outside a half-space of Theorem R3."""
    for b, w in zip(first_blocks(last), last.weights):
        share = SPACES * delta * w
        if b < len(predicted) and last.record.rows[:b].any():
            v, score = scores(true, last.record, predicted, zeta, b, share)
            if score.max() > np.log(len(v) / share):
                return True
    return False
