"""From bounds to certificates and their words, on the host: what every class of models shares."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from horizonfree._arrays import leaf
from horizonfree.guarantees.certificate import Certificate, at_most_one, proved, round_up
from horizonfree.mdp.space import Space, occupied_states
from horizonfree.models.world import Bounds

ENOUGH = "this policy may lose everything; that is no lack of data, as plans for every reward lose less"


@dataclass(frozen=True, eq=False)
class Said:
    """What one confidence says beside the bounds: numbers and words of `Confidence`, and `Model.rounding`.

    The words are asked for where they are needed. `missing` gives no words where the data are not what is missing.
    """

    delta: float
    rounding: float
    is_refuted: bool
    parts: Mapping[str, float]
    refutation: Callable[[], str]
    missing: Callable[[], str]
    condition: str = ""  # what is assumed beside the class, as the end of a sentence
    leads_anywhere: bool = False  # episodes may come to states outside of the successor lists
    start: str = ""  # where episodes start, and how long they are
    assumes: str = ""  # what the model class takes for granted

    def rejected(self) -> Certificate:
        """Nothing is certified: the data refute the class."""
        words = f"model rejected: {self.refutation()}"
        return Certificate(
            1.0, self.delta, "rejected", words, dict(self.parts), is_rejected=True, assumes=self.assumes
        )

    def words(self, eps: float, factor: float = 1.0, unit: str = "") -> str:
        """The statement of a bound for rewards whose totals reach `factor`; unit: what it is a share of."""
        if round_up(eps) < 1:
            return proved(factor * eps, self.delta, unit) + self.condition
        missing = self.missing()
        return f"vacuous: {missing}" if missing else ENOUGH

    def certificate(
        self,
        eps: float,
        method: str,
        words: str,
        parts: Mapping[str, float],
        *,
        policies: str = "",
        forecast: str = "",
    ) -> Certificate:
        """A certificate of these policies; of those of `Run.plan` where they are not named."""
        holds_for = f"{policies or f'plans of run.plan(reward, delta={self.delta:g})'}, {self.start}"
        return Certificate(
            eps,
            self.delta,
            method,
            words,
            parts,
            forecast=forecast,
            holds_for=holds_for,
            assumes=self.assumes,
        )

    def smallest(self, bounds: Bounds) -> tuple[dict[str, float], str, float]:
        """The gaps by each proof, the proof of the smallest, and what it certifies."""
        # What cannot be computed is no bound.
        gaps = {name: 1.0 if math.isnan(gap) else float(gap) for name, gap in bounds.gaps.items()}
        method = min(gaps, key=lambda name: (gaps[name], name))
        return gaps, method, at_most_one(max(0.0, gaps[method]) + self.rounding)

    def of(self, bounds: Bounds, factor: float = 1.0) -> tuple[Bounds, Certificate]:
        """The bounds with an interval that rounding cannot leave, within [0, 1], and their certificate.

        factor: the largest total of the reward in its own units, which the words are in.

        Where the class is refuted nothing is certified, and the value may be anything.
        """
        if self.is_refuted or bounds.is_refuted:
            anything = leaf(np.zeros(())), leaf(np.ones(()))
            return Bounds(bounds.value, *anything, bounds.gaps), self.rejected()
        gaps, method, eps = self.smallest(bounds)
        words, parts = self.words(eps, factor), dict(self.parts) | gaps
        certificate = self.certificate(eps, method, words, parts, policies="this policy")
        low, high = np.fmax(bounds.low - self.rounding, 0.0), np.fmin(bounds.high + self.rounding, 1.0)
        interval = leaf(np.asarray(low)), leaf(np.asarray(high))
        return Bounds(bounds.value, *interval, bounds.gaps), certificate

    def between(
        self,
        space: Space,
        policies: tuple[np.ndarray, np.ndarray],
        difference: Callable[[tuple[np.ndarray, np.ndarray]], tuple[float, float]],
    ) -> tuple[float, float]:
        """Between which numbers the value of the first policy minus that of the second lies; [-1, 1] where refuted."""
        a, b = policies
        if self.is_refuted:
            return -1.0, 1.0
        if a.shape == b.shape and self._is_same(space, a, b):
            return -self.rounding, self.rounding
        low, high = difference(policies)
        low = -1.0 if math.isnan(low) else low - self.rounding
        high = 1.0 if math.isnan(high) else high + self.rounding
        return max(-1.0, low), min(1.0, high)

    def _is_same(self, space: Space, a: np.ndarray, b: np.ndarray) -> bool:
        """Whether two policies agree wherever an episode can come to."""
        return bool((a == b).all() if self.leads_anywhere else (a == b)[occupied_states(space)].all())


def given(reward: np.ndarray, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A reward and a policy as bounds take them."""
    kind = np.int32 if np.ndim(policy) == 2 else np.float64
    return np.asarray(reward, np.float64), np.asarray(policy, kind)
