"""The theorems of papers on linear MDPs in numbers: rates, and constants.

Rewards are in [0, 1] at every step, as in the papers; this includes rewards of total at most 1, with the same eps. d
is the dimension of the features. Episodes, without constants and logarithms (`rates`):

    wang2020   d^3 H^6/eps^2     R. Wang, Du, Yang, Salakhutdinov 2020 (arXiv 2006.11274); second-hand
    francis    d^3 H^5/eps^2     Zanette, Lazaric, Kochenderfer, Brunskill 2020 (arXiv 2008.07737); second-hand
    rflin      d^2 H^5/eps^2     Wagenmaker, Chen, Simchowitz, Du, Jamieson 2022 (ICML)
    lsvi-rfe   d^2 H^4/eps^2     Hu, Chen, Huang 2023 (ICLR); second-hand
    lower      d^2 H^3/eps^2     Hu, Chen, Huang 2023: no algorithm needs fewer

Wang et al.: beta = d H sqrt(L), K = d^3 H^6 L/eps^2, L = log(dH/(delta eps)).
RFLIN, for each of the H steps epochs i = 1..I of K_i episodes (appendix B of the paper), with FORCE as its regret
minimiser, C_1 = d^4 H^3 log(e + sqrt(d)/gamma^2), p_1 = 3, C_2 = d^4 H^3 log^{3/2}(e + sqrt(d)/gamma^2), p_2 = 7/2:

    beta = H sqrt(d log(1 + dH K_max) + log(H/delta)),  I = ceil(log2(4 beta H/eps)),
    gamma_i^2 = 4^i eps^2/(64 H^2 I^2 beta^2),
    K_i = 2^i max{ 2^(10+p_1) C_1 p_1^p_1 log^p_1(2^(i+12) p_1 I C_1 H/delta),
                   2^(4+p_2) C_2 p_2^p_2 log^p_2(2^(i+6) p_2 I C_2 H/delta), (24 d/gamma_i^2) log(48 2^i d/gamma_i^2) }

"second-hand": quoted from another paper. Constants that a paper leaves open are 1. K_max is open, too; by default it is
the fixed point K_max = H sum K_i. The appendix prints the fraction in I upside down. Zhang, Lee, Chen, Du 2024 (arXiv
2403.10738) have a horizon-free regret for linear MDPs, by search over a net of value functions, which is not computable
in practice: only its radius is here, `linear_horizon_free_alpha`.
"""

import math
from typing import NamedTuple

from horizonfree.theory.ranges import LIMITS, TableLine, check_ranges, python_numbers

ORDERS = {"wang2020": (3, 6), "francis": (3, 5), "rflin": (2, 5), "lsvi-rfe": (2, 4), "lower": (2, 3)}
BISECTIONS = 200  # of an interval of logarithms, to solve for an accuracy
MIN_ACCURACY = 1e-50


class Schedule(NamedTuple):
    """The schedule of RFLIN: the radius, and gamma_i^2 and K_i of the epochs of each step."""

    beta: float
    gamma_sq: tuple[float, ...]
    lengths: tuple[float, ...]


@python_numbers
def rates(eps: float, d: int, H: int) -> dict[str, float]:
    """Episodes for an accuracy, without constants and logarithms."""
    check_ranges(eps=eps, d=d, H=H)
    return {name: float(d) ** i * float(H) ** j / eps**2 for name, (i, j) in ORDERS.items()}


@python_numbers
def wang_beta(eps: float, delta: float, d: int, H: int) -> float:
    """The radius of Wang et al."""
    return d * H * math.sqrt(_log_factor(eps, delta, d, H))


@python_numbers
def wang_episodes(eps: float, delta: float, d: int, H: int) -> float:
    """K of Wang et al."""
    return float(d) ** 3 * float(H) ** 6 * _log_factor(eps, delta, d, H) / eps**2


@python_numbers
def wang_accuracy(K: float, delta: float, d: int, H: int) -> float:
    """The eps for which K episodes are enough, at most 1: K falls as eps grows."""
    if K < wang_episodes(1.0, delta, d, H):
        return 1.0
    low, high = math.log(MIN_ACCURACY), 0.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        is_enough = wang_episodes(math.exp(middle), delta, d, H) <= K
        low, high = (low, middle) if is_enough else (middle, high)
    return math.exp(high)


