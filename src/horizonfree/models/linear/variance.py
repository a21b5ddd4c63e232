"""Radii of declared rewards that shrink with the values themselves: a second e-process, for all data since the start.

With Y_t = V(s'_t) - min V in [0, 1] and psi(a) = -log(1 - a) - a, exp(a (Y_t - P Y) - psi(|a|) Y_t^2) has mean at
most one for every |a| < 1. So for a matrix M with x'M^-1 x <= 1 for every pair, the mean over u, uniform in the ball
u'Mu <= MAX_TILT^2, of

    exp( u'S_V - sum_t psi(|u'x_t|) Y_t^2 ),      S_V = sum_t x_t (V(s'_t) - [PV]_t),

is a test supermartingale. While it stays below 1/delta', for all vectors y, all 0 < alpha < lam <= MAX_TILT, rho > 0,

    |y'S_V| <= 2 sqrt(k Lam  y'(W + zeta M) y),      zeta = Lam / (k (lam - alpha)^2),      k = psi(lam) / lam^2,
    Lam = log(1/delta') + k rho^2 / (d + 2) tr(B^-1 W) + d log(MAX_TILT / rho)
          + log det(M^-1 B) / 2 + log(lam / alpha) / 2,
    B = W + rho^2/(alpha lam) M,      W = sum_t x_t x_t' Y_t^2, or any larger matrix.

V*_{h+1} lies in [lo, up] by then, so Y_t <= up(s'_t) - min lo. A goal of value v has W about v times the Gram matrix.
docs/linear.md, section 5, has the proof.
"""

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from jaxtyping import Float

MAX_TILT = 0.9  # the largest |u'x|
TILTS = (0.3, 0.6, 0.9)
SHARES = (0.05, 0.1, 0.2)
SCALES = (1.0, 4.0)
ROUNDING = 1e-9  # by which leverages may err
DESIGN_ROUNDS = 30  # of the multiplicative algorithm for the optimal design


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """What the e-process from the start needs: the pairs of all data of which something is known, visits, the metric M.

    `X` are rows of `Fit.X`, and `inverse` takes them to white coordinates; `counts` of transitions; `x` the features
    and `metric` the Cholesky factor of M, both in white coordinates; `level` = log(1/delta').
    """

    X: Float[np.ndarray, "n d"]
    inverse: Float[np.ndarray, "d d"]
    counts: Float[np.ndarray, "S A S"]
    x: Float[np.ndarray, "S A d"]
    metric: Float[np.ndarray, "d d"]
    level: float

    def root(self, above: Float[np.ndarray, " S"]) -> Float[np.ndarray, "d d"]:
        """T with |(P~ - P) V| <= |X T| + range(V) e at all pairs; above: at least V - min V.

        The best lam, alpha and rho for the mean over pairs: the lemma holds for all of them at once.
        """
        d = self.x.shape[-1]
        x = np.linalg.solve(
            self.metric, self.x.reshape(-1, d).T
        ).T  # coordinates in which M is the unit matrix
        W = x.T @ ((self.counts @ np.minimum(above, 1.0) ** 2).reshape(-1, 1) * x)
        size, U = np.linalg.eigh((W + W.T) / 2)
        size = np.maximum(size, 0.0)
        lam, share, scale = np.array(list(product(TILTS, SHARES, SCALES))).T
        k = (-np.log1p(-lam) - lam) / lam**2
        rho_sq, alpha = scale * (d + 2) / (2 * k), share * lam
        B = size + (rho_sq / (alpha * lam))[:, None]
        Lam = self.level + k * rho_sq / (d + 2) * (size / B).sum(-1) + np.log(B).sum(-1) / 2
        Lam += d * (math.log(MAX_TILT) - np.log(rho_sq) / 2) - np.log(share) / 2
        zeta = Lam / (k * (lam - alpha) ** 2)
        scales = 2 * np.sqrt((k * Lam)[:, None] * (size + zeta[:, None]))
        basis = self.inverse @ self.metric @ U
        widths = np.sqrt((self.X @ basis) ** 2 @ (scales**2).T).sum(0)
        result: np.ndarray = basis * scales[widths.argmin()]
        return result

    def after(self, times: float) -> "SecondMoments":
        """With so many times the data."""
        root = math.sqrt(times)
        return replace(self, X=self.X / root, inverse=self.inverse / root, counts=self.counts * times)


def metric(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d d"]:
    """The Cholesky factor of M: x'M^-1 x <= 1 for every row, with nearly the smallest determinant.

    The multiplicative algorithm for the optimal design; any weights give a valid M.
    """
    weights = np.full(len(x), 1 / len(x))
    for _ in range(DESIGN_ROUNDS):
        weights = weights * leverages(x, x.T @ (weights[:, None] * x))
        weights /= weights.sum()
    M = x.T @ (weights[:, None] * x)
    return np.linalg.cholesky(M * leverages(x, M).max() * (1 + ROUNDING))


def leverages(x: Float[np.ndarray, "n d"], M: Float[np.ndarray, "d d"]) -> Float[np.ndarray, " n"]:
    """x'M^-1 x of every row."""
    return np.asarray(np.einsum("nd,nd->n", x, np.linalg.solve(M, x.T).T))
