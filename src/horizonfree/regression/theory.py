"""What the theorems promise, in numbers: the radius, the orders, the episodes enough and the episodes needed.

Paper: J. Zhang, W. Zhang, Gu 2023, "Optimal Horizon-Free Reward-Free Exploration for Linear Mixture MDPs" (arXiv
2303.10165), main theorem and its corollaries (section 5) with their exact forms (appendix A), lower bound (appendix C).

    gap <= 4 A1/K + 4 A2/sqrt(K),      m(eps, delta) = 16 A2^2/eps^2 + 8 A1/eps
    A1 = 2752 max{64 beta^2 d iota, 2 zeta} + 24 zeta + 240 d iota + 240 beta gamma^2 d iota
         + 120 beta d iota sqrt(M) + 24 sqrt(zeta M d iota) + M d iota
    A2 = 64 max{8 beta sqrt(d iota), sqrt(2 zeta)} + 120 beta sqrt(d iota H alpha^2)
    iota = log(1 + KH/(d lam alpha^2)),   zeta = 4 log(4 max{1, log(KH)}/delta_0),   beta = beta_K

Choices, where the print is in doubt (docs/theory.md has the reasons):
1. delta is the failure probability of the whole algorithm; every event gets delta_0 = delta/(4M). `split=False` gives
   the printed main theorem instead, delta_0 = delta.
2. 2752 = 2 * 32^2 + 2 * 352; one of the two printed versions has 896. The last two terms of A1 are kept.
3. A1 and A2 depend on K, so m(eps, delta) is the least fixed point of K = 16 A2(K)^2/eps^2 + 8 A1(K)/eps.
4. max{1, log(KH)} in zeta: the martingale bound behind it needs it when KH < e.
5. Everything in `radius`. The lower bound has its own proof, with a constant, since the paper leaves it open.

Two slips of the printed proof are kept by default, and mended with `mended=True`: frozen norms exceed running ones by
a factor up to 4, so beta becomes 4 beta, except that 240 d iota + 240 beta gamma^2 d iota becomes 120 d iota +
480 beta gamma^2 d iota; and 24 sqrt(zeta M d iota) becomes 24 sqrt(2 zeta M d iota). Either way the bound is for plans
in the model theta_k of the best episode, k = argmin Vhat_{k,1}, with an exact oracle; the print has the last one.

scale="total" is for rewards whose total is at most 1, "per-step" for r_h in [0, 1] with totals up to H: the same
statements with eps replaced by eps/H and gaps multiplied by H.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar

import numpy as np

from horizonfree._inputs import share, shown, whole
from horizonfree.errors import OptionError
from horizonfree.regression import radius
from horizonfree.regression.radius import Sizes
from horizonfree.regression.radius import moment_orders as _moment_orders

Scale = Literal["total", "per-step"]
_P = ParamSpec("_P")
_R = TypeVar("_R")
LIMITS = {  # between which every quantity, and every square on the way to it, is a finite number
    "d": (1, 1e15),
    "H": (1, 1e15),
    "k": (1, 1e200),
    "K": (1, 1e200),
    "B": (1e-30, 1e30),
    "eps": (1e-50, 1e50),
    "delta": (1e-300, 1),
}
MOST_ORDERS = 1000


class Coefficients(NamedTuple):
    """The bound on the gap is 4 A1/K + 4 A2/sqrt(K)."""

    A1: float
    A2: float


@dataclass(frozen=True)
class Line:
    """One line of `table`: a symbol, its value, and what it means."""

    name: str
    value: float | int | str
    meaning: str


def in_doubles(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Numbers of NumPy's as Python's: those of 16 or 32 bits would overflow, or lose digits, on the way."""

    def plain(x: Any) -> Any:
        return float(x) if isinstance(x, np.floating) else int(x) if isinstance(x, np.integer) else x

    @wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        told: Any = {name: plain(x) for name, x in kwargs.items()}
        return function(*map(plain, args), **told)

    return called