@python_numbers
def rflin_schedule(eps: float, delta: float, d: int, H: int, K_max: float | None = None) -> Schedule:
    """beta, gamma_i^2 and K_i of RFLIN with FORCE."""
    check_ranges(eps=eps, delta=delta, d=d, H=H)
    if K_max is not None:
        check_ranges(K=K_max)
        return _schedule(eps, delta, d, H, K_max)
    K, schedule = 1.0, _schedule(eps, delta, d, H, 1.0)
    while rflin_episodes(schedule, H) > K * (1 + 1e-9):  # the right side grows logarithmically in K
        K = rflin_episodes(schedule, H)
        schedule = _schedule(eps, delta, d, H, K)
    return schedule


def rflin_episodes(schedule: Schedule, H: int) -> float:
    """Episodes of all steps, H sum K_i."""
    return H * math.fsum(schedule.lengths)


@python_numbers
def linear_horizon_free_alpha(K: float, H: int, d: int, delta: float) -> float:
    """150 d log(KH/delta), the radius of Zhang, Lee, Chen, Du 2024."""
    check_ranges(K=K, H=H, d=d, delta=delta)
    return 150 * d * (math.log(K) + math.log(H) - math.log(delta))


@python_numbers
def table(eps: float, delta: float, d: int, H: int, *, K: float | None = None) -> list[TableLine]:
    """All numbers above; the horizon-free radius is for K episodes, by default those of Wang et al."""
    orders, schedule = rates(eps, d, H), rflin_schedule(eps, delta, d, H)
    enough = wang_episodes(eps, delta, d, H)
    episodes = min(max(1.0, enough), LIMITS["K"][1]) if K is None else K
    alpha = linear_horizon_free_alpha(episodes, H, d, delta)
    lines = [
        TableLine(f"{name}_order", x, f"d^{i} H^{j}/eps^2")
        for (name, x), (i, j) in zip(orders.items(), ORDERS.values())
    ]
    return [
        *lines,
        TableLine("wang2020_beta", wang_beta(eps, delta, d, H), "its radius, open constants 1"),
        TableLine("wang2020_episodes", enough, "its episodes, open constants 1"),
        TableLine("rflin_beta", schedule.beta, "its radius, open constants 1"),
        TableLine("rflin_episodes", rflin_episodes(schedule, H), "its episodes with FORCE, open constants 1"),
        TableLine("linear_horizon_free_alpha", alpha, "150 d log(KH/delta), of a regret bound"),
    ]


def _log_factor(eps: float, delta: float, d: int, H: int) -> float:
    """log(dH/(delta eps)), at least 0."""
    check_ranges(eps=eps, delta=delta, d=d, H=H)
    return max(0.0, math.log(d) + math.log(H) - math.log(delta) - math.log(eps))


def _schedule(eps: float, delta: float, d: int, H: int, K_max: float) -> Schedule:
    """The schedule for one K_max."""
    log_dHK = math.log(d) + math.log(H) + math.log(K_max)
    beta = H * math.sqrt(d * (log_dHK + math.log1p(math.exp(-log_dHK))) + math.log(H) - math.log(delta))
    num_epochs = max(1, math.ceil(math.log2(4 * beta * H / eps)))
    gamma_sq = [4.0**i * (eps / (8 * H * num_epochs * beta)) ** 2 for i in range(1, num_epochs + 1)]
    lengths = [_length(i, g, num_epochs, delta, d, H) for i, g in enumerate(gamma_sq, 1)]
    return Schedule(beta, tuple(gamma_sq), tuple(lengths))


def _length(i: int, gamma_sq: float, num_epochs: int, delta: float, d: int, H: int) -> float:
    """The length K_i of epoch i."""
    growth = math.log(math.e + math.sqrt(d) / gamma_sq)

    def force(C: float, p: float, outer: int, inner: int) -> float:
        log_term = math.log(2.0 ** (i + inner) * p * num_epochs * C * H) - math.log(delta)
        return float(2.0 ** (outer + p) * C * p**p * log_term**p)

    size = float(d) ** 4 * float(H) ** 3
    cover = 24 * d / gamma_sq * math.log(48 * 2.0**i * d / gamma_sq)
    terms = force(size * growth, 3.0, 10, 12), force(size * growth**1.5, 3.5, 4, 6), cover
    return float(math.ceil(2.0**i * max(terms)))
