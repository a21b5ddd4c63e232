"""How often a row was seen bounds its probability, for all laws within their radii; and how wrong the class is.

Class c = (row r, m): the pairs of which m successors have row r; n visits of such pairs, N times one of these was seen;
zeta_c the largest radius among the pairs. With probability 1 - delta, for all C classes and at all times (Theorem R2),

    low_c - zeta_c <= m p_r(theta_star) <= high_c + zeta_c,
    [low, high] = {pi : n kl(N/n, pi) <= log(2 C / delta) + log(n) / 2 + log 2},      kl the divergence of coins.

Theorem R8: the smallest multiple of the radii for which some parameter satisfies all of this is a linear programme in
(y, multiple). No smaller one is right, with the same probability.

Pairs (s,a) are of the same kind if they have the same rows among their successors and the same radius. Certificates
depend on a pair only through its kind and its successors; a grid of thousands of cells has a handful of kinds.
Successors of a pair are the slots whose row is positive for some parameter in Theta.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy  # its submodules load slowly, at first use
from jaxtyping import Bool, Float, Int

from horizonfree.models.mixture.valid import ValidSet

BISECTIONS = 60  # of an interval that holds an end of [low, high]; the outer end is taken
PROGRAMME_TOLERANCE = 1e-6  # to this the linear programme is solved: the multiple is made smaller by it


class PairKinds(NamedTuple):
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
        result = np.zeros((*flat.shape[:-1], len(self.zeta)), per_pair.dtype)
        np.add.at(result.T, self.of.ravel(), flat.T)
        return result

    def at(self, x: np.ndarray, empty: float = 0.0) -> np.ndarray:
        """Each slot's entry [X, n, ...] of an array over rows [R, ...]; `empty` where there is no successor."""
        return np.asarray(np.concatenate([x, np.full_like(x[:1], empty)])[self.rows])


def kinds_of(valid: ValidSet, zeta: Float[np.ndarray, "S A"]) -> PairKinds:
    """The kinds of all pairs."""
    R = len(valid.rows)
    row_of = np.asarray(valid.row_of)
    is_possible = np.append(np.asarray(valid.positive), False)
    rows = np.sort(np.where(is_possible[row_of], row_of, R), axis=-1)
    radii, radius = np.unique(zeta, return_inverse=True)
    keys = np.concatenate([rows, radius.reshape(*zeta.shape, 1)], axis=-1).reshape(zeta.size, -1)
    result, of = np.unique(keys, axis=0, return_inverse=True)
    return PairKinds(result[:, :-1], radii[result[:, -1]], of.reshape(zeta.shape), R)


class Frequencies(NamedTuple):
    """C classes: `row`, `times` (m), `zeta`, and the interval [low, high] of the share of visits that show the row."""

    row: Int[np.ndarray, " C"]
    times: Int[np.ndarray, " C"]
    zeta: Float[np.ndarray, " C"]
    low: Float[np.ndarray, " C"]
    high: Float[np.ndarray, " C"]

    def row_bounds(self, num_rows: int) -> tuple[Float[np.ndarray, " R"], Float[np.ndarray, " R"]]:
        """Between which numbers p_r lies, for the radii given."""
        low, high = np.zeros(num_rows), np.ones(num_rows)
        np.maximum.at(low, self.row, (self.low - self.zeta) / self.times)
        np.minimum.at(high, self.row, (self.high + self.zeta) / self.times)
        return low, high

    def within(self, kinds: PairKinds) -> "Frequencies":
        """The classes with the radii of these kinds, on which intervals do not depend."""
        kind, _, which, _ = _classes(kinds)
        return self._replace(zeta=_largest(kinds.zeta[kind], which, len(self.row)))

    @property
    def shape(self) -> Float[np.ndarray, " C"]:
        """The radii in proportion to the largest; all alike where that is 0."""
        most = self.zeta.max(initial=0.0)
        return self.zeta / most if most > 0 else np.ones(len(self.zeta))


