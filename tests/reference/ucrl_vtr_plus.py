"""The variance-weighted regressions of UCRL-VTR+ (Zhou, Gu, Szepesvari 2021, arXiv 2012.08507), in plain NumPy.

UCRL-RFE+ prints the same with nu for sigma^2 and one model for all steps. Nothing is shared with the library.
"""

import numpy as np

from tests.reference.ucrl_rfe import norm_inv, phi_of_pair


def clip(x, low, high):
    return min(max(x, low), high)


def regress(first, second, phi, V, s, a, check, tilde):
    """One episode. first[h], second[h]: the regressions of step h, which may be one and the same object.

    Weights come from the regressions as they were before the episode. Returns sigma^2 [H].
    """
    H, d = len(a), phi.shape[-1]
    sigma_sq = np.zeros(H)
    rows = []
    for h in range(H):
        phi_V, phi_V2 = phi_of_pair(phi, s[h], a[h], V[h + 1]), phi_of_pair(phi, s[h], a[h], V[h + 1] ** 2)
        Var = clip(phi_V2 @ second[h].theta(), 0, H**2) - clip(phi_V @ first[h].theta(), 0, H) ** 2
        E = min(H**2, 2 * H * check * norm_inv(phi_V, first[h].Sigma)) + min(
            H**2, tilde * norm_inv(phi_V2, second[h].Sigma)
        )
        sigma_sq[h] = max(H**2 / d, Var + E)
        rows.append((phi_V, phi_V2, V[h + 1][s[h + 1]]))
    for h, (phi_V, phi_V2, y) in enumerate(rows):
        first[h].add(phi_V, y, 1 / sigma_sq[h])
        second[h].add(phi_V2, y**2)
    return sigma_sq
