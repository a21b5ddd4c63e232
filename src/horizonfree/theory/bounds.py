"""The theorems of HF-UCRL-RFE++ in numbers: radius, moment orders, sufficient and necessary episodes.

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
5. Everything in `radius`.

Lower bounds (section 5.2 and appendix C, on instances of Zhou and Gu 2022): the paper leaves the constant open, and the
proof in docs/theory.md is ours. K episodes leave two hard instances that differ in one sign of mu within a total
variation of t = sqrt(KL/2), KL <= 256/(7 * 192).

The theorem as published is in `as_printed`, Table 1 in `table1`; the sums of the proof are below.

Two errors of the printed proof are kept by default, and mended with `mended=True`: frozen norms exceed running ones by
a factor up to 4, so beta becomes 4 beta, except that 240 d iota + 240 beta gamma^2 d iota becomes 120 d iota +
480 beta gamma^2 d iota; and 24 sqrt(zeta M d iota) becomes 24 sqrt(2 zeta M d iota). Either way the bound is for plans
in the model theta_k of the best episode, k = argmin Vhat_{k,1}, with an exact oracle; the print has the last one.

scale="total" is for rewards whose total is at most 1, "per-step" for r_h in [0, 1] with totals up to H: the same
statements with eps replaced by eps/H and gaps multiplied by H.

The sums of the paper's proof and the bounds of its lemmas (appendix A): for both families (hat: targets Vhat, tilde:
targets V) and orders m = 0..M-1, with [P f] and [Var f] under theta_star and the frozen matrices Sigma_dot_k of the
episode:

    I_h^k  whether every det Sigma_{k,h,m} is at most 16 det Sigma_dot_{k,m}
    R_m  = sum_{k,h} I_h^k min{1, beta ||phi_m||}         A_m = sum I_h^k ([P V_{h+1}^{2^m}] - V_{h+1}^{2^m}(s'))
    S_m  = sum I_h^k [Var V_{h+1}^{2^m}]                  G   = sum_k (1 - I_H^k)

    R_m       <= min{KH, 4 d iota + 4 beta gamma^2 d iota
                 + 2 beta sqrt(d iota) sqrt(S_m + 4 R_m + 2 R_{m+1} + K H alpha^2)}     m < M-1, else KH
    hat S_m   <= |hat A_{m+1}| + G + 2^{m+1} (tilde R_0 + 4 hat R_0)                     m < M-1
    tilde S_m <= |tilde A_{m+1}| + G + 2^{m+1} (K + 2 tilde R_0)                         m < M-1
    |A_m|     <= min{sqrt(2 zeta S_m) + zeta, KH}
    G         <= M d iota
    sum_k Vhat_{k,1}(s_1) <= I_1 + I_2 + I_3 + I_4,   I_1 = tilde R_0,  I_2 <= 4 hat R_0,  I_3 = hat A_0,  I_4 <= G

The bound on R_m drops a factor 4 between frozen and running norms; corrected it is 2 d iota + 8 beta gamma^2 d iota
+ 8 beta sqrt(d iota) sqrt(...) (docs/theory.md). The sums R, S, A bound one another: `bound_*` take those that were
measured, so that each lemma is checked separately.
"""

import math
from typing import NamedTuple

from horizonfree._validation import check_int, check_probability
from horizonfree.estimators import radius_hf as radius
from horizonfree.estimators.radius_hf import Sizes
from horizonfree.estimators.radius_hf import moment_orders as _moment_orders
from horizonfree.theory.ranges import Scale, TableLine, check_ranges, python_numbers, scale_factor


class Symbols(NamedTuple):
    """The symbols of the bounds; alpha, gamma and M are the algorithm's, zeta belongs to one of its 4M events."""

    K: float
    H: int
    d: int
    M: int
    alpha: float
    gamma: float
    beta: float
    iota: float
    zeta: float


def bound_R(S_m: float, R_m: float, R_next: float, x: Symbols, *, mended: bool = False) -> float:
    """The bound on R_m, m < M-1; R_{M-1} <= KH."""
    di = x.d * x.iota
    root = math.sqrt(S_m + 4 * R_m + 2 * R_next + x.K * x.H * x.alpha**2)
    linear, weighed, rooted = (2, 8, 8) if mended else (4, 4, 2)
    bound = linear * di + weighed * x.beta * x.gamma**2 * di + rooted * x.beta * math.sqrt(di) * root
    return min(x.K * x.H, bound)


