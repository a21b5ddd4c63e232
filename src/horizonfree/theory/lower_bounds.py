"""How many episodes every algorithm needs, and how much regret none escapes: lower bounds with their constants.

Paper: J. Zhang, W. Zhang, Gu 2023 (arXiv 2303.10165), section 5.2 and appendix C, on instances of Zhou and Gu 2022. The
paper leaves the constant open. The proof in docs/theory.md is ours: K episodes leave two hard instances that differ in
one sign of mu within a total variation of t = sqrt(KL/2), KL <= 256/(7 * 192).
"""

import math

from horizonfree.theory.ranges import Scale, check, in_doubles, unit_of

DISTANCE = math.sqrt(2 / 21)  # t = sqrt(KL/2) = 0.3086


@in_doubles
def lower_bound(eps: float, delta: float, d: int, H: int, B: float, *, scale: Scale = "total") -> int:
    """No algorithm is (eps, delta)-correct on every linear mixture MDP of these sizes with fewer episodes.

    K >= (D/eps)^2 (1 - t - 2 delta)^2 / (192 (1 - delta)^2),   D = (d-1)(H-1)/H,   t = sqrt(2/21) = 0.3086,

    when that is at least max{3 d^2, (d-1)^2/(192 (B-1)^2)}: then the hard instance is a B-bounded linear mixture MDP.
    Otherwise 0, which says nothing; `why_no_lower_bound` says why. The constant is ours; proof in docs/theory.md.
    """
    check(eps=eps, delta=delta, d=d, H=H, B=B)
    unit = unit_of(scale, H)
    K = (_spread(d, H) * unit / eps * max(0.0, 1 - DISTANCE - 2 * delta) / (1 - delta)) ** 2 / 192
    return math.ceil(K) if K > 0 and K >= _least_hard(d, B) else 0


@in_doubles
def why_no_lower_bound(
    eps: float, delta: float, d: int, H: int, B: float, *, scale: Scale = "total"
) -> str | None:
    """What makes `lower_bound` 0, in words; None where it is not."""
    if lower_bound(eps, delta, d, H, B, scale=scale) > 0:
        return None
    if d == 1 or H == 1:
        return f"{'d' if d == 1 else 'H'} is 1: no policy of the hard instance is better than another"
    if 1 - DISTANCE - 2 * delta <= 0:
        return f"delta is not below {(1 - DISTANCE) / 2:.3f}"
    if B <= 1:
        return "B is not above 1: no hard instance is so short"
    return f"it begins at {_least_hard(d, B):.3g} episodes: eps is too large{', or B too near 1' * (B < 1.1)}"


@in_doubles
def regret_lower_bound(K: float, d: int, H: int, B: float) -> float:
    """Expected regret over K episodes, for one known reward of total at most 1, that no algorithm escapes.

    sqrt(K) D (1 - t)/sqrt(192) = D sqrt(K)/20.04, when K >= max{3 d^2, (d-1)^2/(192 (B-1)^2)}; otherwise 0, which says
    nothing. The print has d sqrt(K)/(16 sqrt(3)) up to a constant: D sqrt(K)/27.7 is the same with t = 1/2.
    """
    check(K=K, d=d, H=H, B=B)
    found = math.sqrt(K / 192) * _spread(d, H) * (1 - DISTANCE)
    return found if _least_hard(d, B) <= K else 0.0


def _spread(d: int, H: int) -> float:
    """D: values of the hard instance differ by 2 Delta D."""
    return (d - 1) * (H - 1) / H


def _least_hard(d: int, B: float) -> float:
    """From how many episodes on the hard instance is a B-bounded linear mixture MDP."""
    return max(3.0 * d**2, (d - 1) ** 2 / (192 * (B - 1) ** 2)) if B > 1 else math.inf
