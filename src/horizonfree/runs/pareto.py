"""The trade-off between a reward and a cost, with a band for every bound of the cost (docs/further-proofs.md).

Of the curve f(b), the best value among policies whose cost is b at most, a few policies and prices say everything:
policies with their intervals bound it from below, weak duality from above.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from horizonfree._repr import ReprMixin, ReprTable, data_frame
from horizonfree._validation import check_int, check_not_rejected
from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import confidence_of, interval
from horizonfree.mdp.rewards import Reward, rescale
from horizonfree.models import certify
from horizonfree.planning.constrained import ConstrainedSolution
from horizonfree.planning.induction import policy_values
from horizonfree.runs.constrained import STRICT, Question, at_most, check_constraints
from horizonfree.runs.risk import Estimate, empty_figure

MAX_POINTS = 1000
NEARLY = 1e-9  # by which the smallest cost is exceeded, on the scale of totals of 1: what the solver cannot tell apart


@dataclass(frozen=True, eq=False, repr=False)
class TradeOff(ReprMixin):
    """Policies between the cheapest and the best, each with its cost and value, and the band of the trade-off curve.

    `costs` and `values` [m] are those in the estimate, with intervals [`cost_low`, `cost_high`] and so on. For every
    policy, value <= `lines` + `prices` x cost for each of these pairs. `cheapest`: no policy has a smaller cost. All
    of it holds together with probability 1 - delta, at every bound: `at(bound)`.
    """

    costs: Float[np.ndarray, " m"]
    cost_low: Float[np.ndarray, " m"]
    cost_high: Float[np.ndarray, " m"]
    values: Float[np.ndarray, " m"]
    value_low: Float[np.ndarray, " m"]
    value_high: Float[np.ndarray, " m"]
    lines: Float[np.ndarray, " k"]
    prices: Float[np.ndarray, " k"]
    cheapest: float
    delta: float
    condition: str = ""

    def at(self, bound: float) -> Estimate:
        """The best value among policies whose cost is `bound` at most: in the estimate, and its interval.

        The lower end is minus infinity where no policy is certified to be within the bound. The value is nan below the
        smallest cost of the estimate; all of it is where certainly no policy is that cheap.
        """
        if bound < self.cheapest:
            return Estimate(np.nan, np.nan, np.nan)
        order = np.argsort(self.costs, kind="stable")
        inside = bound >= self.costs.min()
        value = float(np.interp(bound, self.costs[order], self.values[order])) if inside else np.nan
        high = float((self.lines + self.prices * bound).min())
        return Estimate(value, _hull(self.cost_high, self.value_low, bound), high)

    def plot(self) -> Any:
        """Value against cost with the certified band, as a Matplotlib figure."""
        figure, axis = empty_figure()
        self.draw(axis)
        return figure

    def draw(self, axis: Any, colors: tuple[str, str, str] = ("C0", "C1", "0.5")) -> None:
        """Draw the figure of `plot` on Matplotlib axes; colors: of the band, the estimate and infeasible bounds."""
        band_color, color, grey = colors
        bounds = np.linspace(self.cost_low.min(), self.cost_high.max(), 400)
        band = np.array([self.at(float(b)) for b in bounds])
        low = np.where(np.isfinite(band[:, 1]), band[:, 1], np.nan)
        axis.fill_between(
            bounds, low, band[:, 2], alpha=0.2, linewidth=0, color=band_color, label="certified band"
        )
        axis.plot(bounds, low, linewidth=0.8, color=band_color)
        axis.plot(bounds, band[:, 2], linewidth=0.8, color=band_color)
        axis.plot(self.costs, self.values, "o-", markersize=3.5, color=color, label="in the estimate")
        certain = bounds[np.isnan(band[:, 2])]
        if certain.size:
            ends = bounds[0], certain[-1]
            axis.axvspan(*ends, color=grey, alpha=0.3, linewidth=0, label="no policy is that cheap")
        axis.set_xlabel("bound of the cost")
        axis.set_ylabel("best value within it")
        axis.legend(frameon=False, fontsize=8, loc="lower right")

    def to_pandas(self) -> Any:
        """One row for each policy."""
        names = ("costs", "cost_low", "cost_high", "values", "value_low", "value_high")
        return data_frame({name: getattr(self, name) for name in names})

    def summary(self) -> str:
        """The ends of the curve."""
        first, last = self.at(float(self.cost_high.min())), self.at(float(self.cost_high.max()))
        ends = [
            f"{x.value:.4g}, {interval(x.low, x.high)} at a cost of {bound:.4g}"
            for x, bound in ((first, self.cost_high.min()), (last, self.cost_high.max()))
        ]
        return f"value {ends[0]}; {ends[1]} ({confidence_of(self.delta)}, any stopping time){self.condition}"

    def __str__(self) -> str:
        return self.summary()

    def _repr_table(self) -> ReprTable:
        lines = [
            (f"cost {c:.4g}", f"{interval(low, high)}: value {v:.4g}, {interval(least, upper)}")
            for c, low, high, v, least, upper in zip(
                self.costs, self.cost_low, self.cost_high, self.values, self.value_low, self.value_high
            )
        ]
        return ReprTable("Value against cost", [*lines, ("proved", self.summary())])


def trade_off(
    run: Any,
    reward: Any,
    cost: Any,
    *,
    points: Any = 20,
    scale: str = "total",
    delta: float = 0.05,
    start: Any = None,
    horizon: int | None = None,
    misspecification: Any = 0.0,
) -> TradeOff:
    """`Run.pareto`."""
    number = check_int(points, "points", 2, MAX_POINTS, f"a number of points, 2 to {MAX_POINTS:,}")
    constraints = [at_most(cost, 0.0)]
    check_constraints(run.problem, reward, constraints)
    restarted = run if start is None and horizon is None else run.restart_from(start, horizon)
    question = Question(restarted, reward, constraints, scale, (delta, misspecification))
    question.confidence.check_not_refuted()
    program = question.program()
    safest, free = program.safest(np.zeros(1)), program.best(question.reward.table, np.full(1, 2.0))
    if safest is None or free is None:
        raise OptionError("the linear programme of this reward and cost was not solved")
    first_cost = question.costs[0]
    dearest = _total(question, first_cost, free.policy)
    bounds = np.linspace(safest.value + NEARLY, max(dearest, safest.value + NEARLY), number)[:-1]
    solved = [program.best(question.reward.table, np.array([bound])) for bound in bounds]
    points_found = [safest._replace(multipliers=np.zeros(1)) if x is None else x for x in solved]
    points_found.append(free._replace(multipliers=np.zeros(1)))
    policies = [x.policy for x in points_found]
    rows = [
        (_ends(question, first_cost, policy), _ends(question, question.reward, policy)) for policy in policies
    ]
    (cost_at, cost_low, cost_high), (value_at, value_low, value_high) = np.array(rows).transpose(1, 2, 0)
    lines, prices = _lines(question, points_found)
    cheapest = first_cost.offset - first_cost.factor * _upper_bound(
        question, rescale(question.space, -first_cost.table), safest.policy
    )
    delta, condition = float(question.confidence.delta), question.confidence.condition()
    return TradeOff(
        costs=cost_at,
        cost_low=cost_low,
        cost_high=cost_high,
        values=value_at,
        value_low=value_low,
        value_high=value_high,
        lines=lines,
        prices=prices,
        cheapest=cheapest,
        delta=delta,
        condition=condition,
    )


def _total(question: Question, reward: Reward, policy: np.ndarray) -> float:
    """The total in the estimate, on the scale of totals of 1."""
    return float(question.space.at_start(policy_values(question.confidence.kernel, reward.table, policy)[0]))


def _ends(question: Question, reward: Reward, policy: np.ndarray) -> tuple[float, float, float]:
    """The total of a policy in the estimate, and its interval, in the units of the reward."""
    bounds, certificate = certify.for_reward(question.model, question.confidence, reward.table, policy)
    check_not_rejected(certificate)
    ends = _total(question, reward, policy), bounds.low, bounds.high
    return tuple(reward.factor * float(x) + reward.offset for x in ends)  # type: ignore[return-value]


def _upper_bound(question: Question, reward: Reward, policy: np.ndarray) -> float:
    """At least the total of every policy: high + gap of one of them, in the units of the reward, rounded up."""
    bounds, certificate = certify.for_reward(question.model, question.confidence, reward.table, policy)
    upper = reward.factor * min(1.0, float(bounds.high) + certificate.eps) + reward.offset
    return upper + STRICT * (1.0 + reward.factor + abs(reward.offset))


def _lines(
    question: Question, solutions: list[ConstrainedSolution]
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """value <= line + price x cost, of every policy, in the units of both (Theorem C4)."""
    reward, cost = question.reward, question.costs[0]
    lines, prices = [], []
    for policy, (price,), _ in solutions:
        reward_less_cost = rescale(question.space, reward.table - price * cost.table)
        upper = _upper_bound(question, reward_less_cost, policy)
        lines.append(reward.factor * (upper - price * cost.offset / cost.factor) + reward.offset)
        prices.append(reward.factor * price / cost.factor)
    return np.array(lines), np.array(prices)


def _hull(costs: Float[np.ndarray, " m"], values: Float[np.ndarray, " m"], bound: float) -> float:
    """The largest mean of values over mixtures whose mean cost is `bound` at most: of two policies, or of one."""
    inside, outside = costs <= bound, costs > bound
    if not inside.any():
        return -np.inf
    best = float(values[inside].max())
    if not outside.any():
        return best
    share = (bound - costs[inside][:, None]) / (costs[outside] - costs[inside][:, None])
    mixed = (1 - share) * values[inside][:, None] + share * values[outside]
    return max(best, float(mixed.max()))
