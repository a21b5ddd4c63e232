"""The distribution of the total of an episode under a policy, with proofs: quantiles and CVaR (docs/further-proofs.md).

A lifted state is a state and what has been paid so far, `paid`, and for rewards that differ between steps also the
step. Lifted transitions have the probabilities of those that they lift, so the confidence set bounds every reward of
lifted states: "the total is t at least", and "by how much the total falls short of t".
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._extras import needs_extra
from horizonfree._repr import ReprMixin, ReprTable
from horizonfree._validation import check_not_rejected, check_probability
from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import confidence_of, interval
from horizonfree.mdp.events import Lift
from horizonfree.mdp.policies import check_allowed, policy_table
from horizonfree.mdp.rewards import as_table
from horizonfree.mdp.space import Space
from horizonfree.models import certify
from horizonfree.models.base import probabilities
from horizonfree.planning.induction import policy_values
from horizonfree.runs.plan import start_distribution_of

MAX_LEVELS = 500  # different totals
MAX_ENTRIES = 2**23  # of the lists of successors of lifted states
DIGITS = 12  # of payments
TIE = 1e-12  # sums and shares that differ by less are the same


class Estimate(NamedTuple):
    """A number in the estimate, and the interval that contains the true one."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class TotalLift(Lift):
    """State s after payments number k is k S + s; `onward` [X, A]: the number of the payments after the next one."""

    onward: Int[np.ndarray, "X A"]

    def copies(self) -> Int[np.ndarray, "X A"]:
        """The copy that follows each pair."""
        return self.onward

    def lists(self, succ: Any) -> Any:
        """Lists of successors [S, A, n] as lists of lifted ones [X, A, n]."""
        succ = np.asarray(succ)
        return succ[self.origin] + len(succ) * self.onward[..., None].astype(succ.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class Risk(ReprMixin):
    """The distribution of the total under one policy, in the units of the reward; all bounds hold together.

    `totals`: what an episode can be paid, ascending. `at_least`, with `at_least_low` and `at_least_high`: the
    probability of each total or more, in the estimate, and its interval. `shortfall` likewise: the mean of how far the
    total is below each.
    """

    totals: Float[np.ndarray, " m"]
    at_least: Float[np.ndarray, " m"]
    at_least_low: Float[np.ndarray, " m"]
    at_least_high: Float[np.ndarray, " m"]
    shortfall: Float[np.ndarray, " m"]
    shortfall_low: Float[np.ndarray, " m"]
    shortfall_high: Float[np.ndarray, " m"]
    delta: float
    condition: str = ""

    def probability(self, total: float) -> Estimate:
        """The probability that an episode is paid this total at least."""
        i = int(np.searchsorted(self.totals, total - TIE * max(1.0, abs(total))))
        if i == len(self.totals):
            return Estimate(0.0, 0.0, 0.0)
        return Estimate(*(float(x[i]) for x in (self.at_least, self.at_least_low, self.at_least_high)))

    def quantile(self, share: float) -> Estimate:
        """The smallest total t such that an episode is paid t or less with probability `share` at least."""
        share = check_probability(share, "share", "a share of the episodes")
        # P(total <= t_i) = 1 - P(total >= t_(i+1)); more mass below makes the quantile smaller
        ends = []
        for above in (self.at_least, self.at_least_low, self.at_least_high):
            below = np.append(1.0 - above[1:], 1.0)
            ends.append(float(self.totals[int((below >= share - TIE).argmax())]))
        return Estimate(*ends)

    def cvar(self, share: float) -> Estimate:
        """The mean total of the worst `share` of the episodes: the largest t - E (t - total)^+ / share."""
        share = check_probability(share, "share", "a share of the episodes")
        ends = [
            float((self.totals - short / share).max())
            for short in (self.shortfall, self.shortfall_high, self.shortfall_low)
        ]
        return Estimate(*np.clip(ends, self.totals[0], self.totals[-1]).tolist())

    def plot(self) -> Any:
        """The distribution function with its band, as a matplotlib Figure."""
        figure, axis = empty_figure()
        ends = self.totals[0], self.totals[-1]
        margin = 0.05 * max(ends[1] - ends[0], 1e-12)
        x = np.concatenate([[ends[0] - margin], self.totals, [ends[1] + margin]])

        def below(above: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m2"]:
            return np.concatenate([[0.0], 1.0 - above[1:], [1.0, 1.0]])

        low, high = below(self.at_least_high), below(self.at_least_low)
        axis.fill_between(x, low, high, step="post", alpha=0.2, linewidth=0, label="certified band")
        axis.step(x, below(self.at_least), where="post", color="C1", label="in the estimate")
        axis.set_xlabel("total")
        axis.set_ylabel("share of episodes with this total or less")
        axis.set_ylim(-0.02, 1.02)
        axis.legend(frameon=False, fontsize=8, loc="lower right")
        return figure

    def summary(self, share: float = 0.05) -> str:
        """The quantile and the CVaR of a share, with their intervals."""
        quantile, cvar = self.quantile(share), self.cvar(share)
        return (
            f"quantile {share:g}: {quantile.value:.4g}, {interval(quantile.low, quantile.high)}; mean of the worst "
            f"{share:.0%}: {cvar.value:.4g}, {interval(cvar.low, cvar.high)} "
            f"({confidence_of(self.delta)}, any stopping time){self.condition}"
        )

    def __str__(self) -> str:
        return self.summary()

    def _repr_table(self) -> ReprTable:
        lines = [("totals", f"{len(self.totals)}, {self.totals[0]:.4g} to {self.totals[-1]:.4g}")]
        lines += [("proved", self.summary(share)) for share in (0.05, 0.5)]
        return ReprTable("Distribution of the total", lines)


def risk_of(
    run: Any,
    reward: Any,
    policy: Any,
    *,
    delta: float = 0.05,
    start: Any = None,
    horizon: int | None = None,
    misspecification: Any = 0.0,
) -> Risk:
    """`Run.risk`."""
    if start is not None or horizon is not None:
        return risk_of(
            run.restart_from(start, horizon), reward, policy, delta=delta, misspecification=misspecification
        )
    problem = run.problem
    space, confidence = problem.space, run.confidence(delta, misspecification)
    problem.check_exact_kernels("the distribution of a total is certified for kernels that are given")
    confidence.check_not_refuted()
    table, acts = as_table(problem, reward), policy_table(policy, *space.sizes)
    check_allowed(space, acts)
    units, unit = whole_numbers(table)
    lift, last, is_reached = total_lift(space, units, probabilities(acts, space.num_actions) > 0)
    totals = np.unique(last[is_reached])
    if len(totals) > MAX_LEVELS:
        refuse_sums(len(totals))
    acting, lifted_confidence = acts[:, lift.origin], confidence.lifted(lift)
    tables = np.zeros((2, 3, len(totals)))  # probability and shortfall: value, low, high
    tables[0, :, 0] = 1.0
    for i, total in enumerate(totals[1:], start=1):
        size = float(total - totals[0])
        thresholds = np.where(is_reached, last, totals[0])
        for k, (numbers, factor) in enumerate(
            [(thresholds >= total, 1.0), (np.maximum(total - thresholds, 0) / size, unit * size)]
        ):
            reward = np.zeros((space.horizon, *last.shape))
            reward[-1] = numbers
            bounds, certificate = certify.for_reward(problem.model, lifted_confidence, reward, acting)
            check_not_rejected(certificate)
            value = lift.space.at_start(policy_values(lifted_confidence.kernel, reward, acting)[0])
            tables[k, :, i] = factor * np.array([value, bounds.low, bounds.high])
    return _risk(unit * totals, *tables, delta=float(confidence.delta), condition=confidence.condition())


def _risk(
    totals: Float[np.ndarray, " m"],
    above: Float[np.ndarray, "3 m"],
    short: Float[np.ndarray, "3 m"],
    **words: Any,
) -> Risk:
    """The bounds made consistent with each other: probabilities fall, and shortfalls are their sums."""
    low = np.maximum.accumulate(above[1][::-1])[::-1]
    high = np.minimum.accumulate(above[2])
    steps = np.diff(totals)
    by_sums = [np.append(0.0, np.cumsum(steps * (1.0 - x[1:]))) for x in (high, low)]
    shortfall = short[0], np.maximum(short[1], by_sums[0]), np.minimum(short[2], by_sums[1])
    return Risk(totals, above[0], low, high, *shortfall, **words)


def refuse_sums(number: int) -> NoReturn:
    """Raise an error for so many different sums."""
    raise OptionError(
        f"what is paid on the way has {number:,} different sums, too many to tell apart; round the reward, for example "
        "to tenths of its largest entry: the total moves by at most half a unit for each step"
    )


def whole_numbers(table: Float[np.ndarray, "H S A"]) -> tuple[Int[np.ndarray, "H S A"], float]:
    """A reward as whole numbers of a unit, a power of ten, so that sums are exact."""
    largest = float(np.abs(table).max())
    unit = 10.0 ** (math.floor(math.log10(largest)) - DIGITS) if largest > 0 else 1.0
    return np.round(table / unit).astype(np.int64), unit


def total_lift(
    space: Space, payments: Int[np.ndarray, "H S A"], is_taken: Bool[np.ndarray, "H S A"]
) -> tuple[TotalLift, Int[np.ndarray, "X A"], Bool[np.ndarray, "X A"]]:
    """The lift, the total of an episode that ends with each lifted state and action, and whether one can.

    is_taken: actions of the policy; what others lead to does not matter. Sums are those of all paths on the support.
    A reward that is the same at every step has one list of sums, any other one for each step.
    """
    H, S, A = space.sizes
    steps = reached_sums(space, payments, is_taken)
    lists = [np.unique(sums) for _, sums in steps]
    is_same = bool((payments == payments[0]).all())
    if is_same:
        lists = [np.unique(np.concatenate(lists))] * H
    offsets = np.zeros(H, int) if is_same else np.cumsum([0, *(len(x) for x in lists[:-1])])
    number = int(offsets[-1]) + len(lists[-1])
    if number * S * A * space.succ.shape[2] > MAX_ENTRIES:
        refuse_sums(number)
    following = np.zeros((number, S, A), np.int64)
    last = np.zeros((number, S, A), np.int64)
    for h in range(1 if is_same else H - 1):
        next_sums = lists[h][:, None, None] + payments[h]
        sums = lists[min(h + 1, H - 1)]
        positions = np.minimum(np.searchsorted(sums, next_sums), len(sums) - 1)  # anywhere where it is none
        following[offsets[h] : offsets[h] + len(lists[h])] = offsets[min(h + 1, H - 1)] + positions
    last[offsets[-1] :] = lists[-1][:, None, None] + payments[-1]
    is_reached = np.zeros((number, S, A), bool)
    states, paid_before = steps[-1]
    is_reached[offsets[-1] + np.searchsorted(lists[-1], paid_before), states] = is_taken[-1, states]
    origin, first = np.tile(np.arange(S), number), int(np.searchsorted(lists[0], 0)) * S
    initial = np.zeros(number * S)
    initial[first : first + S] = start_distribution_of(space)
    successors = following.reshape(-1, A)
    lifted_space = Space(
        succ=(np.asarray(space.succ)[origin] + S * successors[..., None]).astype(np.int32),
        support=np.asarray(space.support)[origin],
        reachable=np.asarray(space.reachable)[origin],
        initial=initial,
        horizon=H,
        start=None,
        is_dense=False,
        acts=None if space.acts is None else np.asarray(space.acts)[origin],
    )
    lift = TotalLift(lifted_space, origin, first + np.arange(S), successors)
    return lift, last.reshape(-1, A), is_reached.reshape(-1, A)


def reached_sums(
    space: Space, payments: Int[np.ndarray, "H S A"], is_taken: Bool[np.ndarray, "H S A"]
) -> list[tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]]:
    """For each step the states and what may have been paid before, as pairs."""
    succ, support = np.asarray(space.succ), np.asarray(space.support)
    states = np.flatnonzero(space.starts())
    sums = np.zeros(len(states), np.int64)
    result = [(states, sums)]
    for h in range(len(payments) - 1):
        pair, a = np.nonzero(is_taken[h, states])
        if len(pair) * succ.shape[2] > MAX_ENTRIES:
            refuse_sums(len(np.unique(sums)))
        i, j = np.nonzero(support[states[pair], a])
        successors = succ[states[pair], a][i, j]
        next_sums = (sums[pair] + payments[h, states[pair], a])[i]
        states, sums = np.unique(np.stack([successors, next_sums]), axis=1)
        result.append((states, sums))
    return result


def empty_figure() -> tuple[Any, Any]:
    """A Matplotlib figure with one pair of axes, without global state."""
    with needs_extra("report", "reports and figures"):
        from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 3.6), layout="constrained", facecolor="white")
    axis = figure.subplots()
    axis.grid(alpha=0.25, linewidth=0.5)
    axis.spines[["top", "right"]].set_visible(False)
    return figure, axis
