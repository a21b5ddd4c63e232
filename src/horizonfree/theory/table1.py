"""Table 1 of the paper as data: episodes up to constants and logarithms, and the explorers of this library.

Paper: J. Zhang, W. Zhang, Gu 2023 (arXiv 2303.10165), Table 1: episodes until every plan is eps-optimal. A rate is a
sum of monomials in H, S, A and d, divided by eps^2; H^4 d (H + d) is H^5 d + H^4 d^2. delta stands in the logarithms
that the table leaves out. `scale` says for which rewards: "per-step" for r_h in [0, 1], "total" for totals at most 1,
"total H" for totals at most H. `homogeneous`: one kernel for all steps.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from horizonfree._validation import require

Class = Literal["tabular", "linear", "mixture"]
Reward = Literal["per-step", "total", "total H"]
Terms = tuple[tuple[int, int, int, int], ...]
NAMES = "H", "S", "A", "d"


@dataclass(frozen=True)
class Row:
    """One row: `terms` are the exponents of H, S, A, d of each monomial; `explorer` is ours, or None."""

    algorithm: str
    source: str
    model: Class
    scale: Reward
    homogeneous: bool
    kind: Literal["upper", "lower"]
    terms: Terms
    explorer: str | None

    @property
    def order(self) -> str:
        """The rate as a formula."""
        total = " + ".join(map(_monomial, self.terms))
        return f"({total})/eps^2" if len(self.terms) > 1 else f"{total}/eps^2"

    def rate(self, eps: float, *, H: float = 1, S: float = 1, A: float = 1, d: float = 1) -> float:
        """Episodes, without constants and logarithms; sizes that the class does not have are left out."""
        sizes = {"H": H, "S": S, "A": A, "d": d}
        for name, value in {"eps": eps, **sizes}.items():
            _check(name, value)
        return math.fsum(_product(term, tuple(sizes.values())) for term in self.terms) / float(eps) ** 2


def table1() -> tuple[Row, ...]:
    """Every row of Table 1, in the order of the paper."""
    return ROWS


def _monomial(term: tuple[int, ...]) -> str:
    factors = [f"{name}^{power}" if power > 1 else name for name, power in zip(NAMES, term) if power]
    return " ".join(factors)


def _product(term: tuple[int, ...], sizes: tuple[float, ...]) -> float:
    return math.prod(float(size) ** power for size, power in zip(sizes, term))


def _check(name: str, value: Any) -> None:
    """Raise for numbers that are no size or accuracy; squares and powers stay finite."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    least = 1e-50 if name == "eps" else 1
    require(is_number and least <= value <= 1e15, name, value, f"a number from {least:g} to 1e15")


def _plus(power: int) -> Terms:
    """H^power d (H + d)."""
    return (power + 1, 0, 0, 1), (power, 0, 0, 2)


def _rows(
    model: Class, *entries: tuple[str, str, Reward, bool, Literal["upper", "lower"], Terms, str | None]
) -> tuple[Row, ...]:
    """The rows of one class: algorithm, source, rewards, homogeneous, bound, exponents, explorer."""
    return tuple(
        Row(name, source, model, scale, homogeneous, kind, terms, explorer)
        for name, source, scale, homogeneous, kind, terms, explorer in entries
    )


_JIN = "Jin, Krishnamurthy, Simchowitz, Yu 2020"
_SSTP = "Z. Zhang, Du, Ji 2020"
_OURS = "J. Zhang, W. Zhang, Gu 2023"
ROWS = (
    *_rows(
        "tabular",
        ("Jin et al.", _JIN, "per-step", False, "upper", ((5, 2, 1, 0),), "jin2020"),
        ("RF-UCRL", "Kaufmann et al. 2021", "per-step", False, "upper", ((4, 2, 1, 0),), "rf-ucrl"),
        ("RF-Express", "Menard et al. 2021", "per-step", False, "upper", ((3, 2, 1, 0),), "rf-express"),
        ("SSTP", _SSTP, "total", True, "upper", ((0, 2, 1, 0),), "sstp"),
        ("lower bound", _JIN, "per-step", False, "lower", ((2, 2, 1, 0),), None),
        ("lower bound", _SSTP, "total", True, "lower", ((0, 2, 1, 0),), None),
    ),
    *_rows(
        "linear",
        ("Wang et al.", "R. Wang et al. 2020", "per-step", False, "upper", ((6, 0, 0, 3),), "wang2020"),
        ("FRANCIS", "Zanette et al. 2020", "per-step", False, "upper", ((5, 0, 0, 3),), "francis"),
        ("RFLIN", "Wagenmaker et al. 2022", "per-step", False, "upper", ((5, 0, 0, 2),), "rflin"),
    ),
    *_rows(
        "mixture",
        ("UCRL-RFE+", "W. Zhang et al. 2021", "per-step", True, "upper", _plus(4), "ucrl-rfe+"),
        ("Chen et al.", "Chen et al. 2022", "per-step", False, "upper", _plus(3), "chen2022"),
        ("HF-UCRL-RFE++", _OURS, "total", True, "upper", ((0, 0, 0, 2),), "hf-ucrl-rfe++"),
        ("HF-UCRL-RFE++", _OURS, "total H", True, "upper", ((2, 0, 0, 2),), "hf-ucrl-rfe++"),
        ("lower bound", _OURS, "total", True, "lower", ((0, 0, 0, 2),), None),
        ("lower bound", _OURS, "per-step", True, "lower", ((2, 0, 0, 2),), None),
    ),
)
