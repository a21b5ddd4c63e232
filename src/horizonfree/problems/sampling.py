"""Kernels estimated from samples: how far they may be from the true ones, and what can be certified with them.

N(s,a) samples of each of d simulators at each of X pairs, m(s,a) possible successors. With probability 1 - delta_s
every estimate obeys KL(P_hat_i || P_i)(s,a) <= t / N, where

    t - (m - 1) log(e t / (m - 1)) = log(d X / delta_s),  t > m - 1        N fixed beforehand (Agrawal 2020)
    t = log(d X / delta_s) + log[ G(1/2) G(N + m/2) / (G(N + 1/2) G(m/2)) ]       N of any kind, as in episodes

(the second from the Krichevsky-Trofimov e-process against P_i, whose worst case is N samples of one successor). KL is
jointly convex, so the bound also holds for mixtures: the system is within zeta = sqrt(KL/2) + shift of the class in
total variation, where `shift` is due to smoothing. docs/further-proofs.md has the proof.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy  # `scipy.special` is loaded on first use
from jaxtyping import Float, Int

from horizonfree._deprecated import warn_renamed
from horizonfree.guarantees.certificate import round_up
from horizonfree.models.misspecification import Misspecification

DELTA_SHARE = 0.2  # of delta, for the samples
KEYS = ("samples", "successors", "shift", "sampling")  # of a layout
MAX_SAMPLES = 10**15  # for which `needed` looks


class Sampling(NamedTuple):
    """The samples behind estimated kernels.

    `samples` [S, A]: the smallest number over simulators. `successors` [S, A]: the number of possible next states.
    `shift` [S, A]: how far smoothing moved an estimate. `rows` = d X. `is_fixed`: the numbers of samples were fixed
    beforehand. `everywhere`: states may follow that no sample showed. `size`: a bound on the sum of |weights|, 1 in the
    simplex. `can_end`: some sample ended an episode.
    """

    samples: Int[np.ndarray, "S A"]
    successors: Int[np.ndarray, "S A"]
    shift: Float[np.ndarray, "S A"]
    rows: int
    is_fixed: bool
    everywhere: bool
    size: float
    horizon: int
    can_end: bool = False

    def divergence(self, delta: float) -> Float[np.ndarray, "S A"]:
        """KL bounds that hold together with probability 1 - delta; infinite without samples."""
        level, m, N = math.log(self.rows / delta), self.successors, self.samples
        t = agrawal(level, m) if self.is_fixed else level + worst_case(N, m)
        return np.asarray(np.where(m > 1, np.where(N > 0, t / np.maximum(N, 1), np.inf), 0.0))

    def misspecification(self, delta: float, about: Misspecification | None = None) -> Misspecification:
        """The bounds as a misspecification of the class, added to a declared one (`about`).

        As divergences where nothing was smoothed, weights are in the simplex, and nothing is declared.
        """
        is_anywhere = self.everywhere or (about is not None and about.support == "anywhere")
        support = "anywhere" if is_anywhere else "successors"
        kl = self.divergence(delta)
        if about is None and self.size == 1 and not self.shift.any():
            return Misspecification(sampled=np.minimum(kl, 2.0), support=support)
        zeta = self.size * (np.sqrt(kl / 2) + self.shift)
        if about is not None:
            zeta = zeta + about.radii(*self.samples.shape)
        return Misspecification(tv=np.minimum(zeta, 1.0), support=support)

    def floor(self, delta: float = 0.05) -> float:
        """A lower limit of every certificate for all rewards, however many episodes: 2 sqrt((H - 1) KL / 2)."""
        misspecification = self.misspecification(DELTA_SHARE * delta)
        zeta = float(misspecification.radii(*self.samples.shape).max())
        return min(1.0, zeta * 2 * math.sqrt(self.horizon - 1))

    def needed(self, target: float, delta: float = 0.05) -> float:
        """Samples of each row and simulator for which the floor is the target; infinite if there is no such number."""
        unshifted = self._replace(shift=np.zeros_like(self.shift))

        def is_enough(N: int) -> bool:
            return unshifted._replace(samples=np.full_like(self.samples, N)).floor(delta) <= target

        low, high = 1, MAX_SAMPLES
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
        return math.inf if low >= MAX_SAMPLES else low

    def summary(self, delta: float = 0.05) -> str:
        """What can be certified with these samples, before anything is explored."""
        unknown = self.successors > 1
        if not unknown.any():
            return "every row is known: nothing was estimated"
        fewest = int(self.samples[unknown].min())
        zeta = float(self.misspecification(DELTA_SHARE * delta).radii(*self.samples.shape).max())
        floor = self.floor(delta)
        accuracy = (
            f"{fewest:,} samples of each row and simulator: every row is known to within {round_up(zeta):.3g} (total "
            "variation)"
        )
        limit = "no suboptimality bound for every reward" + (
            "" if floor >= 1 else f" below {round_up(floor):.3g}"
        )
        note = ", for single rewards perhaps" if floor >= 1 else ""
        target = next((x for x in (0.5, 0.2, 0.1, 0.05, 0.02, 0.01) if x < floor), 0.01)
        need_text = f"{target:g} needs about {self.needed(target, delta):,.2g}"
        return f"{accuracy}; {limit} can be certified with these{note}; {need_text}"

    def __str__(self) -> str:
        return self.summary()

    def words(self, delta: float = 0.05) -> str:
        """Deprecated: use `summary()`."""
        warn_renamed("Sampling.words", "Sampling.summary")
        return self.summary(delta)

    def clause(self, delta: float) -> str:
        """The clause of certificates about the errors of the samples."""
        zeta = float(self.misspecification(DELTA_SHARE * delta).radii(*self.samples.shape).max())
        ends = ", assuming that states end episodes only as they did in the samples" if self.can_end else ""
        return f", including the errors of the simulators' samples, up to {round_up(zeta):.3g} of every row{ends}"

    def layout(self) -> dict[str, Any]:
        """As entries of a layout."""
        numbers = {
            "rows": self.rows,
            "is_fixed": self.is_fixed,
            "everywhere": self.everywhere,
            "size": self.size,
            "can_end": self.can_end,
        }
        return dict(zip(KEYS, (self.samples, self.successors, self.shift, numbers)))


def sampling_of(layout: Mapping[str, Any], horizon: int) -> Sampling | None:
    """The sampling in a layout; None for kernels that were given."""
    if KEYS[-1] not in layout:
        return None
    samples, successors, shift, numbers = (layout[key] for key in KEYS)
    arrays = np.asarray(samples), np.asarray(successors), np.asarray(shift, np.float64)
    flags = bool(numbers["is_fixed"]), bool(numbers["everywhere"])
    return Sampling(
        *arrays, int(numbers["rows"]), *flags, float(numbers["size"]), horizon, bool(numbers.get("can_end"))
    )


def agrawal(level: float, m: Int[np.ndarray, "S A"]) -> Float[np.ndarray, "S A"]:
    """The larger root of t - (m-1) log(e t/(m-1)) = level: Newton's steps from above, each a bound."""
    k = np.maximum(m - 1, 1).astype(np.float64)
    t = k + level + np.sqrt(level**2 + 2 * k * level)
    for _ in range(50):
        t = t - (t - k * np.log(np.e * t / k) - level) / (1 - k / t)
    return np.asarray(t)


def worst_case(N: Int[np.ndarray, "S A"], m: Int[np.ndarray, "S A"]) -> Float[np.ndarray, "S A"]:
    """The largest log-likelihood ratio of a distribution to the Krichevsky-Trofimov estimator, over N samples."""
    gammaln = scipy.special.gammaln
    return np.asarray(gammaln(0.5) + gammaln(N + m / 2) - gammaln(N + 0.5) - gammaln(m / 2))
