"""Row sums of features: <sum_s' phi(s'|s,a), theta> = 1 for every (s,a) is what ties parameters together.

Input may be rounded: rows may miss 1 by TOLERANCE. Taken literally, such an error would be a constraint on theta, and
would pin it down where nothing is known. So kernels and true parameters are mended, and other features refused.
"""

import numpy as np
from jaxtyping import Float

from horizonfree.errors import FeatureError
from horizonfree.mdp.space import TOLERANCE

EXACT = 1e-12  # rows further from one than this are mended
# Differences of row sums, as a share of them, that are neither rounding nor a constraint.
NOISE = (1e-11, 1e-3)


def divided(phi: Float[np.ndarray, "S A n d"]) -> Float[np.ndarray, "S A n d"]:
    """Kernels whose rows sum to one, from rows that nearly do."""
    total = phi.sum(axis=2, keepdims=True)
    total[np.abs(total - 1) <= EXACT] = 1.0
    return phi if (total == 1).all() else phi / total


def mended(phi: Float[np.ndarray, "S A n d"], theta: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    """The nearest parameter whose rows sum to one."""
    sums = phi.sum(axis=2)
    if np.abs(sums @ theta - 1).max() <= EXACT:
        return theta
    C = _distinct(sums)
    near: np.ndarray = theta - np.linalg.lstsq(C, C @ theta - 1, rcond=None)[0]
    return near


def check(phi: Float[np.ndarray, "S A n d"], bound: float) -> None:
    """Some theta within the bound must make every row sum to one, and rounding must not decide which."""
    sums = phi.sum(axis=2)
    C = _distinct(sums)
    theta, _, _, size = np.linalg.lstsq(C, np.ones(len(C)), rcond=None)
    wrong = np.abs(sums @ theta - 1)
    if wrong.max() > 1e-6:
        s, a = np.unravel_index(int(wrong.argmax()), wrong.shape)
        raise FeatureError(
            f"no parameter makes every row of P_theta sum to 1: at (s={s}, a={a}) the best is "
            f"{sums[s, a] @ theta:.6g}; check the features of that row"
        )
    share = size / size[0]
    unclear = share[(share > NOISE[0]) & (share < NOISE[1])]
    if unclear.size:
        raise FeatureError(
            f"sums of phi over s' differ by about {unclear[0]:.1g} of their size: too much for rounding, too little "
            "for a constraint on theta; divide the features of each row by what it should sum to, or use from_kernels"
        )
    least = float(np.linalg.norm(theta))
    if least > bound * (1 + TOLERANCE):
        raise FeatureError(
            f"bound is {bound:.6g}, but a parameter that makes every row sum to 1 has norm {least:.6g} or more"
        )


def _distinct(sums: Float[np.ndarray, "S A d"]) -> Float[np.ndarray, "m d"]:
    return np.unique(sums.reshape(-1, sums.shape[-1]), axis=0)