@in_doubles
def beta(k: float, d: int, H: int, B: float, delta: float, M: int | None = None) -> float:
    """Radius beta_k of HF-UCRL-RFE++ at episode k.

    Without M, delta is the failure probability of one regression, as the main theorem prints it; with the number M of
    moment orders it is that of the whole algorithm.
    """
    check(k=k, d=d, H=H, B=B, delta=delta)
    if M is not None:
        whole(M, "M", 1, MOST_ORDERS, f"a whole number from 1 to {MOST_ORDERS}")
    return float(radius.beta_hf(k, Sizes(d, H, B), delta, M=M))


@in_doubles
def moment_orders(K: float, H: int) -> int:
    """M = max{2, ceil(log2(7KH))}, the number of moment orders for K episodes of H steps."""
    check(K=K, H=H)
    return _moment_orders(math.ceil(K), int(H))


@in_doubles
def iota(K: float, d: int, H: int, B: float) -> float:
    """log(1 + KH/(d lam alpha^2)), the growth of one log det per dimension."""
    check(K=K, d=d, H=H, B=B)
    alpha, _, lam = radius.parameters(Sizes(d, H, B))
    return math.log1p(K * H / (d * lam * alpha**2))


@in_doubles
def zeta(K: float, H: int, delta: float) -> float:
    """4 log(4 max{1, log(KH)}/delta), of the martingale bound; delta is that of one event."""
    check(K=K, H=H)
    share(delta, "delta")
    return 4 * (math.log(4 * max(1.0, math.log(K * H))) - math.log(delta))


@in_doubles
def coefficients(
    K: float, delta: float, d: int, H: int, B: float, *, split: bool = True, mended: bool = False
) -> Coefficients:
    """A1 and A2 for K episodes, as printed or with the slips of the proof mended."""
    check(K=K, d=d, H=H, B=B, delta=delta)
    M = moment_orders(K, H)
    alpha, gamma, _ = radius.parameters(Sizes(d, H, B))
    b = beta(K, d, H, B, delta, M if split else None)
    z = zeta(K, H, float(radius.per_event(delta, M)) if split else delta)
    di = d * iota(K, d, H, B)
    b, doubled, lost = (4 * b, 1, 2) if mended else (b, 2, 1)  # the print doubles two terms and loses a 2
    A1 = (
        2752 * max(64 * b**2 * di, 2 * z)
        + 24 * z
        + doubled * 120 * (di + b * gamma**2 * di)
        + 120 * b * di * math.sqrt(M)
        + 24 * math.sqrt(lost * z * M * di)
        + M * di
    )
    A2 = 64 * max(8 * b * math.sqrt(di), math.sqrt(2 * z)) + 120 * b * math.sqrt(di * H * alpha**2)
    return Coefficients(A1, A2)


@in_doubles
def suboptimality(
    K: float,
    delta: float,
    d: int,
    H: int,
    B: float,
    *,
    scale: Scale = "total",
    split: bool = True,
    mended: bool = False,
) -> float:
    """4 A1/K + 4 A2/sqrt(K), as printed: what every plan in the model of the best of K episodes loses at most.

    Vacuous above 1 (above H per step). The proof supports the larger number that `mended=True` gives.
    """
    A1, A2 = coefficients(K, delta, d, H, B, split=split, mended=mended)
    return _unit(scale, H) * (4 * A1 / K + 4 * A2 / math.sqrt(K))


@in_doubles
def sample_complexity(
    eps: float,
    delta: float,
    d: int,
    H: int,
    B: float,
    *,
    scale: Scale = "total",
    split: bool = True,
    mended: bool = False,
) -> int:
    """m(eps, delta), as printed: after so many episodes every plan in the model of the best one is eps-optimal.

    With probability 1 - delta, says the print; the proof supports the larger number that `mended=True` gives.
    The map K -> 16 A2(K)^2/eps^2 + 8 A1(K)/eps increases in K, so iterating it from 1 climbs to its least fixed point.
    """
    check(eps=eps, delta=delta, d=d, H=H, B=B)
    eps = eps / _unit(scale, H)
    K = 1.0
    while True:
        A1, A2 = coefficients(K, delta, d, H, B, split=split, mended=mended)
        enough = 16 * A2**2 / eps**2 + 8 * A1 / eps
        if enough <= K * (1 + 1e-12):
            return math.ceil(max(enough, K))
        K = enough


