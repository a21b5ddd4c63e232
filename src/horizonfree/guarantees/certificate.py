"""Certificates and their texts. Numbers are rounded in the direction in which the statement stays true.

`MEANINGS` has a short text for each number of a certificate; docs/certificates.md defines them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal
from typing import Any, NamedTuple

from horizonfree._deprecated import renamed_words
from horizonfree._repr import ReprMixin, ReprTable
from horizonfree.errors import OptionError

MIN_INTERVAL_UNIT = 1e-6  # the smallest unit to which the ends of an interval are rounded
MIN_UNIT_BESIDE = 1e-11  # smallest unit for the ends of an interval that is shown beside a bound
ROUNDING_UNITS = 1e-9  # a number this close to a multiple of the unit, in units, counts as the multiple
MIN_UNIT = 1e-300  # smallest unit of any rounding: a bound divided by it stays finite
MAX_NONVACUOUS = 0.999 + 1e-12  # the largest bound that rounds up to less than 1, in three digits
MIN_PERCENT_DELTA = 1e-9  # a delta below which the confidence is written as 1 - delta
TARGETS = tuple(x * 10.0**-k for k in range(1, 7) for x in (5.0, 2.0, 1.0))  # round numbers: 0.5, 0.2, ...
TARGET_SHARE = 0.75  # the next target is below this share of the suboptimality bound
OWN_PLANS = "plans in the explorer's own model: run.plan(reward, model='explorer')"
MEANINGS = {
    "gap": "suboptimality bound of the plans, for every reward r_h(s, a) of total at most 1",
    "delta": "failure probability",
    "slack": "log-threshold: a parameter is excluded if the log-likelihood falls short of the best fit by more",
    "start": "the e-process counts the episodes after this one",
    "episodes": "number of episodes",
    "free": "unknown directions of the parameter",
    "seen": "of these, the directions with data in the e-process",
    "kappa": "largest KL divergence of trajectories from those of the estimate, over all policies",
    "hit": "largest probability of an excluded state-action pair, over all policies",
    "attained": "part of kappa that some parameter in the confidence set attains",
    "hinge": "bound by the mean log-likelihood ratio of trajectories",
    "zeta": "declared misspecification (total variation)",
    "zeta_low": "smallest misspecification that the data do not refute",
    "floor": "part of the bound due to the misspecification alone, for any number of episodes",
    "slack_robust": "slack for the declared misspecification",
    "against": "log10 of the mean e-value of the alternatives",
    "rewards": "number of rewards",
    "worst": "index of the reward with the largest bound, from 0",
    "median": "median of the bounds",
    "pairs": "state-action pairs with unknown transitions",
    "known": "of these, the pairs with enough data",
    "least": "smallest number of visits among them",
    "features": "features of state-action pairs, whose measures are unknown",
    "width": "largest total-variation error of a row of the estimate",
    "beta": "radius, in units of the statistical width of a row, for all functions of the next state",
    "V_hat": "smallest uncertainty of the explorer",
    "four_V_hat": "bound if the explorer's search is exact",
    "relaxed": "upper bound on the explorer's uncertainty, without a search",
    "total_variance": "bound on the error of a value, by the law of total variance",
    "likelihood_ratio": "bound on what a plan loses, by the likelihood ratio of trajectories",
    "evidence": "certificate of the evidence, with which the explorer's own is compared",
    "ball_ratio": "distance of the estimate from the centres of its confidence balls, in radii",
    "episode": "episode whose estimate is used for plans",
    "E": "bound on the error of a value, for rewards in [0, 1] at every step",
    "U": "bound on the error of a value, for rewards of total at most 1",
    "W": "uncertainty w of RF-Express: the error of a value is at most 3e sqrt(w) + w",
    "needed": "episodes that the paper's own guarantee needs, with its constants",
    "V": "optimistic value of the explorer's last policy for its own reward",
}


@dataclass(frozen=True, repr=False)
class Certificate(ReprMixin):
    """A suboptimality bound that holds with probability 1 - delta, for all numbers of episodes at once.

    `eps` bounds V* - V^pi for rewards whose totals lie in [0, 1]; it is 1 where nothing is certified. `statement`
    is in the units of the reward; `holds_for` names the policies and the start, `assumes` what is taken for
    granted. `parts` are the numbers that eps is made of. `forecast`: about how many more episodes a smaller bound
    needs, or empty. `is_rejected`: no parameter of the model class explains the data.

    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> run = hf.explore(problem, episodes=50, progress=False)
    >>> certificate = run.certificate()
    >>> certificate.delta, 0 < certificate.eps <= 1, certificate.is_rejected
    (0.05, True, False)
    >>> certificate.holds_for
    'plans of run.plan(reward, delta=0.05), from state 0, 8 steps'
    """

    eps: float
    delta: float
    method: str
    statement: str
    parts: Mapping[str, float]
    is_rejected: bool = False
    forecast: str = ""
    holds_for: str = ""
    assumes: str = ""
    claim: Any = field(default=None, repr=False, compare=False)

    def save(self, path: Any) -> None:
        """Write it into a JSON file that `horizonfree verify FILE RUN` checks (docs/certificate-files.md)."""
        if self.claim is None:
            raise OptionError(
                "this certificate cannot be saved: a file holds those of run.certificate (methods 'uniform' and "
                "'direct', rewards 'goals' and 'occupancies'), and of plans and policies for a plain reward or an event"
            )
        self.claim.save(self, path)

    def _repr_table(self) -> ReprTable:
        """The statement, its scope and the numbers of the bound."""
        lines = [
            ("proved", self.statement),
            ("holds for", self.holds_for),
            ("assumes", self.assumes),
            ("eps", f"{self.eps:.6g}, with delta {self.delta:g}"),
            ("method", self.method),
            ("forecast", self.forecast),
            ("parts", ", ".join(f"{name} {x:.4g}" for name, x in self.parts.items())),
        ]
        return ReprTable("Certificate", [line for line in lines if line[1]])

    def summary(self) -> str:
        """The statement, a sentence such as "suboptimality at most 0.067 (95% confidence, any stopping time)"."""
        return self.statement

    def __str__(self) -> str:
        return self.summary()

    words = renamed_words("Certificate", summary)

    @property
    def is_vacuous(self) -> bool:
        """Whether nothing is certified, to three digits: the suboptimality never exceeds 1."""
        return round_up(self.eps) >= 1.0


def round_up(eps: float, finest: float = 0.0) -> float:
    """A bound rounded up to three digits, or to multiples of `finest`."""
    if eps <= 0 or not math.isfinite(eps):
        return max(0.0, eps)
    unit = max(finest, MIN_UNIT, 10.0 ** (math.floor(math.log10(eps)) - 2))
    return math.ceil(eps / unit - ROUNDING_UNITS) * unit


def at_most_one(eps: float) -> float:
    """A suboptimality bound: exactly 1 where it certifies nothing, because it is nan or 1 to three digits."""
    return eps if eps <= MAX_NONVACUOUS else 1.0


def round_down(x: float) -> float:
    """A lower bound x > 0 to three digits, downwards."""
    unit = max(MIN_UNIT, 10.0 ** (math.floor(math.log10(x)) - 2))
    return math.floor(x / unit + ROUNDING_UNITS) * unit


def interval(low: float, high: float, beside: float | None = None) -> str:
    """A confidence interval such as "[0.65, 0.76]", rounded outwards to two digits of its width.

    beside: a bound that is shown with it; there are as many digits as it takes for no end to be on its other side.
    """
    unit = max(MIN_INTERVAL_UNIT, 10.0 ** (math.floor(math.log10(max(high - low, MIN_INTERVAL_UNIT))) - 1))
    below, above = _outwards(low, high, unit)
    while beside is not None and unit > MIN_UNIT_BESIDE:
        if _side(low, beside) * _side(below, beside) >= 0 and _side(high, beside) * _side(above, beside) >= 0:
            break
        unit /= 10
        below, above = _outwards(low, high, unit)
    digits = max(0, -math.floor(math.log10(unit) + 0.5))
    ends = (f"{x + 0.0:,.{0 if x == int(x) else digits}f}" for x in (below, above))
    return f"[{', '.join(ends)}]"


def _outwards(low: float, high: float, unit: float) -> tuple[float, float]:
    return (
        math.floor(low / unit + ROUNDING_UNITS) * unit,
        math.ceil(high / unit - ROUNDING_UNITS) * unit,
    )


def _side(x: float, bound: float) -> int:
    """-1, 0 or 1: the number is below the bound, at it, or above it."""
    return 0 if abs(x - bound) < MIN_UNIT_BESIDE / 10 else 1 if x > bound else -1


def round_up_text(eps: float) -> str:
    """A bound as text, rounded up to three digits."""
    return f"{round_up(eps):.3g}"


def bound_statement(eps: float, delta: float, unit: str = "") -> str:
    """The statement of an anytime-valid suboptimality bound."""
    return f"suboptimality at most {round_up_text(eps)}{unit} ({confidence_of(delta)}, any stopping time)"


def delta_text(delta: float) -> str:
    """An error probability as text, rounded up to three digits."""
    return f"{max(round_up(delta), delta):.3g}"


def confidence_of(delta: float) -> str:
    """The confidence 1 - delta such as "95% confidence", rounded down to two digits of delta."""
    percent = 100 * (1 - Decimal(repr(float(delta))))
    if delta < MIN_PERCENT_DELTA:
        return f"1 - {delta_text(delta)} confidence"
    digits = 1 - math.floor(math.log10(100 * delta))
    below = percent.quantize(Decimal(1).scaleb(-max(1, digits)), ROUND_FLOOR)
    return f"{below.normalize():f}% confidence"


def target_below(eps: float) -> float | None:
    """The largest of `TARGETS` below TARGET_SHARE * eps; None if there is none."""
    return next((target for target in TARGETS if target < TARGET_SHARE * eps), None)


def forecast(target: float, episodes: float, floor: float | None = None) -> str:
    """A text on how many more episodes the suboptimality bound `target` needs; two digits, as it is a guess.

    floor: the part of the bound that is due to misspecification, for any number of episodes.
    """
    if floor is not None:
        left = round_up_text(floor)
        if target <= floor:
            return (
                f"{target:g} is out of reach: {left} is left by laws outside the class, however many episodes"
            )
        return f"more episodes help, down to about {left}, which laws outside the class leave"
    if not math.isfinite(episodes):
        return f"{target:g} cannot be foreseen yet"
    return f"{target:g} needs about {episodes_text(episodes)} more episodes"


def episodes_text(episodes: float) -> str:
    """A guessed number of episodes, rounded up to two digits."""
    unit = 10 ** max(0, len(str(math.ceil(episodes))) - 2)
    return f"{math.ceil(episodes / unit) * unit:,}"


class Terms(NamedTuple):
    """What the radii are computed for: failure probability, "paper" or "scaled" constants, budget of episodes."""

    delta: float
    constants: str
    budget: int | None


def claim(
    eps: float,
    parts: Mapping[str, float],
    bound: str,
    terms: Terms,
    episodes: int,
    why_void: str | None = None,
) -> Certificate:
    """An algorithm's own guarantee: `bound` names it, e.g. 4U. It is a guarantee with the paper's constants only.

    The radii are void after more episodes than the budget. why_void: another condition of the theorem that fails in
    this run.
    """
    delta, constants, budget = terms
    eps = min(1.0, eps)
    if episodes > (budget or 0):
        why_void = f"{episodes} episodes, but the radius is that of a budget of {budget}"
    if constants == "paper" and why_void is not None:
        return Certificate(1.0, delta, f"paper constants, {bound}", f"vacuous: {why_void}", parts)
    if constants == "scaled":
        statement = f"no guarantee: {round_up_text(eps)} with scaled constants, which no theorem backs"
    elif round_up(eps) >= 1:
        statement = "vacuous: the paper's constants need far more episodes"
    else:
        statement = (
            f"suboptimality at most {round_up_text(eps)} ({confidence_of(delta)}) after {episodes:,} episodes"
        )
    return Certificate(eps, delta, f"{constants} constants, {bound}", statement, parts, holds_for=OWN_PLANS)
