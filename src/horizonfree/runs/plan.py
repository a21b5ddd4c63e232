"""What a run answers: a plan for one reward, and which of two policies is better."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree._repr import ReprMixin, Summary
from horizonfree._validation import check_int
from horizonfree.errors import ShapeError
from horizonfree.guarantees.certificate import Certificate, confidence_of, interval, round_down, round_up
from horizonfree.mdp.names import name_of
from horizonfree.mdp.rewards import Reward
from horizonfree.mdp.space import Kernel, Space
from horizonfree.models import certify
from horizonfree.models.confidence import Bounds, Confidence
from horizonfree.planning.induction import policy_values
from horizonfree.runs.certificate_files import Claim, of_policy
from horizonfree.runs.frames import of_plan

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False, repr=False)
class Plan(ReprMixin):
    """The answer to one reward. Values and gap are in the units of the reward as it was given.

    `value` is the policy's value in `kernel`, the maximum-likelihood estimate, or in the explorer's own model for plans
    with model="explorer". With probability 1 - certificate.delta its true value is between `value_low` and
    `value_high`, and its suboptimality is at most `gap`. `start` is the distribution of the first state, from which all
    this holds, and `layout` has the names of states and actions.
    """

    policy: Int[np.ndarray, "H S"] | Float[np.ndarray, "H S A"]
    value: float
    value_low: float
    value_high: float
    gap: float
    certificate: Certificate
    kernel: Kernel
    start: Float[np.ndarray, " S"] | None = None
    layout: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def occupancy(self) -> Float[np.ndarray, "H S"]:
        """The probability to be in each state at each step, in the estimate."""
        return occupancy(self.kernel, self.policy, self.start)

    def card(self) -> Summary:
        """Its value, what is proved, the first action and where it spends its time."""
        sure = confidence_of(self.certificate.delta)
        between = f"{sure} interval {interval(self.value_low, self.value_high)}"
        is_proved = not self.certificate.is_rejected
        lines = [
            ("value", f"{self.value:.4g}, {between if is_proved else 'of which nothing is proved'}"),
            ("gap", f"{round_up(self.gap):.4g}: {self.certificate.words}"),
        ]
        if self.start is None:
            return Summary(f"Plan for {len(self.policy)} steps", lines)
        starts = np.flatnonzero(self.start)
        first = "where episodes start"
        if len(starts) == 1:
            first = name_of(self.layout, "states", int(starts[0]))
            lines.append(("first", name_of(self.layout, "actions", self.act(0, int(starts[0])))))
        share = self.occupancy.mean(axis=0)
        most = np.argsort(-share, kind="stable")[:3]
        spent = [f"{name_of(self.layout, 'states', int(s))} ({share[s]:.0%})" for s in most if share[s] > 0]
        lines.append(("time in", ", ".join(spent)))
        return Summary(f"Plan for {len(self.policy)} steps from {first}", lines)

    def to_pandas(self) -> "pandas.DataFrame":
        """What it does: a row for each step (from 0) and state."""
        return of_plan(self)

    def act(self, h: int, state: int) -> int:
        """The action at step h (from 0) in a state; of a policy that draws it, the most probable one."""
        H, S = self.policy.shape[:2]
        h = check_int(h, "h", 0, H - 1, f"a step, 0 to {H - 1}", ShapeError)
        state = check_int(state, "state", 0, S - 1, f"a state, 0 to {S - 1}", ShapeError)
        chosen = self.policy[h, state]
        return int(chosen if chosen.ndim == 0 else chosen.argmax())


def plan_of(
    run: Any,
    checked: Reward,
    confidence: Confidence,
    policy: np.ndarray,
    bounds: Bounds,
    *,
    value: float | None = None,
    missing: str | None = None,
    question: Callable[[], dict[str, Any]] | None = None,
    is_claimed: bool = True,
) -> Plan:
    """A policy of a `Run` with what is certified of it, in the units of the reward.

    value: None for that in the estimate. missing: as for `certify.certified`. question: what the certificate answers
    (certificate_files.py), by default this policy for this reward; is_claimed: whether a file can hold it.
    """
    space, kernel = run.problem.space, confidence.kernel
    bounds, certificate = certify.certified(run.problem.model, confidence, bounds, checked.factor, missing)
    if run._where:
        certificate = replace(certificate, words=f"{certificate.words}, {run._where}")
    if is_claimed:
        asked = partial(of_policy, run, checked, policy) if question is None else question
        certificate = replace(certificate, claim=Claim(run, asked))
    if value is None:
        value = float(space.at_start(policy_values(kernel, checked.table, policy)[0]))
    value, low, high = (checked.factor * float(x) + checked.offset for x in (value, bounds.low, bounds.high))
    gap = checked.factor * certificate.eps
    return Plan(policy, value, low, high, gap, certificate, kernel, start_of(space), run.problem.layout)


def start_of(space: Space) -> Float[np.ndarray, " S"]:
    """The distribution of the first state."""
    return space.starts().astype(np.float64) if space.initial is None else np.asarray(space.initial)


def occupancy(
    kernel: Kernel, policy: np.ndarray, start: Float[np.ndarray, " S"] | None
) -> Float[np.ndarray, "H S"]:
    """mu_1 = start, mu_{h+1}(s') = sum_{s,a} mu_h(s) pi_h(a|s) P(s'|s,a)."""
    if start is None:
        raise ShapeError("this plan does not know where it starts; ask a run for it: run.plan(reward)")
    succ, prob = np.asarray(kernel.succ), np.asarray(kernel.prob)
    found = np.zeros(policy.shape[:2])
    found[0] = start
    for h in range(len(policy) - 1):
        rule = np.eye(succ.shape[1])[policy[h]] if policy.ndim == 2 else policy[h]
        flow = found[h][:, None, None] * rule[:, :, None] * prob
        np.add.at(found[h + 1], succ, flow)
    return found


class Comparison(NamedTuple):
    """By how much policy a is better than policy b for a reward, in its units.

    `difference` is that of their values in the estimate. The true one is between `low` and `high`, with probability
    1 - delta.
    """

    difference: float
    low: float
    high: float
    delta: float

    @property
    def words(self) -> str:
        """What is proved."""
        sure = f"({confidence_of(self.delta)}, any stopping time)"
        if self.low > 0:
            return f"a is better by at least {round_down(self.low):.3g} {sure}"
        if self.high < 0:
            return f"b is better by at least {round_down(-self.high):.3g} {sure}"
        low, high = -round_up(-self.low), round_up(self.high)
        return f"either may be better: a minus b is in [{low:.3g}, {high:.3g}] {sure}"