@in_doubles
def lower_bound(eps: float, delta: float, d: int, H: int, B: float, *, scale: Scale = "total") -> int:
    """No algorithm is (eps, delta)-correct on every linear mixture MDP of these sizes with fewer episodes.

    K >= (D/eps)^2 (1/2 - 2 delta)^2 / (192 (1 - delta)^2),   D = (d-1)(H-1)/H,

    when that is at least max{3 d^2, (d-1)^2/(192 (B-1)^2)}: then the hard instance is a B-bounded linear mixture MDP.
    Otherwise 0, which says nothing (large eps, delta >= 1/4, d = 1, H = 1 or B <= 1). Proof in docs/theory.md.
    """
    check(eps=eps, delta=delta, d=d, H=H, B=B)
    unit = _unit(scale, H)
    if B <= 1 or delta >= 0.25:
        return 0
    D = (d - 1) * (H - 1) / H
    K = (D * unit / eps * (0.5 - 2 * delta) / (1 - delta)) ** 2 / 192
    least = max(3 * d**2, (d - 1) ** 2 / (192 * (B - 1) ** 2))
    return 0 if least > K else math.ceil(K)


@in_doubles
def table(
    eps: float, delta: float, d: int, H: int, B: float, *, K: float | None = None, scale: Scale = "total"
) -> list[Line]:
    """Every quantity at once, for K episodes; by default as many as m(eps, delta) as printed."""
    enough, surely = (sample_complexity(eps, delta, d, H, B, scale=scale, mended=x) for x in (False, True))
    K = enough if K is None else K
    M = moment_orders(K, H)
    alpha, gamma, lam = radius.parameters(Sizes(d, H, B))
    A1, A2 = coefficients(K, delta, d, H, B)
    bound, proved = (suboptimality(K, delta, d, H, B, scale=scale, mended=x) for x in (False, True))
    delta_0 = float(radius.per_event(delta, M))
    return [
        Line("d", d, "dimension of the features"),
        Line("H", H, "steps in an episode"),
        Line("B", B, "bound on ||theta_star||_2"),
        Line("eps", eps, "accuracy"),
        Line("delta", delta, "failure probability of all 4M events"),
        Line("scale", scale, "reward totals: at most 1, or at most H"),
        Line("K", K, "episodes that the rows below speak of"),
        Line("alpha", alpha, "floor of sigma_bar"),
        Line("gamma", gamma, "weight of own uncertainty in sigma_bar"),
        Line("lam", float(lam), "ridge"),
        Line("M", M, "moment orders"),
        Line("delta_0", delta_0, "failure probability of one event"),
        Line("beta", beta(K, d, H, B, delta, M), "confidence radius beta_K"),
        Line("iota", iota(K, d, H, B), "log(1 + KH/(d lam alpha^2))"),
        Line("zeta", zeta(K, H, delta_0), "4 log(4 max{1, log(KH)}/delta_0)"),
        Line("A1", A1, "coefficient of 4/K, as printed"),
        Line("A2", A2, "coefficient of 4/sqrt(K), as printed"),
        Line("suboptimality", bound, "as printed: gap, best episode's model"),
        Line("suboptimality_mended", proved, "the same with the proof's slips mended"),
        Line("sample_complexity", enough, "as printed: episodes for a gap of eps"),
        Line("sample_complexity_mended", surely, "the same with the proof's slips mended"),
        Line("lower_bound", lower_bound(eps, delta, d, H, B, scale=scale), "episodes any algorithm needs"),
    ]


def _unit(scale: Scale, H: int) -> int:
    """How much larger gaps are on this scale than for totals at most 1."""
    units = {"total": 1, "per-step": H}
    if not isinstance(scale, str) or scale not in units:
        raise OptionError(
            f"scale is {shown(scale)}; it must be 'total' (rewards add up to at most 1) or 'per-step'"
        )
    return units[scale]


def check(**values: float) -> None:
    """Refuse numbers outside their ranges."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise OptionError(f"{name} is {shown(value)}; it must be a number")
        if name == "delta":
            share(value, name)
        least, most = LIMITS[name]
        if not least <= value <= most:
            raise OptionError(f"{name} is {shown(value)}; it must lie between {least:g} and {most:g}")
        if name in ("d", "H") and value != int(value):
            raise OptionError(f"{name} is {value}; it must be an integer")
