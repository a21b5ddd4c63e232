"""The valid parameters Theta = {theta : P_theta(.|s,a) is a probability vector for every (s,a)}.

Theta is a polytope in an affine space: row sums C theta = 1 and non-negativity X theta >= 0, X the distinct feature
rows. Rows that are zero for every theta in Theta are equalities too. Only the directions Z that keep these equalities
and change some reachable row can be learnt; q is their number.

Weights of a mixture. Where the user declares that theta are weights of kernels, w_i = C_i theta_i >= 0 (C the one row
sum that all pairs share), d virtual rows C_i e_i join X. They are rows like others, with a probability w_i, but no
transition shows them. Only where q = d - 1: else a parameter of Theta stands for others with the same kernel, and one
of these may have weights where it has none.
"""

import dataclasses
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Leaf, leaf, node
from horizonfree.errors import FeatureError
from horizonfree.mdp.space import Space
from horizonfree.models.mixture.programmes import DROWNED, extent_along, relative_interior_point
from horizonfree.models.mixture.unique_rows import unique_rows

RANK_TOLERANCE = 1e-9  # singular values below this share of the largest count as zero
NOTHING = 1e-14  # smaller effects of a direction on a row are rounding
SOLVED = 1e-8  # to this the extent of Theta is computed by linear programmes


