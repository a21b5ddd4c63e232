"""Pairs (s,a) that are alike: the same rows among their successors, and the same radius.

Everything that a certificate asks of a pair, but for where its successors are, is the same for all pairs of a kind. A
grid of thousands of cells has a handful of kinds. Successors of a pair are the slots whose row is possible under some
parameter; a slot whose row is zero on all of Theta is none.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.models.mixture.valid import ValidSet


class Kinds(NamedTuple):
    """X kinds of pairs: `rows` [X, n] of their successors, R where there is none; `zeta` [X]; `of` [S, A] which."""

    rows: Int[np.ndarray, "X n"]
    zeta: Float[np.ndarray, " X"]
    of: Int[np.ndarray, "S A"]
    num_rows: int

    @property
    def is_slot(self) -> Bool[np.ndarray, "X n"]:
        """Where there is a successor."""
        return self.rows < self.num_rows

    def total(self, per_pair: np.ndarray) -> np.ndarray:
        """Sums [..., X] over the pairs of each kind of what there is per pair [..., S, A]."""
        flat = per_pair.reshape(*per_pair.shape[:-2], -1)
        found = np.zeros((*flat.shape[:-1], len(self.zeta)), per_pair.dtype)
        np.add.at(found.T, self.of.ravel(), flat.T)
        return found

    def at(self, x: np.ndarray, empty: float = 0.0) -> np.ndarray:
        """Each slot's entry [X, n, ...] of an array over rows [R, ...]; `empty` where there is no successor."""
        return np.asarray(np.concatenate([x, np.full_like(x[:1], empty)])[self.rows])


def kinds_of(valid: ValidSet, zeta: Float[np.ndarray, "S A"]) -> Kinds:
    """The kinds of all pairs."""
    R = len(valid.rows)
    row_of = np.asarray(valid.row_of)
    is_possible = np.append(np.asarray(valid.positive), False)
    rows = np.sort(np.where(is_possible[row_of], row_of, R), axis=-1)
    radii, radius = np.unique(zeta, return_inverse=True)
    keys = np.concatenate([rows, radius.reshape(*zeta.shape, 1)], axis=-1).reshape(zeta.size, -1)
    found, of = np.unique(keys, axis=0, return_inverse=True)
    return Kinds(found[:, :-1], radii[found[:, -1]], of.reshape(zeta.shape), R)
