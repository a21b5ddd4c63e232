"""Linear programmes over the valid parameters: a point inside, and how far they reach.

Theta = {theta : X theta >= 0, C theta = 1}, X the distinct feature rows and C the distinct row sums.
"""

from typing import Any

import numpy as np
import scipy  # loads `scipy.optimize` and `scipy.sparse`, which take long, when it is asked for
from jaxtyping import Bool, Float

from horizonfree.errors import FeatureError

FORCED = 1e-9  # where not every row can have this share of its size, some are 0 on all of Theta
DROWNED = 1e-12  # directions that count as known change no probability by more than this, all together
EPS = float(np.finfo(np.float64).eps)
EVEN = 1e-12  # by which numbers differ that are equal but for rounding
MANY, FEW = 20_000, 500  # rows that a programme is not given all at once, and how many it is given at a time
MISSED = 1e-9  # by so much less than the least of the rows given another may be


def extent_along(
    rows: Float[np.ndarray, "R d"], sums: Float[np.ndarray, "m d"], direction: Float[np.ndarray, " d"]
) -> tuple[float, float]:
    """The smallest and the largest <direction, theta> over Theta."""
    ends = []
    for sign in (1.0, -1.0):
        result = scipy.optimize.linprog(
            sign * direction,
            A_ub=-rows,
            b_ub=np.zeros(len(rows)),
            A_eq=sums,
            b_eq=np.ones(len(sums)),
            bounds=(None, None),
            method="highs",
        )
        ends.append(sign * result.fun if result.status == 0 else -sign * np.inf)
    return ends[0], ends[1]


def _largest_least(rows: Float[np.ndarray, "R d"], sums: Float[np.ndarray, "m d"]) -> Any:
    """(theta, t) with the largest t = min_r <x_r, theta> of C theta = 1, t at most 1.

    Of many rows few matter. Those are found in rounds: solved for some rows, the ones that it has lowest join.
    """
    (R, d), m = rows.shape, len(sums)
    chosen = np.arange(R)
    if R > MANY:
        ends = np.argpartition(rows, (FEW, R - FEW), axis=0)
        chosen = np.unique(
            np.r_[ends[:FEW].ravel(), ends[-FEW:].ravel(), np.linspace(0, R - 1, FEW, dtype=int)]
        )
    while True:
        result = scipy.optimize.linprog(
            np.r_[np.zeros(d), -1.0],
            A_ub=np.c_[-rows[chosen], np.ones(len(chosen))],
            b_ub=np.zeros(len(chosen)),
            A_eq=np.c_[sums, np.zeros(m)],
            b_eq=np.ones(m),
            bounds=[(None, None)] * d + [(None, 1.0)],
            method="highs",
        )
        if len(chosen) == R or result.x is None or result.status != 0:
            return result
        p = rows @ result.x[:d]
        low = np.argpartition(p, FEW)[:FEW]
        missing = np.setdiff1d(low[p[low] < result.x[-1] - MISSED], chosen)
        if not missing.size:
            return result
        chosen = np.union1d(chosen, missing)


def _even(rows: Float[np.ndarray, "R d"], sums: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " d"] | None:
    """The shortest theta of C theta = 1, where one can see that no other has a larger least row; else None.

    Where the mean of its least rows is the same for all these theta, no least row can be larger; and where these rows
    and C leave but one theta, it is the one that `_largest_least` finds, without a programme to load.
    """
    if rows.size > MANY:
        return None
    theta: np.ndarray = np.linalg.lstsq(sums, np.ones(len(sums)), rcond=None)[0]
    p = rows @ theta
    if p.min() <= FORCED or np.abs(sums @ theta - 1).max() > EVEN:
        return None
    least = np.unique(rows[p <= p.min() + EVEN], axis=0)
    mean = least.mean(axis=0)
    rest = mean - sums.T @ np.linalg.lstsq(sums.T, mean, rcond=None)[0]
    is_only = np.linalg.matrix_rank(np.vstack([sums, least])) == len(theta)
    return theta if is_only and np.abs(rest).max() <= EVEN * np.abs(mean).max() else None


def relative_interior_point(
    rows: Float[np.ndarray, "R d"], sums: Float[np.ndarray, "m d"]
) -> tuple[Float[np.ndarray, " d"], Bool[np.ndarray, " R"]]:
    """A theta in Theta at which every row that can be positive is, and which these are; refuses an empty Theta.

    First argmax of min_r <x_r, theta>. Where that is 0, some rows are zero on all of Theta, and the largest support is
    found on the cone over Theta: max sum_r t_r with <x_r, theta> >= t_r, t_r in [0, 1], C theta = z 1, z >= 1; then
    theta / z, since any row that can be positive reaches t_r = 1 for z large enough.
    """
    (R, d), m = rows.shape, len(sums)
    even = _even(rows, sums)
    if even is not None:
        return even, np.ones(R, bool)
    result = _largest_least(rows, sums)

    def is_inside(theta: np.ndarray) -> bool:
        return bool((rows @ theta > FORCED).all() and np.abs(sums @ theta - 1).max() <= FORCED)

    def is_short(theta: np.ndarray) -> bool:
        """Whether the probabilities of theta have all digits that count."""
        return bool(EPS * np.linalg.norm(theta) <= DROWNED)

    has_failed = result.x is None or result.status != 0 or result.x[-1] < -FORCED
    if has_failed or (result.x[-1] > FORCED and not (is_inside(result.x[:d]) and is_short(result.x[:d]))):
        # Nearly equal rows can confuse the programme; of base kernels the shortest solution is the even mixture.
        shortest: np.ndarray = np.linalg.lstsq(sums, np.ones(m), rcond=None)[0]
        if is_inside(shortest):
            return shortest, np.ones(R, bool)
    if has_failed:
        why = result.message if result.status != 0 else "where rows sum to 1, some probability is negative"
        raise FeatureError(
            f"no parameter makes these features a transition kernel ({why}); check signs and row sums of phi"
        )
    if is_inside(result.x[:d]):
        return result.x[:d], np.ones(R, bool)
    result = scipy.optimize.linprog(
        np.r_[np.zeros(d + 1), -np.ones(R)],
        A_ub=scipy.sparse.hstack([-rows, np.zeros((R, 1)), scipy.sparse.eye_array(R)]),
        b_ub=np.zeros(R),
        A_eq=scipy.sparse.csr_array(np.c_[sums, -np.ones(m), np.zeros((m, R))]),
        b_eq=np.zeros(m),
        bounds=[(None, None)] * d + [(1.0, None)] + [(0.0, 1.0)] * R,
        method="highs",
    )
    if result.x is None:
        raise FeatureError(f"the parameters that make phi a kernel could not be explored: {result.message}")
    return result.x[:d] / result.x[d], result.x[d + 1 :] > 0.5
