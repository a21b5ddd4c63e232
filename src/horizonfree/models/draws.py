"""Draws from a posterior, and whether Markov chains have converged: split R-hat and effective sample size.

x [T, C, k] are T steps of C chains of k quantities. Chains are cut in halves; with W the mean variance within the
halves, B/n the variance of their means and n the length of a half,

    R-hat = sqrt(((n - 1)/n W + B/n) / W)                         (Gelman et al., Bayesian Data Analysis, 11.4)
    ESS = T C / (1 + 2 sum_t rho_t),   rho_t = 1 - (W - mean autocovariance_t) / var+,   var+ = (n - 1)/n W + B/n

where the sum ends by Geyer's initial monotone sequence (Vehtari et al. 2021, Rank-normalization, folding, and
localization: an improved R-hat, Bayesian Analysis 16). R-hat below 1.01 counts as converged, as is advised there.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from horizonfree._deprecated import renamed_words
from horizonfree.errors import OptionError

R_HAT = 1.01  # the largest that counts as converged
MIN_EFFECTIVE_DRAWS = 400  # effective draws below which R-hat itself is not reliable


@dataclass(frozen=True)
class Convergence:
    """The largest split R-hat and the smallest effective sample size of all quantities.

    `steps`: how many each chain kept.
    """

    r_hat: float
    effective: float
    chains: int
    steps: int

    def summary(self) -> str:
        """The check in a few words."""
        return f"{self.chains} chains, R-hat {self.r_hat:.3f}, {self.effective:,.0f} effective draws"

    words = renamed_words("Convergence", summary)


class Draws(NamedTuple):
    """Parameters [D, ...] of a model class, the prior in words, and the check; None of independent draws."""

    parameters: Any
    prior: str
    convergence: Convergence | None = None


def no_posterior(*_: Any) -> Draws:
    """Raises an error: this model class has no prior."""
    raise OptionError(
        "a posterior is available for mixtures and tabular MDPs only: no usual prior on the measures of a linear MDP "
        "keeps them probabilities; describe the problem as one of those"
    )


def converged(x: Float[np.ndarray, "T C k"]) -> Convergence:
    """The convergence of the worst quantity."""
    steps, chains, _ = x.shape
    r_hat, effective = diagnostics(x)
    return Convergence(float(r_hat.max()), float(effective.min()), chains, steps)


def diagnostics(
    x: Float[np.ndarray, "T C k"],
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Split R-hat and effective sample size of each quantity; infinity and 0 where a chain does not move."""
    n = len(x) // 2
    halves = np.concatenate([x[:n], x[-n:]], axis=1)
    total = n * halves.shape[1]
    covariance = _autocovariances(halves).mean(1)  # of lags 0..n-1, mean over chains
    W = covariance[0] * n / (n - 1)
    var = (n - 1) / n * W + halves.mean(0).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat = np.where(W > 0, np.sqrt(var / W), np.inf)
        rho = 1 - (W - covariance * n / (n - 1)) / var
    pairs = rho[: 2 * (n // 2)].reshape(n // 2, 2, -1).sum(1)  # rho_2t + rho_2t+1
    is_kept = np.cumprod(pairs > 0, axis=0).astype(bool)
    decreasing = np.minimum.accumulate(np.where(is_kept, pairs, 0.0), axis=0)
    tau = np.maximum(2 * decreasing.sum(0) - 1, 1 / np.log10(max(total, 10)))
    return r_hat, np.where(W > 0, total / tau, 0.0)


def _autocovariances(x: Float[np.ndarray, "n C k"]) -> Float[np.ndarray, "n C k"]:
    """(1/n) sum_t (x_t - mean)(x_{t+lag} - mean), by Fourier transforms."""
    n = len(x)
    f = np.fft.rfft(x - x.mean(0), 2 * n, axis=0)
    result: np.ndarray = np.fft.irfft(f * f.conj(), axis=0)[:n] / n
    return result
