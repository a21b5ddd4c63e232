"""From arrays to padded successor lists: dense tables, sparse tables, coordinates.

Every function returns `succ [S, A, n]`, `phi [S, A, n, d]` and whether the lists are dense (n = S, succ = 0..S-1).

Row sums <sum_s' phi(s'|s,a), theta> = 1 constrain theta. Input may be rounded: rows may miss 1 by TOLERANCE. Taken
literally, such an error would be one more constraint and seem to determine theta. So kernels and true parameters are
normalised, and other features with such errors are refused.
"""

from typing import Any

import numpy as np
import scipy  # its submodules load slowly, at first use
from jaxtyping import Float, Int, UInt64

from horizonfree._validation import (
    check_floats,
    check_int,
    check_real,
    check_square,
    require,
    require_array,
    require_entries,
    require_shape,
)
from horizonfree.errors import FeatureError, KernelError, ShapeError
from horizonfree.mdp.policies import action_aliases, redirect_forbidden
from horizonfree.mdp.space import TOLERANCE

MAX_BYTES = 8 * 2**30  # more than this for phi is refused before it is allocated
FEATURES_PER_BLOCK = 2**22  # features that are looked at together
MIN_COLUMN_SHARE = 1e-7  # smallest ratio of the largest entry of a coordinate to the largest feature
MIN_FEATURE = 1e-100  # smaller features count as zero: their squares would vanish
ROW_SUM_TOLERANCE = 1e-12  # rows further from one than this are mended
# Differences of row sums, as a share of them, that are neither rounding nor a constraint.
AMBIGUOUS_SHARES = (1e-11, 1e-3)
EQUAL_DIGITS = 12  # rows that agree to this many digits (relative to their largest entry) are one row
HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # its multiples spread over all numbers of 64 bits
HASH_SHIFT = np.uint64(32)


Packed = tuple[Int[np.ndarray, "S A n"], Float[np.ndarray, "S A n d"], bool]


