"""Alternatives to a mixture: the same class with a separate parameter for every part of the transitions.

Transitions fall into parts (before and after an episode, after this or that transition, groups of episodes), known
before the next state is. An alternative has a parameter of its own in each part, averaged over all of them: for kernels
with weights, by Dirichlet's law with a half per kernel. With c_ri the probability of row r under kernel i and
any a > 0, e_i = exp(psi(a_i) - psi(sum a)),

    log Q >= sum_r N_r log sum_i c_ri e_i - KL(Dirichlet(a) || Dirichlet(1/2)),

the variational bound; a <- 1/2 + sum_r N_r c_ri e_i / sum_j c_rj e_j raises it. Of any other features: a law on the
rows of every kind of pair (pairs with the same rows), in closed form.
"""

import math
from typing import ClassVar

import numpy as np
import scipy  # its submodules load slowly, at first use
from jaxtyping import Float, Int

from horizonfree.guarantees.e_processes import KT_PRIOR, dirichlet
from horizonfree.models.base import Alternatives
from horizonfree.models.mixture.confidence import MixtureConfidence
from horizonfree.models.mixture.evidence import MixtureEvidence
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.models.mixture.valid import ValidSet

MAX_ROUNDS = 300  # of the variational bound; any number gives a bound
MIN_INCREASE = 1e-4  # nats; less than that in ten rounds is not worth more of them


class MixtureAlternatives(Alternatives):
    """Weights of their own for each part; of other features, distributions on the rows of each kind of pair."""

    model: MixtureModel
    names: ClassVar[tuple[str, ...]] = ("noise", "table", "change", "memory", "age")

    @property
    def _has_weights(self) -> bool:
        return has_weights(self.model.valid, self.model.is_hull)

    def max_log_likelihood(self, evidence: MixtureEvidence, confidence: MixtureConfidence) -> float:
        """From the maximum of the likelihood and its gap, of which the slack of the table is made."""
        slack, delta = float(confidence.slacks[-1]), float(confidence.delta)
        return slack + math.log(delta) - float(evidence.table_loss)

    def marginal_log_likelihood(self, counts: Int[np.ndarray, "C S A n"]) -> float:
        """Averaged over weights; of other features, over distributions on the rows of each kind of pair."""
        valid = self.model.valid
        return over_weights(valid, on_rows(valid, counts)) if self._has_weights else over_kinds(valid, counts)

    def changepoint_evidence(self, evidence: MixtureEvidence) -> tuple[list[float], Float[np.ndarray, " J"]]:
        """The evidence for a change, from the counts of rows since the start of each e-process."""
        if not self._has_weights:
            return [], np.zeros(0)
        rows, since = np.asarray(evidence.row_counts), np.asarray(evidence.since)
        parts = [over_weights(self.model.valid, np.stack([rows - x, x])) for x in since]
        return parts, np.asarray(evidence.weights)

    def memory_labels(self) -> Int[np.ndarray, "S A n"]:
        """The kernel that favours a transition most."""
        return labels(self.model.valid, self.model.is_hull)


def on_rows(valid: ValidSet, counts: Int[np.ndarray, "C S A n"]) -> Int[np.ndarray, "C R"]:
    """How often each distinct row was seen in each part."""
    R, row_of = len(valid.rows), np.asarray(valid.row_of).reshape(-1)
    is_row = row_of < R
    to = scipy.sparse.csr_array(
        (np.ones(is_row.sum(), np.int64), (np.flatnonzero(is_row), row_of[is_row])), (len(row_of), R)
    )
    return np.asarray(counts.reshape(len(counts), -1) @ to)


def has_weights(valid: ValidSet, is_hull: bool) -> bool:
    """Whether parameters are weights of kernels that share one row sum."""
    sums = np.asarray(valid.sums)
    return is_hull and len(sums) == 1 and bool((sums > 0).all())


def by_kernel(valid: ValidSet) -> Float[np.ndarray, "R d"]:
    """The probability of each row under each kernel."""
    result = np.asarray(valid.rows)[~np.asarray(valid.virtual)] / np.asarray(valid.sums)[0]
    return np.asarray(np.maximum(result, 0.0))


