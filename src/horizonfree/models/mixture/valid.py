"""The valid parameters Theta = {theta : P_theta(.|s,a) is a probability vector for every (s,a)}.

Theta is a polytope in an affine space: row sums C theta = 1 and non-negativity X theta >= 0, X the distinct feature
rows. Rows that are zero for every theta in Theta are equalities too. Only the directions Z that keep these equalities
and change some reachable row can be learnt; q is their number. Linear programmes find a point inside Theta and its
extent.

Weights of a mixture. Where the user declares that theta are weights of kernels, w_i = C_i theta_i >= 0 (C the one row
sum that all pairs share), d virtual rows C_i e_i join X. They are rows like others, with a probability w_i, but no
transition shows them. This needs q = d - 1: otherwise several parameters of Theta have the same kernel, and some of
them may have negative weights while others have not.
"""

import dataclasses
from functools import partial
from typing import Any

import numpy as np
import scipy  # its submodules load slowly, at first use
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Leaf, node
from horizonfree.errors import FeatureError
from horizonfree.mdp.space import Space
from horizonfree.models.mixture.features import unique_rows

RANK_TOLERANCE = 1e-9  # singular values below this share of the largest count as zero
ROUNDING_EFFECT = 1e-14  # smaller effects of a direction on a row are rounding
EXTENT_TOLERANCE = 1e-8  # accuracy of the extent of Theta, from linear programmes
ZERO_SHARE = 1e-9  # a row that cannot reach this share of its size counts as 0 on all of Theta
NEGLIGIBLE_CHANGE = 1e-12  # largest total change of a probability by directions that count as known
EPS = float(np.finfo(np.float64).eps)
EQUAL_TOLERANCE = 1e-12  # numbers that differ by less count as equal
MAX_ROWS_AT_ONCE = 20_000  # linear programmes with more rows are solved in rounds
ROWS_PER_ROUND = 500  # rows that join in a round
ROW_TOLERANCE = 1e-9  # rows this far below the minimum of a round join the next one


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


