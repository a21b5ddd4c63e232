"""The valid parameters Theta = {theta : P_theta(.|s,a) is a probability vector for every (s,a)}.

Theta is a polytope in an affine space: row sums C theta = 1 and non-negativity X theta >= 0, X the distinct feature
rows. Only the directions Z that keep every row sum and change some reachable row can be learnt; q is their number.
"""

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import linprog

from horizonfree.errors import FeatureError
from horizonfree.mixture import AnyArray, Known

RANK_TOLERANCE = 1e-9  # singular values below this share of the largest count as zero
DIGITS = 12  # rows that agree to this many digits (relative to the largest entry) are one row


class ValidSet(eqx.Module):
    """Theta, with everything that the likelihood and the confidence sets need to know of it.

    `rows` [R, d] are the distinct non-zero features phi(s'|s,a); `row_of` [S, A, n] says which row a slot is, R for
    padding. `basis` Z [d, q] is orthonormal. `center` is a point of Theta whose smallest probability is largest.
    `reachable` [S]: states in which an action can be taken, under some parameter and policy.
    """

    rows: Float[AnyArray, "R d"]
    row_of: Int[AnyArray, "S A n"]
    sums: Float[AnyArray, "m d"]
    basis: Float[AnyArray, "d q"]
    center: Float[AnyArray, " d"]
    reachable: Bool[AnyArray, " S"]

    @property
    def num_free(self) -> int:
        """q, the number of directions that can be learnt."""
        return self.basis.shape[1]

    def contains(self, theta: Float[AnyArray, " d"], tolerance: float = 1e-9) -> bool:
        """Whether P_theta is a kernel, up to a tolerance on each entry and each row sum."""
        p = np.asarray(self.rows) @ np.asarray(theta)
        total = np.asarray(self.sums) @ np.asarray(theta)
        return bool((p >= -tolerance).all() and (np.abs(total - 1) <= tolerance).all())


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
    reachable = reachable_states(known)
    seen = np.unique(row_of[reachable])
    basis = free_directions(sums, rows[seen[seen < len(rows)]])
    return ValidSet(rows, row_of, sums, basis, _center(rows, sums), reachable)


def distinct(x: Float[np.ndarray, "N d"]) -> tuple[Float[np.ndarray, "R d"], Int[np.ndarray, " N"]]:
    """Distinct rows and the row of each entry; rows that differ by rounding only are one."""
    scale = float(np.abs(x).max()) or 1.0
    _, first, inverse = np.unique(
        np.round(x / scale, DIGITS) + 0.0, axis=0, return_index=True, return_inverse=True
    )
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


def free_directions(
    sums: Float[np.ndarray, "m d"], rows: Float[np.ndarray, "R d"]
) -> Float[np.ndarray, "d q"]:
    """Orthonormal Z: every direction with C Z = 0 that changes some of the rows, and no other."""
    _, size, Vt = np.linalg.svd(sums, full_matrices=True)
    rank = int((size > RANK_TOLERANCE * size[0]).sum())
    null = Vt[rank:].T  # keeps every row sum
    if null.shape[1] == 0:
        return null
    R = np.linalg.qr(rows @ null, mode="r")
    _, size, Vt = np.linalg.svd(R)
    changes = int((size > RANK_TOLERANCE * np.abs(rows).max() * np.sqrt(len(rows))).sum())
    return null @ Vt[:changes].T


def _center(rows: Float[np.ndarray, "R d"], sums: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " d"]:
    """argmax over Theta of min_r <x_r, theta>, by a linear programme in (theta, t); refuses an empty Theta."""
    R, d = rows.shape
    result = linprog(
        np.r_[np.zeros(d), -1.0],
        A_ub=np.c_[-rows, np.ones(R)],
        b_ub=np.zeros(R),
        A_eq=np.c_[sums, np.zeros(len(sums))],
        b_eq=np.ones(len(sums)),
        bounds=[(None, None)] * d + [(None, 1.0)],
        method="highs",
    )
    if result.x is None or result.status != 0 or result.x[-1] < -1e-9:
        raise FeatureError(
            "no parameter makes these features a transition kernel (the linear programme says: "
            f"{result.message}); check signs and row sums of phi"
        )
    return result.x[:d]