def frequencies(
    kinds: PairKinds,
    row_of: Int[np.ndarray, "S A n"],
    counts: Int[np.ndarray, "S A n"],
    visits: Int[np.ndarray, "S A"],
    delta: float,
) -> Frequencies:
    """The intervals of all classes, from how often each slot was seen and each pair was visited."""
    base = kinds.num_rows + 1
    seen = np.bincount(
        (kinds.of[..., None] * base + row_of).ravel(), counts.ravel(), minlength=len(kinds.zeta) * base
    )
    kind, row, which, classes = _classes(kinds)
    C = classes.shape[1]
    n = np.bincount(which, kinds.total(visits)[kind], minlength=C)
    N = np.bincount(which, seen[kind * base + row], minlength=C)
    low, high = _interval(N, n, math.log(2 * C / delta))
    return Frequencies(classes[0], classes[1], _largest(kinds.zeta[kind], which, C), low, high)


def _classes(kinds: PairKinds) -> tuple[np.ndarray, np.ndarray, np.ndarray, Int[np.ndarray, "2 C"]]:
    """The rows of all kinds as (kind, row, number of the class), and the classes (row, m), the same for all radii."""
    base = kinds.num_rows + 1
    key, times = np.unique(np.arange(len(kinds.zeta))[:, None] * base + kinds.rows, return_counts=True)
    is_row = key % base < kinds.num_rows
    key, times = key[is_row], times[is_row]
    kind, row = key // base, key % base
    classes, which = np.unique(np.stack([row, times]), axis=1, return_inverse=True)
    return kind, row, which.ravel(), classes


def _largest(x: Float[np.ndarray, " k"], which: Int[np.ndarray, " k"], C: int) -> Float[np.ndarray, " C"]:
    """The largest x of each class."""
    most = np.zeros(C)
    np.maximum.at(most, which, x)
    return most


def _interval(
    N: Float[np.ndarray, " C"], n: Float[np.ndarray, " C"], log: float
) -> tuple[Float[np.ndarray, " C"], Float[np.ndarray, " C"]]:
    """The ends of {pi : n kl(N/n, pi) <= log + log(n)/2 + log 2}, from outside; [0, 1] without visits."""
    share = N / np.maximum(n, 1)
    most = np.where(n > 0, (log + np.log(np.maximum(n, 1)) / 2 + math.log(2)) / np.maximum(n, 1), np.inf)

    def is_out(pi: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            yes = np.where(share > 0, share * np.log(share / pi), 0.0)
            no = np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - pi)), 0.0)
        return yes + no > most

    outer = np.stack([np.zeros_like(share), np.ones_like(share)])  # both ends at once
    is_limit = ~is_out(outer)  # the whole side is inside
    out, inside = outer, np.stack([share, share])
    for _ in range(BISECTIONS):
        middle = (out + inside) / 2
        beyond = is_out(middle)
        out, inside = np.where(beyond, middle, out), np.where(beyond, inside, middle)
    low, high = np.where(is_limit, outer, out)
    return low, high


def least_multiple(
    classes: Frequencies, p_center: Float[np.ndarray, " R"], z: Float[np.ndarray, "R q"]
) -> float:
    """The smallest c >= 0 for which some parameter fits all classes with c times their radii; infinite where none does.

    p_r(y) = p_center + z y of the rows that an episode can show and of virtual ones; others have z = 0.
    """
    shape, m, at = classes.shape, classes.times[:, None], classes.row
    is_free = (z != 0).any(-1)
    free = z[is_free]
    A = np.vstack(
        [
            np.c_[-m * z[at], -shape],
            np.c_[m * z[at], -shape],
            np.c_[-free, np.zeros(len(free))],
        ]
    )
    p = classes.times * p_center[at]
    b = np.concatenate([p - classes.low, classes.high - p, p_center[is_free]])
    q = z.shape[1]
    result = scipy.optimize.linprog(
        np.r_[np.zeros(q), 1.0],
        A_ub=A,
        b_ub=b,
        bounds=[(None, None)] * q + [(0.0, None)],
        method="highs",
    )
    if result.status == 2:
        return math.inf
    c = float(result.fun) if result.status == 0 else 0.0
    return max(0.0, c * (1 - PROGRAMME_TOLERANCE) - PROGRAMME_TOLERANCE)