@node
class ValidSet:
    """Theta, with everything that the likelihood and the confidence sets need to know of it.

    `rows` [R, d] are the distinct non-zero features phi(s'|s,a); `row_of` [S, A, n] says which row a slot is, R for
    padding. `affine` [d, e] spans the directions along Theta, orthonormal; `basis` Z [d, q], orthonormal too, those of
    them that change a reachable row. `center` is a point of Theta at which every row that can be positive is.
    `free` [R]: rows of reachable states that a direction of Z changes; the probability of any other reachable row is
    known. `positive` [R]: rows that are not zero on all of Theta. Rows may be of very different sizes (tails of
    distributions), so every judgement is relative to the row's own size, `sizes` [R]. `virtual` [R]: rows that read off
    a weight and that no slot has. `choices` [S, A]: actions that no earlier action of the state equals for every
    parameter.
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
        return self.basis.shape[1]

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
    """Theta of features phi, of which parameters no longer than `bound` count; refuses what drowns in rounding.

    hull: the parameters are weights of kernels, and none is negative; left out where virtual rows cannot say it.
    Costs one look at every feature and one small linear programme.
    """
    rows, row_of = _rows(phi)
    sums, _ = unique_rows(phi.sum(axis=2).reshape(-1, phi.shape[-1]))
    R = len(rows)
    if hull and _tell_weights(space, rows, row_of, sums):
        rows = np.vstack([rows, np.diag(sums[0])])
        row_of = np.where(row_of == R, len(rows), row_of)
    valid = _around(space, rows, row_of, sums, np.arange(len(rows)) >= R)
    _check_drowned(valid, bound, *_effects(valid, np.asarray(space.reachable)))
    _check_positive(valid, np.asarray(space.succ))
    return valid


def restricted_valid(valid: ValidSet, states: Int[np.ndarray, " m"]) -> ValidSet:
    """The same parameters and directions, with the rows of these states alone; virtual rows stay.

    Where there are no more rows than slots of these states, all rows stay: they cost little, and maximum likelihood,
    whose last barrier is divided by their number, is then the same as with all states.
    """
    row_of, virtual = np.asarray(valid.row_of), np.asarray(valid.virtual)
    is_kept = virtual | _seen(row_of, states, len(virtual))
    if len(virtual) <= row_of[states].size:
        is_kept[:] = True
    kept = np.flatnonzero(is_kept)
    index = np.full(len(virtual) + 1, len(kept), np.int32)
    index[kept] = np.arange(len(kept), dtype=np.int32)
    found: dict[str, Any] = {
        name: np.asarray(getattr(valid, name))[kept] for name in ("rows", "free", "positive", "sizes")
    }
    found |= {
        "row_of": index[row_of[states]],
        "choices": np.asarray(valid.choices)[states],
        "virtual": virtual[kept],
    }
    return dataclasses.replace(valid, **found)


def _tell_weights(
    space: Space,
    rows: Float[np.ndarray, "R d"],
    row_of: Int[np.ndarray, "S A n"],
    sums: Float[np.ndarray, "m d"],
) -> bool:
    """Whether virtual rows can say that no weight is negative: one row sum for all, and q = d - 1.

    Rows of kernels are not negative, so none is zero on all of Theta, and Theta spans what keeps the row sum.
    """
    if len(sums) > 1 or not (sums > 0).all() or (rows < 0).any():
        return False
    affine = null_space(sums)
    seen = _seen(row_of, np.asarray(space.reachable), len(rows))
    learnt = range_of_transpose(rows[seen] @ affine, float(np.abs(rows).max()))
    return bool(learnt.shape[1] == rows.shape[1] - 1 > 0)


def longest(phi: Float[np.ndarray, "S A n d"]) -> float:
    """A bound on the norm of valid parameters, from linear programmes; infinite where some direction is unbounded."""
    rows, _ = _rows(phi)
    sums, _ = unique_rows(phi.sum(axis=2).reshape(-1, phi.shape[-1]))
    scaled = rows / np.abs(rows).max(axis=1)[:, None]
    ends = [extent_along(scaled, sums, direction) for direction in np.eye(phi.shape[-1])]
    return float(np.linalg.norm(np.abs(ends).max(axis=1)))


def _around(
    space: Space,
    rows: Float[np.ndarray, "R d"],
    row_of: Int[np.ndarray, "S A n"],
    sums: Float[np.ndarray, "m d"],
    is_virtual: Bool[np.ndarray, " R"],
) -> ValidSet:
    """Theta of these rows and row sums."""
    sizes = np.abs(rows).max(axis=1)
    scaled = rows / sizes[:, None]
    center, positive = relative_interior_point(scaled, sums)
    affine = null_space(np.vstack([sums, scaled[~positive]]))
    seen = _seen(row_of, np.asarray(space.reachable), len(rows))
    basis = affine @ range_of_transpose(rows[seen] @ affine, float(sizes.max()))
    free = (seen | is_virtual) & (np.linalg.norm(scaled @ basis, axis=1) > RANK_TOLERANCE)
    choices = _choices(np.asarray(space.succ), row_of, len(rows))
    found = rows, row_of, sums, affine, basis, center, free, positive, sizes, is_virtual, choices
    return ValidSet(*map(leaf, found))


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
    """Rows that episodes can show, and those of them that a direction of Z changes by so little that it is rounding."""
    seen = _seen(np.asarray(valid.row_of), reachable, len(valid.rows))
    scaled = np.asarray(valid.rows) / np.asarray(valid.sizes)[:, None]
    strength = np.linalg.norm(scaled @ np.asarray(valid.basis), axis=1)
    return seen, seen & ~np.asarray(valid.free) & (strength > NOTHING)


def _seen(
    row_of: Int[np.ndarray, "S A n"], states: Bool[np.ndarray, " S"] | Int[np.ndarray, " m"], R: int
) -> Bool[np.ndarray, " R"]:
    """Which rows are those of transitions from these states."""
    is_seen = np.zeros(R + 1, bool)  # the last one stands for slots without a row
    is_seen[row_of[states]] = True
    return is_seen[:-1]


def _rows(phi: Float[np.ndarray, "S A n d"]) -> tuple[Float[np.ndarray, "R d"], Int[np.ndarray, "S A n"]]:
    """The distinct features that are not zero, and which of them each slot has; R for a slot without."""
    flat = phi.reshape(-1, phi.shape[-1])
    possible = flat.any(axis=1)
    rows, inverse = unique_rows(flat[possible])
    row_of = np.full(len(flat), len(rows), np.int32)
    row_of[possible] = inverse
    return rows, row_of.reshape(phi.shape[:3])


def _check_drowned(
    valid: ValidSet, bound: float, seen: Bool[np.ndarray, " R"], faint: Bool[np.ndarray, " R"]
) -> None:
    """Refuse directions that count as known, or as none, and yet move probabilities that episodes can show."""
    rows, sums, affine, basis = (np.asarray(x) for x in (valid.rows, valid.sums, valid.affine, valid.basis))
    drowned = partial(
        _drowned, bound, np.asarray(valid.center), rows / np.asarray(valid.sizes)[:, None], sums
    )
    change = drowned(rows[seen], affine, basis) + drowned(rows[faint], basis, basis[:, :0])
    if not change <= DROWNED:
        raise FeatureError(
            "some combination of features is so small beside the others that it drowns in rounding, yet it changes "
            f"probabilities by up to {min(change, 1.0):.1g}; bring the features to similar sizes, or leave out base "
            "kernels that hardly differ from others"
        )
    lost = 0.0 if valid.positive.all() else drowned(rows[seen], null_space(sums), affine)
    if not lost <= SOLVED:
        raise FeatureError(
            "some probability can be positive, but by so little that it cannot be told from 0, and it decides about "
            f"parameters that change others by up to {min(lost, 1.0):.1g}; set its features to zero, or make it larger"
        )


def _check_positive(valid: ValidSet, succ: Int[np.ndarray, "S A n"]) -> None:
    """Refuse a centre at which a free row has no probability."""
    p = np.asarray(valid.rows) / np.asarray(valid.sizes)[:, None] @ np.asarray(valid.center)
    faintest = int(np.where(valid.free, p, np.inf).argmin())
    if valid.free[faintest] and p[faintest] <= 0:
        s, a, j = np.argwhere(np.asarray(valid.row_of) == faintest)[0]
        raise FeatureError(
            f"P(s'={succ[s, a, j]} | s={s}, a={a}) can be positive, but by so little that no parameter was found "
            "for which it is; set its features to zero, or make it larger"
        )


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
            low, high = extent_along(scaled, sums, direction)
            reach = min(high - low, reach)
        total += float(size[k]) * reach
    return total


def null_space(matrix: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "d e"]:
    """Orthonormal basis of the directions that the matrix sends to zero."""
    is_tall = len(matrix) > matrix.shape[1]
    # The same directions, without a matrix [m, m].
    small = np.linalg.qr(matrix, mode="r") if is_tall else matrix
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
