"""Rewards that were recorded with the transitions of a run, as an estimated reward with a confidence interval.

Recorded rewards of a state-action pair x are R_t with mean r(x) given the past, the state and the action, in a declared
range [low, high]. With n visits and their sum S_n, c = high - low and rho > 0,

    M_n = sqrt(rho / (n + rho)) exp( 2 (S_n - n r(x))^2 / (c^2 (n + rho)) )

is a non-negative supermartingale (Hoeffding's lemma, and Robbins' mixture over a normal law), so that for X pairs, with
probability 1 - delta, for all of them and at all times

    |S_n / n - r(x)| <= (c / 2n) sqrt( (n + rho) (2 log(X / delta) + log((n + rho) / rho)) ).

docs/further-proofs.md has the proof, and how the interval enters values and gaps.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._repr import ReprMixin, ReprTable
from horizonfree._validation import check_floats, check_probability, require
from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import bound_statement, round_up
from horizonfree.mdp.space import UNSEEN, Trajectory
from horizonfree.models.misspecification import declared
from horizonfree.runs.plan import Comparison, Plan

RHO = 10.0  # visits around which the interval is narrowest
NAMES = ("total", "count", "least", "most", "is_over")  # arrays that a run folder keeps
ESTIMATED = (
    "the reward is an estimate: the mean of what was recorded for each state-action pair, in the range "
    "[{low:g}, {high:g}] and with the same mean at all times"
)


@dataclass(frozen=True, eq=False, repr=False)
class ObservedReward(ReprMixin):
    """Recorded rewards of each state-action pair: their sum and number, and the range that occurred.

    `is_over`: states in which an episode is over, where nothing is paid. As a reward: `run.plan(run.observed_reward)`.
    `declared` is the range that rewards are known to have; intervals need it, as the range that occurred is no bound.
    """

    total: Float[np.ndarray, "S A"]
    count: Int[np.ndarray, "S A"]
    least: Float[np.ndarray, ""]
    most: Float[np.ndarray, ""]
    is_over: Bool[np.ndarray, " S"]
    declared: tuple[float, float] | None = None

    @classmethod
    def empty(cls, num_states: int, num_actions: int, is_over: Any = None) -> "ObservedReward":
        """Before the first reward."""
        is_over_mask = np.zeros(num_states, bool) if is_over is None else np.asarray(is_over, bool)
        sizes = num_states, num_actions
        ends = np.array(np.inf), np.array(-np.inf)
        return cls(np.zeros(sizes), np.zeros(sizes, np.int64), *ends, is_over_mask)

    @property
    def range(self) -> tuple[float, float]:
        """The declared range, or that which occurred."""
        return (float(self.least), float(self.most)) if self.declared is None else self.declared

    @property
    def mean(self) -> Float[np.ndarray, "S A"]:
        """The mean of each pair; the middle of the range for pairs without visits, 0 where an episode is over."""
        low, high = self.range if self.count.any() else (0.0, 0.0)
        default = (low + high) / 2
        mean = np.where(self.count > 0, self.total / np.maximum(self.count, 1), default)
        return np.where(self.is_over[:, None], 0.0, mean)

    def interval(self, delta: float) -> tuple[Float[np.ndarray, "S A"], Float[np.ndarray, "S A"]]:
        """Lower and upper ends for the true mean of every pair: all of them together with probability 1 - delta."""
        low, high = self._declared_range()
        n = np.maximum(self.count, 1)
        pairs = max(1, int((~self.is_over).sum()) * self.count.shape[1])
        level = 2 * math.log(pairs / check_probability(delta, "delta")) + np.log((n + RHO) / RHO)
        width = np.where(self.count > 0, (high - low) / (2 * n) * np.sqrt((n + RHO) * level), np.inf)
        is_over, mean = self.is_over[:, None], self.mean
        ends = np.maximum(low, mean - width), np.minimum(high, mean + width)
        return np.where(is_over, 0.0, ends[0]), np.where(is_over, 0.0, ends[1])

    def between(self, low: float, high: float) -> "ObservedReward":
        """This reward with all payments known to be in [low, high]."""
        ends = check_floats([low, high], "the range of rewards")
        require(
            np.isfinite(ends).all() and ends[0] < ends[1],
            "the range of rewards",
            (low, high),
            "two numbers, the smaller first",
        )
        if self.count.any() and not (low <= self.least and self.most <= high):
            raise OptionError(
                f"rewards from {float(self.least):g} to {float(self.most):g} were recorded; the range "
                f"[{low:g}, {high:g}] must contain them"
            )
        return replace(self, declared=(float(low), float(high)))

    def assumption(self) -> str:
        """The sentence of certificates that use it."""
        low, high = self._declared_range()
        return ESTIMATED.format(low=low, high=high)

    def added(self, episodes: Trajectory, rewards: Float[np.ndarray, "*batch H"]) -> "ObservedReward":
        """With the rewards of further episodes; NaN where none was recorded."""
        s, a = np.asarray(episodes.s)[..., :-1], np.asarray(episodes.a)
        is_counted = (np.asarray(episodes.j) != UNSEEN) & ~np.isnan(rewards) & ~self.is_over[s]
        total, count = self.total.copy(), self.count.copy()
        np.add.at(total, (s[is_counted], a[is_counted]), rewards[is_counted])
        np.add.at(count, (s[is_counted], a[is_counted]), 1)
        range_values = np.concatenate([rewards[is_counted], [float(self.least), float(self.most)]])
        range_values = range_values[np.isfinite(range_values)]  # both are infinite before the first reward
        ends = (
            (np.array(range_values.min()), np.array(range_values.max()))
            if range_values.size
            else (self.least, self.most)
        )
        return replace(self, total=total, count=count, least=ends[0], most=ends[1])

    def arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays that a run folder keeps."""
        return {prefix + name: np.asarray(getattr(self, name)) for name in NAMES}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "ObservedReward | None":
        """The recorded rewards from the arrays of a run folder; None if there are none."""
        if not arrays:
            return None
        total, count, least, most, is_over = (arrays[name] for name in NAMES)
        return cls(total, count, least, most, is_over)

    def _declared_range(self) -> tuple[float, float]:
        if self.declared is None:
            raise OptionError(
                "an interval needs the range that rewards can have, not the one that occurred: "
                "run.observed_reward.between(0, 1)"
            )
        return self.declared

    def _repr_table(self) -> ReprTable:
        """How much was recorded, and in which range."""
        low, high = self.range if self.count.any() else (math.nan, math.nan)
        range_text = "declared" if self.declared is not None else "that occurred"
        pairs = int((self.count > 0).sum())
        lines = [
            (
                "recorded",
                f"{int(self.count.sum()):,} rewards of {pairs:,} of {self.count.size:,} state-action pairs",
            ),
            ("range", f"{low:g} to {high:g}, {range_text}"),
            (
                "note",
                "an estimate; run.plan(run.observed_reward.between(low, high)) has its error in the interval",
            ),
        ]
        return ReprTable("Observed reward", lines)


