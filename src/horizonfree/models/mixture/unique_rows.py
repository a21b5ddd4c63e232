"""Which of many rows of numbers are the same but for rounding: each row has a mark, and marks are sorted, not rows."""

import numpy as np
from jaxtyping import Float, Int, UInt64

DIGITS = 12  # rows that agree to this many digits (relative to their largest entry) are one row
ODD = np.uint64(0x9E3779B97F4A7C15)  # its multiples spread over all numbers of 64 bits
HALF = np.uint64(32)


def unique_rows(x: Float[np.ndarray, "N d"]) -> tuple[Float[np.ndarray, "R d"], Int[np.ndarray, " N"]]:
    """Distinct rows and the row of each entry; rows that differ by rounding only are one.

    In the order of their digits, and of equal ones the first.
    """
    digits = _digits(x)
    _, first, inverse = np.unique(_marks(digits), return_index=True, return_inverse=True)
    found = digits[first]
    for i in range(digits.shape[1]):  # column by column, so that no copy of all rows is made
        if (
            digits[:, i] != found[inverse, i]
        ).any():  # two rows of one mark: once in 10^7 problems of 10^6 rows
            _, first, inverse = np.unique(digits, axis=0, return_index=True, return_inverse=True)
            return x[first], inverse.reshape(-1)
    order = _order(found)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return x[first[order]], rank[inverse]


def _order(rows: Float[np.ndarray, "R m"]) -> Int[np.ndarray, " R"]:
    """How to sort rows by their first entry, then by the second, and so on."""
    order = np.argsort(rows[:, 0], kind="stable")
    first = rows[order, 0]
    is_same = first[1:] == first[:-1]
    is_tied = np.append(is_same, False) | np.append(False, is_same)
    tied = order[is_tied]
    order[is_tied] = tied[np.lexsort(rows[tied].T[::-1])]
    return order


def _digits(x: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N d1"]:
    """The entries as shares of the largest of their row, and its logarithm, to so many digits."""
    size = np.abs(x).max(axis=1)
    size = np.where(size > 0, size, 1.0)
    digits = np.empty((len(x), x.shape[1] + 1))
    np.divide(x, size[:, None], out=digits[:, :-1])
    np.log(size, out=digits[:, -1])
    np.round(digits, DIGITS, out=digits)
    digits += 0.0  # -0 is 0
    return digits


def _marks(digits: Float[np.ndarray, "N m"]) -> UInt64[np.ndarray, " N"]:
    """One number of 64 bits for each row; equal rows have equal ones."""
    marks = np.zeros(len(digits), np.uint64)
    for column in digits.T:
        marks ^= np.ascontiguousarray(column).view(np.uint64)
        marks *= ODD
        marks ^= marks >> HALF
    return marks
