"""The logarithm of the Gamma function."""

import math

import numpy as np

_lgamma = np.vectorize(math.lgamma, otypes=[np.float64])


def gammaln(x: np.ndarray) -> np.ndarray:
    """log |Gamma(x)|, entry by entry."""
    return _lgamma(x)
