"""Sparse matrices as lists of coordinates."""

from typing import Any

import numpy as np

from . import csgraph as csgraph


class coo_array:
    """A matrix as row, column and value of each entry; entries of one place add up."""

    def __init__(self, parts: Any, shape: tuple[int, int]) -> None:
        values, places = parts
        self.data, self.shape = np.asarray(values), shape
        self.row, self.col = (np.asarray(x) for x in places)

    @property
    def coords(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns."""
        return self.row, self.col

    def tocoo(self) -> "coo_array":
        """The matrix itself."""
        return self

    tocsr = tocoo


def csr_array(parts: Any, shape: tuple[int, int]) -> coo_array:
    """A matrix from (values, (rows, columns)), from (values, columns, ends of rows), or from another one."""
    if isinstance(parts, coo_array):
        return parts
    if len(parts) == 2:
        return coo_array(parts, shape)
    values, columns, ends = parts
    return coo_array((values, (np.repeat(np.arange(shape[0]), np.diff(ends)), columns)), shape)


def issparse(x: Any) -> bool:
    """Whether it is one of these matrices."""
    return isinstance(x, coo_array)