def _max_min_row(rows: Float[np.ndarray, "R d"], sums: Float[np.ndarray, "m d"]) -> Any:
    """(theta, t) that maximises t = min_r <x_r, theta> subject to C theta = 1 and t <= 1.

    Of many rows few are active. They are found in rounds: solve with some rows, then add the lowest of the others.
    """
    (R, d), m = rows.shape, len(sums)
    chosen = np.arange(R)
    if R > MAX_ROWS_AT_ONCE:
        ends = np.argpartition(rows, (ROWS_PER_ROUND, R - ROWS_PER_ROUND), axis=0)
        chosen = np.unique(
            np.r_[
                ends[:ROWS_PER_ROUND].ravel(),
                ends[-ROWS_PER_ROUND:].ravel(),
                np.linspace(0, R - 1, ROWS_PER_ROUND, dtype=int),
            ]
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
        low = np.argpartition(p, ROWS_PER_ROUND)[:ROWS_PER_ROUND]
        missing = np.setdiff1d(low[p[low] < result.x[-1] - ROW_TOLERANCE], chosen)
        if not missing.size:
            return result
        chosen = np.union1d(chosen, missing)


def _shortest_parameter(
    rows: Float[np.ndarray, "R d"], sums: Float[np.ndarray, "m d"]
) -> Float[np.ndarray, " d"] | None:
    """The shortest theta with C theta = 1 if it is the solution of `_max_min_row`, else None.

    It is optimal if the mean of its smallest rows is the same for all these theta, and the only solution if these rows
    and C determine theta. This saves loading the solver.
    """
    if rows.size > MAX_ROWS_AT_ONCE:
        return None
    theta: np.ndarray = np.linalg.lstsq(sums, np.ones(len(sums)), rcond=None)[0]
    p = rows @ theta
    if p.min() <= ZERO_SHARE or np.abs(sums @ theta - 1).max() > EQUAL_TOLERANCE:
        return None
    smallest = np.unique(rows[p <= p.min() + EQUAL_TOLERANCE], axis=0)
    mean = smallest.mean(axis=0)
    rest = mean - sums.T @ np.linalg.lstsq(sums.T, mean, rcond=None)[0]
    is_unique = np.linalg.matrix_rank(np.vstack([sums, smallest])) == len(theta)
    return theta if is_unique and np.abs(rest).max() <= EQUAL_TOLERANCE * np.abs(mean).max() else None


def relative_interior_point(
    rows: Float[np.ndarray, "R d"], sums: Float[np.ndarray, "m d"]
) -> tuple[Float[np.ndarray, " d"], Bool[np.ndarray, " R"]]:
    """A theta at which every row is positive that can be, and a mask of these rows; refuses an empty Theta.

    First argmax of min_r <x_r, theta>. If the maximum is 0, some rows are zero on all of Theta, and the largest support
    is found on the cone over Theta: max sum_r t_r with <x_r, theta> >= t_r, t_r in [0, 1], C theta = z 1, z >= 1; then
    theta / z, since any row that can be positive reaches t_r = 1 for z large enough.
    """
    (R, d), m = rows.shape, len(sums)
    theta = _shortest_parameter(rows, sums)
    if theta is not None:
        return theta, np.ones(R, bool)
    result = _max_min_row(rows, sums)

    def is_inside(theta: np.ndarray) -> bool:
        return bool((rows @ theta > ZERO_SHARE).all() and np.abs(sums @ theta - 1).max() <= ZERO_SHARE)

    def is_short(theta: np.ndarray) -> bool:
        """Whether rounding of theta changes probabilities by a negligible amount only."""
        return bool(EPS * np.linalg.norm(theta) <= NEGLIGIBLE_CHANGE)

    has_failed = result.x is None or result.status != 0 or result.x[-1] < -ZERO_SHARE
    if has_failed or (result.x[-1] > ZERO_SHARE and not (is_inside(result.x[:d]) and is_short(result.x[:d]))):
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


@node
class ValidSet:
    """Theta: its rows, directions and centre.

    `rows` [R, d] are the distinct non-zero features phi(s'|s,a); `row_of` [S, A, n] is the row of each slot, R for
    padding. `affine` [d, e] spans the directions along Theta, orthonormal; `basis` Z [d, q], orthonormal too, those of
    them that change a reachable row. `center` is a point of Theta at which every row that can be positive is.
    `free` [R]: rows of reachable states that a direction of Z changes; the probability of any other reachable row is
    known. `positive` [R]: rows that are not zero on all of Theta. Rows may be of very different sizes (tails of
    distributions), so every tolerance is relative to the row's own size, `sizes` [R]. `virtual` [R]: rows whose
    probability is a weight; no slot has them. `choices` [S, A]: False for an action that equals an earlier action of
    the state for every parameter.
    """

    rows: Float[Leaf, "R d"]
    row_of: Int[Leaf, "S A n"]
    sums: Float[Leaf, "m d"]
    affine: Float[Leaf, "d e"]
    basis: Float[Leaf, "d q"]
    center: Float[Leaf, " d"]
    free: Bool[Leaf, " R"]
    positive: Bool[Leaf, " R"]
    sizes: Float[Leaf, " R"]
    virtual: Bool[Leaf, " R"]
    choices: Bool[Leaf, "S A"]

    @property
    def num_free(self) -> int:
        """q, the number of directions that can be learnt."""
        return int(self.basis.shape[1])

    def contains(self, theta: Float[np.ndarray, " d"], tolerance: float = 1e-9) -> bool:
        """Whether P_theta is a kernel, up to a tolerance on each entry and each row sum."""
        p = np.asarray(self.rows) @ np.asarray(theta)
        total = np.asarray(self.sums) @ np.asarray(theta)
        return bool((p >= -tolerance).all() and (np.abs(total - 1) <= tolerance).all())


def extent(valid: ValidSet, i: int) -> tuple[float, float]:
    """The smallest and the largest entry i of a valid parameter: two linear programmes; infinite where unbounded."""
    rows = np.asarray(valid.rows) / np.asarray(valid.sizes)[:, None]
    return extent_along(rows, np.asarray(valid.sums), np.eye(rows.shape[1])[i])


def valid_set(space: Space, phi: Float[np.ndarray, "S A n d"], bound: float, hull: bool = False) -> ValidSet:
    """Theta of features phi, with parameters no longer than `bound`; refuses effects that are lost in rounding.

    hull: the parameters are weights of kernels, none negative; ignored where virtual rows cannot express that.
    Costs one pass over the features and one small linear programme.
    """
    rows, row_of = _rows(phi)
    sums, _ = unique_rows(phi.sum(axis=2).reshape(-1, phi.shape[-1]))
    R = len(rows)
    if hull and _can_bound_weights(space, rows, row_of, sums):
        rows = np.vstack([rows, np.diag(sums[0])])
        row_of = np.where(row_of == R, len(rows), row_of)
    valid = _from_rows(space, rows, row_of, sums, np.arange(len(rows)) >= R)
    _check_rounding(valid, bound, *_effects(valid, np.asarray(space.reachable)))
    _check_positive(valid, np.asarray(space.succ))
    return valid


def restricted_valid(valid: ValidSet, states: Int[np.ndarray, " m"]) -> ValidSet:
    """The valid set with only the rows of these states and the virtual rows.

    If there are no more rows than slots of these states, all rows stay: they cost little, and maximum likelihood,
    whose last barrier is divided by their number, is then the same as with all states.
    """
    row_of, virtual = np.asarray(valid.row_of), np.asarray(valid.virtual)
    is_kept = virtual | _rows_of_states(row_of, states, len(virtual))
    if len(virtual) <= row_of[states].size:
        is_kept[:] = True
    kept = np.flatnonzero(is_kept)
    index = np.full(len(virtual) + 1, len(kept), np.int32)
    index[kept] = np.arange(len(kept), dtype=np.int32)
    result: dict[str, Any] = {
        name: np.asarray(getattr(valid, name))[kept] for name in ("rows", "free", "positive", "sizes")
    }
    result |= {
        "row_of": index[row_of[states]],
        "choices": np.asarray(valid.choices)[states],
        "virtual": virtual[kept],
    }
    return dataclasses.replace(valid, **result)


def _can_bound_weights(
    space: Space,
    rows: Float[np.ndarray, "R d"],
    row_of: Int[np.ndarray, "S A n"],
    sums: Float[np.ndarray, "m d"],
) -> bool:
    """Whether virtual rows can express that no weight is negative: one row sum for all, and q = d - 1.

    Rows of kernels are not negative, so none is zero on all of Theta, and Theta spans all directions that keep the sum.
    """
    if len(sums) > 1 or not (sums > 0).all() or (rows < 0).any():
        return False
    affine = null_space(sums)
    seen = _rows_of_states(row_of, np.asarray(space.reachable), len(rows))
    learnt = row_space(rows[seen] @ affine, float(np.abs(rows).max()))
    return bool(learnt.shape[1] == rows.shape[1] - 1 > 0)


def norm_bound(phi: Float[np.ndarray, "S A n d"]) -> float:
    """A bound on the norm of valid parameters, from linear programmes; infinite where some direction is unbounded."""
    rows, _ = _rows(phi)
    sums, _ = unique_rows(phi.sum(axis=2).reshape(-1, phi.shape[-1]))
    scaled = rows / np.abs(rows).max(axis=1)[:, None]
    ends = [extent_along(scaled, sums, direction) for direction in np.eye(phi.shape[-1])]
    return float(np.linalg.norm(np.abs(ends).max(axis=1)))


def _from_rows(
    space: Space,
    rows: Float[np.ndarray, "R d"],
    row_of: Int[np.ndarray, "S A n"],
    sums: Float[np.ndarray, "m d"],
    is_virtual: Bool[np.ndarray, " R"],
) -> ValidSet:
    """The valid set of these rows and row sums."""
    sizes = np.abs(rows).max(axis=1)
    scaled = rows / sizes[:, None]
    center, positive = relative_interior_point(scaled, sums)
    affine = null_space(np.vstack([sums, scaled[~positive]]))
    seen = _rows_of_states(row_of, np.asarray(space.reachable), len(rows))
    basis = affine @ row_space(rows[seen] @ affine, float(sizes.max()))
    free = (seen | is_virtual) & (np.linalg.norm(scaled @ basis, axis=1) > RANK_TOLERANCE)
    choices = _choices(np.asarray(space.succ), row_of, len(rows))
    result = rows, row_of, sums, affine, basis, center, free, positive, sizes, is_virtual, choices
    return ValidSet(*result)


def _choices(
    succ: Int[np.ndarray, "S A n"], row_of: Int[np.ndarray, "S A n"], R: int
) -> Bool[np.ndarray, "S A"]:
    """False for an action that leads, row by row, to the same successors as an earlier one of the state."""
    slots = np.concatenate([np.where(row_of < R, succ, -1), row_of], axis=2)
    choices = np.ones(succ.shape[:2], bool)
    for a in range(1, succ.shape[1]):
        choices[:, a] = ~(slots[:, :a] == slots[:, a : a + 1]).all(-1).any(-1)
    return choices


def _effects(
    valid: ValidSet, reachable: Bool[np.ndarray, " S"]
) -> tuple[Bool[np.ndarray, " R"], Bool[np.ndarray, " R"]]:
    """Rows of reachable states, and those of them with an effect of Z above rounding and below the rank tolerance."""
    seen = _rows_of_states(np.asarray(valid.row_of), reachable, len(valid.rows))
    scaled = np.asarray(valid.rows) / np.asarray(valid.sizes)[:, None]
    strength = np.linalg.norm(scaled @ np.asarray(valid.basis), axis=1)
    return seen, seen & ~np.asarray(valid.free) & (strength > ROUNDING_EFFECT)


def _rows_of_states(
    row_of: Int[np.ndarray, "S A n"], states: Bool[np.ndarray, " S"] | Int[np.ndarray, " m"], R: int
) -> Bool[np.ndarray, " R"]:
    """Which rows belong to transitions from these states."""
    mask = np.zeros(R + 1, bool)  # the last entry is for slots without a row
    mask[row_of[states]] = True
    return mask[:-1]


def _rows(phi: Float[np.ndarray, "S A n d"]) -> tuple[Float[np.ndarray, "R d"], Int[np.ndarray, "S A n"]]:
    """The distinct non-zero features, and the index of each slot among them; R for a slot without."""
    flat = phi.reshape(-1, phi.shape[-1])
    possible = flat.any(axis=1)
    rows, inverse = unique_rows(flat[possible])
    row_of = np.full(len(flat), len(rows), np.int32)
    row_of[possible] = inverse
    return rows, row_of.reshape(phi.shape[:3])


def _check_rounding(
    valid: ValidSet, bound: float, seen: Bool[np.ndarray, " R"], faint: Bool[np.ndarray, " R"]
) -> None:
    """Refuse features whose neglected directions (known, or not along Theta) change probabilities that can be seen."""
    rows, sums, affine, basis = (np.asarray(x) for x in (valid.rows, valid.sums, valid.affine, valid.basis))
    max_change = partial(
        _max_change, bound, np.asarray(valid.center), rows / np.asarray(valid.sizes)[:, None], sums
    )
    change = max_change(rows[seen], affine, basis) + max_change(rows[faint], basis, basis[:, :0])
    if not change <= NEGLIGIBLE_CHANGE:
        raise FeatureError(
            "some combination of features is so small beside the others that it drowns in rounding, yet it changes "
            f"probabilities by up to {min(change, 1.0):.1g}; bring the features to similar sizes, or leave out base "
            "kernels that hardly differ from others"
        )
    lost = 0.0 if valid.positive.all() else max_change(rows[seen], null_space(sums), affine)
    if not lost <= EXTENT_TOLERANCE:
        raise FeatureError(
            "some probability can be positive, but by so little that it cannot be told from 0, and it decides about "
            f"parameters that change others by up to {min(lost, 1.0):.1g}; set its features to zero, or make it larger"
        )


def _check_positive(valid: ValidSet, succ: Int[np.ndarray, "S A n"]) -> None:
    """Refuse a centre at which a free row has probability 0."""
    p = np.asarray(valid.rows) / np.asarray(valid.sizes)[:, None] @ np.asarray(valid.center)
    faintest = int(np.where(valid.free, p, np.inf).argmin())
    if valid.free[faintest] and p[faintest] <= 0:
        s, a, j = np.argwhere(np.asarray(valid.row_of) == faintest)[0]
        raise FeatureError(
            f"P(s'={succ[s, a, j]} | s={s}, a={a}) can be positive, but by so little that no parameter was found "
            "for which it is; set its features to zero, or make it larger"
        )


def _max_change(
    bound: float,
    center: Float[np.ndarray, " d"],
    scaled: Float[np.ndarray, "R d"],
    sums: Float[np.ndarray, "m d"],
    rows: Float[np.ndarray, "n d"],
    along: Float[np.ndarray, "d e"],
    kept: Float[np.ndarray, "d q"],
) -> float:
    """A bound on how much the directions `along`, without those `kept`, change one of the rows, from the centre.

    Parameters are in Theta and no longer than `bound`; the centre may be longer.
    """
    if not len(rows) or along.shape[1] == kept.shape[1]:
        return 0.0
    rest = along - kept @ (kept.T @ along)
    _, size, Vt = np.linalg.svd(np.linalg.qr(rows @ rest, mode="r"))
    total, tolerance = 0.0, ROUNDING_EFFECT * np.abs(rows).max() * np.sqrt(len(rows))
    for k in np.flatnonzero(size):
        direction = rest @ Vt[k]
        far = abs(float(direction @ center))
        if size[k] <= tolerance and far <= 10 * bound:
            continue
        reach = bound + far
        if size[k] * reach > NEGLIGIBLE_CHANGE:  # it may be shorter within Theta
            low, high = extent_along(scaled, sums, direction)
            reach = min(high - low, reach)
        total += float(size[k]) * reach
    return total


def null_space(matrix: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "d e"]:
    """Orthonormal basis of the directions that the matrix sends to zero."""
    is_tall = len(matrix) > matrix.shape[1]
    small = (
        np.linalg.qr(matrix, mode="r") if is_tall else matrix
    )  # R has the same null space, and is not [m, m]
    _, size, Vt = np.linalg.svd(small, full_matrices=True)
    rank = int((size > RANK_TOLERANCE * size[0]).sum())
    return Vt[rank:].T


def row_space(matrix: Float[np.ndarray, "R e"], scale: float) -> Float[np.ndarray, "e q"]:
    """Orthonormal basis of the directions that the matrix does not send to zero (entries of order `scale`)."""
    if matrix.shape[1] == 0:
        return np.zeros((0, 0))
    _, size, Vt = np.linalg.svd(np.linalg.qr(matrix, mode="r"))
    rank = int((size > RANK_TOLERANCE * scale * np.sqrt(len(matrix))).sum())
    return Vt[:rank].T
