"""How far a row of the estimate can be from the truth, for one e-process.

V0 is the Gram matrix of the episodes before the e-process, V1 and C1 are the sums since. With G the mean of phi phi'
over all pairs, R = rho ratio V0 + lam G, fixed when the e-process starts, x = phi(s,a) in the span of V1, and L a level
(below),

    Mhat = V1^+ C1,      n(x) = ||V1^+ x||_{R+V1},      beta(L) = sqrt((log det(I + R^-1 V1) / 2 + L) / 2)
    |x'(Mhat - mu) V| <= c beta(L) n(x)           for V with max V - min V <= c

- of fixed functions V, at level L = log(their number / delta), or of all V at once, at L = (S-1) log 2 + log(1/delta),
as what is bounded is linear in V and does not see constants, so that only the 2^(S-1) vertices of the cube matter.

P~ is x'Mhat without what is negative, made to sum to one, and e(s,a) what that changes; a pair outside of the span is
`is_bad`: nothing is known of it. X(s,a) is a vector with |X| = n. So |(P~ - P) V| <= c (beta n + e). docs/linear.md has
the proof, and that the coordinates in which V1 is inverted do not matter: they are those of `features.whitening`, in
which G is I/(SA). So features in other units, each in its own, give the same bounds.

Certificates compute all of this in NumPy. `learner.violation` traces `regress`, `fit` and `prior` with
xp=jax.numpy.

What exploration leaves behind of a linear MDP: sums over the transitions, and those at the start of each e-process.

    gram = sum_t x_t x_t',      cross = sum_t x_t e_{s'_t}',      x_t = phi(s_t, a_t)

over all steps of all episodes: one mu serves every step. No ridge is in them. An e-process that starts after m
episodes keeps the sums of those m apart (`gram_at`, `cross_at`); until then it tracks the running sums.

`Evidence` has fixed shapes: it can be carried by a scan and mapped over seeds (learner.py).
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from horizonfree._arrays import Array, Leaf, Number, node
from horizonfree.models.base import Evidence

RHO, LAM = 0.25, 1.0
RIDGE = 0.1  # lam of the ridge estimate
RATIO = 9.0  # of the episodes in an e-process to those before it, as R expects them
SPAN_TOLERANCE = 1e-9  # how far from the span of V1 a feature may be
EIGENVALUE_TOLERANCE = 1e-9  # smaller eigenvalues of V1, as a share of the largest, count as zero
RELATIVE_SUM_ERROR = 1e-13  # by which entries of short sums may err, as a share
ROUNDING_UNIT = 2.0**-53  # by which one more addition may


@node
class LinearEvidence(Evidence):
    """The counts of the base class and the sums above; steps to no state at all are `impossible`."""

    gram: Float[Leaf, "*batch d d"]
    cross: Float[Leaf, "*batch d S"]
    gram_at: Float[Leaf, "*batch J d d"]
    cross_at: Float[Leaf, "*batch J d S"]


class Regression(NamedTuple):
    """x'Mhat of every pair, V1^+ x, and how far x is from the span of V1; 1/S and 0 where that is too far."""

    raw: Float[Array, "S A S"]
    g: Float[Array, "S A d"]
    outside: Float[Array, "S A"]
    is_bad: Bool[Array, "S A"]


@dataclass(frozen=True, eq=False)
class Fit:
    """The estimate P~ of one e-process, and how sure of it we are."""

    prob: Float[Array, "S A S"]
    X: Float[Array, "S A d"]
    e: Float[Array, "S A"]
    is_bad: Bool[Array, "S A"]
    logdet: Float[Array, ""]

    @property
    def n(self) -> Float[Array, "S A"]:
        """|X|."""
        return (self.X**2).sum(-1) ** 0.5

    def beta(self, L: Number) -> Number:
        """beta(L)."""
        return ((self.logdet / 2 + L) / 2) ** 0.5

    def width(self, beta: float) -> Float[np.ndarray, "S A"]:
        """By how much P~ V may differ from P V, for V in [0,1]^S: the total variation of a row."""
        return np.where(self.is_bad, 1.0, np.minimum(1.0, beta * self.n + self.e))