def over_weights(
    valid: ValidSet, counts: Int[np.ndarray, "C R"], prior: Float[np.ndarray, " d"] | float = KT_PRIOR
) -> float:
    """A bound below the logarithm of the likelihood of rows, each part with weights of its own, averaged over them.

    prior: what Dirichlet's law has for each kernel.
    """
    c = by_kernel(valid)
    N = counts[:, ~np.asarray(valid.virtual)].astype(np.float64)
    N = N[N.sum(1) > 0]
    seen = N.sum(0) > 0
    c, N = c[seen], N[:, seen]
    first = np.broadcast_to(prior, c.shape[1:])
    a = first * (1 + N.sum(1, keepdims=True) / first.sum())
    best = -np.inf
    for k in range(MAX_ROUNDS):
        digamma = scipy.special.digamma
        e = np.exp(digamma(a) - digamma(a.sum(1, keepdims=True)))
        p = e @ c.T
        if k % 10 == 0:
            value = float((N * np.log(p)).sum() - _divergence(a, first).sum())
            if value < best + MIN_INCREASE:
                break
            best = value
        a = first + e * ((N / p) @ c)
    return max(best, value)


def _divergence(a: Float[np.ndarray, "C d"], prior: Float[np.ndarray, " d"]) -> Float[np.ndarray, " C"]:
    """KL(Dirichlet(a) || Dirichlet(prior))."""
    total = a.sum(1)
    gammaln, digamma = scipy.special.gammaln, scipy.special.digamma
    laws = gammaln(total) - gammaln(a).sum(1) - gammaln(prior.sum()) + gammaln(prior).sum()
    result: np.ndarray = laws + ((a - prior) * (digamma(a) - digamma(total)[:, None])).sum(1)
    return result


def over_kinds(valid: ValidSet, counts: Int[np.ndarray, "C S A n"]) -> float:
    """Like `over_weights`, with any distribution on the rows of each kind of pair; slots of one row share it evenly."""
    R, n = len(valid.rows), counts.shape[-1]
    rows = np.asarray(valid.row_of).reshape(-1, n)
    order = np.argsort(rows, axis=1, kind="stable")
    kinds, kind = np.unique(np.take_along_axis(rows, order, 1), axis=0, return_inverse=True)
    ordered = np.take_along_axis(counts.reshape(len(counts), -1, n), order[None], 2)
    seen = np.zeros((len(counts), len(kinds), n), np.int64)
    for part, own in zip(seen, ordered):
        np.add.at(part, kind.reshape(-1), own)
    is_first = np.diff(kinds, axis=1, prepend=-1) != 0
    place = np.cumsum(is_first, axis=1) - 1  # of a slot's row among the rows of its kind
    at = np.arange(len(kinds))[:, None] * n + place
    total = np.stack([np.bincount(at.reshape(-1), x.reshape(-1), at.size) for x in seen]).astype(np.int64)
    alike = np.bincount(at.reshape(-1), minlength=at.size)
    is_row = np.zeros(at.size, bool)
    is_row[at[is_first & (kinds < R)]] = True
    law = dirichlet(total.reshape(seen.shape), np.broadcast_to(is_row.reshape(kinds.shape), seen.shape))
    return float(law.sum() - (total * np.log(np.maximum(alike, 1)))[:, is_row].sum())


def labels(valid: ValidSet, is_hull: bool) -> Int[np.ndarray, "S A n"]:
    """What memory remembers of a transition: the kernel that favours it most, or its row's place in its pair."""
    row_of = np.asarray(valid.row_of)
    if not has_weights(valid, is_hull):
        return np.argsort(np.argsort(row_of, axis=-1, kind="stable"), axis=-1)
    favoured = np.full(len(valid.rows) + 1, 0)
    favoured[: len(valid.rows)][~np.asarray(valid.virtual)] = by_kernel(valid).argmax(1)
    return np.asarray(favoured[row_of])