def bound_S_hat(A_next: float, G: float, R_hat: float, R_tilde: float, m: int) -> float:
    """The bound on hat S_m, m < M-1, from |hat A_{m+1}|, G and both R_0."""
    return abs(A_next) + G + 2.0 ** (m + 1) * (R_tilde + 4 * R_hat)


def bound_S_tilde(A_next: float, G: float, R_tilde: float, m: int, K: float) -> float:
    """The bound on tilde S_m, m < M-1, from |tilde A_{m+1}|, G and tilde R_0."""
    return abs(A_next) + G + 2.0 ** (m + 1) * (K + 2 * R_tilde)


def bound_A(S_m: float, x: Symbols) -> float:
    """The bound on |A_m|, with probability 1 - delta_0."""
    return min(math.sqrt(2 * x.zeta * S_m) + x.zeta, x.K * x.H)


def bound_G(x: Symbols) -> float:
    """The bound on G: a counted episode makes one of 2M determinants 16 times larger."""
    return x.M * x.d * x.iota


def bound_sum(R_tilde: float, R_hat: float, A_hat: float, G: float) -> float:
    """The bound on sum_k Vhat_{k,1}(s_1), from the sums of order 0: I_1 + I_2 + I_3 + I_4 with I_2 and I_4 bounded."""
    return R_tilde + 4 * R_hat + abs(A_hat) + G


MAX_ORDERS = 1000
TOTAL_VARIATION = math.sqrt(2 / 21)  # t = sqrt(KL/2) = 0.3086


class Coefficients(NamedTuple):
    """The bound on the gap is 4 A1/K + 4 A2/sqrt(K)."""

    A1: float
    A2: float


@python_numbers
def beta(k: float, d: int, H: int, B: float, delta: float, M: int | None = None) -> float:
    """Radius beta_k of HF-UCRL-RFE++ at episode k.

    Without M, delta is the failure probability of one regression, as the main theorem prints it; with the number M of
    moment orders it is that of the whole algorithm.
    """
    check_ranges(k=k, d=d, H=H, B=B, delta=delta)
    if M is not None:
        M = check_int(M, "M", 1, MAX_ORDERS, f"a whole number from 1 to {MAX_ORDERS}")
    return float(radius.beta_hf(k, Sizes(int(d), int(H), float(B)), delta, M=M))


@python_numbers
def moment_orders(K: float, H: int) -> int:
    """M = max{2, ceil(log2(7KH))}, the number of moment orders for K episodes of H steps."""
    check_ranges(K=K, H=H)
    return _moment_orders(math.ceil(K), int(H))


@python_numbers
def iota(K: float, d: int, H: int, B: float) -> float:
    """log(1 + KH/(d lam alpha^2)), the growth of one log det per dimension."""
    check_ranges(K=K, d=d, H=H, B=B)
    alpha, _, lam = radius.parameters(Sizes(d, H, B))
    return math.log1p(K * H / (d * lam * alpha**2))


@python_numbers
def zeta(K: float, H: int, delta: float) -> float:
    """4 log(4 max{1, log(KH)}/delta), of the martingale bound; delta is that of one event."""
    check_ranges(K=K, H=H)
    check_probability(delta, "delta")
    return 4 * (math.log(4 * max(1.0, math.log(K * H))) - math.log(delta))


@python_numbers
def symbols(K: float, delta: float, d: int, H: int, B: float) -> Symbols:
    """The symbols of the bounds on the sums of the proof (`bound_R`, ...), delta divided among all events."""
    check_ranges(K=K, d=d, H=H, B=B, delta=delta)
    M = moment_orders(K, H)
    alpha, gamma, _ = radius.parameters(Sizes(d, H, B))
    z = zeta(K, H, float(radius.per_event(delta, M)))
    return Symbols(K, H, d, M, alpha, gamma, beta(K, d, H, B, delta, M), iota(K, d, H, B), z)


