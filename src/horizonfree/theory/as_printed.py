"""The main theorem of HF-UCRL-RFE++ exactly as published, without any correction.

Paper: J. Zhang, W. Zhang, Gu 2023 (arXiv 2303.10165), main theorem and the exact forms of appendix A, with alpha =
H^{-1/2}, gamma = d^{-1/4}, lam = d/B^2:

    M = log(7KH)/log 2,   tau = log(32 (log(gamma^2/alpha) + 1) k^2 H^2/delta),   eta = log(1 + kH/(alpha^2 d lam)),
    beta_k = 12 sqrt(d eta tau) + 30 tau/gamma^2 + sqrt(lam) B,   zeta = 4 log(4 log(KH)/delta),
    A1 = 2752 max{64 beta^2 d iota, 2 zeta} + 24 zeta + 240 d iota + 240 beta gamma^2 d iota + 120 beta d iota sqrt(M),
    A2 = 64 max{8 beta sqrt(d iota), sqrt(2 zeta)} + 120 beta sqrt(d iota H alpha^2),
    gap <= 4 A1/K + 4 A2/sqrt(K),   m(eps, delta) = 16 A2^2/eps^2 + 8 A1/eps.

A1 and A2 depend on K, which the paper leaves open in m: here m is the least fixed point, as in `theory`. Where the
paper takes the logarithm of a number that is not positive (d > e^2 H; KH = 1), the result is UNDEFINED. `theory` has
the corrected numbers.
"""

import math

from horizonfree.theory import bounds as theory
from horizonfree.theory.ranges import Scale, TableLine, check_ranges, python_numbers, scale_factor

UNDEFINED = "undefined"


@python_numbers
def beta(k: float, d: int, H: int, B: float, delta: float) -> float:
    """beta_k; a ValueError where it is undefined."""
    levels = math.log(math.sqrt(H / d)) + 1  # log(gamma^2/alpha) + 1
    tau = math.log(32 * levels) + 2 * math.log(k) + 2 * math.log(H) - math.log(delta)
    return 12 * math.sqrt(d * theory.iota(k, d, H, B) * tau) + 30 * tau * math.sqrt(d) + math.sqrt(d)


@python_numbers
def coefficients(K: float, delta: float, d: int, H: int, B: float) -> theory.Coefficients:
    """A1 and A2; a ValueError where they are undefined."""
    b, M = beta(K, d, H, B, delta), math.log2(7 * K * H)
    zeta = 4 * (math.log(4 * math.log(K * H)) - math.log(delta))
    di = d * theory.iota(K, d, H, B)
    A1 = 2752 * max(64 * b**2 * di, 2 * zeta) + 24 * zeta + 240 * di
    A1 += 240 * b * di / math.sqrt(d) + 120 * b * di * math.sqrt(M)
    A2 = 64 * max(8 * b * math.sqrt(di), math.sqrt(2 * max(0.0, zeta))) + 120 * b * math.sqrt(di)
    return theory.Coefficients(A1, A2)


@python_numbers
def table(
    eps: float, delta: float, d: int, H: int, B: float, *, K: float | None = None, scale: Scale = "total"
) -> list[TableLine]:
    """The rows of `theory.table` that the paper has, for K episodes; K is m(eps, delta) by default."""
    check_ranges(eps=eps, delta=delta, d=d, H=H, B=B, **({} if K is None else {"K": K}))
    unit = scale_factor(scale, H)
    try:
        episodes_needed: float | str = _sample_complexity(eps / unit, delta, d, H, B)
    except ValueError:
        episodes_needed = UNDEFINED
    values: dict[str, float | str] = dict.fromkeys(
        ("M", "beta", "zeta", "A1", "A2", "suboptimality"), UNDEFINED
    )
    if isinstance(episodes_needed, str) and K is None:
        return _lines(values | {"sample_complexity": episodes_needed})
    K = float(episodes_needed) if K is None else K
    values["M"] = math.log2(7 * K * H)
    try:
        values["zeta"] = 4 * (math.log(4 * math.log(K * H)) - math.log(delta))
        values["beta"] = beta(K, d, H, B, delta)
        A1, A2 = coefficients(K, delta, d, H, B)
        values |= {"A1": A1, "A2": A2, "suboptimality": unit * (4 * A1 / K + 4 * A2 / math.sqrt(K))}
    except ValueError:
        pass  # they stay undefined
    return _lines(values | {"sample_complexity": episodes_needed})


def _sample_complexity(eps: float, delta: float, d: int, H: int, B: float) -> float:
    """The least fixed point, as in `theory.sample_complexity`; from 2 episodes on, since log(KH) must be positive."""
    K = 2.0
    while True:
        A1, A2 = coefficients(K, delta, d, H, B)
        episodes_needed = 16 * A2**2 / eps**2 + 8 * A1 / eps
        if episodes_needed <= K * (1 + 1e-12):
            return float(math.ceil(max(episodes_needed, K)))
        K = episodes_needed


def _lines(values: dict[str, float | str]) -> list[TableLine]:
    meanings = {
        "M": "moment orders, not rounded",
        "beta": "confidence radius beta_K, delta undivided",
        "zeta": "4 log(4 log(KH)/delta)",
        "A1": "coefficient of 4/K, without the terms that its lemma has",
        "A2": "coefficient of 4/sqrt(K)",
        "suboptimality": "gap of plans in theta_K",
        "sample_complexity": "episodes for a gap of eps",
    }
    return [
        TableLine(f"{name}_as_printed", values[name], f"the print: {text}") for name, text in meanings.items()
    ]