Coordinates = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def norm_bound(phi: Float[np.ndarray, "S A n d"]) -> float:
    """An upper bound on max over (s,a) and V in [0,1]^S of ||phi_V(s,a)||_2.

    Coordinate i of phi_V lies between minus the sum of its negative parts and the sum of its positive parts, so
    ||phi_V||^2 <= sum_i max(pos_i, neg_i)^2; by the triangle inequality also ||phi_V|| <= sum_s' ||phi(s'|s,a)||.
    The smaller of the two per (s,a), the largest over (s,a). Exact when phi >= 0 (V = 1 attains it).
    """
    largest, step = 0.0, max(1, FEATURES_PER_BLOCK // phi[0].size)
    for start in range(0, len(phi), step):  # so that no copy of all features is made
        part = phi[start : start + step]
        pos = np.maximum(part, 0).sum(axis=2)
        neg = np.maximum(-part, 0).sum(axis=2)
        by_coordinate = np.sqrt((np.maximum(pos, neg) ** 2).sum(axis=-1))
        by_triangle = np.sqrt((part**2).sum(axis=-1)).sum(axis=-1)
        largest = max(largest, float(np.minimum(by_coordinate, by_triangle).max()))
    return largest


def check_columns(phi: Float[np.ndarray, "S A n d"]) -> None:
    """Refuse coordinates of such different sizes that the small ones drown in rounding."""
    size = np.abs(phi).max(axis=(0, 1, 2))
    small = np.flatnonzero((size > 0) & (size < MIN_COLUMN_SHARE * size.max()))
    if small.size:
        i = small[0]
        raise FeatureError(
            f"feature {i} is at most {size[i]:.3g} but feature {size.argmax()} reaches {size.max():.3g}; multiply the "
            "small ones, and divide their entries of theta, so that all are of similar size"
        )


def pack(coordinates: Coordinates, S: int, A: int, d: int, allowed: Any = None) -> Packed:
    """Successor lists from coordinates (s, a, s', i, value); repeated coordinates add up, zeros are dropped.

    allowed: which actions are (mdp/policies.py). What is given of others is not looked at.
    """
    s, a, s_next, i, value = coordinates
    check_size(S, A, 1, d)
    acts = action_aliases(allowed, S, A)
    is_own = np.ones(S * A, bool) if acts is None else (acts == np.arange(A)).ravel()
    if acts is not None:
        s, a, s_next, i, value = (x[is_own[s * A + a]] for x in coordinates)
    is_finite = np.isfinite(value)
    if not is_finite.all():
        b = int(is_finite.argmin())
        name = f"phi(s'={s_next[b]} | s={s[b]}, a={a[b]})[{i[b]}]"
        require(False, name, float(value[b]), "finite", FeatureError)
    keep = np.abs(value) >= MIN_FEATURE
    if not keep.all():
        s, a, s_next, i, value = (x[keep] for x in (s, a, s_next, i, value))
    transition, of_entry = np.unique((s.astype(np.int64) * A + a) * S + s_next, return_inverse=True)
    pair_of = (transition // S).astype(np.intp)
    count = np.bincount(pair_of, minlength=S * A)
    if (count[is_own] == 0).any():
        e = int(np.flatnonzero(is_own & (count == 0))[0])
        raise FeatureError(
            f"(s={e // A}, a={e % A}) has no successor: all its features are zero, so no parameter makes it sum to 1"
        )
    first = np.concatenate([[0], np.cumsum(count)[:-1]])
    slot = np.arange(len(transition)) - first[pair_of]
    n = int(count.max())
    is_dense = 2 * n > S
    if is_dense:  # most states are reached from somewhere: keep every column
        n, slot = S, transition % S
    check_size(S, A, n, d)
    succ = np.empty((S * A, n), dtype=np.int32)
    if is_dense:
        succ[:] = np.arange(S, dtype=np.int32)
    else:
        succ[:] = (transition[np.maximum(first + count - 1, 0)] % S)[:, None]
        succ[pair_of, slot] = transition % S
    place = (pair_of * n + slot)[of_entry] * d + i
    phi = np.bincount(place, weights=value, minlength=S * A * n * d)
    return (
        redirect_forbidden(acts, succ.reshape(S, A, n)),
        redirect_forbidden(acts, phi.reshape(S, A, n, d)),
        is_dense,
    )


def from_features(phi: Any, shape: tuple[int, int, int] | None = None, allowed: Any = None) -> Packed:
    """Features [S, A, S, d], dense, SciPy sparse, or coordinates (s, a, s', i, value), of a shape (S, A, d)."""
    is_listed = isinstance(phi, tuple) and len(phi) == 5
    if shape is not None and not is_listed:
        raise ShapeError("shape= is for coordinates (s, a, s', i, value); an array has its own")
    if is_listed:
        index = [check_real(x, f"coordinates of phi: {name}") for name, x in zip(("s", "a", "s'", "i"), phi)]
        value = check_floats(phi[4], "coordinates of phi: value")
        for name, x in zip(("s", "a", "s'", "i"), index):
            meaning = (
                f"flat, of one length ({value.size}), as all five arrays, and the first four of integers"
            )
            is_index = x.ndim == 1 and x.shape == value.shape and np.issubdtype(x.dtype, np.integer)
            require_array(is_index, f"coordinates of phi: {name}", x, meaning)
            require(
                x.size and x.min() >= 0,
                f"coordinates of phi: {name}",
                x,
                "numbers >= 0, at least one",
                ShapeError,
            )
        s, a, s_next, i = index
        least = (int(max(s.max(), s_next.max())) + 1, int(a.max()) + 1, int(i.max()) + 1)
        S, A, d = least if shape is None else _at_least(shape, least)
        return pack((s, a, s_next, i, value), S, A, d, allowed)
    if _is_sparse(phi):
        _check_shape(phi.shape)
        coo = phi.tocoo()
        s, a, s_next, i = coo.coords
        return pack((s, a, s_next, i, check_floats(coo.data, "phi")), *_sizes(phi.shape), allowed)
    table = check_floats(phi, "phi")
    _check_shape(table.shape)
    s, a, s_next, i = np.nonzero(table)
    return pack((s, a, s_next, i, table[s, a, s_next, i]), *_sizes(table.shape), allowed)


def from_kernels(kernels: Any, allowed: Any = None) -> Packed:
    """d base kernels: [d, S, A, S], or a sequence of [S, A, S] tables and SciPy sparse [S*A, S] matrices."""
    if _is_sparse(kernels) or not np.iterable(kernels):
        raise ShapeError(
            f"kernels is a {type(kernels).__name__}; give a list of kernels, one for each coordinate of theta"
        )
    tables = list(kernels)
    if not tables:
        raise ShapeError("kernels is empty; give at least one base kernel")
    parts: list[Coordinates] = []
    shapes, acts = [], None
    for i, table in enumerate(tables):
        if _is_sparse(table):
            is_kernel = (
                len(table.shape) == 2 and 0 not in table.shape and table.shape[0] % table.shape[1] == 0
            )
            require_shape(is_kernel, f"kernels[{i}]", table.shape, "[S*A, S], as a sparse kernel")
            rows, S = table.shape
            shape, coo = (S, rows // S, S), table.tocoo()
            (row, s_next), value = coo.coords, check_floats(coo.data, f"kernels[{i}]")
            s, a = row // shape[1], row % shape[1]
        else:
            dense = check_floats(table, f"kernels[{i}]")
            shape = dense.shape
            check_square(dense, f"kernels[{i}]")
            s, a, s_next = np.nonzero(dense)
            value = dense[s, a, s_next]
        shapes.append(shape)
        require_shape(shape == shapes[0], f"kernels[{i}]", shape, f"{shapes[0]}, as kernels[0]")
        acts = action_aliases(allowed, *shapes[0][:2]) if i == 0 else acts
        if acts is not None:
            s, a, s_next, value = (x[acts[s, a] == a] for x in (s, a, s_next, value))
        is_probability = value >= 0
        if not is_probability.all():
            b = int(is_probability.argmin())
            name = f"base kernel {i}: probability of (s={s[b]}, a={a[b]}) -> {s_next[b]}"
            require(False, name, float(value[b]), "a number >= 0", KernelError)
        parts.append((s, a, s_next, np.full(len(value), i, np.int32), value))
    S, A, _ = shapes[0]
    joined = tuple(np.concatenate(column) for column in zip(*parts))
    return pack(joined, S, A, len(tables), allowed)  # type: ignore[arg-type]  # zip loses the length of the tuple


def from_tabular(P: Any, support: Any, actions: Any = None) -> tuple[*Packed, Float[np.ndarray, " d"] | None]:
    """One-hot features, one coordinate per possible transition; theta = the probabilities, None without P."""
    if P is None and support is None:
        raise ShapeError("from_tabular needs P, or support when P is unknown")
    table = None if P is None else check_floats(P, "P")
    allowed = (
        check_floats(support, "support") if table is None or support is not None else np.ones(table.shape)
    )
    require_entries(np.isfinite(allowed), "support", allowed, "it must say True or False")
    possible = allowed.astype(bool)
    check_square(possible if table is None else table, "P")
    shape = possible.shape if table is None else table.shape
    require_shape(possible.shape == shape, "support", possible.shape, f"that of P, {shape}")
    if table is not None:
        outside = (table != 0) & ~possible
        at = "(s'={2} | s={0}, a={1})"
        require_entries(~outside, "P", table, "support says it is impossible", KernelError, at)
    S, A, _ = shape
    acts = action_aliases(actions, S, A)
    if acts is not None:
        possible = possible & (acts == np.arange(A))[..., None]
    s, a, s_next = np.nonzero(possible)
    packed = pack((s, a, s_next, np.arange(len(s)), np.ones(len(s))), S, A, len(s), actions)
    return *packed, None if table is None else table[s, a, s_next]


def vector(x: Any, d: int, name: str) -> Float[np.ndarray, " d"]:
    """A finite vector of length d."""
    array = check_floats(x, name)
    require_shape(array.shape == (d,), name, array.shape, f"({d},), one entry per feature")
    require_entries(np.isfinite(array), name, array, "it must be finite", FeatureError)
    return array


def _at_least(shape: Any, least: tuple[int, int, int]) -> tuple[int, int, int]:
    """A shape (S, A, d) that has room for the largest coordinates."""
    require(isinstance(shape, tuple) and len(shape) == 3, "shape", shape, "(S, A, d)", ShapeError)
    parts = zip("SAd", shape, least)
    S, A, d = (
        check_int(x, f"{name} of shape", low, 2**31, f"{low} or more", ShapeError) for name, x, low in parts
    )
    return S, A, d


def _is_sparse(x: Any) -> bool:
    return hasattr(x, "tocsr") and bool(scipy.sparse.issparse(x))


def _check_shape(shape: tuple[int, ...]) -> None:
    is_features = len(shape) == 4 and shape[0] == shape[2] and 0 not in shape
    require_shape(is_features, "phi", shape, "[S, A, S, d]")


def _sizes(shape: tuple[int, ...]) -> tuple[int, int, int]:
    return shape[0], shape[1], shape[3]


def check_size(S: int, A: int, n: int, d: int) -> None:
    """Refuse features that would take too much memory."""
    size = 8 * S * A * n * d
    if size > MAX_BYTES:
        raise FeatureError(
            f"phi would take {size / 2**30:.1f} GiB (S={S}, A={A}, {n} successors, d={d}); "
            "use fewer features, or name the support of a tabular problem"
        )


def normalize_rows(phi: Float[np.ndarray, "S A n d"]) -> Float[np.ndarray, "S A n d"]:
    """Kernels whose rows sum to one, from rows that nearly do."""
    total = phi.sum(axis=2, keepdims=True)
    total[np.abs(total - 1) <= ROW_SUM_TOLERANCE] = 1.0
    return phi if (total == 1).all() else phi / total


def nearest_kernel_parameter(
    phi: Float[np.ndarray, "S A n d"], theta: Float[np.ndarray, " d"]
) -> Float[np.ndarray, " d"]:
    """The nearest parameter whose rows sum to one."""
    sums = phi.sum(axis=2)
    if np.abs(sums @ theta - 1).max() <= ROW_SUM_TOLERANCE:
        return theta
    C = _distinct_sums(sums)
    near: np.ndarray = theta - np.linalg.lstsq(C, C @ theta - 1, rcond=None)[0]
    return near


def check_row_sums(phi: Float[np.ndarray, "S A n d"], bound: float) -> None:
    """Some theta within the bound must make every row sum to one, and rounding must not decide which."""
    sums = phi.sum(axis=2)
    C = _distinct_sums(sums)
    theta, _, _, size = np.linalg.lstsq(C, np.ones(len(C)), rcond=None)
    wrong = np.abs(sums @ theta - 1)
    if wrong.max() > 1e-6:
        s, a = np.unravel_index(int(wrong.argmax()), wrong.shape)
        raise FeatureError(
            f"no parameter makes every row of P_theta sum to 1: at (s={s}, a={a}) the best is "
            f"{sums[s, a] @ theta:.6g}; check the features of that row"
        )
    share = size / size[0]
    unclear = share[(share > AMBIGUOUS_SHARES[0]) & (share < AMBIGUOUS_SHARES[1])]
    if unclear.size:
        raise FeatureError(
            f"sums of phi over s' differ by about {unclear[0]:.1g} of their size: too much for rounding, too little "
            "for a constraint on theta; divide the features of each row by what it should sum to, or use from_kernels"
        )
    least = float(np.linalg.norm(theta))
    if least > bound * (1 + TOLERANCE):
        raise FeatureError(
            f"bound is {bound:.6g}, but a parameter that makes every row sum to 1 has norm {least:.6g} or more"
        )


def _distinct_sums(sums: Float[np.ndarray, "S A d"]) -> Float[np.ndarray, "m d"]:
    return np.unique(sums.reshape(-1, sums.shape[-1]), axis=0)


def unique_rows(x: Float[np.ndarray, "N d"]) -> tuple[Float[np.ndarray, "R d"], Int[np.ndarray, " N"]]:
    """Distinct rows and the row of each entry; rows that differ by rounding only are one.

    In the order of their digits, and of equal ones the first.
    """
    digits = _digits(x)
    _, first, inverse = np.unique(_hashes(digits), return_index=True, return_inverse=True)
    result = digits[first]
    for i in range(digits.shape[1]):  # column by column, so that no copy of all rows is made
        if (
            digits[:, i] != result[inverse, i]
        ).any():  # two rows of one mark: once in 10^7 problems of 10^6 rows
            _, first, inverse = np.unique(digits, axis=0, return_index=True, return_inverse=True)
            return x[first], inverse.reshape(-1)
    order = _order(result)
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
    np.round(digits, EQUAL_DIGITS, out=digits)
    digits += 0.0  # -0 is 0
    return digits


def _hashes(digits: Float[np.ndarray, "N m"]) -> UInt64[np.ndarray, " N"]:
    """One number of 64 bits for each row; equal rows have equal ones."""
    marks = np.zeros(len(digits), np.uint64)
    for column in digits.T:
        marks ^= np.ascontiguousarray(column).view(np.uint64)
        marks *= HASH_MULTIPLIER
        marks ^= marks >> HASH_SHIFT
    return marks
