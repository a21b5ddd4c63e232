"""Half-spaces and bounds of rows turned into an ellipsoid, and back.

A ball ||u|| <= 1, Delta = T u, and a half-space n'u <= c: the largest of w'u over both is, with n of length 1,

    ||w||                                       where w'n <= c ||w|| (the half-space does not cut there)
    (w'n) c + ||w - (w'n) n|| sqrt(1 - c^2)     else,                                 nothing is left where c < -1.

Bounds |z_r'u| <= w_r and the ball give, for all weights omega >= 0 that sum to 1,
omega_0 |u|^2 + sum omega_r (z_r'u)^2 / w_r^2 <= 1: an ellipsoid. Titterington's updates look for the weights with the
smallest volume.
"""

import numpy as np
from jaxtyping import Float

UPDATES = 60  # of the weights
THIN = 1e-12  # bounds are not taken to be smaller


def reach(
    white: Float[np.ndarray, "R q"], normal: Float[np.ndarray, "K q"], level: Float[np.ndarray, " K"]
) -> Float[np.ndarray, " R"]:
    """The largest w'u of each row w over the unit ball and each half-space, the best of these; nan where empty."""
    length = np.linalg.norm(normal, axis=1)
    is_one = length > 0
    if (level[~is_one] < 0).any():
        return np.full(len(white), np.nan)
    n, c = normal[is_one] / length[is_one, None], level[is_one] / length[is_one]
    size = np.linalg.norm(white, axis=1)
    cuts = c < 1
    if (c < -1).any():
        return np.full(len(white), np.nan)
    if not cuts.any():
        return np.asarray(size)
    n, c = n[cuts], c[cuts]
    along = white @ n.T
    across = np.sqrt(np.maximum(size[:, None] ** 2 - along**2, 0.0))
    cut = np.where(along > c * size[:, None], along * c + across * np.sqrt(1 - c**2), size[:, None])
    least: np.ndarray = np.minimum(size, cut.min(1))
    return least


def smallest_ellipsoid(
    white: Float[np.ndarray, "R q"], width: Float[np.ndarray, " R"], *, has_ball: bool
) -> Float[np.ndarray, "q q"]:
    """M with u'M u <= 1 for every u with |white u| <= width, of norm at most 1 where has_ball."""
    q = white.shape[1]
    v = white / np.maximum(width, THIN)[:, None]
    v = v[(v != 0).any(-1)]
    ball, weight = (0.5, np.full(len(v), 0.5 / len(v))) if has_ball else (0.0, np.full(len(v), 1 / len(v)))
    one = np.eye(q)
    M: np.ndarray = ball * one + (v.T * weight) @ v
    for _ in range(UPDATES):
        inverse = np.linalg.inv(M)
        ball *= inverse.trace() / q
        weight = weight * ((v @ inverse) * v).sum(1) / q
        total = ball + weight.sum()
        ball, weight = ball / total, weight / total
        M = ball * one + (v.T * weight) @ v
    return M