def regress(
    phi: Float[Array, "S A d"],
    white: Float[Array, "d d"],
    V1: Float[Array, "d d"],
    C1: Float[Array, "d S"],
    xp: Any = np,
) -> Regression:
    """Least squares on the data since an e-process started; xp: NumPy, or jax.numpy where it is traced."""
    x, V = phi @ white, white.T @ V1 @ white
    size, U = xp.linalg.eigh((V + V.T) / 2)
    is_kept = size > EIGENVALUE_TOLERANCE * xp.maximum(size[-1], 1e-300)
    g = ((x @ U) * xp.where(is_kept, 1 / xp.where(is_kept, size, 1.0), 0.0)) @ U.T
    outside = xp.linalg.norm(x - ((x @ U) * is_kept) @ U.T, axis=-1)
    is_bad = outside > SPAN_TOLERANCE
    raw = xp.where(is_bad[..., None], 1 / len(phi), g @ (white.T @ C1))
    return Regression(raw, xp.where(is_bad[..., None], 0.0, g), outside, is_bad)


def fit(
    regression: Regression,
    phi: Float[Array, "S A d"],
    white: Float[Array, "d d"],
    V0: Float[Array, "d d"],
    V1: Float[Array, "d d"],
    terms: Number,
    ratio: Number = RATIO,
    xp: Any = np,
) -> Fit:
    """P~ and its widths, from the regression of the same V1; `terms`: how many were added one by one."""
    S, A, _ = phi.shape
    raw, g, outside, is_bad = regression
    R, root = prior(phi, white, V0, V1, ratio, xp)
    prob = xp.maximum(raw, 0.0)
    prob = prob / prob.sum(-1, keepdims=True)
    change = raw - prob
    change = (
        abs(change).sum(-1) + abs(change.sum(-1))
    ) / 2  # the larger of what is added and what is taken away
    # ||mu V|| <= sqrt(SA): what the sums, as computed, and the span leave open
    share = xp.maximum(RELATIVE_SUM_ERROR, ROUNDING_UNIT * terms)
    noise = share * ((abs(white).T @ xp.diag(V0 + V1) ** 0.5) ** 2).sum()
    blur = math.sqrt(S * A) * (outside + noise * xp.linalg.norm(g, axis=-1))
    return Fit(
        prob=prob,
        X=g @ root,
        e=xp.where(is_bad, 0.0, change + blur),
        is_bad=is_bad,
        logdet=_logdet(root, xp) - _logdet(_cholesky(R, xp), xp),
    )


def prior(
    phi: Float[Array, "S A d"],
    white: Float[Array, "d d"],
    V0: Float[Array, "d d"],
    V1: Float[Array, "d d"],
    ratio: Number = RATIO,
    xp: Any = np,
) -> tuple[Float[Array, "d d"], Float[Array, "d d"]]:
    """R and the Cholesky factor of R + V1, in white coordinates."""
    S, A, d = phi.shape
    R, V = RHO * ratio * white.T @ V0 @ white + LAM / (S * A) * xp.eye(d), white.T @ V1 @ white
    return R, _cholesky(R + V, xp)


def _cholesky(M: Float[Array, "d d"], xp: Any) -> Float[Array, "d d"]:
    """The factor of the symmetric part; nan where rounding leaves none, as JAX has it: then nothing is certified."""
    try:
        factor: Array = xp.linalg.cholesky((M + M.T) / 2)
    except np.linalg.LinAlgError:
        return np.full(M.shape, np.nan)
    return factor


def _logdet(root: Float[Array, "d d"], xp: Any) -> Float[Array, ""]:
    """Of a matrix, by its Cholesky factor."""
    return 2 * xp.log(xp.diagonal(root)).sum()


def level_of_all(num_states: int, delta: Number, xp: Any = np) -> Number:
    """L for every V at once."""
    return (num_states - 1) * math.log(2) - xp.log(delta)


def level_of_some(number: int, delta: Number) -> Number:
    """L for so many functions that are fixed beforehand."""
    return math.log(max(number, 1)) - np.log(delta)