@python_numbers
def coefficients(
    K: float, delta: float, d: int, H: int, B: float, *, split: bool = True, mended: bool = False
) -> Coefficients:
    """A1 and A2 for K episodes, as printed or with the slips of the proof mended."""
    check_ranges(K=K, d=d, H=H, B=B, delta=delta)
    M = moment_orders(K, H)
    alpha, gamma, _ = radius.parameters(Sizes(d, H, B))
    b = beta(K, d, H, B, delta, M if split else None)
    z = zeta(K, H, float(radius.per_event(delta, M)) if split else delta)
    di = d * iota(K, d, H, B)
    b, factor, power = (4 * b, 1, 2) if mended else (b, 2, 1)  # the print doubles two terms and loses a 2
    A1 = (
        2752 * max(64 * b**2 * di, 2 * z)
        + 24 * z
        + factor * 120 * (di + b * gamma**2 * di)
        + 120 * b * di * math.sqrt(M)
        + 24 * math.sqrt(power * z * M * di)
        + M * di
    )
    A2 = 64 * max(8 * b * math.sqrt(di), math.sqrt(2 * z)) + 120 * b * math.sqrt(di * H * alpha**2)
    return Coefficients(A1, A2)


@python_numbers
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
    return scale_factor(scale, H) * (4 * A1 / K + 4 * A2 / math.sqrt(K))


@python_numbers
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
    check_ranges(eps=eps, delta=delta, d=d, H=H, B=B)
    eps = eps / scale_factor(scale, H)
    K = 1.0
    while True:
        A1, A2 = coefficients(K, delta, d, H, B, split=split, mended=mended)
        enough = 16 * A2**2 / eps**2 + 8 * A1 / eps
        if enough <= K * (1 + 1e-12):
            return math.ceil(max(enough, K))
        K = enough


@python_numbers
def operations(K: float, d: int, H: int, S: int, A: int, *, expectation: float | None = None) -> float:
    """K H (O M + M d^2) + H S A d, the paper's count of what the algorithm costs beside its K calls of the oracle.

    O, `expectation`: what one phi_V(s, a) costs; by default S d.
    """
    check_ranges(K=K, d=d, H=H, S=S, A=A)
    if expectation is not None:
        check_ranges(k=expectation)
    O, M = S * d if expectation is None else expectation, moment_orders(K, H)
    return float(K) * H * (O * M + M * float(d) ** 2) + float(H) * S * A * d


@python_numbers
def lower_bound(eps: float, delta: float, d: int, H: int, B: float, *, scale: Scale = "total") -> int:
    """No algorithm is (eps, delta)-correct on every linear mixture MDP of these sizes with fewer episodes.

    K >= (D/eps)^2 (1 - t - 2 delta)^2 / (192 (1 - delta)^2),   D = (d-1)(H-1)/H,   t = sqrt(2/21) = 0.3086,

    when that is at least max{3 d^2, (d-1)^2/(192 (B-1)^2)}: then the hard instance is a B-bounded linear mixture MDP.
    Otherwise 0, which is vacuous; `why_no_lower_bound` gives the reason. The constant is ours; proof in docs/theory.md.
    """
    check_ranges(eps=eps, delta=delta, d=d, H=H, B=B)
    unit = scale_factor(scale, H)
    K = (_spread(d, H) * unit / eps * max(0.0, 1 - TOTAL_VARIATION - 2 * delta) / (1 - delta)) ** 2 / 192
    return math.ceil(K) if K > 0 and K >= _min_episodes(d, B) else 0


@python_numbers
def why_no_lower_bound(
    eps: float, delta: float, d: int, H: int, B: float, *, scale: Scale = "total"
) -> str | None:
    """The reason why `lower_bound` is 0; None if it is not."""
    if lower_bound(eps, delta, d, H, B, scale=scale) > 0:
        return None
    if d == 1 or H == 1:
        return f"{'d' if d == 1 else 'H'} is 1: no policy of the hard instance is better than another"
    if 1 - TOTAL_VARIATION - 2 * delta <= 0:
        return f"delta is not below {(1 - TOTAL_VARIATION) / 2:.3f}"
    if B <= 1:
        return "B is not above 1: no hard instance is so short"
    return (
        f"it begins at {_min_episodes(d, B):.3g} episodes: eps is too large{', or B too near 1' * (B < 1.1)}"
    )