def over_states(problem: Any, added_start: int | None = None) -> Bool[np.ndarray, " S"]:
    """States of a problem in which nothing is paid: declared final ones, copies of ended ones, and an added start."""
    is_over = np.zeros(problem.num_states, bool)
    terminal = problem.layout.get("ended")
    if terminal is not None:
        terminal = np.asarray(terminal)
        is_over[: len(terminal)] = terminal == np.arange(len(terminal))
        is_over[terminal[terminal >= len(terminal)]] = True
    if added_start is not None:
        is_over[added_start] = True
    return is_over


def check_plain(
    discount: Any, final: Any, transition: Any, misspecification: Any = 0.0, model: str = "likelihood"
) -> None:
    """Refuse options that an observed reward does not have."""
    is_plain = discount is None and final is None and transition is None and model == "likelihood"
    if not is_plain or declared(misspecification) is not None:
        raise OptionError(
            "an observed reward is planned for as it is; with discount=, final=, transition=, misspecification= or "
            "model= give its mean: run.observed_reward.mean, scale='rescale'"
        )


def answer(
    run: Any, observed: ObservedReward, policy: Any, *, delta: float, start: Any = None, horizon: Any = None
) -> Plan:
    """`run.plan` (policy None) or `run.evaluate` of an observed reward.

    With a declared range, half of delta is for the reward: with probability 1 - delta the true rewards are between
    r_low and r_high, the value between the lowest for r_low and the highest for r_high, and for u >= |r - mean|

        V*_r - V_r <= min( up(V*_{r_high}) - low(V_{r_low}),  gap_mean + up(V*_u) + up(V_u) ).
    """
    restarted = run if start is None and horizon is None else run.restart_from(start, horizon)

    def ask(reward: np.ndarray, policy: Any, part: float) -> Plan:
        options: dict[str, Any] = {"scale": "rescale", "delta": part}
        result: Plan = (
            restarted.plan(reward, **options)
            if policy is None
            else restarted.evaluate(reward, policy, **options)
        )
        return result

    if observed.declared is None:
        plan = ask(observed.mean, policy, delta)
        caveat = "for the mean of the recorded rewards, whose own error is not part of it"
        statement = f"{plan.certificate.statement}; {caveat}"
        assumption = "the true rewards are the means of those recorded (no range was declared)"
        assumes = f"{plan.certificate.assumes}; {assumption}"
        return replace(
            plan, certificate=replace(plan.certificate, statement=statement, assumes=assumes, claim=None)
        )
    part = check_probability(delta, "delta") / 2
    r_low, r_high = observed.interval(part)
    plan = ask(observed.mean, policy, part)
    if plan.certificate.is_rejected:
        return plan
    low = ask(r_low, plan.policy, part).value_low
    high = ask(r_high, plan.policy, part).value_high
    best = ask(r_high, None, part)
    u = np.maximum(r_high - observed.mean, observed.mean - r_low)
    upper = ask(u, None, part)
    by_error = plan.gap + upper.value_high + upper.gap + ask(u, plan.policy, part).value_high
    gap = max(0.0, min(best.value_high + best.gap - low, by_error))
    eps = min(1.0, gap / (restarted.problem.horizon * (observed.declared[1] - observed.declared[0])))
    statement = (
        bound_statement(gap, delta)
        if round_up(eps) < 1
        else "vacuous: too little is known of rewards or transitions"
    )
    certificate = replace(
        plan.certificate,
        eps=eps,
        delta=float(delta),
        method="observed reward",
        statement=statement,
        forecast="",
        assumes=f"{plan.certificate.assumes}; {observed.assumption()}",
        claim=None,
    )
    return replace(plan, value_low=low, value_high=high, gap=gap, certificate=certificate)


def compare(run: Any, observed: ObservedReward, policies: tuple[Any, Any], *, delta: float) -> Comparison:
    """`run.compare` of an observed reward.

    |V^a_{r - mean} - V^b_{r - mean}| <= up(V^a_u) + up(V^b_u) for u >= |r - mean|.
    """
    if observed.declared is None:
        result: Comparison = run.compare(observed.mean, *policies, scale="rescale", delta=delta)
        return result
    part = check_probability(delta, "delta") / 2
    r_low, r_high = observed.interval(part)
    u = np.maximum(r_high - observed.mean, observed.mean - r_low)
    error = sum(run.evaluate(u, policy, scale="rescale", delta=part).value_high for policy in policies)
    result = run.compare(observed.mean, *policies, scale="rescale", delta=part)
    return replace(result, low=result.low - error, high=result.high + error, delta=float(delta))
