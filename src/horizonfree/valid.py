"""The valid parameters Theta = {theta : P_theta(.|s,a) is a probability vector for every (s,a)}.

Theta is a polytope in an affine space: row sums C theta = 1 and non-negativity X theta >= 0, X the distinct feature
rows. Rows that are zero for every theta in Theta are equalities too. Only the directions Z that keep these equalities
and change some reachable row can be learnt; q is their number.
"""

from functools import partial

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.optimize import linprog

from horizonfree.errors import FeatureError
from horizonfree.mixture import AnyArray, Known

RANK_TOLERANCE = 1e-9  # singular values below this share of the largest count as zero
FORCED = 1e-9  # where not every row can have this share of its size, some are 0 on all of Theta
NOTHING = 1e-14  # smaller effects of a direction on a row are rounding
DROWNED = 1e-12  # directions that count as known change no probability by more than this, all together
EPS = float(np.finfo(np.float64).eps)
SOLVED = 1e-8  # to this the extent of Theta is computed by linear programmes
DIGITS = 12  # rows that agree to this many digits (relative to their largest entry) are one row


class ValidSet(eqx.Module):
    """Theta, with everything that the likelihood and the confidence sets need to know of it.

    `rows` [R, d] are the distinct non-zero features phi(s'|s,a); `row_of` [S, A, n] says which row a slot is, R for
    padding. `affine` [d, e] spans the directions along Theta, orthonormal; `basis` Z [d, q], orthonormal too, those of
    them that change a reachable row. `center` is a point of Theta at which every row that can be positive is.
    `reachable` [S]: states in which an action can be taken, under some parameter and policy. `free` [R]: rows of
    reachable states that a direction of Z changes; the probability of any other reachable row is known. `positive` [R]:
    rows that are not zero on all of Theta. Rows may be of very different sizes (tails of distributions), so every
    judgement is relative to the row's own size, `sizes` [R].
    """

    rows: Float[AnyArray, "R d"]
    row_of: Int[AnyArray, "S A n"]
    sums: Float[AnyArray, "m d"]
    affine: Float[AnyArray, "d e"]
    basis: Float[AnyArray, "d q"]
    center: Float[AnyArray, " d"]
    reachable: Bool[AnyArray, " S"]
    free: Bool[AnyArray, " R"]
    positive: Bool[AnyArray, " R"]
    sizes: Float[AnyArray, " R"]

    @property
    def num_free(self) -> int:
        """q, the number of directions that can be learnt."""
        return self.basis.shape[1]

    def contains(self, theta: Float[AnyArray, " d"], tolerance: float = 1e-9) -> bool:
        """Whether P_theta is a kernel, up to a tolerance on each entry and each row sum."""
        p = np.asarray(self.rows) @ np.asarray(theta)
        total = np.asarray(self.sums) @ np.asarray(theta)
        return bool((p >= -tolerance).all() and (np.abs(total - 1) <= tolerance).all())


def extent(valid: ValidSet, i: int) -> tuple[float, float]:
    """The smallest and the largest entry i of a valid parameter: two linear programmes; infinite where unbounded."""
    rows = np.asarray(valid.rows) / np.asarray(valid.sizes)[:, None]
    return _extent(rows, np.asarray(valid.sums), np.eye(rows.shape[1])[i])