@python_numbers
def regret_lower_bound(K: float, d: int, H: int, B: float) -> float:
    """Expected regret over K episodes, for one known reward of total at most 1, that no algorithm escapes.

    sqrt(K) D (1 - t)/sqrt(192) = D sqrt(K)/20.04, when K >= max{3 d^2, (d-1)^2/(192 (B-1)^2)}; otherwise 0, which
    is vacuous. The print has d sqrt(K)/(16 sqrt(3)) up to a constant: D sqrt(K)/27.7 is the same with t = 1/2.
    """
    check_ranges(K=K, d=d, H=H, B=B)
    bound = math.sqrt(K / 192) * _spread(d, H) * (1 - TOTAL_VARIATION)
    return bound if _min_episodes(d, B) <= K else 0.0


def _spread(d: int, H: int) -> float:
    """D: values of the hard instance differ by 2 Delta D."""
    return (d - 1) * (H - 1) / H


def _min_episodes(d: int, B: float) -> float:
    """The number of episodes from which on the hard instance is a B-bounded linear mixture MDP."""
    return max(3.0 * d**2, (d - 1) ** 2 / (192 * (B - 1) ** 2)) if B > 1 else math.inf


@python_numbers
def table(
    eps: float, delta: float, d: int, H: int, B: float, *, K: float | None = None, scale: Scale = "total"
) -> list[TableLine]:
    """Every quantity at once, for K episodes; by default as many as m(eps, delta) as printed."""
    enough, surely = (sample_complexity(eps, delta, d, H, B, scale=scale, mended=x) for x in (False, True))
    K = enough if K is None else K
    M = moment_orders(K, H)
    alpha, gamma, lam = radius.parameters(Sizes(d, H, B))
    A1, A2 = coefficients(K, delta, d, H, B)
    bound, proved = (suboptimality(K, delta, d, H, B, scale=scale, mended=x) for x in (False, True))
    delta_0 = float(radius.per_event(delta, M))
    return [
        TableLine("d", d, "dimension of the features"),
        TableLine("H", H, "steps in an episode"),
        TableLine("B", B, "bound on ||theta_star||_2"),
        TableLine("eps", eps, "accuracy"),
        TableLine("delta", delta, "failure probability of all 4M events"),
        TableLine("scale", scale, "reward totals: at most 1, or at most H"),
        TableLine("K", K, "episodes that the rows below speak of"),
        TableLine("alpha", alpha, "floor of sigma_bar"),
        TableLine("gamma", gamma, "weight of own uncertainty in sigma_bar"),
        TableLine("lam", float(lam), "ridge"),
        TableLine("M", M, "moment orders"),
        TableLine("delta_0", delta_0, "failure probability of one event"),
        TableLine("beta", beta(K, d, H, B, delta, M), "confidence radius beta_K"),
        TableLine("iota", iota(K, d, H, B), "log(1 + KH/(d lam alpha^2))"),
        TableLine("zeta", zeta(K, H, delta_0), "4 log(4 max{1, log(KH)}/delta_0)"),
        TableLine("A1", A1, "coefficient of 4/K, as printed"),
        TableLine("A2", A2, "coefficient of 4/sqrt(K), as printed"),
        TableLine("suboptimality", bound, "as printed: gap, best episode's model"),
        TableLine("suboptimality_mended", proved, "the same with the proof's slips mended"),
        TableLine("sample_complexity", enough, "as printed: episodes for a gap of eps"),
        TableLine("sample_complexity_mended", surely, "the same with the proof's slips mended"),
        _lower_line(eps, delta, d, H, B, scale),
    ]


def _lower_line(eps: float, delta: float, d: int, H: int, B: float, scale: Scale) -> TableLine:
    reason = why_no_lower_bound(eps, delta, d, H, B, scale=scale)
    meaning = (
        "episodes any algorithm needs; the constant is ours" if reason is None else f"says nothing: {reason}"
    )
    return TableLine("lower_bound", lower_bound(eps, delta, d, H, B, scale=scale), meaning)
