"""Small matrices made of the rows of a mixture, z [q, R] with its few directions first."""

import numpy as np
import scipy.linalg
from jaxtyping import Float


def gram(z: Float[np.ndarray, "q R"], weight: Float[np.ndarray, " R"]) -> Float[np.ndarray, "q q"]:
    """sum_r weight_r z_r z_r'."""
    found: np.ndarray = (z * weight) @ z.T
    return found


def whiten(F: Float[np.ndarray, "q q"], z: Float[np.ndarray, "q R"]) -> Float[np.ndarray, "q R"]:
    """F^(-1/2) z_r up to a rotation: their norms are ||z_r|| in F^-1. Scaled to a unit diagonal first.

    Not a number where F is not positive definite.
    """
    scale = np.sqrt(np.diagonal(F))
    try:
        factor = np.linalg.cholesky(F / (scale[:, None] * scale[None, :]))
        half = scipy.linalg.solve_triangular(factor, np.diag(1 / scale), lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return np.full(z.shape, np.nan)
    found: np.ndarray = half @ z
    return found


def solve(matrix: Float[np.ndarray, "q q"], b: Float[np.ndarray, " q"]) -> Float[np.ndarray, " q"]:
    """The solution of a positive definite system, scaled to a unit diagonal first; zero where it fails."""
    scale = np.sqrt(np.diagonal(matrix))
    try:
        factor = scipy.linalg.cho_factor(matrix / (scale[:, None] * scale[None, :]), check_finite=False)
        x: np.ndarray = scipy.linalg.cho_solve(factor, b / scale, check_finite=False) / scale
    except np.linalg.LinAlgError:
        return np.zeros_like(b)
    return x if np.isfinite(x).all() else np.zeros_like(b)
