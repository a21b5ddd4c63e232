"""Triangular and positive definite systems."""

import numpy as np


def solve_triangular(
    a: np.ndarray, b: np.ndarray, lower: bool = False, check_finite: bool = True
) -> np.ndarray:
    """The solution of a triangular system."""
    return np.linalg.solve(np.tril(a) if lower else np.triu(a), b)


def cho_factor(a: np.ndarray, check_finite: bool = True) -> np.ndarray:
    """The lower factor of a positive definite matrix."""
    return np.linalg.cholesky(a)


def cho_solve(factor: np.ndarray, b: np.ndarray, check_finite: bool = True) -> np.ndarray:
    """The solution of the system with this factor."""
    return np.linalg.solve(factor.T, np.linalg.solve(factor, b))


def eigvalsh(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The eigenvalues of a x = lambda b x, for positive definite b."""
    factor = np.linalg.cholesky(b)
    half = np.linalg.solve(factor, a)
    return np.linalg.eigvalsh(np.linalg.solve(factor, half.T))
