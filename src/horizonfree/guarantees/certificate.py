"""A certificate and its words. Numbers that people read are rounded up, so that what is said stays true."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple

from horizonfree._shown import Card, Shown

FINEST = 1e-6  # the smallest unit of an interval that is shown
ROUNDING = 1e-9  # units by which a number may miss a round one, as in `round_up`
SMALLEST = 1e-300  # a unit that can be divided by


@dataclass(frozen=True, repr=False)
class Certificate(Shown):
    """With probability 1 - delta the plan loses at most eps; `words` says what that means and what would help.

    `parts` are the numbers that eps is made of. `forecast` says about how many more episodes a smaller gap needs, empty
    where there is nothing to say. `is_rejected`: no parameter of the class explains the data; then eps is 1 and
    certifies nothing.
    """

    eps: float
    delta: float
    method: str
    words: str
    parts: Mapping[str, float]
    is_rejected: bool = False
    forecast: str = ""

    def card(self) -> Card:
        """What is proved, and what it is made of."""
        lines = [
            ("proved", self.words),
            ("eps", f"{self.eps:.6g}, with delta {self.delta:g}"),
            ("method", self.method),
        ]
        lines += [("forecast", self.forecast)] if self.forecast else []
        lines += (
            [("parts", ", ".join(f"{name} {x:.4g}" for name, x in self.parts.items()))] if self.parts else []
        )
        return Card("Certificate", lines)

    @property
    def is_vacuous(self) -> bool:
        """Whether nothing is certified, to three digits: no gap exceeds 1."""
        return round_up(self.eps) >= 1.0


def round_up(eps: float, finest: float = 0.0) -> float:
    """A bound to three digits, or to multiples of `finest`: upwards, so that what is said stays true."""
    if eps <= 0 or not math.isfinite(eps):
        return max(0.0, eps)
    unit = max(finest, SMALLEST, 10.0 ** (math.floor(math.log10(eps)) - 2))
    return math.ceil(eps / unit - ROUNDING) * unit


def round_down(x: float) -> float:
    """A lower bound x > 0 to three digits, downwards."""
    unit = max(SMALLEST, 10.0 ** (math.floor(math.log10(x)) - 2))
    return math.floor(x / unit + ROUNDING) * unit


def interval(low: float, high: float) -> str:
    """Two numbers that something lies between, such as "0.65 and 0.76": to two digits of its width."""
    unit = max(FINEST, 10.0 ** (math.floor(math.log10(max(high - low, FINEST))) - 1))
    below, above = math.floor(low / unit + ROUNDING) * unit, math.ceil(high / unit - ROUNDING) * unit
    digits = max(0, -math.floor(math.log10(unit) + 0.5))
    return " and ".join(f"{x + 0.0:,.{0 if x == int(x) else digits}f}" for x in (below, above))


def rounded_up(eps: float) -> str:
    """A bound for people."""
    return f"{round_up(eps):.3g}"


def proved(eps: float, delta: float) -> str:
    """What a bound says."""
    return f"at most {rounded_up(eps)} is lost, with probability {surely_of(delta)}"


def surely_of(delta: float) -> str:
    """The confidence 1 - delta to six digits, rounded down; never 1."""
    return _six_digits(1 - delta, -1) if delta > 1e-6 else f"1 - {at_most_of(delta)}"


def at_most_of(delta: float) -> str:
    """An error probability to six digits, rounded up."""
    return _six_digits(delta, 1)


def _six_digits(x: float, direction: int) -> str:
    """x > 0 to six digits, not above x (direction -1) or not below it (1)."""
    text = f"{x:g}"
    if (float(text) - x) * direction >= 0:
        return text
    unit = Decimal(1).scaleb(math.floor(math.log10(x)) - 5)
    return f"{float(Decimal(text) + direction * unit):g}"


TARGETS = tuple(
    x * 10.0**-k for k in range(1, 7) for x in (5.0, 2.0, 1.0)
)  # gaps that people ask for: 0.5, 0.2, ...
AHEAD = 0.75  # the next of them is below this share of the gap


def target_below(eps: float) -> float | None:
    """The next gap that people ask for, clearly below this one."""
    return next((target for target in TARGETS if target < AHEAD * eps), None)


def forecast(target: float, episodes: float, floor: float | None = None) -> str:
    """What a smaller gap needs, in words; episodes are rounded to two digits, as they are a guess.

    floor: the gap that a misspecification leaves however many episodes are seen.
    """
    if floor is not None:
        left = rounded_up(floor)
        if target <= floor:
            return (
                f"{target:g} is out of reach: {left} is left by laws outside the class, however many episodes"
            )
        return f"more episodes help, down to about {left}, which laws outside the class leave"
    if not math.isfinite(episodes):
        return f"{target:g} cannot be foreseen yet"
    unit = 10 ** max(0, len(str(int(episodes))) - 2)
    return f"{target:g} needs about {math.ceil(episodes / unit) * unit:,} more episodes"


def in_units(certificate: Certificate, factor: float) -> Certificate:
    """The same certificate, with words for a reward whose totals reach `factor`; eps stays on the scale of 1."""
    if factor == 1 or certificate.is_vacuous or certificate.is_rejected:
        return certificate
    plain, scaled = (proved(x * certificate.eps, certificate.delta) for x in (1.0, factor))
    return replace(certificate, words=certificate.words.replace(plain, scaled, 1))


class Terms(NamedTuple):
    """What the radii of an algorithm refer to: failure probability, "paper" or "scaled" constants, episodes K."""

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
    """An algorithm's own guarantee: `bound` names it, e.g. 4U. It says something with the paper's constants only.

    After more episodes than the budget the radii say nothing. why_void: what else the theorem needs and this run does
    not have.
    """
    delta, constants, budget = terms
    eps = min(1.0, eps)
    if episodes > (budget or 0):
        why_void = f"{episodes} episodes, but the radius is that of a budget of {budget}"
    if constants == "paper" and why_void is not None:
        return Certificate(1.0, delta, f"paper constants, {bound}", f"vacuous: {why_void}", parts)
    if constants == "scaled":
        words = f"no guarantee: {rounded_up(eps)} with scaled constants, which no theorem backs"
    elif round_up(eps) >= 1:
        words = "vacuous: the paper's constants need far more episodes"
    else:
        words = f"{proved(eps, delta)}, by plans in the explorer's own model"
    return Certificate(eps, delta, f"{constants} constants, {bound}", words, parts)
