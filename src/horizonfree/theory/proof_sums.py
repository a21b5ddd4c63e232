"""The sums of the paper's proof, and the bounds of its lemmas.

Paper: J. Zhang, W. Zhang, Gu 2023 (arXiv 2303.10165), appendix A. For both families (hat: targets Vhat, tilde: targets
V) and orders m = 0..M-1, with [P f] and [Var f] under theta_star and the frozen matrices Sigma_dot_k of the episode:

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

The bound on R_m drops a factor 4 between frozen and running norms; corrected it is 2 d iota + 8 beta gamma^2 d iota +
8 beta sqrt(d iota) sqrt(...) (docs/theory.md). The sums R, S, A bound one another: `bound_*` take those that were
measured, so that each lemma is checked separately.
"""

import math
from typing import NamedTuple


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
    once, weighed, rooted = (2, 8, 8) if mended else (4, 4, 2)
    bound = once * di + weighed * x.beta * x.gamma**2 * di + rooted * x.beta * math.sqrt(di) * root
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
