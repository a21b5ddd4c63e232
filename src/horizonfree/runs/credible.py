"""What is likely of a plan or of a comparison of two policies: quantiles over the draws of a posterior.

Computed when it is asked for, so that a plan itself stays cheap. Labelled "not proved" wherever it is shown.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from horizonfree._validation import check_floats, check_probability
from horizonfree.errors import HorizonfreeError, OptionError
from horizonfree.mdp.events import Lift
from horizonfree.mdp.rewards import Reward
from horizonfree.models.posterior import Posterior, posterior

TIED = 1e-12  # a difference of two values that is rounding
LEVEL = 0.95
AFFORDABLE = 2e9  # transitions of dynamic programmes in a few seconds
MAX_WEIGHTS = 16  # that are sampled in a few seconds


class Likely(NamedTuple):
    """What reports and the command line show beside the proof; `refusal`: why there is nothing."""

    low: float = np.nan
    high: float = np.nan
    gap: float = np.nan
    level: float = LEVEL
    draws: int = 0
    label: str = ""
    refusal: str = ""

    def data(self) -> dict[str, Any]:
        """The content as plain data for JSON."""
        everything = self._asdict()
        refusal = everything.pop("refusal")
        return {"refusal": refusal} if refusal else everything


@dataclass(frozen=True, eq=False)
class Credible:
    """A policy and a reward of a `Run`, whose posterior is `run.posterior()` unless another is given.

    `lift`: the reward is one of lifted states. `refusal`: why no posterior is available, if so.
    """

    run: Any
    reward: Reward
    policy: np.ndarray
    lift: Lift | None = None
    refusal: str = ""

    @cached_property
    def posterior(self) -> Posterior:
        """The one of the run, by default."""
        if self.refusal:
            raise OptionError(self.refusal)
        result: Posterior = self.run.posterior()
        return result

    def under(self, posterior: Posterior | None) -> "Credible":
        """The answer under another posterior of the run."""
        if posterior is None:
            return self
        if posterior.model.space.sizes != self.run.problem.space.sizes:
            raise OptionError(
                f"this posterior is of (H, S, A) = {posterior.model.space.sizes}, the plan of "
                f"{self.run.problem.space.sizes}; take that of the same run, start and horizon"
            )
        other = Credible(self.run, self.reward, self.policy, self.lift, self.refusal)
        if not self.refusal:
            other.__dict__["posterior"] = posterior
        return other

    @cached_property
    def values(self) -> Float[np.ndarray, " D"]:
        """The value of the policy under every draw, in the units of the reward."""
        return self._in_units(self._values)

    @cached_property
    def gaps(self) -> Float[np.ndarray, " D"]:
        """What the policy loses against the best policy of every draw, in the units of the reward."""
        lost = self.posterior.table_best_values(self.reward.table, self.lift) - self._values
        return np.asarray(self.reward.factor * np.maximum(lost, 0.0))

    @cached_property
    def _values(self) -> Float[np.ndarray, " D"]:
        policy = self.policy if self.lift is None else self.policy[:, self.lift.origin]
        return self.posterior.table_values(self.reward.table, policy, self.lift)

    def _in_units(self, values: Float[np.ndarray, " D"]) -> Float[np.ndarray, " D"]:
        result: np.ndarray = self.reward.factor * values + self.reward.offset
        return result

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Equal-tailed, of the value."""
        tail = (1 - check_probability(level, "level", "a probability")) / 2
        low, high = np.quantile(self.values, [tail, 1 - tail])
        return float(low), float(high)

    def gap(self, level: float = LEVEL) -> float:
        """The quantile of what is lost."""
        return float(np.quantile(self.gaps, check_probability(level, "level", "a probability")))


def likely(credible: Credible, draws: int = 1000, *, work: float = AFFORDABLE) -> Likely:
    """Interval and gap under the posterior of the run, where one is available and takes about `work` transitions."""
    space = credible.run.problem.space
    cost = draws * space.succ.size * space.horizon
    if cost > work:
        most = int(work / cost * draws)
        return Likely(
            refusal=f"{draws:,} draws take {cost:.1g} steps of dynamic programmes on a problem of this size; "
            f"about {most:,} draws would be fast"
        )
    if credible.run.has_parameter and credible.run.evidence.theta.shape[-1] > MAX_WEIGHTS:
        return Likely(
            refusal=f"more than {MAX_WEIGHTS} weights take long to sample; ask run.posterior() in Python"
        )
    try:
        mine = credible.under(credible.run.posterior(draws) if not credible.refusal else None)
        low, high = mine.interval()
        return Likely(low, high, mine.gap(), LEVEL, draws, mine.posterior.label)
    except HorizonfreeError as error:
        return Likely(refusal=str(error))


def probability_better(a: Credible, b: Credible) -> float:
    """The share of draws under which the first policy is better than the second."""
    return float((a._values > b._values + TIED).mean())


def posterior_of(run: Any, draws: int, prior: Any, seed: int) -> Posterior:
    """`Run.posterior`; the last one is kept by the run."""
    is_named = prior is None or isinstance(prior, str)
    key = draws, seed, prior if is_named else check_floats(prior, "prior").tobytes()
    if key not in run._posterior:
        run.problem.check_exact_class(
            "only proved bounds are available: a posterior assumes that the model class is correct"
        )
        confidence = run.confidence()
        confidence.check_not_refuted()
        result = posterior(run.problem.model, run.evidence, draws=draws, prior=prior, seed=seed)
        run._posterior.clear()
        run._posterior[key] = result
    kept: Posterior = run._posterior[key]
    return kept