def _extent(
    rows: Float[np.ndarray, "R d"], sums: Float[np.ndarray, "m d"], direction: Float[np.ndarray, " d"]
) -> tuple[float, float]:
    """The smallest and the largest <direction, theta> over Theta."""
    ends = []
    for sign in (1.0, -1.0):
        result = linprog(
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


def valid_set(known: Known) -> ValidSet:
    """Theta of a known class; costs one look at every feature and one small linear programme."""
    phi = np.asarray(known.phi)
    S, A, n, d = phi.shape
    flat = phi.reshape(-1, d)
    possible = flat.any(axis=1)
    rows, inverse = distinct(flat[possible])
    row_of = np.full(S * A * n, len(rows), np.int32)
    row_of[possible] = inverse
    row_of = row_of.reshape(S, A, n)
    sums, _ = distinct(phi.sum(axis=2).reshape(-1, d))
    sizes = np.abs(rows).max(axis=1)
    scaled = rows / sizes[:, None]
    center, positive = relative_interior_point(scaled, sums)
    affine = kernel_of(np.vstack([sums, scaled[~positive]]))
    reachable = reachable_states(known)
    seen = np.isin(np.arange(len(rows)), row_of[reachable])
    basis = affine @ range_of_transpose(rows[seen] @ affine, float(sizes.max()))
    strength = np.linalg.norm(scaled @ basis, axis=1)
    free = seen & (strength > RANK_TOLERANCE)
    faint = rows[seen & ~free & (strength > NOTHING)]
    drowned = partial(_drowned, known.bound, center, scaled, sums)
    change = drowned(rows[seen], affine, basis) + drowned(faint, basis, basis[:, :0])
    if not change <= DROWNED:
        raise FeatureError(
            "some combination of features is so small beside the others that it drowns in rounding, yet it changes "
            f"probabilities by up to {min(change, 1.0):.1g}; bring the features to similar sizes, or leave out base "
            "kernels that hardly differ from others"
        )
    lost = 0.0 if positive.all() else drowned(rows[seen], kernel_of(sums), affine)
    if not lost <= SOLVED:
        raise FeatureError(
            "some probability can be positive, but by so little that it cannot be told from 0, and it decides about "
            f"parameters that change others by up to {min(lost, 1.0):.1g}; set its features to zero, or make it larger"
        )
    faintest = int(np.where(free, scaled @ center, np.inf).argmin())
    if free[faintest] and scaled[faintest] @ center <= 0:
        s, a, j = np.argwhere(row_of == faintest)[0]
        raise FeatureError(
            f"P(s'={known.succ[s, a, j]} | s={s}, a={a}) can be positive, but by so little that no parameter was found "
            "for which it is; set its features to zero, or make it larger"
        )
    return ValidSet(rows, row_of, sums, affine, basis, center, reachable, free, positive, sizes)


def _drowned(
    bound: float,
    center: Float[np.ndarray, " d"],
    scaled: Float[np.ndarray, "R d"],
    sums: Float[np.ndarray, "m d"],
    rows: Float[np.ndarray, "n d"],
    along: Float[np.ndarray, "d e"],
    kept: Float[np.ndarray, "d q"],
) -> float:
    """By how much directions along Theta, but for those kept, can tell a parameter from the centre in one of the rows.

    Parameters are in Theta and no longer than B; the centre may be longer.
    """
    if not len(rows) or along.shape[1] == kept.shape[1]:
        return 0.0
    rest = along - kept @ (kept.T @ along)
    _, size, Vt = np.linalg.svd(np.linalg.qr(rows @ rest, mode="r"))
    total, nothing = 0.0, NOTHING * np.abs(rows).max() * np.sqrt(len(rows))
    for k in np.flatnonzero(size):
        direction = rest @ Vt[k]
        far = abs(float(direction @ center))
        if size[k] <= nothing and far <= 10 * bound:
            continue
        reach = bound + far
        if size[k] * reach > DROWNED:  # it may be shorter within Theta
            low, high = _extent(scaled, sums, direction)
            reach = min(high - low, reach)
        total += float(size[k]) * reach
    return total


def distinct(x: Float[np.ndarray, "N d"]) -> tuple[Float[np.ndarray, "R d"], Int[np.ndarray, " N"]]:
    """Distinct rows and the row of each entry; rows that differ by rounding only are one."""
    size = np.abs(x).max(axis=1, keepdims=True)
    size = np.where(size > 0, size, 1.0)
    digits = np.round(np.concatenate([x / size, np.log(size)], axis=1), DIGITS) + 0.0
    _, first, inverse = np.unique(digits, axis=0, return_index=True, return_inverse=True)
    return x[first], inverse.reshape(-1)


def reachable_states(known: Known) -> Bool[np.ndarray, " S"]:
    """States that some parameter and policy can be in at one of the steps 1..H."""
    succ, support = np.asarray(known.succ), known.support
    seen = np.zeros(known.num_states, bool)
    seen[known.start] = True
    frontier = np.array([known.start])
    for _ in range(known.horizon - 1):
        after = np.unique(succ[frontier][support[frontier]])
        frontier = after[~seen[after]]
        if not frontier.size:
            break
        seen[frontier] = True
    return seen


def kernel_of(matrix: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "d e"]:
    """Orthonormal basis of the directions that the matrix sends to zero."""
    is_tall = len(matrix) > matrix.shape[1]
    small = (
        np.linalg.qr(matrix, mode="r") if is_tall else matrix
    )  # the same directions, without a matrix [m, m]
    _, size, Vt = np.linalg.svd(small, full_matrices=True)
    rank = int((size > RANK_TOLERANCE * size[0]).sum())
    return Vt[rank:].T


def range_of_transpose(matrix: Float[np.ndarray, "R e"], scale: float) -> Float[np.ndarray, "e q"]:
    """Orthonormal basis of the directions that the matrix does not send to zero (entries of order `scale`)."""
    if matrix.shape[1] == 0:
        return np.zeros((0, 0))
    _, size, Vt = np.linalg.svd(np.linalg.qr(matrix, mode="r"))
    rank = int((size > RANK_TOLERANCE * scale * np.sqrt(len(matrix))).sum())
    return Vt[:rank].T


def relative_interior_point(
    rows: Float[np.ndarray, "R d"], sums: Float[np.ndarray, "m d"]
) -> tuple[Float[np.ndarray, " d"], Bool[np.ndarray, " R"]]:
    """A theta in Theta at which every row that can be positive is, and which these are; refuses an empty Theta.

    First argmax of min_r <x_r, theta>. Where that is 0, some rows are zero on all of Theta, and the largest support is
    found on the cone over Theta: max sum_r t_r with <x_r, theta> >= t_r, t_r in [0, 1], C theta = z 1, z >= 1; then
    theta / z, since any row that can be positive reaches t_r = 1 for z large enough.
    """
    (R, d), m = rows.shape, len(sums)
    result = linprog(
        np.r_[np.zeros(d), -1.0],
        A_ub=np.c_[-rows, np.ones(R)],
        b_ub=np.zeros(R),
        A_eq=np.c_[sums, np.zeros(m)],
        b_eq=np.ones(m),
        bounds=[(None, None)] * d + [(None, 1.0)],
        method="highs",
    )

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
    result = linprog(
        np.r_[np.zeros(d + 1), -np.ones(R)],
        A_ub=sp.hstack([-rows, np.zeros((R, 1)), sp.eye_array(R)]),
        b_ub=np.zeros(R),
        A_eq=sp.csr_array(np.c_[sums, -np.ones(m), np.zeros((m, R))]),
        b_eq=np.zeros(m),
        bounds=[(None, None)] * d + [(1.0, None)] + [(0.0, 1.0)] * R,
        method="highs",
    )
    if result.x is None:
        raise FeatureError(f"the parameters that make phi a kernel could not be explored: {result.message}")
    return result.x[:d] / result.x[d], result.x[d + 1 :] > 0.5
