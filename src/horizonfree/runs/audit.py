"""Off-policy evaluation of a new policy against the one in use: what is proved, what is likely, what data are missing.

Both values and their difference have intervals that hold together at 1 - delta, for data recorded under any policy:
no propensities are needed. Where the intervals are too wide to decide, the posterior says what is likely, and
`missing` names the state-action pairs of which more data would help most.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree._repr import ReprMixin, ReprTable
from horizonfree._validation import check_instance
from horizonfree.errors import HorizonfreeError
from horizonfree.guarantees.certificate import confidence_of, interval, round_down
from horizonfree.guarantees.e_processes import Check
from horizonfree.mdp.names import name_of
from horizonfree.models.base import probabilities
from horizonfree.runs.plan import Comparison, Plan
from horizonfree.runs.run import Run

MAX_LISTED = 10  # entries of `disagreements` and of `missing`
MIN_SHARE = 1e-3  # smallest share of the steps of an episode for a state or pair to be listed
LEVEL = 0.95  # probability of the credible intervals


class Disagreement(NamedTuple):
    """A state in which the policies act differently; `share`: of the steps, under the new policy in the estimate."""

    state: str
    share: float
    new: str
    incumbent: str


class Need(NamedTuple):
    """A state-action pair; `uses`: how often an episode of one of the policies needs it; `visits`: in the data."""

    state: str
    action: str
    uses: float
    visits: int


@dataclass(frozen=True, eq=False, repr=False)
class Audit(ReprMixin):
    """A new policy and an incumbent on the data of a run. Values are in the units of the reward; costs are negative.

    `comparison` is the value of the new policy minus that of the incumbent. `check`: whether richer model classes
    refute the one that is assumed; None if there are none to try.
    `is_incumbent_logged`: whether the incumbent is the policy of the data.
    """

    run: Run
    new: Plan
    incumbent: Plan
    comparison: Comparison
    check: Check | None
    is_incumbent_logged: bool = False

    @property
    def is_refuted(self) -> bool:
        """Whether the data refute the model class, so that nothing is proved or likely."""
        return self.new.certificate.is_rejected or (self.check is not None and self.check.is_refuted)

    @property
    def proved(self) -> str:
        """Which policy is better, as far as that is proved."""
        if self.is_refuted:
            return "nothing: the data refute the model class"
        confidence_text = f"({confidence_of(self.comparison.delta)}, any stopping time)"
        if self.comparison.low > 0:
            return f"the new policy is better by at least {round_down(self.comparison.low):.3g} {confidence_text}"
        if self.comparison.high < 0:
            return f"the incumbent is better by at least {round_down(-self.comparison.high):.3g} {confidence_text}"
        interval_text = interval(self.comparison.low, self.comparison.high)
        return f"not which is better: the advantage of the new policy is in {interval_text} {confidence_text}"

    @property
    def likely(self) -> str:
        """Which policy is better according to the posterior, with its label; or why there is none."""
        try:
            low, high = self.likely_difference
            p, step = self.comparison.probability, 1 / len(self.new.credible.posterior)
            chance = f"more than {1 - step:g}" if p == 1 else f"less than {step:g}" if p == 0 else f"{p:.3g}"
            return (
                f"the new policy is better with probability {chance}, its advantage is in [{low:.4g}, {high:.4g}] with "
                f"probability {LEVEL:g} ({self.comparison.label})"
            )
        except HorizonfreeError as error:
            return f"not available: {error}"

    @cached_property
    def likely_difference(self) -> tuple[float, float]:
        """Equal-tailed credible interval of the value of the new policy minus that of the incumbent."""
        difference = self.new.credible.values - self.incumbent.credible.values
        low, high = np.quantile(difference, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return float(low), float(high)

    @cached_property
    def disagreements(self) -> list[Disagreement]:
        """The states in which the policies act differently, those first where the new policy spends most time."""
        new, old = (self._probabilities(plan) for plan in (self.new, self.incumbent))
        mu = self.new.occupancy
        differs = np.abs(new - old).sum(-1) / 2
        share = (mu * differs).sum(0) / len(mu)
        layout = self.run.problem.layout
        return [
            Disagreement(
                name_of(layout, "states", s),
                float(share[s]),
                self._action(new, mu, s),
                self._action(old, mu, s),
            )
            for s in _indices_of_largest(share, MIN_SHARE)
        ]

    @cached_property
    def missing(self) -> list[Need]:
        """The state-action pairs of which more data would help most, by expected uses per visit.

        Empty for model classes in which pairs share data.
        """
        if self.run.problem.model.is_shared:
            return []
        uses = np.maximum(*(self._uses(plan) for plan in (self.new, self.incumbent)))
        visits = self.run.visits
        weight = np.where(uses >= MIN_SHARE * len(self.new.policy), uses / np.maximum(visits, 1), 0.0)
        layout, A = self.run.problem.layout, visits.shape[1]
        result = []
        for pair in _indices_of_largest(weight.ravel(), 0.0):
            s, a = divmod(pair, A)
            names = name_of(layout, "states", s), name_of(layout, "actions", a)
            result.append(Need(*names, float(uses[s, a]), int(visits[s, a])))
        return result

    def to_dict(self, *, is_cost: bool = False) -> dict[str, Any]:
        """The audit as plain data; with is_cost, costs are positive.

        Values are posterior medians, or estimates where there is no posterior.
        """
        sign = -1.0 if is_cost else 1.0

        def entry(value: float, low: float, high: float) -> dict[str, Any]:
            return {"value": sign * value, "interval": sorted([sign * low, sign * high]), "likely": None}

        comparison = self.comparison
        policies = {
            name: entry(plan.value, plan.value_low, plan.value_high) | {"suboptimality_bound": plan.gap}
            for name, plan in (("new", self.new), ("incumbent", self.incumbent))
        }
        difference = entry(comparison.difference, comparison.low, comparison.high)
        difference["probability_new_is_better"] = None
        with suppress(HorizonfreeError):  # there is no posterior
            new, old = self.new.credible.values, self.incumbent.credible.values
            for result, values in (
                (policies["new"], new),
                (policies["incumbent"], old),
                (difference, new - old),
            ):
                low, median, high = np.quantile(sign * values, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2])
                result |= {"value": float(median), "likely": [float(low), float(high)]}
            difference["probability_new_is_better"] = comparison.probability
        return {
            "is_cost": is_cost,
            "proved": self.proved,
            "likely": self.likely,
            **policies,
            "difference": difference,
            "disagreements": [x._asdict() for x in self.disagreements],
            "missing": [x._asdict() for x in self.missing],
            "is_refuted": self.is_refuted,
            "check": None if self.check is None else self.check.summary(),
            "assumes": self.new.certificate.assumes,
            "notes": list(self.run.problem.layout.get("log", {}).get("notes", ())),
            "delta": float(comparison.delta),
            "episodes": self.run.episodes,
        }

    def _repr_table(self) -> ReprTable:
        """The decision, both values, and where to look next."""
        lines = [("proved", self.proved), ("likely", self.likely)]
        lines += [
            (name, _value_text(plan)) for name, plan in (("new", self.new), ("incumbent", self.incumbent))
        ]
        lines += [
            ("differ in", f"{x.state} ({x.share:.0%}): {x.new} instead of {x.incumbent}")
            for x in self.disagreements[:3]
        ]
        lines += [
            ("too few data", f"{x.action} in {x.state}: {x.visits:,} visits, {x.uses:.2g} uses an episode")
            for x in self.missing[:3]
        ]
        lines += [("check", self.check.summary())] if self.check is not None else []
        lines.append(("assumes", self.new.certificate.assumes))
        return ReprTable(f"Audit of a policy on {self.run.episodes:,} episodes", lines)

    def _probabilities(self, plan: Plan) -> Float[np.ndarray, "H S A"]:
        return probabilities(plan.policy, self.run.problem.num_actions)

    def _uses(self, plan: Plan) -> Float[np.ndarray, "S A"]:
        uses: np.ndarray = (plan.occupancy[..., None] * self._probabilities(plan)).sum(0)
        return uses

    def _action(self, table: np.ndarray, mu: Float[np.ndarray, "H S"], s: int) -> str:
        """What a policy does in a state, on average over the steps at which the new policy is there."""
        share = (mu[:, s, None] * table[:, s]).sum(0) / mu[:, s].sum()
        best = int(share.argmax())
        name = name_of(self.run.problem.layout, "actions", best)
        return name if share[best] > 1 - MIN_SHARE else f"{name} ({share[best]:.0%})"


def audit(
    run: Run, reward: Any, policy: Any, incumbent: Any = None, *, scale: str = "rescale", delta: float = 0.05
) -> Audit:
    """Whether a new policy is better than an incumbent, on the data of a run: off-policy evaluation with a proof.

    reward, scale: as for `Run.plan`; by default any numbers, costs as negative ones. policy, incumbent: as for
    `Run.evaluate`; without an incumbent, the policy of the data: how often each action was taken in each state.

    >>> import numpy as np, horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> right = np.ones((8, 4), int)
    >>> run = hf.from_episodes(problem, hf.simulate(problem, right, episodes=200))
    >>> result = hf.audit(run, hf.occupancy(problem, 3), right, np.zeros((8, 4), int))
    >>> result.comparison.low <= result.comparison.high
    True
    """
    check_instance(run, Run, "the run", ", such as from_log returns")
    is_logged = incumbent is None
    other = logging_policy(run) if is_logged else incumbent
    new, old = (run.evaluate(reward, x, scale=scale, delta=delta) for x in (policy, other))
    comparison = run.compare(reward, new.policy, old.policy, scale=scale, delta=delta)
    check = run.check(delta=delta)
    return Audit(run, new, old, comparison, check if check.alternatives else None, is_logged)


def logging_policy(run: Run) -> Float[np.ndarray, "S A"]:
    """How often each action was taken in each state; any allowed action alike in states without data."""
    visits, is_allowed = np.asarray(run.visits, float), run.problem.actions_allowed
    total = visits.sum(1, keepdims=True)
    frequencies = np.where(
        total > 0, visits / np.maximum(total, 1), is_allowed / is_allowed.sum(1, keepdims=True)
    )
    return np.asarray(frequencies)


def _value_text(plan: Plan) -> str:
    confidence_text = confidence_of(plan.certificate.delta)
    return f"{plan.value:.4g}, {confidence_text} interval {interval(plan.value_low, plan.value_high)}"


def _indices_of_largest(x: Float[np.ndarray, " n"], above: float) -> Iterator[int]:
    order: Int[np.ndarray, " n"] = np.argsort(-x, kind="stable")[:MAX_LISTED]
    return (int(i) for i in order if x[i] > above)
